"""Which level of a tree the shares are given for."""

from __future__ import annotations

import pytest

from benchmarks.bound_usefulness import Level, asked


def levels(*nodes: int) -> list[Level]:
    return [Level(depth, count, count / 2, 0.0) for depth, count in enumerate(nodes)]


@pytest.mark.parametrize(
    ("nodes", "depth"),
    [
        ((1, 8, 64, 512, 4096), 2),
        ((1, 8, 40, 6), 2),
        ((1, 50, 50), 1),
    ],
    ids=["the first that is large enough", "the widest of a small tree", "the first of those alike"],
)
def test_the_level_is_the_first_large_one_or_the_widest(nodes: tuple[int, ...], depth: int) -> None:
    assert asked(levels(*nodes), 50).depth == depth
