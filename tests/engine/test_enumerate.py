"""The enumerator against numbers that combinatorics knows: who checks the oracle?"""

from __future__ import annotations

import itertools
import math
from collections import Counter as Tally
from pathlib import Path

import pytest

from spacedsl.engine.enumerate import EnumerationLimitError, Solution, enumerate_solutions
from spacedsl.language.loader import load_space
from spacedsl.language.space import Space
from spacedsl.oracle.cp_sat import CpSatModel
from tests.engine.generated_objects import Backbone, Machine, Plain
from tests.rules import rules_of

ITEMS = 'set Items: iterator = "$kernel.items" end\n'
REDS = 'set Reds subsetof Items: iterator = "$kernel.reds" end\n'


def space_of(folder: Path, text: str) -> Space:
    path = folder / "example.space"
    path.write_text(text)
    return load_space(path)


def items(
    count: int, sizes: tuple[int, ...] = (1, 2, 4), reds: tuple[int, ...] = (), ring: bool = False
) -> Plain:
    """So many items, every one of weight 2; on a ring, each is near the next."""
    near = tuple(((i + 1) % count,) if ring else () for i in range(count))
    return Backbone((sizes,) * count, (2,) * count, reds, (), near).build()


def solutions(folder: Path, text: str, kernel: Plain) -> list[Solution]:
    """The enumerator's, after CP-SAT has agreed on their number where it knows the constructs."""
    space = space_of(folder, text)
    found = list(enumerate_solutions(space, kernel, Machine()))
    assert CpSatModel(space, kernel, Machine()).count() == len(found)
    return found


TOTAL_ORDER = """
choice enum order($a in Items, $b in Items):
  antisymmetric:
    BEFORE -> AFTER
  value BEFORE:
  value AFTER:
end
require forall $a in Items: forall $b in Items: forall $c in Items:
  order($a, $c) is BEFORE || order($a, $b) is AFTER || order($b, $c) is AFTER
"""

EQUIVALENCE = """
choice enum same($a in Items, $b in Items):
  symmetric
  value YES:
  value NO:
end
require forall $a in Items: forall $b in Items: forall $c in Items:
  same($a, $b) is YES && same($b, $c) is YES => same($a, $c) is YES
"""


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_total_orders_are_as_many_as_permutations(tmp_path: Path, count: int) -> None:
    assert len(solutions(tmp_path, ITEMS + TOTAL_ORDER, items(count))) == math.factorial(count)


@pytest.mark.parametrize(("count", "bell"), [(1, 1), (2, 2), (3, 5), (4, 15), (5, 52)])
def test_equivalence_relations_are_counted_by_the_bell_numbers(tmp_path: Path, count: int, bell: int) -> None:
    assert len(solutions(tmp_path, ITEMS + EQUIVALENCE, items(count))) == bell


@pytest.mark.parametrize("count", [3, 4, 5])
def test_colourings_of_a_ring_follow_its_chromatic_polynomial(tmp_path: Path, count: int) -> None:
    text = (
        ITEMS
        + """
    set Near($x in Items) subsetof Items: iterator = "$x.near" end
    choice enum colour($x in Items):
      value RED:
      value GREEN:
      value BLUE:
    end
    require forall $x in Items: forall $y in Near($x): colour($x) != colour($y)
    """
    )
    assert len(solutions(tmp_path, text, items(count, ring=True))) == 2**count + (-1) ** count * 2


@pytest.mark.parametrize(("count", "fubini"), [(2, 3), (3, 13), (4, 75)])
def test_weak_orders_are_counted_by_the_fubini_numbers(tmp_path: Path, count: int, fubini: int) -> None:
    text = (
        ITEMS
        + """
    choice enum order($a in Items, $b in Items):
      antisymmetric:
        BEFORE -> AFTER
      value BEFORE:
      value AFTER:
      value TIED:
    end
    require forall $a in Items: forall $b in Items: forall $c in Items:
      order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE | TIED
      order($a, $c) is BEFORE || order($a, $b) is not TIED || order($b, $c) is not BEFORE
      order($a, $c) is TIED || order($a, $b) is not TIED || order($b, $c) is not TIED
    """
    )
    assert len(solutions(tmp_path, text, items(count))) == fubini


