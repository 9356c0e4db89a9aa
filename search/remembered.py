"""What a function said of candidates, so that it need not be asked again.

In: a function of candidates of one instance that says the same of the same. Out: the same function, which
remembers what it said last. What it returns is handed out as it is: nobody may change it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from spacedsl.engine.candidate import Candidate

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Remembered(Generic[R]):
    function: Callable[[Candidate], R]
    most: int
    """Answers that are kept: of those that were found last."""
    known: dict[bytes, R] = field(default_factory=dict, init=False, repr=False)
    """By what vectors come to."""

    def __call__(self, candidate: Candidate) -> R:
        key = blake2b(candidate.vector, digest_size=16).digest()
        if key not in self.known:
            if len(self.known) >= self.most:
                del self.known[next(iter(self.known))]
            self.known[key] = self.function(candidate)
        return self.known[key]
