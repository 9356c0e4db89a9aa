"""Explanations: the lines and decisions that they name suffice by themselves, as brute force shows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.claims import UNBOUNDED, Claim
from spacedsl.engine.decision import Decision, UnknownDecisionError
from spacedsl.engine.enumerate import EnumerationLimitError, enumerate_solutions
from spacedsl.engine.explanation import (
    Explanation,
    explain_contradiction,
    explain_limit,
    explain_loss,
)
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.language.space import Space
from tests.engine.examples import example_of
from tests.engine.generated_objects import Machine as GeneratedMachine
from tests.engine.generated_spaces import generate_space
from tests.engine.small import Thing, Things, world

CHAIN = """\
choice enum kind($x in Things): value A: value B: value C: end
require forall $x in Things: forall $y in Near($x):
  kind($x) is not A || kind($y) is A
"""

ORDER = """\
choice enum order($a in Things, $b in Things):
  antisymmetric: BEFORE -> AFTER
  value BEFORE: value AFTER: value MERGED:
end
require forall $a in Things: forall $b in Things: forall $c in Things:
  order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE
  order($a, $c) is MERGED || order($a, $b) is not MERGED || order($b, $c) is not MERGED
"""

BUDGET = """\
choice integer size($x in Things): "$x.sizes" end
choice counter total(): forall $x in Things: sum size($x) when: end
require total() <= 6
"""

LOWERED = """\
choice enum kept($x in Things): value YES: value NO: end
require forall $x in Things: forall $y in Things: kept($x) is NO || kept($y) is NO
trigger forall $x in Things: "$kernel.add_spare($x)" when kept($x) is YES
"""


def line(count: int) -> Things:
    """Things, each near the next."""
    things = tuple(Thing(i, f"t{i}") for i in range(count))
    for here, following in itertools.pairwise(things):
        here.near = (following,)
    return Things(things)


def spelled(explanation: Explanation | None) -> list[tuple[str, tuple[int, ...]]]:
    """Of each step: what it removed, and its reasons."""
    assert explanation is not None
    return [
        (" and ".join(f"{c.what}: {'|'.join(map(str, c.after))}" for c in step.changes), step.reasons)
        for step in explanation.steps
    ]


def test_a_chain_of_implications_is_told_from_the_decision_to_the_loss() -> None:
    small = world(CHAIN, line(5))
    decisions = [Decision("kind", ("t4",), ("B",)), Decision("kind", ("t1",), ("A", "C"))]
    explanation = explain_loss(small.instance, decisions, Decision("kind", ("t2",), ("A",)))
    assert spelled(explanation) == [
        ("kind(t4): B", ()),
        ("kind(t3): B|C", (0,)),
        ("kind(t2): B|C", (1,)),
    ]
    assert explanation is not None
    assert explanation.steps[0].decision == decisions[0]
    assert [s.binding for s in explanation.steps] == [
        (),
        (("x", "t3"), ("y", "t4")),
        (("x", "t2"), ("y", "t3")),
    ]
    assert not explanation.is_contradiction


def test_what_is_still_possible_has_no_explanation() -> None:
    small = world(CHAIN, line(3))
    assert explain_loss(small.instance, [], Decision("kind", ("t0",), ("A",))) is None
    assert explain_contradiction(small.instance, []) is None


def test_of_a_table_of_several_lines_the_one_that_matters_is_named() -> None:
    small = world(ORDER, 3)
    first, second = (r.span for r in small.instance.space.requirements)
    decisions = [Decision("order", ("t0", "t1"), ("MERGED",)), Decision("order", ("t1", "t2"), ("MERGED",))]
    lost = Decision("order", ("t2", "t0"), ("BEFORE", "AFTER"))
    explanation = explain_loss(small.instance, decisions, lost)
    assert explanation is not None
    assert explanation.steps[-1].spans == (second,)
    assert explanation.steps[-1].changes[0].what == "order(t2, t0)"
    decisions = [Decision("order", ("t0", "t1"), ("BEFORE",)), Decision("order", ("t1", "t2"), ("BEFORE",))]
    explanation = explain_loss(small.instance, decisions, Decision("order", ("t0", "t2"), ("AFTER",)))
    assert explanation is not None
    assert explanation.steps[-1].spans == (first,)
    assert explanation.steps[-1].reasons == (0, 1)


def test_of_a_table_on_ordered_values_the_line_that_matters_is_named() -> None:
    text = (
        "choice ordered enum site($x in Things): LOW < MIDDLE < HIGH end\n"
        "choice ordered enum store($x in Things): LOW < MIDDLE < HIGH end\n"
        "require forall $x in Things:\n"
        "  store($x) <= site($x)\n"
        "  site($x) is not MIDDLE || store($x) is not MIDDLE\n"
    )
    small = world(text, 1)
    below = small.instance.space.requirements[0].span
    decisions = [Decision("site", ("t0",), ("LOW",))]
    explanation = explain_loss(small.instance, decisions, Decision("store", ("t0",), ("HIGH",)))
    assert explanation is not None
    assert [step.spans for step in explanation.steps] == [(), (below,)]


def test_counters_are_links_of_a_chain() -> None:
    small = world(BUDGET, 3)
    explanation = explain_loss(
        small.instance, [Decision("size", ("t1",), (4,))], Decision("size", ("t0",), (2, 4))
    )
    assert explanation is not None
    limit, decision, counter = explanation.steps
    assert limit.changes[0].what == "greatest total()"
    assert limit.changes[0].after == (6,)
    assert decision.decision is not None
    assert counter.reasons == (0, 1)
    assert [(c.what, c.removed) for c in counter.changes] == [("size(t0)", (2, 4))]
    explanation = explain_limit(
        small.instance, [Decision("size", ("t1",), (2, 4))], ("total", ()), Claim(0, 3, is_within=False)
    )
    assert explanation is not None
    assert [c.what for c in explanation.steps[-1].changes] == ["least total()"]
    assert explain_limit(small.instance, [], ("total", ()), Claim(0, 3, is_within=False)) is None


def test_quantities_are_read_anew_at_each_step() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "quantity area() = prod $x in Things: (size($x))\n"
        "require area() <= 16\n"
    )
    small = world(text, 3)
    decisions = [Decision("size", ("t2",), (4,)), Decision("size", ("t0",), (2, 4))]
    explanation = explain_loss(small.instance, decisions, Decision("size", ("t1",), (4,)))
    assert spelled(explanation) == [
        ("size(t2): 4", ()),
        ("size(t0): 2|4", ()),
        ("size(t1): 1|2", (0, 1)),
    ]
    # Without the decisions, the same line removes nothing.
    assert explain_loss(small.instance, decisions[:1], Decision("size", ("t1",), (4,))) is None


def test_what_a_quantity_is_settled_by_at_the_root_is_a_step_too() -> None:
    text = """\
