"""The native engine against the reference in Python: the same vectors, word for word, after every decision.

A fixpoint is unique, so there is nothing to tolerate. Without a C compiler only its absence can be tested.
"""

from __future__ import annotations

import os
import random
import threading
from array import array
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.c import build as building
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, Variable, instantiate
from spacedsl.engine.native.descents import NativeOrdering, Place, Rule, native_ordering, random_descents
from spacedsl.engine.native.propagation import NativePropagation, native_or_reason
from spacedsl.engine.streams import Stream
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language import load_space
from spacedsl.search.orderings import StaticOrdering, select_ordering
from tests.engine.agreement import random_step
from tests.engine.examples import load_text
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import generate_space
from tests.engine.small import Things, things, world
from tests.engine.test_linalg_against_oracles import MATMUL, SmallCpu


def has_compiler() -> bool:
    try:
        building.find_compiler()
    except building.NoCompilerError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="this machine has no C compiler")


def native_of(instance: Instance) -> NativePropagation:
    native, reason = native_or_reason(
        instance.compiled, instance.objects, instance.expansion, instance.layout
    )
    assert native is not None, reason
    return native


@dataclass(slots=True)
class Both:
    """An instance on the reference engine, and the native engine of the same one."""

    instance: Instance
    native: NativePropagation
    compared: int = 0

    def root(self) -> Candidate | None:
        root = self.instance.root()
        assert self.native.root() == (None if root is None else root.vector)
        return root

    def restrict(self, candidate: Candidate, variable: Variable, mask: int) -> Candidate | None:
        child = self.instance.restrict(candidate, variable, mask)
        found = self.native.restrict(candidate.vector, variable.offset, mask)
        self.compared += 1
        assert found == (None if child is None else child.vector), (variable.choice, variable.names, mask)
        return child

    def descend(self, rng: random.Random) -> None:
        candidate = self.root()
        while candidate is not None and not candidate.is_complete:
            variable, mask = random_step(candidate, rng)
            child = self.restrict(candidate, variable, mask)
            if child is None:
                child = self.restrict(candidate, variable, candidate.mask(variable) & ~mask)
            candidate = child


def both(instance: Instance) -> Both:
    return Both(instance, native_of(instance))


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Both:
    path = tmp_path_factory.mktemp("native") / "matmul.yaml"
    path.write_text(MATMUL)
    space = load_space(Path("kernels/spaces/linalg.space"))
    return both(instantiate(compile_space(space), load_kernel(path).backbone, SmallCpu()))


# ---- Propagation -----------------------------------------------------------------------------------------


@needs_compiler
def test_generated_spaces_have_the_same_vector_after_every_decision() -> None:
    compared = triggered = 0
    for seed in range(3, 13):
        generated = generate_space(random.Random(seed))
        compiled = compile_space(replace(load_text(generated.text), digest=""))
        try:
            here = both(instantiate(compiled, generated.backbone.build(), Machine()))
        except DiagnosticError:
            continue
        for descent in range(6):
            here.descend(random.Random(descent))
        compared += here.compared
        triggered += bool(compiled.space.triggers)
    assert compared > 200
    assert triggered >= 1


@needs_compiler
def test_a_matrix_product_has_the_same_vector_after_every_decision(matmul: Both) -> None:
    for descent in range(10):
        matmul.descend(random.Random(descent))
    assert matmul.compared > 150


@needs_compiler
def test_sets_of_more_objects_than_a_word_has_bits() -> None:
    text = """
choice enum colour($x in Things):
  value RED:
  value GREEN:
end
choice enum order($x in Things, $y in Near($x)):
  value FIRST:
  value SECOND:
end
choice counter reds(): forall $x in Things: sum 1 when: colour($x) is RED end
require forall $x in Things: forall $y in Near($x): colour($x) != colour($y) || order($x, $y) is FIRST
require reds() >= 60
"""
    ring = things(140)
    for number, node in enumerate(ring):
        node.near = (ring[(number + 1) % len(ring)], ring[number * 7 % len(ring)])
    for node in ring:
        node.near = tuple(other for other in node.near if other is not node)
    here = both(world(text, Things(ring)).instance)
    for descent in range(2):
        here.descend(random.Random(descent))
    assert here.compared > 200


