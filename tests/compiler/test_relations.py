"""Relations: which clauses merge, what the tables say, and that symmetry is used up."""

from __future__ import annotations

import random
from itertools import combinations, permutations, product

from spacedsl.compiler.clauses import requirement_clauses
from spacedsl.compiler.lower import lower
from spacedsl.compiler.relations import Relation, merge, projections
from spacedsl.language.space import EnumChoice, Space
from tests.engine.examples import load_text

ORDER = """
set Things: iterator = "()" end
set Some subsetof Things: iterator = "()" end
choice enum order($x in Things, $y in Things):
  antisymmetric:
    BEFORE -> AFTER
    INNER -> OUTER
  value BEFORE:
  value AFTER:
  value INNER:
  value OUTER:
  value MERGED:
end
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
"""
TRIANGLE = """
require forall $a in Things: forall $b in Things: forall $c in Things:
  order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE | OUTER | MERGED
  order($a, $c) is MERGED || order($a, $b) is not MERGED || order($b, $c) is not MERGED
"""


def relations(text: str) -> tuple[Space, tuple[Relation, ...], int]:
    space = load_text(ORDER + text)
    clauses = tuple(c for r in space.requirements for c in requirement_clauses(space, r))
    merged, rest = merge(space, clauses)
    return space, merged, len(rest)


def test_clauses_with_the_same_uses_become_one_relation_whatever_their_variables_are_called() -> None:
    _, merged, rest = relations(
        "require forall $a in Things: forall $b in Things: "
        "order($a, $b) is not MERGED || kind($a) == kind($b)\n"
        "require forall $q in Things: forall $p in Things: order($p, $q) is not MERGED || kind($p) is not A\n"
    )
    assert (len(merged), rest) == (1, 0)
    assert len(merged[0].uses) == 3


def test_clauses_over_other_sets_or_with_other_tests_stay_apart() -> None:
    _, merged, _ = relations(
        "require forall $a in Things: forall $b in Things: order($a, $b) is not MERGED || kind($a) is A\n"
        "require forall $a in Some: forall $b in Things: order($a, $b) is not MERGED || kind($a) is A\n"
        'require forall $a in Things where "1 < 2": forall $b in Things:\n'
        "  order($a, $b) is not MERGED || kind($a) is A\n"
    )
    assert len(merged) == 3


def test_a_triangle_wakes_once_for_each_pair_and_third_object() -> None:
    space = load_text(ORDER + TRIANGLE)
    module, _ = lower(space)
    (propagator,) = module.propagators
    (wake,) = propagator.wakes
    assert not wake.mirrored
    assert len(wake.loops) == 1


def test_a_closed_relation_allows_what_all_its_clauses_allow_on_three_objects() -> None:
    """A row is allowed if the text holds whichever way a, b, c are bound to the three objects."""
    space, (relation,), _ = relations(TRIANGLE)
    order = space.choices["order"]
    assert isinstance(order, EnumChoice)
    before, _, _, outer, merged = range(5)
    places = {use.args: i for i, use in enumerate(relation.uses)}

    def value(row: tuple[int, ...], x: str, y: str) -> int:
        return row[places[x, y]] if (x, y) in places else order.inverse[row[places[y, x]]]

    names = [v.name for v in relation.variables]
    for row in product(range(5), repeat=3):
        valid = True
        for a, b, c in permutations(names):
            ab, bc, ac = value(row, a, b), value(row, b, c), value(row, a, c)
            valid &= ac == before or ab != before or bc not in (before, outer, merged)
            valid &= ac == merged or ab != merged or bc != merged
        assert (row in relation.allowed) == valid


def test_projections_keep_the_union_over_what_is_possible() -> None:
    space, (relation,), _ = relations(TRIANGLE)
    rng = random.Random(3)
    for target, inputs, widths, entries in projections(space, relation):
        place = relation.uses.index(target)
        others = [relation.uses.index(use) for use in inputs]
        for _ in range(300):
            masks = [rng.randrange(1, 1 << width) for width in widths]
            index = masks[0] << widths[1] | masks[1]
            supported = {
                row[place]
                for row in relation.allowed
                if all(mask >> row[i] & 1 for mask, i in zip(masks, others, strict=True))
            }
            assert entries[index] == sum(1 << v for v in supported)
    assert len(list(combinations(relation.uses, 2))) == 3


def test_wide_enums_are_left_to_unit_propagation() -> None:
    wide = "\n".join(f"  value V{i}:" for i in range(40))
    _, merged, rest = relations(
        f"choice enum wide($x in Things):\n{wide}\nend\n"
        "require forall $a in Things: forall $b in Things: wide($a) is V1 || wide($b) is V2\n"
    )
    assert (len(merged), rest) == (0, 1)
