"""The native engine against the reference in Python: the same vectors, word for word, after every decision.

A fixpoint is unique, so there is nothing to tolerate. Without a C compiler only its absence can be tested.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.c import build as building
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language.loader import load_space
from tests.engine.examples import STAGED, example_of, load_text
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import generate_space
from tests.engine.native import Both, both, matmul_in, needs_compiler
from tests.engine.original import Gpu, two_nests
from tests.engine.small import Things, things, world
from tests.engine.test_linalg_against_oracles import MATMUL, SmallCpu


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return matmul_in(tmp_path_factory.mktemp("native"))


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
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
@pytest.mark.usefixtures("quickly_compiled")
def test_as_many_values_as_are_allowed_are_the_same() -> None:
    """Together as one by one: what is refused is left out, wherever it stands."""
    decided = refused = 0
    for seed in range(3, 15):
        generated = generate_space(random.Random(seed))
        compiled = compile_space(replace(load_text(generated.text), digest=""))
        try:
            here = both(instantiate(compiled, generated.backbone.build(), Machine()))
        except DiagnosticError:
            continue
        root = here.root()
        if root is None:
            continue
        for number in range(6):
            child = here.restrict_allowed(root, random.Random(number))
            decided += sum(root.is_open(v) and not child.is_open(v) for v in here.instance.variables)
            refused += sum(child.is_open(v) for v in here.instance.variables)
            assert here.restrict_allowed(child, random.Random(number + 100)).vector
    assert decided > 100
    assert refused > 5


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
def test_values_that_go_one_by_one_leave_the_same_vectors() -> None:
    example = example_of(STAGED)
    here = both(instantiate(example.compile(), example.kernel, Machine()))
    for descent in range(40):
        here.descend(random.Random(descent))
    assert here.compared > 100


@needs_compiler
def test_a_matrix_product_has_the_same_vector_after_every_decision(matmul: Both) -> None:
    for descent in range(10):
        matmul.descend(random.Random(descent))
    assert matmul.compared > 150


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
def test_the_first_implementations_space_has_the_same_vector_after_every_decision() -> None:
    # A test of objects may have no answer for those that fail the test before it: of what is no member of a
    # set, there is no place among its members.
    space = load_space(Path("tests/language/corpus/original.space"))
    here = both(instantiate(compile_space(space), two_nests(depth=1), Gpu()))
    for descent in range(4):
        here.descend(random.Random(descent))
    assert here.compared > 40


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
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
def test_a_product_beyond_all_words_has_parts_that_are_as_large() -> None:
    text = f"""
choice integer size($x in Things): "$x.sizes" end
choice enum kind($x in Things): value A: value B: end
choice counter volume($x in Things):
  forall $y in Near($x): mul size($y) when: kind($y) is A
end
choice counter all(): forall $x in Things: mul volume($x) when: end
choice counter least(): forall $x in Things: sum {2**62} when: end
require all() > least()
"""
    nodes = things(3, sizes=(1, 3, 2**40, 2**63 - 1))
    for node in nodes:
        node.near = tuple(nodes)
    here = both(world(text, Things(nodes)).instance)
    for descent in range(20):
        here.descend(random.Random(descent))
    assert here.compared > 30


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
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
@pytest.mark.usefixtures("quickly_compiled")
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


@needs_compiler
def test_the_native_engine_needs_no_python_module(tmp_path: Path) -> None:
    path = tmp_path / "matmul.yaml"
    path.write_text(MATMUL)
    compiled = compile_space(replace(load_space(Path("kernels/spaces/linalg.space")), digest=""))
    instance = instantiate(compiled, load_kernel(path).backbone, SmallCpu(), Engine.NATIVE)
    root = instance.root()
    assert root is not None
    instance.restrict(root, instance.variables[0], 1)
    assert not {"python", "code"} & vars(compiled).keys()


@needs_compiler
def test_bounds_that_nothing_comes_to_leave_counters_as_they_are() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "choice counter volume(): forall $x in Things: mul size($x) when: end\n"
        "choice counter total(): forall $x in Things: sum size($x) when: end\n"
        "require total() <= 9223372036854775807 * volume()\n"
    )
    here = both(world(text, Things(things(2, sizes=(1, 2**62)))).instance)
    assert here.root() is not None
    here.descend(random.Random(1))