@needs_compiler
def test_choices_of_three_objects_and_integers_of_more_values_than_a_word_has_bits() -> None:
    text = """
choice integer size($x in Things): "$x.sizes" end
choice enum between($x in Things, $y in Things, $z in Near($x)):
  value YES:
  value NO:
end
choice counter through($y in Things):
  forall $x in Things: forall $z in Near($x): sum size($x) when: between($x, $y, $z) is YES
end
require forall $y in Things: through($y) >= 90
require forall $x in Things: forall $y in Things: size($x) != 2 * size($y) + "$x.id" || size($x) <= 70
require forall $x in Things: forall $y in Things: forall $z in Near($x):
  between($x, $y, $z) is NO || size($x) + 3 <= size($z) || "$x.id < $z.id"
"""
    nodes = things(4, sizes=tuple(range(1, 200)))
    for node in nodes:
        node.near = tuple(other for other in nodes if other is not node)
    here = both(world(text, Things(nodes)).instance)
    for descent in range(6):
        here.descend(random.Random(descent))
    assert here.compared > 100


@needs_compiler
def test_counters_that_saturate_and_push_each_other_have_the_same_ends() -> None:
    text = f"""
choice integer size($x in Things): "$x.sizes" end
choice enum kind($x in Things):
  value A:
  value B:
end
choice counter volume(): forall $x in Things: mul size($x) when: end
choice counter total(): forall $x in Things: sum size($x) when: kind($x) is A end
choice counter other(): forall $x in Things: sum {2**61} when: kind($x) is B end
require 3 * total() <= volume() - 5
require other() + 1 != total() || other() < {2**62}
require 2 * other() <= volume()
"""
    sizes = (1, 3, 2**31, 2**32 + 1, 2**62 - 1, 2**63 - 1)
    here = both(world(text, Things(things(4, sizes=sizes))).instance)
    for descent in range(20):
        here.descend(random.Random(descent))
    assert here.compared > 60


@needs_compiler
def test_ordered_enums_and_maps_have_the_same_vectors() -> None:
    text = """
choice ordered enum site($x in Things): ROOT < TASK < LANE < INLINE end
choice ordered enum store($x in Things): ROOT < TASK < LANE < INLINE end
map host($x in Things) in Things = "$x.near[0]"
choice counter deep($x in Things): forall $y in Things: sum 1 when: site(host($y)) > site($x) end
require forall $x in Things: site($x) < site(host(host($x))) || site($x) is INLINE | LANE
require forall $x in Things: forall $y in Things:
  store($x) <= site($y) || site($y) <= "'TASK' if $x.id < 1 else 'LANE'" || deep($x) <= 1
"""
    nodes = things(5)
    for node, following in zip(nodes, (*nodes[1:], nodes[-1]), strict=True):
        node.near = (following,)
    here = both(world(text, Things(nodes)).instance)
    for descent in range(12):
        here.descend(random.Random(descent))
    assert here.compared > 40


@needs_compiler
def test_an_instance_that_names_the_native_engine_runs_on_it(tmp_path: Path) -> None:
    path = tmp_path / "matmul.yaml"
    path.write_text(MATMUL)
    compiled = compile_space(load_space(Path("kernels/spaces/linalg.space")))
    instance = instantiate(compiled, load_kernel(path).backbone, SmallCpu(), Engine.NATIVE)
    assert (instance.engine, instance.no_native) == (Engine.NATIVE, None)
    root = instance.root()
    assert root is not None
    assert root.vector == instance.propagation.root()
    variable = next(v for v in instance.variables if root.is_open(v))
    before = array("Q", root.vector)
    child = instance.restrict(root, variable, root.mask(variable) & -root.mask(variable))
    assert child is not None and child.vector != root.vector == before


@needs_compiler
@pytest.mark.parametrize(
    "counter",
    [
        "forall $x in Things: mul size($x) when: end",
        'forall $x in Things: mul "$x.weight" when: end',
        'forall $x in Things: sum "0 - 1 - $x.weight" when: end',
        'base "0 - 1" forall $x in Things: sum 1 when: end',
    ],
)
def test_contributions_that_are_too_small_are_the_same_located_errors(counter: str) -> None:
    text = f'choice integer size($x in Things): "$x.sizes" end\nchoice counter total(): {counter}\n'
    messages = []
    for engine in Engine:
        with pytest.raises(DiagnosticError) as error:
            world(text, Things(things(2, sizes=(0, 1), weight=0)), engine)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_without_a_compiler_the_reference_runs_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    building.find_compiler.cache_clear()
    try:
        instance = world(
            "choice enum c($x in Things):\n  value A:\n  value B:\nend", 2, Engine.NATIVE
        ).instance
    finally:
        building.find_compiler.cache_clear()
    assert instance.engine is Engine.PYTHON
    assert instance.no_native is not None and "no-compiler" in instance.no_native
    assert instance.root() is not None


