"""The engine against the enumerator, on spaces that nobody thought of.

Everything is derandomised: the same spaces in every run. `python -m tests.engine.soak` tries new ones.
"""

from __future__ import annotations

import random

from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import EnumerationLimitError
from tests.engine.agreement import Agreement
from tests.engine.cp_sat import CpSatModel
from tests.engine.examples import Example, example_of
from tests.engine.generated_spaces import Machine, generate_space

MOST_SOLUTIONS_TO_SEARCH = 300
"""An exhaustive search by the engine in Python takes about a millisecond for each."""

derandomised = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

randomness = st.randoms(use_true_random=False)


def example(rng: random.Random) -> Example:
    """A random example; those that are refused or too large are not looked at."""
    generated = generate_space(rng)
    note(str(generated))
    try:
        return example_of(generated, most_values_tried=20_000)
    except (DiagnosticError, EnumerationLimitError):
        assume(False)
        raise


def agreement(rng: random.Random) -> Agreement:
    try:
        return example(rng).agreement()
    except DiagnosticError:
        assume(False)
        raise


@given(randomness)
@settings(derandomised, max_examples=60)
def test_random_descents_lose_no_solution_and_end_in_one_with_its_values(rng: random.Random) -> None:
    compared = agreement(rng)
    for seed in range(5):
        compared.check_descent(random.Random(seed))


@given(randomness)
@settings(derandomised, max_examples=40)
def test_an_exhaustive_search_finds_every_solution_once_and_nothing_else(rng: random.Random) -> None:
    compared = agreement(rng)
    assume(len(compared.solutions) <= MOST_SOLUTIONS_TO_SEARCH)
    compared.check_exhaustively()


@given(randomness)
@settings(derandomised, max_examples=40)
def test_the_vector_depends_on_which_decisions_are_taken_and_not_on_their_order(rng: random.Random) -> None:
    compared = agreement(rng)
    for seed in range(5):
        compared.check_order(random.Random(seed))


@given(randomness)
@settings(derandomised, max_examples=40)
def test_a_decision_removes_further_down_what_it_removes_at_the_root(rng: random.Random) -> None:
    compared = agreement(rng)
    for seed in range(5):
        compared.check_monotone(random.Random(seed))


@given(randomness)
@settings(derandomised, max_examples=30)
def test_the_two_oracles_count_the_same_solutions(rng: random.Random) -> None:
    drawn = example(rng)
    assume(not drawn.space.triggers and len(drawn.solutions) <= 2000)
    assert CpSatModel(drawn.space, drawn.kernel, Machine()).count() == len(drawn.solutions)
