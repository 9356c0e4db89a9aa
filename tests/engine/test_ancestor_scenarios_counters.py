"""What the ancestor's engine was tested for: counters, over objects that are there and that triggers add.

The scenarios 7 to 11 of its compiler tests. The outcome is the ancestor's but where the meaning of the
language differs by design, which the test then says: all that triggers may add is laid out from the start, so
that a counter's greatest value includes it (scenario 8).
"""

from __future__ import annotations

import pytest

from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.language.space import Visibility
from tests.engine.plain_world import SETS, plain_world

AB = "choice enum foo($d in Dims): value A: value B: end\n"
COUNT = "choice counter count(): forall $d in Dims: sum 1 when: foo($d) is A end\n"


def dims(count: int) -> str:
    return f"insts: [i0, i1]\ndims: [{', '.join(f'd{n}' for n in range(count))}]"


# ---- 7. Counters -----------------------------------------------------------------------------------------


def test_a_counter_that_must_be_at_its_greatest_value_turns_all_on() -> None:
    here = plain_world(dims(2), SETS + AB + COUNT.replace("():", "(): base 3") + "require count() == 5\n")
    assert here.interval(here.root, "count()") == (5, 5)
    assert [here.left(here.root, f"foo(d{n})") for n in range(2)] == [("A",), ("A",)]


def test_a_counter_follows_what_is_decided() -> None:
    here = plain_world(dims(6), SETS + AB + COUNT)
    decided = here.after(("foo(d0)", "A"), ("foo(d1)", "B"))
    assert here.interval(decided, "count()") == (1, 5)
    decided = here.after(("foo(d2)", "A"), ("foo(d3)", "B"), since=decided)
    assert here.interval(decided, "count()") == (2, 4)


NESTED = """
choice counter factor($i in Insts): forall $d in Dims: mul 2 when: foo($d) is A end
choice counter total(): forall $i in Insts: sum factor($i) when: end
"""


def test_a_counter_of_counters_follows_and_passes_a_limit_down() -> None:
    here = plain_world(dims(2), SETS + AB + NESTED)
    assert here.interval(here.root, "total()") == (2, 8)
    assert here.interval(here.after(("foo(d0)", "B")), "total()") == (2, 4)
    limited = plain_world(dims(2), SETS + AB + NESTED + "require total() <= 2\n")
    assert limited.interval(limited.root, "total()") == (2, 2)
    assert [limited.left(limited.root, f"foo(d{n})") for n in range(2)] == [("B",), ("B",)]


PAIRS = """
choice enum pair($a in Dims, $b in Dims): {symmetry} value A: value B: end
choice counter pairs($a in Dims): forall $b in Dims: sum 1 when: pair($a, $b) is A end
"""


def test_a_symmetric_pair_counts_for_both() -> None:
    here = plain_world(dims(2), SETS + PAIRS.format(symmetry="symmetric"))
    assert [here.interval(here.root, f"pairs(d{n})") for n in range(2)] == [(0, 1), (0, 1)]
    decided = here.after(("pair(d0, d1)", "A"))
    assert [here.interval(decided, f"pairs(d{n})") for n in range(2)] == [(1, 1), (1, 1)]


# ---- 8. Counters over objects that appear ----------------------------------------------------------------

APPEARING = """
insts: [inst0]
dims: [dim0]
switches:
  - {name: more_dims, new_dims: [dim1], new_insts: []}
  - {name: more_insts, new_dims: [], new_insts: [inst1]}
later: [dim1, inst1]
"""
SWITCHES = """
set Switches: iterator = "$kernel.switches" end
choice enum turn($s in Switches): value ON: value OFF: end
choice enum foo($i in Insts, $d in Dims): value A: value B: end
choice counter dims_of($i in Insts): forall $d in Dims: sum 1 when: foo($i, $d) is A end
trigger forall $s in Switches: "$kernel.add('Dims', $s.new_dims)" when turn($s) is ON
trigger forall $s in Switches: "$kernel.add('Insts', $s.new_insts)" when turn($s) is ON
"""


