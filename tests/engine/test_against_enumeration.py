"""The engine against the enumerator, on spaces that nobody thought of.

Everything is derandomised: the same spaces in every run. `python -m tests.engine.soak` tries new ones.
"""

from __future__ import annotations

import random
from contextlib import suppress

from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import EnumerationLimitError
from spacedsl.oracle.cp_sat import CpSatModel, NotTranslatedError
from tests.engine.agreement import Agreement
from tests.engine.examples import STAGED, Example, example_of
from tests.engine.generated_objects import Backbone, Machine
from tests.engine.generated_spaces import SETS, GeneratedSpace, generate_space
from tests.engine.ingredients import FURTHER, MAIN, Coverage

MOST_SOLUTIONS_TO_SEARCH = 300
"""An exhaustive search by the engine in Python takes about a millisecond for each."""

derandomised = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

seeds = st.integers(0, (1 << 32) - 1)


def example(seed: int) -> Example:
    """A random example; those that are refused or too large are not looked at."""
    generated = generate_space(random.Random(seed), most_assignments=1_000)
    note(str(generated))
    try:
        return example_of(generated, most_values_tried=8_000)
    except (DiagnosticError, EnumerationLimitError):
        assume(False)
        raise


def agreement(seed: int) -> Agreement:
    try:
        return example(seed).agreement()
    except DiagnosticError:
        assume(False)
        raise


@given(seeds)
@settings(derandomised, max_examples=60)
def test_random_descents_lose_no_solution_and_end_in_one_with_its_values(seed: int) -> None:
    compared = agreement(seed)
    for descent in range(5):
        compared.check_descent(random.Random(descent))


@given(seeds)
@settings(derandomised, max_examples=40)
def test_an_exhaustive_search_finds_every_solution_once_and_nothing_else(seed: int) -> None:
    compared = agreement(seed)
    assume(len(compared.solutions) <= MOST_SOLUTIONS_TO_SEARCH)
    compared.check_exhaustively()


@given(seeds)
@settings(derandomised, max_examples=40)
def test_the_vector_depends_on_which_decisions_are_taken_and_not_on_their_order(seed: int) -> None:
    compared = agreement(seed)
    for attempt in range(5):
        compared.check_order(random.Random(attempt))


@given(seeds)
@settings(derandomised, max_examples=40)
def test_the_vector_does_not_depend_on_which_changed_domain_is_propagated_first(seed: int) -> None:
    compared = agreement(seed)
    for attempt in range(3):
        compared.check_queue(random.Random(attempt))


@given(seeds)
@settings(derandomised, max_examples=40)
def test_a_decision_removes_further_down_what_it_removes_at_the_root(seed: int) -> None:
    compared = agreement(seed)
    for attempt in range(5):
        compared.check_monotone(random.Random(attempt))


@given(seeds)
@settings(derandomised, max_examples=30)
def test_the_two_oracles_count_the_same_solutions(seed: int) -> None:
    drawn = example(seed)
    assume(len(drawn.solutions) <= 1000)
    try:
        model = CpSatModel(drawn.space, drawn.kernel, Machine())
    except NotTranslatedError:
        # Some spaces are about numbers that are too large for it.
        assume(False)
        raise
    assert model.count() == len(drawn.solutions)


def test_the_spaces_that_are_tried_use_every_construct_and_mostly_have_solutions() -> None:
    examples = []
    for seed in range(150):
        with suppress(DiagnosticError, EnumerationLimitError):
            examples.append(example_of(generate_space(random.Random(seed)), most_values_tried=15_000))
    assert len(examples) > 120
    assert sum(len(e.solutions) > 10 for e in examples) > 0.4 * len(examples)
    text = "".join(e.generated.text for e in examples if e.solutions)
    constructs = "symmetric antisymmetric alias integer counter half internal base mul sum quotient trigger"
    operators = "|| && => ! is not where requires == != <= >= < > 2* +"
    derived = "ordered quantity next( case floor( ceil( prod min max( ?"
    for word in f"{constructs} {operators} {derived}".split():
        assert word in text.replace("2 * ", "2*"), word
    coverage = Coverage()
    for each in examples:
        coverage.add(each.space, each.solutions)
    assert all(coverage.share(name) >= 20 for name in MAIN), str(coverage)
    assert all(coverage.single[name] >= 1 for name in FURTHER), str(coverage)
    assert all(coverage.share(*pair) >= 4 for pair in coverage.rarest_pairs(1)), str(coverage)


