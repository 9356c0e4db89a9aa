"""A deliberately broken engine is found out: each way of breaking it makes the comparison fail."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from spacedsl.compiler import CompiledSpace
from tests.engine.examples import Example, example_of
from tests.engine.generated_objects import Backbone
from tests.engine.generated_spaces import SETS, GeneratedSpace

TEXT = (
    SETS
    + """
choice enum kind($x in Items):
  value P:
  value Q:
    requires "$x.is_odd"
  value R:
end
choice integer size($x in Items): "$x.sizes" end
choice enum order($a in Items, $b in Items):
  antisymmetric:
    BEFORE -> AFTER
  value BEFORE:
  value AFTER:
  value SAME:
end
require forall $a in Items: forall $b in Items: forall $c in Items:
  order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE | SAME
  order($a, $c) is BEFORE || order($a, $b) is not SAME || order($b, $c) is not BEFORE
  order($a, $c) is SAME || order($a, $b) is not SAME || order($b, $c) is not SAME
require forall $a in Items: forall $b in Items:
  order($a, $b) is not BEFORE || size($a) <= size($b)
require forall $a in Items: forall $b in Items: order($a, $b) is not SAME || kind($a) == kind($b)
choice counter volume(): forall $x in Items: mul size($x) when: kind($x) is R end
require volume() <= 4
quotient Classes of $x in Items: is_class = kind($x) is P / order is SAME end
choice counter classes(): forall $x in Classes: sum 1 when: end
require classes() >= 1
trigger forall $x in Items: "$kernel.paint_blue($x)" when kind($x) is P
require forall $x in Blues: size($x) != 2
"""
)
BACKBONE = Backbone(((1, 2), (1, 2, 3), (2, 4)), (1, 1, 1), (), (), ((), (), ()))


@cache
def example() -> Example:
    return example_of(GeneratedSpace(TEXT, BACKBONE))


def is_noticed(compiled: CompiledSpace) -> bool:
    """Whether the comparison fails with these propagators."""
    compared = example().agreement(compiled)
    try:
        compared.check_exhaustively()
        for seed in range(12):
            compared.check_descent(random.Random(seed))
            compared.check_order(random.Random(seed))
    except AssertionError:
        return True
    return False


def changed(old: str, new: str, count: int = 1) -> CompiledSpace:
    """The propagators with the text of the `count`-th occurrence replaced."""
    compiled = example().compile()
    parts = compiled.python_source.split(old)
    assert len(parts) > count, f"{old!r} is not in the generated text {count} times"
    source = old.join(parts[:count]) + new + old.join(parts[count:])
    return mutant(source)


def mutant(source: str) -> CompiledSpace:
    """The example's space with other propagators."""
    compiled = replace(example().compile())
    # In place of what it would compile once it is asked for.
    compiled.__dict__["code"] = compile(source, "<mutant>", "exec")
    return compiled


def test_the_unbroken_engine_agrees() -> None:
    assert len(example().solutions) > 30
    assert not is_noticed(example().compile())


PROPAGATORS = [p.name for p in example().compile().module.propagators]


@pytest.mark.parametrize("name", PROPAGATORS)
def test_a_propagator_that_does_nothing_is_noticed(name: str) -> None:
    compiled = example().compile()
    source = re.sub(rf"(def {name}\([^)]*\):\n)", r"\1    return\n", compiled.python_source, count=1)
    assert is_noticed(mutant(source))


def rows() -> list[tuple[str, list[int]]]:
    """The tables of the generated text: what one input may be, by the masks of the others."""
    found = re.findall(r"^(table_\d+) = \((.*)\)$", example().compile().python_source, re.MULTILINE)
    return [(name, [int(e) for e in row.rstrip(",").split(",")]) for name, row in found]


def decided_entries() -> Iterator[tuple[str, int]]:
    """For each table, the first and the last entry for inputs that have one value each."""
    for name, entries in rows():
        single = [1 << bit for bit in range(3)]
        indices = single if len(entries) <= 8 else [a << 3 | b for a in single for b in single]
        partial = [i for i in indices if i < len(entries) and 0 < entries[i] < max(entries)]
        yield from ((name, i) for i in dict.fromkeys((partial[0], partial[-1])))


@pytest.mark.parametrize(("name", "entry"), list(decided_entries()))
def test_a_table_that_forbids_what_is_allowed_is_noticed(name: str, entry: int) -> None:
    entries = dict(rows())[name]
    damaged = [0 if i == entry else e for i, e in enumerate(entries)]
    assert is_noticed(changed(f"{name} = {tuple(entries)}", f"{name} = {tuple(damaged)}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("lo = lo * least", "lo = lo * greatest", id="least product from greatest sizes"),
        pytest.param("hi = hi * greatest", "hi = hi * least", id="greatest product from least sizes"),
        pytest.param("lo = lo + 1", "lo = lo + 2", id="a certain contribution counted twice"),
        pytest.param("hi = hi + 1", "hi = hi + 0", id="a possible contribution not counted"),
        pytest.param("lo = lo + 1", "lo = lo + 0", id="a weak lower end"),
        pytest.param(
            "cap_counter(volume, 1, 4)", "cap_counter(volume, 1, 6)", id="a limit that is off by one"
        ),
        pytest.param("1, greatest(size_b)", "1, least(size_b)", id="a comparison with the wrong end"),
    ],
)
def test_wrong_arithmetic_is_noticed(old: str, new: str) -> None:
    assert is_noticed(changed(old, new))
