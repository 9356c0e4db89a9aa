"""Quantities in the native engine: the same vectors as the reference, on spaces of all kinds of terms."""

from __future__ import annotations

import random

import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Variable
from spacedsl.engine.native.descents import native_ordering, random_descents
from spacedsl.engine.native.propagation import NativePropagation
from spacedsl.engine.streams import Stream
from tests.engine.agreement import random_step
from tests.engine.native import Both, both, native_of, needs_compiler, places, single_values
from tests.engine.pipelines import BLUR, HARRIS, Graph, pipeline
from tests.engine.small import KIND, Things, things, world
from tests.engine.test_pipeline import instance
from tests.engine.test_quantities import CHOICES, TRIGGERED, chain

ALL_TERMS = """
choice enum kind($x in Things):
  value A:
  value B:
end
quantity total() = sum $x in Things: (size($x) * size($x)) - 3
quantity volume() = prod $x in Things: (size($x))
quantity least() = min $x in Things: (kind($x) is A ? size($x) : 9)
quantity ratio($x in Things) = floor(7 - 3 * size($x), size($x))
quantity up($x in Things) = ceil(5 - 4 * size($x), size($x) + 1)
quantity extent($x in Things) = "not $x.near" ? size($x)
  : case site($x) { ROOT | TASK: size($x), LANE: extent(host($x)) + 1, INLINE: extent(host($x)) }
quantity cap($x in Things) = "not $x.near" ? LANE : max(TASK, min(site($x), cap(host($x))))
quantity few() = sum $x in Things: (site($x) is ROOT ? 0 : 1)
choice counter many(): forall $x in Things: sum 1 when: size($x) > few() end
require total() <= 60
require volume() > 8 || few() <= 2
require forall $x in Things: ratio($x) <= -1 || up($x) != -2 || kind($x) is B
require forall $x in Things: extent($x) <= 6
require forall $x in Things: site($x) <= cap($x) || site($x) is INLINE
require forall $x in Things: forall $y in Things: kind($x) == kind($y) || least() != size($x) || many() <= 2
"""


def compared(here: Both, descents: int) -> Both:
    for descent in range(descents):
        here.descend(random.Random(descent))
    return here


@needs_compiler
def test_limits_on_terms_of_every_kind_have_the_same_vectors() -> None:
    assert compared(both(world(CHOICES + ALL_TERMS, chain(4)).instance), 25).compared > 150


@needs_compiler
def test_limits_on_terms_of_every_kind_allow_the_same_values() -> None:
    here = both(world(CHOICES + ALL_TERMS, chain(4)).instance)
    root = here.root()
    assert root is not None
    for number in range(40):
        here.restrict_allowed(root, random.Random(number))
    assert here.compared == 40


@needs_compiler
def test_quantities_over_what_triggers_may_add_have_the_same_vectors() -> None:
    text = TRIGGERED + (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "quantity volume() = prod $x in Some: (kind($x) is A ? size($x) : 5)\n"
        'quantity few() = min(2, min $x in Some: "$x.id")\n'
        "require 2 * volume() > 6\nrequire few() >= 1 || volume() == 4\n"
    )
    assert compared(both(world(text, 4).instance), 20).compared > 50


@needs_compiler
def test_quantities_saturate_as_those_of_the_reference_do() -> None:
    text = """
choice integer size($x in Things): "$x.sizes" end
quantity volume() = prod $x in Things: (size($x) - 1)
quantity total() = sum $x in Things: (size($x) * size($x)) - volume()
quantity part() = floor(volume(), 7) - ceil(total(), 3)
quantity left() = 4611686018427387904 - volume() + 4611686018427387904
require volume() >= 5 || total() <= 12
require part() != 4 || total() < 0
require left() <= 9223372036854775800 || total() > 1
"""
    nodes = Things(things(4, sizes=(0, 1, 2, 2**31, 2**62, 2**63 - 1)))
    assert compared(both(world(text, nodes).instance), 20).compared > 60


@needs_compiler
@pytest.mark.parametrize(
    "text",
    [
        'choice integer size($x in Things): "range(4)" end\n'
        "quantity share($x in Things) = floor(12, size($x)) + ceil(5, size($x))\n"
        "require forall $x in Things: size($x) >= 1\nrequire forall $x in Things: share($x) <= 9\n",
        'choice integer size($x in Things): "range(1, 5)" end\n'
        "choice counter volume(): forall $x in Things: mul size($x) when: end\n"
        "quantity part() = floor(64, volume())\nrequire part() >= 2\n",
    ],
)
def test_what_is_divided_by_may_be_anything_before_all_is_propagated(text: str) -> None:
    assert compared(both(world(text, 3).instance), 10).compared > 10


