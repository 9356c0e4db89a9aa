"""`spacedsl stats`: a table for a person, a document for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacedsl.api.space_size import FEWEST_PROBES, Estimate, SpaceSize
from spacedsl.cli.stats import _size_rows
from tests.cli.running import run

LIBRARY = Path(__file__).parents[2] / "kernels" / "library"
FIELDS = {
    "schema", "kernel", "engine", "no_native", "descents", "descents_per_s", "decisions_per_descent",
    "refutations_per_descent", "dead_end_rate", "vector_bytes", "packed_bytes", "open_decisions", "by_choice",
    "size",
}  # fmt: skip


@pytest.mark.parametrize("engine", ["native", "python"])
def test_the_document_has_what_a_program_asks_for(engine: str) -> None:
    flags = ("--size", "m=8", "--size", "k=8", "--time", "0.05", "--engine", engine, "--json")
    ran = run("stats", LIBRARY / "matvec.yaml", *flags)
    document = json.loads(ran.out)
    assert ran.code == 0
    assert set(document) == FIELDS
    assert document["engine"] == engine or document["no_native"]
    assert document["descents"] > 0 and document["descents_per_s"] > 0
    assert document["open_decisions"] == sum(document["by_choice"].values()) > 0
    assert 0 < document["packed_bytes"] < document["vector_bytes"]
    size = document["size"]
    assert size["dead_end_ci"][0] <= size["dead_end_rate"] <= size["dead_end_ci"][1]
    assert document["dead_end_rate"] == size["dead_end_rate"]
    assert {e["method"] for e in size["estimates"]} == {"knuth", "chen"}
    known = [e for e in size["estimates"] if e["probes"] >= FEWEST_PROBES]
    assert not known or size["best"] == min(known, key=lambda e: abs(e["skewness"]))["method"]


def test_the_table_reads_as_a_table() -> None:
    lines = run("stats", LIBRARY / "plain" / "colouring.yaml", "--time", "0.05").out.splitlines()
    labels = [line.split("  ")[0] for line in lines]
    assert labels[:3] == ["engine", "implementations", ""]
    assert "744, counted" in lines[1] and lines[2].startswith("  by knuth")
    assert any(line.startswith("dead ends  ") and "random walks" in line for line in lines)
    assert any(line.startswith("  colour") for line in lines)


def test_an_engine_that_does_not_exist_is_said_in_words() -> None:
    wrong = run("stats", LIBRARY / "matmul.yaml", "--engine", "quick")
    assert (wrong.code, "no engine `quick`" in wrong.err) == (2, True)


def test_a_space_without_solutions_has_dead_ends_only() -> None:
    kernel = LIBRARY / "plain" / "registers.yaml"
    ran = run("stats", kernel, "--size", "most_spilled=0", "--time", "0.02", "--json")
    size = json.loads(ran.out)["size"]
    assert (ran.code, size["exact"], size["dead_end_rate"]) == (0, 0, 1.0)
    assert [e["log10"] for e in size["estimates"]] == [None, None]


def test_the_propagators_are_shown_as_the_engine_that_is_asked_for_has_them() -> None:
    space = LIBRARY.parent / "spaces" / "linalg.space"
    assert "def keep_order(" in run("compile", space).out
    text = run("compile", space, "--engine", "native").out
    assert "static bool run_keep_order(State *s" in text and "linalg.space:" in text
    assert run("compile", space, "--engine", "quick").code == 2


def test_a_method_without_an_estimate_is_named() -> None:
    knuth = Estimate("knuth", 5, 2.0, None, 0.0, 0.5)
    rows = dict(_size_rows(SpaceSize(None, (knuth,), 5, 0.0, (0.0, 0.5))))
    assert rows["  by chen"] == "no probe ended in this time: more --time"
    assert "  by knuth" in rows