choice enum kind($x in Things): value A: value B: end
quantity followers($x in Things) = sum $y in Near($x): (kind($y) is B ? 1 : 0)
require forall $x in Things: followers($x) <= 0 || kind($x) is B
require forall $x in Things where "$x.id == 1": kind($x) is B
"""
    explanation = explain_loss(world(text, line(2)).instance, (), Decision("kind", ("t0",), ("A",)))
    assert spelled(explanation) == [("kind(t1): B", ()), ("kind(t0): B", (0,))]


def test_a_quantity_with_branches_that_propagation_rules_out_has_its_chain() -> None:
    text = """\
choice integer size($x in Things): "range(4)" end
quantity share($x in Things) = floor(12, size($x))
require forall $x in Things: size($x) >= 1
"""
    small = world(text, 1)
    decisions = [Decision("size", ("t0",), (2, 3))]
    explanation = explain_limit(small.instance, decisions, ("share", ("t0",)), Claim(7, 12, is_within=False))
    assert spelled(explanation) == [("size(t0): 2|3", ()), ("greatest share(t0): 6", (0,))]
    assert explain_limit(small.instance, decisions, ("share", ("t0",)), Claim(6, 6, is_within=False)) is None
    limited = world(text + "require forall $x in Things: share($x) <= 6\n", 1)
    lost = explain_loss(limited.instance, (), Decision("size", ("t0",), (1,)))
    assert spelled(lost)[-1] == ("size(t0): 2|3", ())
    with pytest.raises(UnknownDecisionError):
        explain_limit(small.instance, decisions, ("share", ("t9",)), Claim(7, 12, is_within=False))


def test_every_quantity_between_two_others_is_named() -> None:
    """Sums of sums, and quantities of one value, are computed as one where nobody asks why."""
    text = """\
