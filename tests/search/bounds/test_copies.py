"""Bounds where triggers may still pass values through memory: what is certain of both ways, and no more."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.kernels.linalg.backbone import Instruction, Kernel
from spacedsl.kernels.linalg.operations import Op
from spacedsl.language.host import Addition, callback
from spacedsl.language.loader import load_space
from spacedsl.search.bounds.certain import LINE_BYTES
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.orderings import select_ordering
from tests.rules import rules_of
from tests.search.linalg import AXPY, DEVICE, MATMUL, decide, instance_of, mixtures, parse, root

RULES = """
set Passed subsetof Instructions:
  iterator = "$kernel.instructions"
end

choice enum passage($inst in Passed):
  value REGISTERS:
  value TEMPORARY:
end

trigger forall $inst in Passed:
  "$kernel.copy($inst)" when passage($inst) is TEMPORARY
"""
STRIDED = MATMUL.replace(
    "A: {dtype: f32, shape: [m, k]}", "A: {dtype: f32, shape: [m, k], strides: [65536, 32]}"
)


class CopyingKernel(Kernel):
    """One more user for each value that goes through memory."""

    __slots__ = ()

    @callback
    def copy(self, instruction: Instruction) -> Addition:
        user = Instruction(
            len(self.statements) + instruction.id, f"copy_{instruction.name}", Op.MOVE, instruction.dtype
        )
        sets = ("Statements", "Instructions", "Singular")
        return Addition(
            (*((name, (), user) for name in sets), ("Consumers", (instruction,), user)),
        )


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "copies.space"
    path.write_text(rules_of() + RULES, encoding="utf-8")
    return path


def copying(space: Path, text: str) -> Instance:
    kernel = parse(text).backbone
    values = {f.name: getattr(kernel, f.name) for f in fields(kernel) if f.init}
    return instantiate(compile_space(load_space(space)), CopyingKernel(**values), DEVICE)


def without_reloads(space: Path, text: str) -> Instance:
    """With these rules alone."""
    of_linalg = "trigger forall $inst in Storable: forall $user in Consumers($inst):"
    rules = space.read_text(encoding="utf-8")
    assert of_linalg in rules
    start = rules.index(of_linalg)
    space.write_text(rules[:start] + rules[rules.index("\n\n", start) :], encoding="utf-8")
    return copying(space, text)


def terms(instance: Instance, candidate: Candidate) -> dict[str, float]:
    bound = CpuBound(instance, DEVICE)
    return {r.name: ns for r, ns in zip(bound.resources, bound.reference_ns(candidate), strict=True)}


def column_by_column(instance: Instance) -> Candidate:
    """All of A again for each column: 512 KiB of elements, in lines of 8 MiB."""
    candidate = decide(instance, root(instance), "size", "fma.j0", 64)
    nested = instance.decide(candidate, Decision("order", ("fma.j0", "fma.i0"), ("OUTER",)))
    assert nested is not None
    return nested


@pytest.mark.parametrize("choice", ["storage", "passage"])
def test_gaps_between_elements_count_in_loops_once_no_copy_can_close_them(space: Path, choice: str) -> None:
    name = "loop order of fma"
    instance = instance_of(STRIDED) if choice == "storage" else without_reloads(space, STRIDED)
    candidate = column_by_column(instance)
    direct = decide(instance, candidate, choice, "load_B", "REGISTERS")
    copied = decide(instance, direct, choice, "load_A", "TEMPORARY")
    direct = decide(instance, direct, choice, "load_A", "REGISTERS")
    strided = terms(instance, direct)
    # By hand: what is more than caches and registers keep, 64 times, at 20 bytes a ns. Two threads may have
    # columns of their own, and read A together.
    kept = 2**20 + 2**16 + 2 * (64 * (64 + LINE_BYTES) + 256 * LINE_BYTES)
    assert strided[name] == pytest.approx(64 * (64 * 2048 * LINE_BYTES + 2048 * LINE_BYTES - kept) / 20 / 2)
    assert terms(instance, copied)[name] < strided[name] / 10
    # What the tensor itself lies in is read once, by whoever copies it.
    assert terms(instance, copied)["DRAM bandwidth"] == strided["DRAM bandwidth"]


STREAMED = (*mixtures(5, 10, 1 / 3, 1), *mixtures(12, 24, 1 / 6, 1, is_streamed=True))
"""Stores through the caches take more than twice as long as those around them."""


def test_a_store_that_may_go_around_the_caches_is_not_held_to_the_rate_of_ordinary_ones() -> None:
    level = DEVICE.memory[-1].model_copy(update={"mixtures": STREAMED})
    device = DEVICE.model_copy(update={"memory": (*DEVICE.memory[:-1], level)})
    instance = instance_of(AXPY)
    candidate, bound = root(instance), CpuBound(instance, device)
    of = {r.name: number for number, r in enumerate(bound.resources)}["DRAM bandwidth"]
    ways = {way: decide(instance, candidate, "caching", "store_z", way) for way in ("CACHED", "STREAMED")}
    times = {way: bound.reference_ns(decided)[of] for way, decided in ways.items()}
    assert bound.reference_ns(candidate)[of] == times["STREAMED"] < times["CACHED"]


def test_loops_that_only_copy_may_store_around_the_caches(space: Path) -> None:
    level = DEVICE.memory[-1].model_copy(update={"mixtures": STREAMED})
    device = DEVICE.model_copy(update={"memory": (*DEVICE.memory[:-1], level)})
    instance = copying(space, AXPY)
    candidate = decide(instance, root(instance), "caching", "store_z", "CACHED")
    name, bound = "DRAM bandwidth", CpuBound(instance, device)
    of = {r.name: number for number, r in enumerate(bound.resources)}[name]
    direct = decide(instance, candidate, "passage", "fma", "REGISTERS")
    copied = decide(instance, candidate, "passage", "fma", "TEMPORARY")
    assert (
        bound.reference_ns(candidate)[of] == bound.reference_ns(copied)[of] < bound.reference_ns(direct)[of]
    )


def test_with_copies_no_term_falls_and_compiled_code_says_the_same(space: Path) -> None:
    instance = copying(space, STRIDED)
    bound = CpuBound(instance, DEVICE)
    assert bound.native is not None, bound.no_native
    ordering = select_ordering(instance, load_space(space), "order, passage, storage, size, dim_kind")
    random = np.random.default_rng(5)
    candidate, before = root(instance), [0.0] * len(bound.resources)
    while True:
        found = bound.reference_ns(candidate)
        assert bound.native.terms(candidate) == pytest.approx(found, rel=1e-12)
        assert all(now >= was * (1 - 1e-12) for was, now in zip(before, found, strict=True))
        branching, before = ordering.next(candidate), found
        if branching is None:
            return
        masks = [branching.masks[i] for i in random.permutation(len(branching.masks))]
        children = (instance.restrict(candidate, branching.variable, mask) for mask in masks)
        candidate = next(child for child in children if child is not None)
