"""Minimal conflicts, judged by brute force: no solution together, and one as soon as a part is gone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import EnumerationLimitError, enumerate_solutions
from spacedsl.language.space import Host, Or, Requirement, Space
from spacedsl.oracle.conflict import Conflict, find_conflict
from spacedsl.oracle.cp_sat import Binding, Narrowed
from spacedsl.oracle.logic import NotTranslatedError
from tests.engine.examples import example_of
from tests.engine.generated_objects import Machine as GeneratedMachine
from tests.engine.generated_spaces import generate_space
from tests.engine.small import Machine, World, things, world

PIGEONS = """\
choice enum hole($x in Things): value A: value B: value C: end
require forall $x in Things: forall $y in Things: hole($x) != hole($y)
require forall $x in Things: hole($x) is not C
"""

CAPACITY = """\
choice enum kept($x in Things): value YES: value NO: end
choice counter weight(): forall $x in Things: sum "$x.weight" when: kept($x) is YES end
choice counter count(): forall $x in Things: sum 1 when: kept($x) is YES end
require weight() <= 2
require count() >= 2
require forall $x in Things: "$x.weight == 1" || kept($x) is YES
"""

ORDER = """\
choice enum order($a in Things, $b in Things):
  antisymmetric: BEFORE -> AFTER
  value BEFORE: value AFTER:
end
require forall $a in Things: forall $b in Things: forall $c in Things:
  order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE
"""


def has_solution(space: Space, kernel: object, device: object, decisions: Iterable[Narrowed]) -> bool:
    """By trying everything."""
    wanted = {(choice, tuple(str(o) for o in objects)): set(values) for choice, objects, values in decisions}
    return any(
        all(s.decisions.get(key) in values for key, values in wanted.items())
        for s in enumerate_solutions(space, kernel, device)
    )


def lines(conflict: Conflict) -> list[Requirement]:
    return [clash.requirement for clash in conflict.clashes]


def find(small: World, decisions: Sequence[Narrowed] = ()) -> Conflict | None:
    return find_conflict(small.instance.space, small.kernel, Machine(), decisions)


def check_minimal(
    space: Space, kernel: object, device: object, conflict: Conflict, decisions: Sequence[Narrowed]
) -> None:
    """The lines and decisions conflict, and no longer do without any one of them."""
    named = tuple(lines(conflict))
    alone = replace(space, requirements=named)
    assert not has_solution(alone, kernel, device, conflict.decisions)
    for number in range(len(named)):
        fewer = replace(space, requirements=named[:number] + named[number + 1 :])
        assert has_solution(fewer, kernel, device, conflict.decisions), named[number].span
    for number in range(len(conflict.decisions)):
        left = conflict.decisions[:number] + conflict.decisions[number + 1 :]
        assert has_solution(alone, kernel, device, left), conflict.decisions[number]
    assert set(conflict.decisions) <= set(decisions)


def test_too_many_pigeons_conflict_by_one_more_than_there_are_holes() -> None:
    small = world(PIGEONS, 6)
    conflict = find(small)
    assert conflict is not None
    check_minimal(small.instance.space, small.kernel, Machine(), conflict, ())
    (different,) = (clash.bindings for clash in conflict.clashes)
    pigeons = {binding[v] for binding in different for v in "xy"}
    assert len(pigeons) == 4
    assert len({frozenset((b["x"], b["y"])) for b in different}) == len(different) == 6


def test_a_second_line_takes_part_where_the_first_is_not_enough() -> None:
    small = world(PIGEONS, 3)
    conflict = find(small)
    assert conflict is not None
    check_minimal(small.instance.space, small.kernel, Machine(), conflict, ())
    assert [len(clash.bindings) for clash in conflict.clashes] == [3, 3]


def test_counters_take_part() -> None:
    small = world(CAPACITY, 3)
    small.things[1].weight = 2
    conflict = find(small)
    assert conflict is not None
    check_minimal(small.instance.space, small.kernel, Machine(), conflict, ())
    assert [clash.bindings for clash in conflict.clashes] == [({},), ({},), ({"x": small.things[1]},)]


def test_decisions_take_part_and_only_those_that_matter() -> None:
    small = world(ORDER, 4)
    a, b, c, d = small.things
    decisions: list[Narrowed] = [
        ("order", (a, d), ("BEFORE",)),
        ("order", (a, b), ("BEFORE",)),
        ("order", (b, c), ("BEFORE",)),
        ("order", (a, c), ("AFTER",)),
    ]
    conflict = find(small, decisions)
    assert conflict is not None
    assert conflict.decisions == tuple(decisions[1:])
    check_minimal(small.instance.space, small.kernel, Machine(), conflict, decisions)
    (clash,) = conflict.clashes
    assert len(clash.bindings) == 1


def test_what_has_a_solution_has_no_conflict() -> None:
    assert find(world(ORDER, 4)) is None
    assert find(world(PIGEONS, 2)) is None


def test_only_the_bindings_that_are_known_to_take_part_are_looked_at() -> None:
    small = world(PIGEONS, 5)
    four = small.things[1:]

    def is_of_four(binding: Binding) -> bool:
        return all(any(item is t for t in four) for item in binding.values())

    conflict = find_conflict(
        small.instance.space, small.kernel, Machine(), among={0: is_of_four, 1: lambda _: True}
    )
    assert conflict is not None
    assert conflict.clashes[0].requirement is small.instance.space.requirements[0]
    assert all(is_of_four(dict(b)) for b in conflict.clashes[0].bindings)
    # Of four in three holes, the first line alone is enough; the second one alone never is.
    only_second = find_conflict(small.instance.space, small.kernel, Machine(), among={1: lambda _: True})
    assert only_second is None


def test_objects_that_triggers_add_take_part() -> None:
    text = """\
