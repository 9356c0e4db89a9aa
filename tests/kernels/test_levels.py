"""Tilings with fewer levels than are on offer: each is there once, as it is where no more are on offer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import select_ordering
from spacedsl.search.solutions import all_solutions
from tests.engine.test_linalg_against_oracles import SPACE, SmallCpu

KERNEL = """
kernel: levels
backbone: linalg
sizes: {{n: {extent}, m: 2}}
tensors:
  X: {{dtype: f32, shape: [m, n]}}
  z: {{dtype: f32, shape: [{left}], output: true}}
compute:
  - z[{target}] = {value}
tiling: {{i: {levels}, h: []}}
"""
COPY = {"left": "m, n", "target": "h, i", "value": "X[h, i]"}
SUM = {"left": "m", "target": "h", "value": "sum[i](X[h, i])"}


def implementations(
    folder: Path, kernel: dict[str, str], extent: int, levels: str
) -> Counter[tuple[int, ...]]:
    """How many there are for each size of the levels that are loops."""
    path = folder / "kernel.yaml"
    path.write_text(KERNEL.format(extent=extent, levels=levels, **kernel))
    backbone = load_kernel(path).backbone
    space = compile_space(load_space(SPACE))
    instance = instantiate(space, backbone, SmallCpu(), Engine.NATIVE)
    root = instance.root()
    assert root is not None
    load = next(i for i in backbone.instructions if i.name == "load_X")
    dims = next(g for g in load.logical_dims if g.index == "i").dims
    found = Counter[tuple[int, ...]]()
    for solution in all_solutions(root, select_ordering(instance, instance.space)):
        if solution is None:
            continue
        sizes = [int(solution.possible("size", dim)[0]) for dim in dims]
        found[sizes[0], *(size for size in sizes[1:] if size > 1)] += 1
    return found


@pytest.mark.parametrize(
    ("kernel", "extent"), [(COPY, 8), (SUM, 8), (COPY, 7)], ids=["copy", "sum", "ragged copy"]
)
@pytest.mark.parametrize(
    ("levels", "parts"),
    [
        ("[[1, 2], [2]]", ["[[2]]", "[[2], [2]]"]),
        ("[[1, 2], [2, 4]]", ["[[2, 4]]", "[[2], [2, 4]]"]),
        ("[[1, 2], [1], [2]]", ["[[2]]", "[[2], [2]]"]),
    ],
)
def test_a_level_that_a_tiling_does_without_multiplies_nothing(
    tmp_path: Path, kernel: dict[str, str], extent: int, levels: str, parts: list[str]
) -> None:
    found = implementations(tmp_path, kernel, extent, levels)
    apart = Counter[tuple[int, ...]]()
    for part in parts:
        of_part = implementations(tmp_path, kernel, extent, part)
        # More levels than two have more than one iteration each.
        apart.update({sizes: n for sizes, n in of_part.items() if len(sizes) == 2 or sizes[0] > 1})
    assert found == apart
    assert len({len(sizes) for sizes in found}) == 2