choice integer size($x in Things): "$x.sizes" end
quantity own($x in Things) = size($x)
quantity same($x in Things) = own($x)
quantity pair() = sum $x in Things: (same($x))
quantity all() = pair() + 1
"""
    small = world(text, 2)
    decisions = [Decision("size", ("t0",), (2, 4)), Decision("size", ("t1",), (4,))]
    explanation = explain_limit(small.instance, decisions, ("all", ()), Claim(0, 6, is_within=False))
    assert spelled(explanation) == [
        ("size(t0): 2|4", ()),
        ("size(t1): 4", ()),
        ("least own(t0): 2", (0,)),
        ("least own(t1): 4", (1,)),
        ("least same(t0): 2", (2,)),
        ("least same(t1): 4", (3,)),
        ("least pair(): 6", (4, 5)),
        ("least all(): 7", (6,)),
    ]
    decisions = [Decision("size", ("t1",), (2,))]
    within = explain_limit(small.instance, decisions, ("same", ("t1",)), Claim(2, 2, is_within=True))
    assert spelled(within) == [
        ("size(t1): 2", ()),
        ("least own(t1): 2 and greatest own(t1): 2", (0,)),
        ("least same(t1): 2 and greatest same(t1): 2", (1,)),
    ]


def test_counters_in_a_circle_are_told_in_its_order() -> None:
    text = """\