def test_a_new_dimension_widens_a_counter_that_has_not_been_limited() -> None:
    """The ancestor keeps 0..1, and forbids foo(inst0, dim1) to be A: the counter may have been used before.

    Here, the meaning of an instance does not depend on the order of decisions. The greatest value includes
    what may appear, so that nothing that followed from it becomes wrong, and A stays possible.
    """
    here = plain_world(APPEARING, SETS + SWITCHES)
    assert here.interval(here.root, "dims_of(inst0)") == (0, 2)
    without = here.after(("turn(more_dims)", "OFF"))
    assert here.interval(without, "dims_of(inst0)") == (0, 1)
    grown = here.after(("turn(more_dims)", "ON"))
    assert here.interval(grown, "dims_of(inst0)") == (0, 2)
    assert here.left(grown, "foo(inst0, dim1)") == ("A", "B")
    both = here.after(("foo(inst0, dim0)", "A"), ("foo(inst0, dim1)", "A"), since=grown)
    assert here.interval(both, "dims_of(inst0)") == (2, 2)


def test_a_limit_forbids_what_would_exceed_it_once_it_is_there() -> None:
    limit = "require forall $i in Insts: dims_of($i) <= 1\n"
    here = plain_world(APPEARING, SETS + SWITCHES + limit)
    decided = here.after(("foo(inst0, dim0)", "A"))
    assert here.left(decided, "turn(more_dims)") == ("ON", "OFF"), "a limit does not decide what is present"
    grown = here.after(("turn(more_dims)", "ON"), since=decided)
    assert here.left(grown, "foo(inst0, dim1)") == ("B",)


def test_a_new_instruction_has_a_counter_over_all_dimensions() -> None:
    here = plain_world(APPEARING, SETS + SWITCHES)
    grown = here.after(("turn(more_dims)", "ON"), ("turn(more_insts)", "ON"))
    assert here.is_present(grown, "foo(inst1, dim0)")
    assert here.is_present(grown, "foo(inst1, dim1)")
    assert here.interval(grown, "dims_of(inst1)") == (0, 2)


def test_the_solutions_with_and_without_what_appears_are_those_of_the_meaning() -> None:
    here = plain_world(APPEARING, SETS + SWITCHES)
    objects = here.instance.objects
    solutions = list(enumerate_solutions(here.instance.space, objects.kernel, objects.device))
    assert len(solutions) == 2**1 + 2**2 + 2**2 + 2**4, "one, two, two and four pairs"


INTERNAL = """
set Dims: iterator = "$kernel.dims" end
choice enum foo($d in Dims): value A: value B: end
choice internal counter count(): forall $d in Dims: sum 1 when: foo($d) is A end
trigger forall $d in Dims: "$kernel.add('Dims', $d.adds)" when foo($d) is B
"""


def test_an_internal_counter_follows_objects_that_appear_while_it_changes() -> None:
    objects = """
dims: [{name: first, adds: [b, a, free]}]
later: [{name: b, adds: []}, {name: a, adds: []}, {name: free, adds: []}]
"""
    here = plain_world(objects, INTERNAL)
    # The ancestor has 0..1, then 0..0, then a greatest value of 3; here the three count from the start.
    assert here.interval(here.root, "count()") == (0, 4)
    grown = here.after(("foo(first)", "B"))
    assert here.interval(grown, "count()") == (0, 3)
    assert here.interval(here.after(("foo(b)", "B"), ("foo(a)", "A"), since=grown), "count()") == (1, 2)


# ---- 9 to 11. Limits, orientations, half counters --------------------------------------------------------


@pytest.mark.parametrize(("limit", "two", "last"), [(">= 1", "B", "A"), ("< 3", "A", "B")])
def test_a_limit_decides_the_last_contribution(limit: str, two: str, last: str) -> None:
    here = plain_world(dims(3), SETS + AB + COUNT + f"require count() {limit}\n")
    decided = here.after(("foo(d0)", two), ("foo(d2)", two))
    assert here.left(decided, "foo(d1)") == (last,)


def test_an_antisymmetric_pair_counts_on_one_side() -> None:
    here = plain_world(dims(2), SETS + PAIRS.format(symmetry="antisymmetric: A -> B"))
    decided = here.after(("pair(d0, d1)", "A"))
    assert here.interval(decided, "pairs(d0)") == (1, 1)
    assert here.interval(decided, "pairs(d1)") == (0, 0)


def test_a_half_counter_compiles_and_limits() -> None:
    here = plain_world(dims(3), SETS + AB + COUNT.replace("choice", "choice half") + "require count() <= 1\n")
    counter = here.instance.space.choices["count"]
    assert getattr(counter, "visibility", None) is Visibility.HALF
    # The ancestor leaves a half counter's contributions alone; turning them off here loses nothing.
    decided = here.after(("foo(d0)", "A"))
    assert here.set(decided, "foo(d1)", "A") is None
