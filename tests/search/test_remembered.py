"""What a function said of candidates is asked for once, and only of the last ones."""

from __future__ import annotations

from spacedsl.engine.candidate import Candidate
from spacedsl.search.remembered import Remembered
from spacedsl.search.tree import Step, replay
from tests.search.toy import ToyInstance, values_of


def test_the_last_answers_are_kept() -> None:
    instance = ToyInstance([4])
    root = instance.root()
    assert root is not None
    asked: list[tuple[int, ...]] = []

    def function(candidate: Candidate) -> int:
        asked.append(values_of(candidate))
        return 7 * asked[-1][0]

    remembered = Remembered(function, 2)
    for value in (1, 2, 1, 3, 2, 1, 1):
        assert remembered(replay(instance, root, [Step(0, 1 << value)])) == 7 * value
    assert asked == [(1,), (2,), (3,), (1,)]