choice enum kind($x in Things): value A: value B: end
choice counter as(): forall $x in Things: sum 1 when: kind($x) is A end
choice counter bs(): forall $x in Things: sum 1 when: kind($x) is B end
require as() <= bs() - 2
require bs() <= as() + 1
"""
    explanation = explain_contradiction(world(text, 3).instance, [])
    assert explanation is not None
    assert explanation.is_contradiction
    assert [(s.spans[0].line, s.relation, s.reasons) for s in explanation.steps] == [
        (7, "bs() is at least as() + 2", ()),
        (8, "as() is at least as() + 1", (0,)),
    ]


def test_a_contradiction_is_explained_by_the_decisions_that_it_needs() -> None:
    small = world(ORDER, 4)
    decisions = [
        Decision("order", ("t0", "t3"), ("BEFORE",)),
        Decision("order", ("t0", "t1"), ("BEFORE",)),
        Decision("order", ("t1", "t2"), ("BEFORE",)),
        Decision("order", ("t2", "t0"), ("BEFORE",)),
    ]
    explanation = explain_contradiction(small.instance, decisions)
    assert explanation is not None
    assert explanation.is_contradiction
    assert [s.decision for s in explanation.steps if s.decision is not None] == decisions[1:]


def test_presence_is_a_link_of_a_chain() -> None:
    kernel = Things((Thing(0, "a", spare=Thing(2, "a_copy")), Thing(1, "b")))
    small = world(LOWERED, kernel)
    decisions = [Decision("kept", ("a",), ("YES",))]
    explanation = explain_loss(small.instance, decisions, Decision("kept", ("a_copy",), ("YES",)))
    assert explanation is not None
    said = " ".join(what for what, _ in spelled(explanation))
    assert "a_copy in Things: yes" in said
    assert "kept(a_copy): NO" in said


def test_unknown_names_are_refused() -> None:
    small = world(CHAIN, line(3))
    for wrong in (
        Decision("kinds", ("t0",), ("A",)),
        Decision("kind", ("t9",), ("A",)),
        Decision("kind", ("t0",), ("D",)),
        Decision("kind", ("t0", "t1"), ("A",)),
    ):
        with pytest.raises(UnknownDecisionError):
            explain_loss(small.instance, [], wrong)


def _lost(instance: Instance, candidate: Candidate) -> list[Decision]:
    """Single values that are gone, of what is present."""
    return [
        Decision(v.choice, v.names, (value,))
        for v in instance.variables
        if candidate.is_present(v)
        for value in v.values(((1 << len(v.universe)) - 1) & ~candidate.mask(v))
    ]


def _named_alone(space: Space, explanation: Explanation) -> Space:
    """The space with only the lines that are named."""
    spans = {span for step in explanation.steps for span in step.spans}
    return replace(space, requirements=tuple(r for r in space.requirements if r.span in spans))


def _has(
    space: Space, kernel: object, device: object, taken: Iterable[Decision], wanted: Decision | None
) -> bool:
    demands = {(d.choice, d.objects): set(d.values) for d in taken}
    return any(
        all(s.decisions.get(key) in values for key, values in demands.items())
        and (wanted is None or s.decisions.get((wanted.choice, wanted.objects)) in wanted.values)
        for s in enumerate_solutions(space, kernel, device, limit=4_000)
    )


def test_the_lines_and_decisions_that_are_named_exclude_the_value_by_themselves() -> None:
    """Random spaces: brute force over nothing but the named lines finds no solution with the lost value."""
    explained = 0
    for seed in range(120, 160):
        rng = random.Random(seed)
        try:
            example = example_of(generate_space(rng, most_assignments=300), most_values_tried=2000)
            instance = instantiate(example.compile(), example.kernel, GeneratedMachine())
        except (DiagnosticError, EnumerationLimitError):
            continue
        root = instance.root()
        if root is None:
            chain = explain_contradiction(instance, [])
            assert chain is not None, f"seed {seed}"
            assert chain.is_contradiction
            alone = _named_alone(example.space, chain)
            assert not _has(alone, example.kernel, GeneratedMachine(), (), None), f"seed {seed}"
            explained += 1
            continue
        decisions, candidate = _random_decisions(instance, root, rng)
        lost = _lost(instance, candidate)
        for value in rng.sample(lost, min(3, len(lost))):
            chain = explain_loss(instance, decisions, value)
            assert chain is not None, f"seed {seed}: {value} is lost, and not explained"
            used = [s.decision for s in chain.steps if s.decision is not None]
            assert set(used) <= set(decisions)
            reasons = {reason for step in chain.steps for reason in step.reasons}
            assert reasons == set(range(len(chain.steps) - 1)), f"seed {seed}: a step that leads nowhere"
            alone = _named_alone(example.space, chain)
            try:
                assert not _has(alone, example.kernel, GeneratedMachine(), used, value), (
                    f"seed {seed}: {value}"
                )
            except EnumerationLimitError:
                continue
            explained += 1
    assert explained >= 20


def _random_decisions(
    instance: Instance, root: Candidate, rng: random.Random
) -> tuple[Sequence[Decision], Candidate]:
    """Up to three decisions that propagation accepts, and the candidate after them."""
    decisions: list[Decision] = []
    candidate = root
    for _ in range(3):
        open_variables = [v for v in instance.variables if candidate.is_open(v)]
        if not open_variables:
            break
        variable = rng.choice(open_variables)
        value = rng.choice(variable.values(candidate.mask(variable)))
        decision = Decision(variable.choice, variable.names, (value,))
        child = instance.decide(candidate, decision)
        if child is not None:
            decisions.append(decision)
            candidate = child
    return decisions, candidate


def _values(
    space: Space, kernel: object, taken: Iterable[Decision], quantity: tuple[str, tuple[str, ...]]
) -> set[int]:
    """Of a quantity in all solutions that keep to the decisions; of ordered enums, positions."""
    demands = {(d.choice, d.objects): set(d.values) for d in taken}
    order = space.quantities[quantity[0]].values
    found = {
        s.derived[quantity]
        for s in enumerate_solutions(space, kernel, GeneratedMachine(), limit=4_000)
        if quantity in s.derived and all(s.decisions.get(key) in values for key, values in demands.items())
    }
    return {order.index(str(v)) if order is not None else int(v) for v in found}


def test_the_lines_and_decisions_that_are_named_bound_the_quantity_by_themselves() -> None:
    """Random spaces: with nothing but the named lines and decisions, no solution has an excluded value."""
    explained = 0
    for seed in range(200, 270):
        rng = random.Random(seed)
        try:
            example = example_of(generate_space(rng, most_assignments=300), most_values_tried=1000)
            instance = instantiate(example.compile(), example.kernel, GeneratedMachine())
        except (DiagnosticError, EnumerationLimitError):
            continue
        root = instance.root()
        if root is None or not instance.space.quantities:
            continue
        decisions, candidate = _random_decisions(instance, root, rng)
        present = list(instance.quantities(candidate.vector))
        for quantity, objects, (low, high) in rng.sample(present, min(2, len(present))):
            where = quantity.name, objects
            for claim in (
                Claim(-UNBOUNDED, low - 1, is_within=False),
                Claim(high + 1, UNBOUNDED, is_within=False),
                Claim(low, high, is_within=True),
            ):
                chain = explain_limit(instance, decisions, where, claim)
                assert chain is not None, f"seed {seed}: {where} is from {low} to {high}, and not explained"
                reasons = {reason for step in chain.steps for reason in step.reasons}
                assert reasons == set(range(len(chain.steps) - 1)), f"seed {seed}: a step that leads nowhere"
                if len(chain.steps) == 1:
                    continue  # the values of choices alone give the interval
                used = [s.decision for s in chain.steps if s.decision is not None]
                alone = _named_alone(example.space, chain)
                try:
                    values = _values(alone, example.kernel, used, where)
                except EnumerationLimitError:
                    continue
                assert all(claim.holds((value, value)) for value in values), f"seed {seed}: {where}"
                explained += 1
            assert explain_limit(instance, decisions, where, Claim(low, low, is_within=False)) is None
    assert explained >= 5
