"""What a function said of candidates, so that it need not be asked again.

In: a function of candidates of one instance that says the same of the same. Out: the same function, which
remembers what it said last. What it returns is handed out as it is: nobody may change it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from spacedsl.engine.candidate import Candidate

R = TypeVar("R")

RECENT = 4
"""Candidates that are recognised themselves, without a look at their vectors: they are long."""


@dataclass(frozen=True, slots=True)
class Remembered(Generic[R]):
    function: Callable[[Candidate], R]
    most: int
    """Answers that are kept: of those that were found last."""
    known: dict[bytes, R] = field(default_factory=dict, init=False, repr=False)
    """By what vectors come to."""
    recent: deque[tuple[Candidate, R]] = field(
        default_factory=lambda: deque(maxlen=RECENT), init=False, repr=False
    )

    def __call__(self, candidate: Candidate) -> R:
        for other, answer in self.recent:
            if other is candidate:
                return answer
        key = blake2b(candidate.vector, digest_size=16).digest()
        if key not in self.known:
            if len(self.known) >= self.most:
                del self.known[next(iter(self.known))]
            self.known[key] = self.function(candidate)
        self.recent.append((candidate, self.known[key]))
        return self.known[key]