choice enum kept($x in Things): value YES: value NO: end
trigger forall $x in Things: "$kernel.add_spare($x)" when kept($x) is YES
require forall $x in Things: "$x.weight < 5" || kept($x) is NO
require forall $x in Things: "$x.weight < 4" || kept($x) is YES
"""
    small = world(text, 2)
    assert find(small) is None
    first, _ = small.things
    first.spare = things(9, weight=7)[8]
    small = world(text, small.kernel)
    conflict = find(small, [("kept", (first,), ("YES",))])
    assert conflict is not None
    check_minimal(small.instance.space, small.kernel, Machine(), conflict, conflict.decisions)
    assert len(conflict.decisions) == 1
    assert [clash.bindings for clash in conflict.clashes] == [({"x": first.spare},)] * 2


def test_conflicts_of_random_spaces_are_minimal() -> None:
    """Generated spaces that are empty, or become so by a decision that no solution takes."""
    found = triggered = 0
    for seed in range(60):
        rng = random.Random(seed)
        try:
            example = example_of(generate_space(rng, most_assignments=500), most_values_tried=3000)
        except (DiagnosticError, EnumerationLimitError):
            continue
        space, kernel, device = example.space, example.kernel, GeneratedMachine()
        if not space.requirements:
            continue
        decisions: list[Narrowed] = []
        if example.solutions:
            lost = [
                (choice, names, value)
                for (choice, names), value in _values_of_relaxed(space, kernel, device)
                if not any(s.decisions.get((choice, names)) == value for s in example.solutions)
            ]
            if not lost:
                continue
            choice, names, value = lost[rng.randrange(len(lost))]
            copies = [item.copy for item in kernel.items if item.copy is not None]
            by_name = {item.name: item for item in (*kernel.items, *copies)}
            decisions = [(choice, tuple(by_name[n] for n in names), (value,))]
        try:
            conflict = find_conflict(space, kernel, device, decisions)
        except NotTranslatedError:
            continue
        assert conflict is not None, f"seed {seed}: there is no such solution, and no conflict"
        check_minimal(space, kernel, device, conflict, decisions)
        found += 1
        triggered += bool(space.triggers)
    assert found >= 10
    assert triggered >= 3


def _values_of_relaxed(
    space: Space, kernel: object, device: object
) -> list[tuple[tuple[str, tuple[str, ...]], str | int]]:
    """Choice instances and values that occur where no requirement holds, in order."""
    relaxed = replace(space, requirements=())
    try:
        solutions = list(enumerate_solutions(relaxed, kernel, device, limit=3000))
    except EnumerationLimitError:
        return []
    return list(dict.fromkeys(pair for s in solutions for pair in s.decisions.items()))


def test_a_requirement_on_the_kernel_alone_is_a_conflict_by_itself() -> None:
    small = world('require forall $x in Things: "$x.weight >= 2"\n', 2)
    conflict = find(small)
    assert conflict is not None
    (clash,) = conflict.clashes
    assert isinstance(clash.requirement.formula, Host | Or)
    assert len(clash.bindings) == 1