def programs(count: int) -> int:
    """Ordered forests whose nodes are labelled by the blocks of a partition: nests of (fused) loops."""

    def stirling(n: int, k: int) -> int:
        return int(n == k) if 0 in (n, k) else k * stirling(n - 1, k) + stirling(n - 1, k - 1)

    return sum(
        stirling(count, k) * math.factorial(k) * math.comb(2 * k, k) // (k + 1) for k in range(1, count + 1)
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_orders_of_loops_are_as_many_as_loop_nests(tmp_path: Path, count: int) -> None:
    rules = rules_of()
    choice = rules[rules.index("choice enum order") : rules.index("// Nothing is nested in an instruction")]
    text = ITEMS + choice.replace("in Statements", "in Items")
    assert len(solutions(tmp_path, text, items(count))) == programs(count)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_each_class_has_one_representative_and_it_is_the_first(tmp_path: Path, count: int) -> None:
    quotient = """
    quotient Classes of $x in Items: is_first = true / same is YES end
    choice counter classes(): forall $x in Classes: sum 1 when: end
    """
    for solution in solutions(tmp_path, ITEMS + EQUIVALENCE + quotient, items(count)):
        names = [f"item{i}" for i in range(count)]
        firsts = 0
        for i, name in enumerate(names):
            is_first = all(solution.decisions["same", (lower, name)] == "NO" for lower in names[:i])
            assert solution.derived["is_first", (name,)] == ("TRUE" if is_first else "FALSE")
            firsts += is_first
        assert solution.derived["classes", ()] == firsts


def test_partitions_by_number_of_classes_are_counted_by_the_stirling_numbers(tmp_path: Path) -> None:
    quotient = """
    quotient Classes of $x in Items: is_first = true / same is YES end
    choice counter classes(): forall $x in Classes: sum 1 when: end
    """
    found = solutions(tmp_path, ITEMS + EQUIVALENCE + quotient, items(4))
    assert Tally(s.derived["classes", ()] for s in found) == {1: 1, 2: 7, 3: 6, 4: 1}


def test_an_object_that_does_not_qualify_neither_represents_nor_hides_another(tmp_path: Path) -> None:
    text = (
        ITEMS
        + EQUIVALENCE
        + """
    choice enum kind($x in Items):
      value GOOD:
      value BAD:
    end
    quotient Classes of $x in Items: is_first = kind($x) is GOOD / same is YES end
    """
    )
    for solution in solutions(tmp_path, text, items(3)):
        for i in range(3):
            good = [solution.decisions["kind", (f"item{j}",)] == "GOOD" for j in range(3)]
            hidden = any(
                good[j] and solution.decisions["same", (f"item{j}", f"item{i}")] == "YES" for j in range(i)
            )
            expected = "TRUE" if good[i] and not hidden else "FALSE"
            assert solution.derived["is_first", (f"item{i}",)] == expected


@pytest.mark.parametrize("bound", [3, 5, 8])
def test_sums_and_products_of_sizes_are_limited_as_arithmetic_says(tmp_path: Path, bound: int) -> None:
    text = (
        ITEMS
        + f"""
    choice integer size($x in Items): "$x.sizes" end
    choice counter total(): forall $x in Items: sum size($x) when: end
    choice counter volume(): base 3 forall $x in Items: mul size($x) when: size($x) > 1 end
    require total() <= {bound + 3}
    require volume() != {3 * bound + 3}
    """
    )
    expected = sum(
        sum(sizes) <= bound + 3 and 3 * math.prod(sizes) != 3 * bound + 3
        for sizes in itertools.product((1, 2, 4), repeat=3)
    )
    assert len(solutions(tmp_path, text, items(3))) == expected


def test_an_affine_comparison_of_different_universes_compares_values(tmp_path: Path) -> None:
    text = (
        ITEMS
        + """
    choice integer size($x in Items): "$x.sizes" end
    choice integer depth($x in Items): "[0, 3, 5]" end
    require forall $x in Items: 2 * size($x) + 1 == depth($x)
    """
    )
    (only, other) = solutions(tmp_path, text, items(1))
    assert {tuple(s.decisions.values()) for s in (only, other)} == {(1, 3), (2, 5)}


def test_objects_that_are_quantified_together_are_distinct_across_overlapping_sets(tmp_path: Path) -> None:
    text = (
        ITEMS
        + REDS
        + """
    choice enum kind($x in Items):
      value P:
      value Q:
    end
    choice counter pairs(): forall $x in Items: forall $y in Reds: sum 1 when: end
    require forall $x in Items: forall $y in Reds: kind($x) is P || kind($y) is P
    """
    )
    found = solutions(tmp_path, text, items(3, reds=(0,)))
    assert {s.derived["pairs", ()] for s in found} == {2}
    # Item 0 is P, or all others are.
    assert len(found) == 4 + 1


LOWERED = """

choice enum kind($x in Items):
  value KEPT:
  value SPLIT:
end
trigger forall $x in Items: "$kernel.add_copy($x)" when kind($x) is SPLIT
"""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_a_trigger_adds_has_decisions_only_where_its_condition_holds(tmp_path: Path, count: int) -> None:
    text = ITEMS + LOWERED
    found = solutions(tmp_path, text, items(count))
    # Each item is kept, or split with a copy that is itself kept or split: a copy has no copy.
    assert len(found) == 3**count
    for solution in found:
        for i in range(count):
            split = solution.decisions["kind", (f"item{i}",)] == "SPLIT"
            assert (("kind", (f"item{i}copy",)) in solution.decisions) == split


def test_absent_objects_enforce_no_requirement_and_are_counted_by_nothing(tmp_path: Path) -> None:
    text = (
        ITEMS
        + LOWERED
        + """
    choice counter split_ones(): forall $x in Items: sum 1 when: kind($x) is SPLIT end
    require forall $x in Items: "$x.id < 2" || kind($x) is SPLIT
    """
    )
    found = solutions(tmp_path, text, items(2))
    assert len(found) == 4
    for solution in found:
        split = sum(value == "SPLIT" for value in solution.decisions.values())
        assert solution.derived["split_ones", ()] == split


def test_adding_an_object_to_a_set_enforces_what_is_required_of_its_members(tmp_path: Path) -> None:
    text = (
        ITEMS
        + """
    set Blues subsetof Items: iterator = "$kernel.blues" end
    choice enum kind($x in Items):
      value P:
      value Q:
    end
    choice integer size($x in Items): "$x.sizes" end
    trigger forall $x in Items: "$kernel.paint_blue($x)" when kind($x) is Q
    require forall $x in Blues: size($x) <= 1
    """
    )
    assert len(solutions(tmp_path, text, items(2))) == (3 + 1) ** 2


def test_a_trigger_whose_condition_counts_what_it_adds_is_refused(tmp_path: Path) -> None:
    text = (
        ITEMS
        + """
    choice enum kind($x in Items):
      value P:
      value Q:
    end
    choice counter present(): forall $x in Items: sum 1 when: end
    trigger forall $x in Items: "$kernel.add_copy($x)" when kind($x) is P && present() < 2
    """
    )
    with pytest.raises(ValueError, match="depends on itself"):
        list(enumerate_solutions(space_of(tmp_path, text), items(2), Machine()))


def test_more_values_than_the_limit_are_an_error_and_not_a_wrong_answer(tmp_path: Path) -> None:
    space = space_of(tmp_path, ITEMS + 'choice integer size($x in Items): "$x.sizes" end')
    with pytest.raises(EnumerationLimitError):
        list(enumerate_solutions(space, items(6), Machine(), limit=100))
