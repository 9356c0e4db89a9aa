"""The measurements of engines: what a new process waits for, and the tables that show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import engine, pipeline_spaces
from benchmarks.tables import console
from tests.engine.native import needs_compiler


@needs_compiler
def test_the_first_descent_of_a_process_comes_after_its_library_and_its_instance() -> None:
    begun = engine.start("matmul-once")
    assert begun.load_ms > 0
    assert begun.setup_ms > 0
    assert begun.load_ms + begun.setup_ms <= begun.first_descent_ms


def test_tables_show_every_case_whole_where_the_output_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    row = engine.Measured(
        "two-products", "native", 79, 30, 2045, 10, 1e5, 50.5, 1.25, 0.125, 31.25, 99, 2045, 1.75
    )
    console().print(engine.descents_table([row, replace(row, engine="python", two_threads=None)]))
    console().print(engine.starts_table([engine.Start("matmul-once", 12.25, 34.5, 46.75)]))
    stages = pipeline_spaces.Measured(
        "laplacian", "native", 85, 752, 0.25, 0.7, 11.4, 9, 345.6, 200, 100.5, 1.5, 0.0
    )
    console().print(pipeline_spaces.table([stages]))
    shown = capsys.readouterr().out
    assert "…" not in shown
    for cell in ("two-products", "100,000", "12.50%", "31.2 ms", "2,045 B", "1.75 x", "46.8 ms", "345.6"):
        assert cell in shown
