"""Enumeration of bindings: which loops complete a partial binding, and which static tests stand where.

In: the variables of a clause or counter, its static tests, and the variables that are bound already.
Out: the tests on those, and loops over the rest. Variables are compared only if their sets may share objects.
A test asks objects for what they have as members of their sets, so it stands where they are known to be that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spacedsl.compiler.clauses import Variable
from spacedsl.compiler.ir import (
    Ascending,
    Distinct,
    HostTest,
    Linear,
    Loop,
    Lower,
    Member,
    StaticCompare,
    StaticTest,
    Term,
)
from spacedsl.language.space import SetRef, Space

Plan = tuple[tuple[StaticTest, ...], tuple[Loop, ...]]


def plan(
    space: Space, variables: Sequence[Variable], tests: Iterable[StaticTest], bound: Sequence[str]
) -> Plan:
    """(tests on the bound variables, loops over the others in order of declaration).

    Tests on no variable at all are those of the first loop where nothing is bound.
    """
    sets = {v.name: v.set for v in variables}
    known = [name for name in sets if name in bound]
    pending: list[StaticTest] = [*tests]
    pending += [Member(name, sets[name]) for name in known]
    # What is in no instance of its set has no binding at all.
    pending += [
        Member(name, SetRef(sets[name].name)) for name in known if not set(sets[name].args) <= {*known}
    ]
    mapped = {v.name for v in variables if v.target is not None}
    for index, left in enumerate(known):
        pending += [
            Distinct(left, right)
            for right in known[index + 1 :]
            if not {left, right} & mapped and may_share(space, sets[left], sets[right])
        ]
    # What is in order is distinct.
    ordered = [{test.left, test.right} for test in pending if isinstance(test, Ascending)]
    first = _take(pending, known, sets)
    loops: list[Loop] = []
    for variable in variables:
        if variable.name in known:
            continue
        member = _member_of(variable, known, sets)
        if member is None:
            source = variable.set
        else:
            source = SetRef(sets[member].name)
            pending.remove(Member(member, sets[member]))
            if space.sets[source.name].params[0].set != variable.set:
                pending.insert(0, Member(variable.name, variable.set))
        pending[:0] = [
            Distinct(other, variable.name)
            for other in known
            if not {other, variable.name} & mapped
            and {other, variable.name} not in ordered
            and may_share(space, sets[other], variable.set)
        ]
        known.append(variable.name)
        tests_here = _take(pending, known, sets)
        if not bound and not loops:
            first, tests_here = (), (*first, *tests_here)
        loops.append(Loop(variable.name, source, member, tests_here))
    assert not pending, pending
    return first, tuple(loops)


def may_share(space: Space, left: SetRef, right: SetRef) -> bool:
    """Whether an object may lie in both sets, as far as their declarations say."""
    above_left, above_right = _ancestors(space, left.name), _ancestors(space, right.name)
    return not any(
        b in space.sets[a].disjoint or a in space.sets[b].disjoint for a in above_left for b in above_right
    )


def variables_of(test: StaticTest) -> set[str]:
    match test:
        case HostTest(call, _):
            return set(call.args)
        case Member(variable, ref):
            return {variable, *ref.args}
        case Distinct(left, right) | Ascending(left, right):
            return {left, right}
        case Lower(left, right, ref):
            return {left, right, *ref.args}
        case StaticCompare(left, _, right):
            return linear_variables(left) | linear_variables(right)


def linear_variables(linear: Linear) -> set[str]:
    """The variables of an affine expression, those of its use among them."""
    terms: list[Term] = [linear.factor, *(value for _, value in linear.offsets)]
    found = {a for term in terms if not isinstance(term, int) for a in term.args}
    return found if linear.use is None else found | set(linear.use.args)


def _take(
    pending: list[StaticTest], known: Sequence[str], sets: Mapping[str, SetRef]
) -> tuple[StaticTest, ...]:
    """The tests on known variables: sets are known for distinct objects, all else for members of them."""
    members = _members(known, sets)
    ready = [
        test
        for test in pending
        if variables_of(test) <= (set(known) if isinstance(test, Distinct | Ascending | Member) else members)
    ]
    pending[:] = [test for test in pending if test not in ready]
    return tuple(sorted(ready, key=_rank))


def _members(known: Sequence[str], sets: Mapping[str, SetRef]) -> set[str]:
    """The known variables whose sets are known: their arguments are, and are members of theirs."""
    members: set[str] = set()
    for name, ref in sets.items():
        if name in known and members.issuperset(ref.args):
            members.add(name)
    return members


def _rank(test: StaticTest) -> int:
    match test:
        case Distinct():
            return 0
        case Member():
            return 1
        case _:
            return 2


def _member_of(variable: Variable, known: Sequence[str], sets: dict[str, SetRef]) -> str | None:
    """A bound variable whose set has the new variable as its only parameter: loop over its owners instead."""
    for name in known:
        if sets[name].args == (variable.name,):
            return name
    return None


def _ancestors(space: Space, name: str) -> list[str]:
    found = [name]
    for each in found:
        found += [
            above.name
            for above in space.sets[each].supersets
            if above.name in space.sets and above.name not in found
        ]
    return found
