"""Where propagators ask about quantities: each comparison on each binding of objects, with its propagator.

In: a propagator and the static tests of an instance. Out: its comparisons, each with (ids for all of its
variables, ids for the propagator's arguments) for every binding that could ever be asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spacedsl.compiler.ir import For, If, Limit, Loop, Propagator, Statement
from spacedsl.compiler.uses import statement_limits
from spacedsl.engine.objects import Key
from spacedsl.engine.static import Statics

Environment = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Asking:
    """A place in a propagator that asks about a comparison."""

    template: Limit
    """With the names of its formula as arguments."""
    sites: tuple[tuple[Key, Key], ...]
    """The objects of the comparison, in order of its names, and those of the propagator."""


def askings(propagator: Propagator, statics: Statics) -> Iterator[Asking]:
    for limit, loops in _asked(propagator.body, propagator.loops):
        sites = [
            (tuple([bound[a] for a in limit.args]), tuple([bound[a] for a in propagator.arguments]))
            for bound in bindings(statics, loops, {})
        ]
        yield Asking(Limit(limit.formula, limit.names, limit.names), tuple(sites))


def _asked(
    statements: Iterable[Statement], loops: tuple[Loop, ...]
) -> Iterator[tuple[Limit, tuple[Loop, ...]]]:
    """Comparisons, with all loops around them."""
    for statement in statements:
        match statement:
            case For(inner, body):
                yield from _asked(body, (*loops, *inner))
            case If(test, then, otherwise):
                for limit in statement_limits(If(test, ())):
                    yield limit, loops
                yield from _asked((*then, *otherwise), loops)
            case _:
                for limit in statement_limits(statement):
                    yield limit, loops


def bindings(statics: Statics, loops: tuple[Loop, ...], outer: Environment) -> Iterator[Environment]:
    """What loops bind, as generated code does."""
    if not loops:
        yield outer
        return
    loop, *rest = loops
    for item in _members(statics, loop, outer):
        inner = {**outer, loop.variable: item}
        if all(statics.holds(test, inner) for test in loop.tests):
            yield from bindings(statics, tuple(rest), inner)


def _members(statics: Statics, loop: Loop, outer: Environment) -> Iterable[int]:
    if loop.member is None:
        return tuple(statics.members(loop.source, outer))
    held = outer[loop.member]
    instances = statics.objects.members[loop.source.name]
    return tuple(owner for (owner,), members in instances.items() if held in members)