@needs_compiler
def test_what_does_not_fit_the_tables_runs_on_the_reference() -> None:
    text = """
choice integer size($x in Things): "$x.sizes" end
require forall $x in Things: size($x) <= "9000000000000000000 + 9000000000000000000"
choice counter total(): forall $x in Things: sum size($x) when: end
require total() <= "9000000000000000000 + 9000000000000000000"
"""
    instance = world(text, 2, Engine.NATIVE).instance
    assert instance.engine is Engine.PYTHON
    assert instance.no_native is not None and "18000000000000000000" in instance.no_native


# ---- Descents --------------------------------------------------------------------------------------------


def single_values(mask: int) -> list[int]:
    return [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def places(instance: Instance) -> list[Place]:
    return [Place(v.offset, len(v.universe)) for v in instance.variables]


def declared(instance: Instance) -> NativeOrdering:
    ordering = select_ordering(instance, instance.space)
    assert isinstance(ordering, StaticOrdering)
    found = [Place(s.variable.offset, len(s.variable.universe), s.groups) for s in ordering._splits]
    return native_ordering(found, instance.presence)


@needs_compiler
def test_descents_in_c_take_the_decisions_that_the_reference_takes_with_the_same_stream(matmul: Both) -> None:
    instance, ordering = matmul.instance, select_ordering(matmul.instance, matmul.instance.space)
    root = instance.root()
    assert root is not None

    def branches(candidate: Candidate) -> tuple[Variable, tuple[int, ...]] | None:
        branching = ordering.next(candidate)
        return None if branching is None else (branching.variable, branching.masks)

    counts = DescentCounts()
    for number in range(6):
        leaf = random_descent(instance, root, branches, Stream(5, number), counts)
        found = random_descents(
            matmul.native, root.vector, declared(instance), seed=5, first=number, count=1, wants_leaf=True
        )
        assert found.leaf == (None if leaf is None else leaf.vector)
    batch = random_descents(matmul.native, root.vector, declared(instance), seed=5, count=6)
    assert batch.counts == counts


@needs_compiler
def test_descents_over_any_open_decision_take_those_of_the_reference_too(matmul: Both) -> None:
    instance = matmul.instance
    root = instance.root()
    assert root is not None
    counts = DescentCounts()
    for number in range(6):
        stream = Stream(9, number)

        def branches(candidate: Candidate, stream: Stream = stream) -> tuple[Variable, list[int]] | None:
            chosen = None
            open_variables = (v for v in instance.variables if candidate.is_open(v))
            for place, variable in enumerate(open_variables, 1):
                if stream.integers(place) == 0:
                    chosen = variable
            if chosen is None:
                return None
            return chosen, single_values(candidate.mask(chosen))

        random_descent(instance, root, branches, stream, counts)
    ordering = native_ordering(places(instance), instance.presence, Rule.ANY)
    assert random_descents(matmul.native, root.vector, ordering, seed=9, count=6).counts == counts


@needs_compiler
def test_descents_over_the_smallest_domain_take_those_of_the_reference_too(matmul: Both) -> None:
    instance, root = matmul.instance, matmul.instance.root()
    assert root is not None

    def branches(candidate: Candidate) -> tuple[Variable, list[int]] | None:
        open_variables = [v for v in instance.variables if candidate.is_open(v)]
        if not open_variables:
            return None
        variable = min(open_variables, key=lambda v: candidate.mask(v).bit_count())
        return variable, single_values(candidate.mask(variable))

    counts = DescentCounts()
    for number in range(4):
        random_descent(instance, root, branches, Stream(4, number), counts)
    ordering = native_ordering(places(instance), instance.presence, Rule.SMALLEST)
    assert random_descents(matmul.native, root.vector, ordering, seed=4, count=4).counts == counts


@needs_compiler
def test_an_ordering_names_the_same_decisions_on_both_engines(tmp_path: Path) -> None:
    path = tmp_path / "matmul.yaml"
    path.write_text(MATMUL)
    compiled, kernel = (
        compile_space(load_space(Path("kernels/spaces/linalg.space"))),
        load_kernel(path).backbone,
    )
    orderings = []
    for engine in Engine:
        instance = instantiate(compiled, kernel, SmallCpu(), engine)
        orderings.append((instance, select_ordering(instance, instance.space)))
    native, ordering = orderings[1]
    candidate = native.root()
    rng = random.Random(0)
    named = 0
    while candidate is not None and named < 40:
        found = [rule.next(Candidate(instance, candidate.vector)) for instance, rule in orderings]
        spelled = [None if b is None else (b.variable.choice, b.variable.names, b.masks) for b in found]
        assert spelled[0] == spelled[1]
        named += 1
        branching = ordering.next(candidate)
        child = None
        if branching is not None:
            child = native.restrict(candidate, branching.variable, rng.choice(branching.masks))
        candidate = child or native.root()
    assert named == 40


@needs_compiler
def test_a_descent_is_the_same_in_any_batch_and_on_any_thread(matmul: Both) -> None:
    root = matmul.instance.root()
    assert root is not None
    ordering = declared(matmul.instance)

    def digests(first: int, count: int) -> list[int]:
        found = random_descents(
            matmul.native, root.vector, ordering, seed=1, first=first, count=count, wants_digests=True
        )
        return list(map(int, found.digests))

    whole = digests(0, 40)
    assert len(set(whole)) > 30
    parts: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda first=first: parts.update({first: digests(first, 10)}))
        for first in range(0, 40, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [d for first in sorted(parts) for d in parts[first]] == whole


@needs_compiler
def test_descents_of_spaces_with_triggers_decide_only_what_is_present() -> None:
    text = """
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
trigger forall $x in Things: "$kernel.add_spare($x)" when kind($x) is A
require forall $x in Things: forall $y in Things: kind($x) != kind($y) || kind($x) is B
"""
    nodes = things(3)
    for number, node in enumerate(nodes):
        node.spare = things(10)[5 + number]
    here = both(world(text, Things(nodes)).instance)
    root = here.root()
    assert root is not None
    ordering = native_ordering(places(here.instance), here.instance.presence)
    sizes = set()
    for number in range(40):
        found = random_descents(
            here.native, root.vector, ordering, seed=2, first=number, count=1, wants_leaf=True
        )
        if found.leaf is not None:
            leaf = Candidate(here.instance, found.leaf)
            assert leaf.is_complete
            sizes.add(len(leaf.decisions()))
    assert len(sizes) > 1


def test_the_numbers_of_a_stream_are_those_of_splitmix64() -> None:
    # The first outputs for the state 0, as published with the algorithm.
    stream = Stream(0, 0)
    stream._state = 0
    assert [stream._word() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    draws = [Stream(1, number).integers(7) for number in range(7000)]
    assert np.abs(np.bincount(draws, minlength=7) - 1000).max() < 150


# ---- Compiling -------------------------------------------------------------------------------------------


@needs_compiler
def test_a_library_is_compiled_once_and_found_again(tmp_path: Path) -> None:
    source = "int answer(void) { return ANSWER; }\n"
    first = building.build(source, {"ANSWER": 1}, tmp_path)
    assert building.build(source, {"ANSWER": 1}, tmp_path) == first
    assert building.build(source, {"ANSWER": 2}, tmp_path) != first
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".so", ".so"]


@needs_compiler
def test_libraries_that_nobody_has_asked_for_in_a_month_are_removed(tmp_path: Path) -> None:
    old, used = (building.build(f"int f{n}(void) {{ return 0; }}", {}, tmp_path) for n in range(2))
    for library in (old, used):
        os.utime(library, (0, 0))
    assert building.build("int f1(void) { return 0; }", {}, tmp_path) == used
    building.build("int f2(void) { return 0; }", {}, tmp_path)
    assert not old.exists() and used.exists()


@needs_compiler
def test_text_that_the_compiler_refuses_is_no_engine_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(building.NoCompilerError, match="refused"):
        building.build("this is no C", {}, tmp_path)
    assert list(tmp_path.iterdir()) == []
