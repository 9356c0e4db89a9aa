"""Orderings on an instance: object by object, with arguments, and by the domains that are left."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import DiagnosticError, Source
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.language.host import exposed
from spacedsl.language.loader import check_source
from spacedsl.language.orderings import DYNAMIC_RULES
from spacedsl.search.orderings import DYNAMIC, select_ordering

SPACE = """
set Stages: iterator = "$kernel.stages" end
set Loops: iterator = "$kernel.loops" end
set LoopsOf($s in Stages) subsetof Loops: iterator = "$s.loops" end
map stage($l in Loops) in Stages = "$l.stage"
map after($s in Stages) in Stages = "$s.after"
map before($s in Stages) in Stages = "$s.before"
choice ordered enum site($s in Stages): ROOT < TASK < LANE end
choice integer tile($l in Loops): "$l.sizes" end
choice enum order($a in Stages, $b in Stages):
  antisymmetric: BEFORE -> AFTER
  value BEFORE: value AFTER: value SAME:
end
ordering stagewise:
  for $s in Stages by "$s.rank":
    site($s)
    tile($l) for $l in LoopsOf($s)
  end
end
ordering nested:
  for $s in Stages:
    for $l in LoopsOf($s) by "-$l.number":
      tile($l)
    end
    site($s) by TASK
  end
end
ordering pairs:
  for $a in Stages by "-$a.rank":
    order($a, $b) for $b in Stages by AFTER
  end
end
ordering through_maps:
  site(stage($l)) for $l in Loops
  for $s in Stages:
    tile($l) for $l in LoopsOf(after($s))
  end
end
ordering smallest: dynamic smallest_domain end
ordering unordered: for $s in Stages by "$s.mixed": site($s) end end
"""


@exposed("rank", "loops", "after", "before", "mixed")
@dataclass(eq=False)
class Stage:
    name: str
    rank: int
    loops: tuple[Loop, ...] = ()
    after: Stage | None = None
    before: Stage | None = None
    mixed: object = 0


@exposed("number", "stage", "sizes")
@dataclass(eq=False)
class Loop:
    name: str
    number: int
    stage: Stage
    sizes: tuple[int, ...] = (1, 2, 4, 8)


@exposed("stages", "loops")
@dataclass(eq=False)
class Pipeline:
    stages: tuple[Stage, ...]
    loops: tuple[Loop, ...]


def pipeline() -> Pipeline:
    """Stages p, q, r with ranks 2, 0, 1; p has two loops, q none, r one. Each is followed by the next."""
    p, q, r = Stage("p", 2), Stage("q", 0, mixed="word"), Stage("r", 1)
    loops = (Loop("p0", 0, p), Loop("p1", 1, p, (1, 2)), Loop("r0", 2, r))
    p.loops, r.loops = loops[:2], loops[2:]
    p.after, q.after, r.after = q, r, p
    return Pipeline((p, q, r), loops)


@pytest.fixture(scope="module")
def instance() -> Instance:
    space, found = check_source(Source("stages.space", SPACE))
    assert space is not None, found
    return instantiate(compile_space(space), pipeline(), Stage("device", 0))


def decided(instance: Instance, spec: str, taken: int = 0) -> list[str]:
    """The decisions met when always the same child is taken."""
    ordering, candidate, met = select_ordering(instance, instance.space, spec), instance.root(), []
    while candidate is not None and (branching := ordering.next(candidate)) is not None:
        met.append(f"{branching.variable.choice} {' '.join(branching.variable.names)}")
        candidate = instance.restrict(candidate, branching.variable, branching.masks[taken])
    assert candidate is not None and candidate.is_complete
    return met


def test_all_items_of_an_object_come_before_the_next_object_by_the_key(instance: Instance) -> None:
    assert decided(instance, "stagewise") == [
        "site q", "site r", "tile r0", "site p", "tile p0", "tile p1", "order p q", "order p r", "order q r",
    ]  # fmt: skip


def test_blocks_may_be_nested_and_group_values(instance: Instance) -> None:
    assert decided(instance, "nested")[:5] == ["tile p1", "tile p0", "site p", "site q", "tile r0"]
    # The group of the values that are not named is decided where what no item lists is.
    assert decided(instance, "nested", taken=-1)[-6:-3] == ["site p", "site q", "site r"]


def test_pairs_are_of_distinct_objects_each_once(instance: Instance) -> None:
    assert decided(instance, "pairs")[:3] == [
        "order p q", "order p r", "order q r",
    ]  # fmt: skip


def test_groups_are_turned_with_the_orientation_that_an_item_is_written_in(instance: Instance) -> None:
    """`order(p, q)` is the variable; an item on (q, p) by AFTER asks whether it is BEFORE."""
    root = instance.root()
    assert root is not None
    by_lower = select_ordering(instance, instance.space, "pairs").next(root)
    # p has the greatest rank, and comes first: its pairs are in the variable's own orientation.
    assert by_lower is not None and by_lower.variable.names == ("p", "q") and by_lower.masks == (0b010, 0b101)
    spec = 'for $a in Stages by "$a.rank": order($a, $b) for $b in Stages by AFTER end'
    turned = select_ordering(instance, instance.space, spec).next(root)
    # q comes first here, with `order(q, p)`.
    assert turned is not None and turned.variable.names == ("p", "q") and turned.masks == (0b001, 0b110)


def test_arguments_may_be_maps(instance: Instance) -> None:
    assert decided(instance, "through_maps")[:5] == ["site p", "site r", "tile r0", "tile p0", "tile p1"]


def test_the_smallest_domain_is_next_and_the_first_among_equals(instance: Instance) -> None:
    assert decided(instance, "smallest") == [
        "tile p1", "site p", "site q", "site r", "order p q", "order p r", "order q r", "tile p0", "tile r0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("stagewise", 'for $s in Stages by "$s.rank": site($s), tile($l) for $l in LoopsOf($s) end'),
        ("nested",
         'for $s in Stages: for $l in LoopsOf($s) by "-$l.number": tile($l) end, site($s) by TASK end'),
        ("through_maps",
         "site(stage($l)) for $l in Loops, for $s in Stages: tile($l) for $l in LoopsOf(after($s)) end"),
        ("smallest", " dynamic smallest_domain "),
    ],
)  # fmt: skip
def test_an_ordering_is_the_same_when_it_is_spelled_out(instance: Instance, name: str, spec: str) -> None:
    assert decided(instance, spec) == decided(instance, name)
    assert decided(instance, spec, taken=-1) == decided(instance, name, taken=-1)


@pytest.mark.parametrize(
    ("spec", "column", "message"),
    [
        ("unordered", 42, "cannot be put in order"),
        ("for $s in Stages: order($s, after(after(after($s)))) end", 19, r"there is no order\(p, p\)"),
        ("site(before($s)) for $s in Stages", 6, r"before\(p\) has no value"),
    ],
)
def test_what_only_a_kernel_shows_is_a_diagnostic(
    instance: Instance, spec: str, column: int, message: str
) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        select_ordering(instance, instance.space, spec)
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.column) == ("SP085", column)


def test_the_language_knows_the_rules_that_the_search_has() -> None:
    assert tuple(DYNAMIC) == DYNAMIC_RULES