@needs_compiler
@pytest.mark.parametrize(
    ("sizes", "rules"),
    [
        ("range(1, 101)", "quantity double($x in Things) = 2 * size($x)\n"
         "require forall $x in Things: double($x) <= 150\n"),
        ("range(200)", "quantity finish($x in Things) = size($x) + 3\n"
         "require forall $x in Things: size($x) >= 100\nrequire forall $x in Things: finish($x) <= 180\n"),
    ],
)  # fmt: skip
def test_quantities_of_more_values_than_a_word_has_bits(sizes: str, rules: str) -> None:
    here = both(world(f'choice integer size($x in Things): "{sizes}" end\n{rules}', 2).instance)
    root = here.root()
    assert root is not None
    least, greatest = (1, 75) if "double" in rules else (100, 177)
    assert {d.values for d in root.decisions()} <= {tuple(range(least, greatest + 1))}
    assert compared(here, 5).compared > 5


@needs_compiler
@pytest.mark.parametrize("graph", [BLUR, HARRIS], ids=["blur", "harris"])
def test_schedules_of_image_pipelines_have_the_same_vectors(graph: Graph) -> None:
    assert compared(both(instance(pipeline(graph, tiles=(4, 16)))), 2).compared > 10


@needs_compiler
@pytest.mark.parametrize(("graph", "descents"), [(BLUR, 5), (HARRIS, 2)], ids=["blur", "harris"])
def test_descents_of_a_pipeline_take_the_decisions_of_the_reference(graph: Graph, descents: int) -> None:
    here = both(instance(pipeline(graph, tiles=(4, 16))))
    root = here.root()
    assert root is not None

    def branches(candidate: Candidate) -> tuple[Variable, list[int]] | None:
        variable = next((v for v in here.instance.variables if candidate.is_open(v)), None)
        return None if variable is None else (variable, single_values(candidate.mask(variable)))

    counts = DescentCounts()
    for number in range(descents):
        random_descent(here.instance, root, branches, Stream(3, number), counts)
    ordering = native_ordering(places(here.instance), here.instance.presence)
    assert random_descents(here.native, root.vector, ordering, seed=3, count=descents).counts == counts


@needs_compiler
def test_what_a_state_has_been_used_for_does_not_show() -> None:
    here = instance(pipeline(HARRIS))
    root = here.root()
    assert root is not None
    ordering = native_ordering(places(here), here.presence)

    def fresh() -> NativePropagation:
        native = native_of(here)
        assert native.root() == root.vector
        return native

    def digests(native: NativePropagation, first: int, count: int) -> list[int]:
        found = random_descents(
            native, root.vector, ordering, seed=1, first=first, count=count, wants_digests=True
        )
        assert found.counts.refutations or count < 20
        return [int(digest) for digest in found.digests]

    used = fresh()
    expected = digests(used, 0, 80)
    assert digests(used, 0, 80) == expected
    assert [digests(fresh(), number, 1) for number in range(0, 80, 9)] == [
        [expected[number]] for number in range(0, 80, 9)
    ]
    for number, variable in enumerate(here.variables[:20]):
        used.restrict(root.vector, variable.offset, 1 << number % 4)
        assert digests(used, number, 2) == expected[number : number + 2]


@needs_compiler
def test_the_order_of_questions_does_not_show() -> None:
    here = native_of(instance(pipeline(HARRIS)))
    space_at = instance(pipeline(HARRIS))
    rng = random.Random(1)
    start = here.root()
    assert start is not None
    asked: list[tuple[Candidate, Variable, int, list[int] | None]] = []
    for _ in range(12):
        candidate = Candidate(space_at, start)
        while not candidate.is_complete:
            variable, mask = random_step(candidate, rng)
            child = here.restrict(candidate.vector, variable.offset, mask)
            asked.append((candidate, variable, mask, None if child is None else list(child)))
            if child is None:
                child = here.restrict(candidate.vector, variable.offset, candidate.mask(variable) & ~mask)
            if child is None:
                break
            candidate = Candidate(space_at, child)
    assert sum(found is None for *_, found in asked) > 10
    rng.shuffle(asked)
    for candidate, variable, mask, expected in asked:
        child = here.restrict(candidate.vector, variable.offset, mask)
        assert (None if child is None else list(child)) == expected


@needs_compiler
def test_what_waits_at_a_contradiction_is_known_to_quantities_of_the_next_vector() -> None:
    """The size that A asks for waits when A is refused; the next vector has that size too."""
    text = KIND + (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "require forall $x in Things: kind($x) is not A || size($x) <= 1\n"
        "require forall $x in Things: kind($x) is not A || size($x) >= 4\n"
        "quantity total() = sum $x in Things: (size($x))\n"
        "require total() >= 7\n"
    )
    here = both(world(text, 3).instance)
    root = here.root()
    assert root is not None
    kind, *_ = (v for v in here.instance.variables if v.choice == "kind")
    first, second, third = (v for v in here.instance.variables if v.choice == "size")
    one = here.instance.restrict(root, first, 1)
    assert one is not None
    assert here.native.restrict(root.vector, kind.offset, 1) is None
    child = here.restrict(one, second, 2)
    assert child is not None
    assert child.mask(third) == 4
