"""Rules of `linalg.space` that only say earlier what others exclude: they leave every implementation."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.engine.native.sizes import count_leaves
from spacedsl.kernels.kernel_file import LINALG_SPACE, load_kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import native_ordering, select_ordering
from tests.codegen.devices import DEVICE
from tests.engine.native import needs_compiler
from tests.kernels.samples import LIBRARY
from tests.rules import rules_of

_SMALL = DEVICE.model_copy(update={"vector_registers": 4, "vector_bytes": 8})
"""Few registers and lanes, so that indices with few values have too many to be unrolled."""
_FIRST, _LAST = "// Inside an unrolled outermost level", "// ---- Sums"


def implementations(space: Path, name: str, sizes: dict[str, int]) -> int | None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", sizes).backbone
    instance = instantiate(compile_space(load_space(space)), kernel, _SMALL, Engine.NATIVE)
    root = instance.root()
    assert root is not None and instance.native is not None
    ordering = native_ordering(instance, select_ordering(instance, instance.space))
    assert ordering is not None
    return count_leaves(instance.native, root.vector, ordering, 20_000_000)


@needs_compiler
@pytest.mark.parametrize(
    ("name", "sizes", "count"),
    [("axpy", {"n": 32}, 164), ("row_sum", {"m": 8, "n": 8}, 512), ("row_sum", {"m": 2, "n": 64}, 162)],
)
def test_too_many_copies_are_excluded_with_and_without_the_rules_that_say_so_early(
    name: str, sizes: dict[str, int], count: int, tmp_path: Path
) -> None:
    text = rules_of()
    without = tmp_path / "without.space"
    first = text.index(_FIRST)
    without.write_text(text[:first] + text[text.index(_LAST, first) :])
    assert implementations(without, name, sizes) == count
    assert implementations(LINALG_SPACE, name, sizes) == count