def test_values_that_go_one_by_one_leave_what_they_leave_when_they_go_together() -> None:
    compared = example_of(STAGED).agreement()
    assert len(compared.solutions) > 20
    for attempt in range(60):
        compared.check_order(random.Random(attempt))
    for attempt in range(20):
        compared.check_descent(random.Random(attempt))


def test_comparing_a_counter_with_itself_is_a_contradiction_and_not_an_endless_climb() -> None:
    text = """
    set Items: iterator = "$kernel.items" end
    choice counter total($x in Items): sum 1 when: end
    require forall $x in Items: total($x) < total($x)
    """
    backbone = Backbone(sizes=((1,),), weights=(1,), reds=(), blues=(), near=((),))
    compared = example_of(GeneratedSpace(text, backbone)).agreement()
    assert compared.check_root() is None


def test_representatives_among_the_members_of_a_set_do_not_ask_for_the_rank_of_a_stranger() -> None:
    text = """
    set Items: iterator = "$kernel.items" end
    set Near($centre in Items) subsetof Items: iterator = "$centre.near" end
    choice enum same($x in Items, $y in Items):
      symmetric
      value YES:
      value NO:
    end
    quotient Classes($p in Items) of $q in Near($p): is_first = true / same is YES end
    choice counter classes($p in Items): forall $c in Classes($p): sum 1 when: end
    require forall $p in Items: classes($p) <= 1
    """
    near = ((2,), (0, 2, 3), (), ())
    backbone = Backbone(sizes=((1,),) * 4, weights=(1,) * 4, reds=(), blues=(), near=near)
    compared = example_of(GeneratedSpace(text, backbone)).agreement()
    compared.check_exhaustively()
    for seed in range(10):
        compared.check_descent(random.Random(seed))


def test_an_object_that_triggers_add_to_a_union_in_several_ways_is_there_by_any_of_them() -> None:
    text = (
        SETS
        + """
choice enum kind($x in Items): value P: value Q: end
trigger forall $x in Items: forall $y in Items where "$y.id == 2":
  "$kernel.add_near($x, $y)" when kind($x) is Q && "$x.weight == 1"
trigger forall $z in Near: "$kernel.paint_blue($z)" when true
trigger forall $x in Items: "$kernel.add_copy($x)" when kind($x) is P && "$x.id == 0"
choice enum blue($b in Blues): value YES: value NO: end
"""
    )
    backbone = Backbone(sizes=((1,),) * 3, weights=(3, 1, 3), reds=(), blues=(), near=((),) * 3)
    drawn = example_of(GeneratedSpace(text, backbone))
    # Without a copy, item1 is P or makes item2 blue: 3. With one item0 is blue, and the copy may do the
    # same for item2: 2 * (3 + 4). Nothing depends on the kind of item2.
    assert len(drawn.solutions) == 2 * (3 + 2 * (3 + 4))
    assert CpSatModel(drawn.space, drawn.kernel, Machine()).count() == len(drawn.solutions)
    drawn.agreement().check_exhaustively()


def test_a_large_counter_compared_with_itself_is_decided_at_once() -> None:
    text = """
    set Items: iterator = "$kernel.items" end
    choice enum kind($x in Items):
      value P:
      value Q:
      value R:
      value S:
    end
    choice counter many():
      forall $x in Items: forall $y in Items: mul "1000 * $x.weight" when: kind($x) is not S end
    require forall $x in Items: kind($x) is not P || many() == many() - 1
    require forall $x in Items: kind($x) is not Q || 3 * many() + 1 < many() - 1
    require forall $x in Items: kind($x) is not R || many() + 2 >= many() - 1
    """
    backbone = Backbone(sizes=((1,),) * 4, weights=(1,) * 4, reds=(), blues=(), near=((),) * 4)
    compared = example_of(GeneratedSpace(text, backbone)).agreement()
    assert len(compared.solutions) == 2**4
    compared.check_exhaustively()
    compared.check_queue(random.Random(0))
