"""Which phases are alike: beside their programs, and there and back again."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.search.costs.likeness import Likeness
from spacedsl.search.costs.model import Plan
from spacedsl.search.costs.pipeline import PipelineCosts
from spacedsl.search.orderings import branches_of, select_ordering
from tests.codegen.pipeline.test_lower import lowered
from tests.kernels.pipeline.cases import drawn, instance, rules, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load
from tests.search.costs.test_pipeline import DEVICE, IMAGE

LONG = 7
CHAIN = "\n".join(
    f"s{place + 1}(x, y) = s{place}(clamp(x - 1, 0, 63), y) + 3 * s{place}(x, clamp(y + 1, 0, 63))"
    for place in range(LONG)
)
FILE = pipeline(f"s0(x, y) = image(x, y)\n{CHAIN}", f"{{s{LONG}: {{x: 64, y: 64}}}}", IMAGE)


SITES = ("ROOT", "ROOT", "ROOT", "INLINE", "CHUNK", "LANE")


def relative(candidate: Candidate, name: str) -> str:
    """The nest of a step, where each step is called by how far from it it is."""
    nest = next(nest for nest in lowered(FILE, candidate).phases if nest.name == name)
    return re.sub(r"s(\d+)", lambda found: f"s[{int(found[1]) - int(name[1:])}]", str(nest.statements))


def test_nests_of_the_same_form_are_the_same_but_for_names() -> None:
    here = instance(FILE.backbone)
    root, costs, rng = here.root(), PipelineCosts(here, DEVICE), np.random.default_rng(0)
    assert root is not None
    branches = branches_of(select_ordering(here, rules().space, None))
    sites = [v for v in here.variables if v.choice == "site"]

    def drawn(plan: Plan) -> Candidate | None:
        return random_descent(here, here.restrict_allowed(root, plan), branches, rng, DescentCounts())

    shared = 0
    for _ in range(12):
        known = drawn([(site, 1 << site.universe.index(str(rng.choice(SITES)))) for site in sites])
        if known is None:
            continue
        for phase in costs.phases(known):
            other = str(rng.choice(costs.alike(phase.name)))
            decisions = costs.translated(phase.decisions, phase.name, other)
            if decisions is None or other == phase.name:
                continue
            found = drawn([(here.variables[index], mask) for index, mask in decisions])
            if found is None:
                continue
            (same,) = (each for each in costs.phases(found) if each.name == other)
            assert same.form == phase.form
            assert relative(found, other) == relative(known, phase.name)
            shared += 1
    assert shared > 10


def test_levels_of_a_pyramid_are_alike() -> None:
    file = load("lens_blur")
    costs = PipelineCosts(instance(file.backbone), DEVICE)
    assert costs.alike("down_3") == [f"down_{level}" for level in range(1, 8)]
    assert "down_3" not in costs.alike("down_3_x")
    assert costs.alike("confidence") == ["confidence"]


@pytest.mark.parametrize("name", ["stencil_chain", "interpolate", "local_laplacian", "hist_eq", "vgg"])
def test_what_is_translated_has_the_form_and_comes_back(name: str) -> None:
    file, others = load(name, CASES[name].sizes), 0
    here = instance(file.backbone)
    costs = PipelineCosts(here, DEVICE)
    likeness = Likeness(costs.steps.all, here.variables)
    steps = {step.name: step for step in costs.steps.all}
    for candidate in drawn(file, 3, 1, DescentCounts()):
        for phase in costs.phases(candidate):
            for other in costs.alike(phase.name):
                there = costs.translated(phase.decisions, phase.name, other)
                if there is None or len(there) < len(phase.decisions):
                    continue
                others += other != phase.name
                assert likeness.form(steps[other], there) == likeness.form(steps[phase.name], phase.decisions)
                assert costs.translated(there, other, phase.name) == phase.decisions
    assert others > 0 or name == "hist_eq"


def test_two_steps_are_not_like_one() -> None:
    """Of `r` there are two steps that are summed up, of `o` it is one that is read twice."""
    stages = """
        c(x, y) = image(x, y) * 2; d(x, y) = image(x, y) * 3; e(x, y) = image(x, y) * 4
        a(x, y) = c(x, y) + 1; b(x, y) = d(x, y) + 1; p(x, y) = e(x, y) + 1; q(x, y) = e(x, y) + 1
        r(x, y) = a(x, y) * b(x, y); o(x, y) = p(x, y) * q(x, y); out(x, y) = r(x, y) - o(x, y)
    """
    file = pipeline(stages.replace(";", "\n"), "{out: {x: 9, y: 9}}", IMAGE)
    here = instance(file.backbone)
    costs, inlined = PipelineCosts(here, DEVICE), dict.fromkeys("abcdepq", "INLINE")
    candidate = scheduled(here, {**inlined, "c": "ROOT", "r": "ROOT", "o": "ROOT"}, {})
    phases = {phase.name: phase for phase in costs.phases(candidate)}
    assert {"r", "o"} <= set(costs.alike("r"))
    assert costs.translated(phases["r"].decisions, "r", "o") is None
    assert costs.translated(phases["r"].decisions, "r", "r") == phases["r"].decisions


def names(stages: Sequence[str]) -> set[str]:
    file = pipeline("\n".join(stages), "{c: {x: 9, y: 9}}", IMAGE)
    return set(PipelineCosts(instance(file.backbone), DEVICE).alike("a"))


@pytest.mark.parametrize(
    ("other", "is_alike"),
    [
        ("a(x, y) + 7 * a(x + 2, y)", True),
        ("a(x, y) + a(x + 2, y)", False),
        ("a(x, y) - 7 * a(x + 2, y)", False),
        ("a(x, y) + 7 * a(y, x)", False),
        ("a(x, y) + 7 * image(x + 2, y)", False),
    ],
)
def test_numbers_make_no_difference_but_all_else_does(other: str, *, is_alike: bool) -> None:
    stages = ["d(x, y) = image(x, y) * 2", "a(x, y) = d(x, y) + 3 * d(x + 1, y)", f"b(x, y) = {other}"]
    assert names([*stages, "c(x, y) = b(x, y) * b(x, y + 1)"]) == ({"a", "b"} if is_alike else {"a"})
