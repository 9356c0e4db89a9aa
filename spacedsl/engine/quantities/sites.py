"""Where propagators ask about quantities: each comparison on each binding of objects, with its propagator.

In: a propagator and the static tests of an instance. Out: (the comparison, ids for all of its variables, ids
for the propagator's arguments), for every binding that could ever be asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spacedsl.compiler.ir import For, If, Limit, Loop, Propagator, Statement
from spacedsl.compiler.uses import statement_limits
from spacedsl.engine.static import Statics

Environment = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Site:
    limit: Limit
    key: tuple[int, ...]
    """Of the objects of the limit, in order of its arguments."""
    arguments: tuple[int, ...]
    """Of the propagator."""


def sites(propagator: Propagator, statics: Statics) -> Iterator[Site]:
    if not propagator.limits:
        return
    for outer in bindings(statics, propagator.loops, {}):
        arguments = tuple(outer[a] for a in propagator.arguments)
        for limit, environment in _asked(statics, propagator.body, outer):
            yield Site(limit, tuple(environment[a] for a in limit.args), arguments)


def _asked(
    statics: Statics, statements: Iterable[Statement], outer: Environment
) -> Iterator[tuple[Limit, Environment]]:
    for statement in statements:
        match statement:
            case For(loops, body):
                if any(statement_limits(s) for s in body):
                    for inner in bindings(statics, loops, outer):
                        yield from _asked(statics, body, inner)
            case If(_, then, otherwise):
                for limit in statement_limits(If(statement.test, ())):
                    yield limit, outer
                yield from _asked(statics, (*then, *otherwise), outer)
            case _:
                for limit in statement_limits(statement):
                    yield limit, outer


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
