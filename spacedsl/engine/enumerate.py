"""All solutions of a small instance, found by trying everything: the engine's oracle.

In: a checked space, a kernel and a device. Out: every complete assignment that satisfies the space: what
`denotation.py` says is counted through, and a requirement is looked at as soon as all that it reads has been
assigned. As slow as that sounds.
"""

from __future__ import annotations

from collections import Counter as Counting
from collections.abc import Callable, Iterator, Sequence

from spacedsl.engine.denotation import Denotations, Key, Solution
from spacedsl.engine.meaning import AbsentError, Assignment, Meaning, all_of, remembered
from spacedsl.language.space import Space

__all__ = ["EnumerationLimitError", "Key", "Solution", "enumerate_solutions"]


class EnumerationLimitError(RuntimeError):
    """More assignments than the caller was ready to try."""


def enumerate_solutions(
    space: Space, kernel: object, device: object, limit: int = 1_000_000
) -> Iterator[Solution]:
    """Every solution once, in no particular order.

    Raises `EnumerationLimitError` once more than `limit` values have been tried, and `ValueError` where
    whether a trigger fires depends on what it adds to.
    """
    instance = Denotations(space, kernel, device)
    requirements = list(instance.requirements())
    if not all(r.of(()) for r in requirements if not r.reads):
        return
    order = _order(len(instance.decisions), [r.reads for r in requirements])
    alike: dict[frozenset[int], list[Meaning[bool]]] = {}
    for requirement in requirements:
        alike.setdefault(requirement.reads, []).append(requirement)
    checks: list[list[Callable[[Assignment], bool]]] = [[] for _ in order]
    for reads, together in alike.items():
        if reads:
            checks[max(order.index(p) for p in reads)].append(remembered(all_of(together)).of)
    assignment: list[int | None] = [None] * len(order)
    tried = 0

    def assign(depth: int) -> Iterator[Solution]:
        nonlocal tried
        if depth == len(order):
            yield instance.solution(assignment)
            return
        for value in instance.decisions[order[depth]].values:
            tried += 1
            if tried > limit:
                raise EnumerationLimitError(f"more than {limit} values tried")
            assignment[order[depth]] = value
            if is_met(depth):
                yield from assign(depth + 1)

    def is_met(depth: int) -> bool:
        try:
            return all(check(assignment) for check in checks[depth])
        except AbsentError:
            return False

    yield from assign(0)


def _order(count: int, reads: Sequence[frozenset[int]]) -> list[int]:
    """The decisions in an order in which requirements can be looked at early. Changes no solution."""
    order: list[int] = []
    missing = [set(r) for r in reads]
    for _ in range(count):
        completed = Counting(p for (p,) in (m for m in missing if len(m) == 1))
        half = Counting(p for m in missing if len(m) == 2 for p in m)
        chosen = max(
            (p for p in range(count) if p not in order),
            key=lambda p: (completed[p], half[p], -p),
        )
        order.append(chosen)
        for positions in missing:
            positions.discard(chosen)
    return order
