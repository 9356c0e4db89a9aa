"""What saves trying values changes nothing: the same vectors as when every value is tried each time."""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from contextlib import suppress

import pytest

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.engine.quantities.evaluation import Evaluation
from spacedsl.engine.quantities.limits import Limits
from spacedsl.engine.quantities.nodes import LEAVES
from tests.engine.agreement import Step, random_step
from tests.engine.examples import load_text
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import generate_space
from tests.engine.pipelines import CROSS, POINT, Gpu, pipeline
from tests.engine.test_pipeline import space as pipeline_space

Walk = list[tuple[Step, list[int] | None]]


def walk(instance: Instance, rng: random.Random, decisions: int) -> Walk:
    """Random decisions and the vectors that they lead to, None for contradictions."""
    found: Walk = []
    candidate = instance.root()
    while candidate is not None and not candidate.is_complete and len(found) < decisions:
        variable, mask = random_step(candidate, rng)
        child = instance.restrict(candidate, variable, mask)
        found.append(((variable, mask), None if child is None else list(child.vector)))
        if child is None:
            child = instance.restrict(candidate, variable, candidate.mask(variable) & ~mask)
        candidate = child
    return found


def again(instance: Instance, steps: Walk) -> list[list[int] | None]:
    """The vectors that the same decisions lead to."""
    found: list[list[int] | None] = []
    candidate = instance.root()
    for (variable, mask), _ in steps:
        assert candidate is not None
        same = instance.variables[variable.index]
        child = instance.restrict(candidate, same, mask)
        found.append(None if child is None else list(child.vector))
        if child is None:
            child = instance.restrict(candidate, same, candidate.mask(same) & ~mask)
        candidate = child
    return found


def try_everything(patch: pytest.MonkeyPatch) -> None:
    def suspects(self: Limits, limits: Sequence[int], live: Set[int]) -> list[int]:
        assert self.evaluation is not None
        leaves = [n for n in self.evaluation.graph.nodes if n.op in LEAVES and n.cell in self.decisions]
        return sorted({leaf.cell for leaf in leaves})

    def may_fail(self: Evaluation, cells: Sequence[int], watched: Sequence[int], within: Set[int]) -> bool:
        return True

    patch.setattr(Limits, "_suspects", suspects)
    patch.setattr(Evaluation, "may_fail", may_fail)


def test_on_generated_spaces() -> None:
    compared = 0
    for seed in range(150):
        generated = generate_space(random.Random(seed))
        if "quantity" not in generated.text:
            continue
        with suppress(DiagnosticError):
            compiled = compile_space(load_text(generated.text))
            kernel = generated.backbone.build()
            here = instantiate(compiled, kernel, Machine())
            steps = walk(here, random.Random(seed), 12)
            with pytest.MonkeyPatch.context() as patch:
                try_everything(patch)
                simple = instantiate(compiled, kernel, Machine())
                assert (here.root() is None) == (simple.root() is None), generated
                assert [vector for _, vector in steps] == again(simple, steps), generated
            compared += len(steps)
    assert compared > 80


def test_on_a_pipeline() -> None:
    compiled = compile_space(pipeline_space())
    kernel = pipeline({"a": {}, "b": {"a": CROSS}, "c": {"a": POINT}, "d": {"b": CROSS, "c": POINT}})
    device = Gpu(shared_bytes=2000, max_threads=64)
    here = instantiate(compiled, kernel, device)
    steps = walk(here, random.Random(1), 10)
    with pytest.MonkeyPatch.context() as patch:
        try_everything(patch)
        assert [vector for _, vector in steps] == again(instantiate(compiled, kernel, device), steps)
    assert len(steps) == 10
