"""Which decision is next, from orderings declared in a space and from those spelled out."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Variable
from spacedsl.language.loader import load_space
from spacedsl.language.space import EnumChoice, Space
from spacedsl.search.orderings import Ordering, select_ordering, select_rollouts
from tests.search.toy import ToyCandidate, ToyInstance, ToyObject

SPACE = """
set Things: iterator = "$kernel.things" end
choice enum colour($t in Things):
  value RED:
  value GREEN:
  value BLUE:
end
choice integer size($t in Things): "range(4)" end
choice enum order($a in Things, $b in Things):
  antisymmetric:
    BEFORE -> AFTER
    INNER -> OUTER
  value BEFORE:
  value AFTER:
  value INNER:
  value OUTER:
  value MERGED:
  alias NESTED = INNER | OUTER:
end
choice counter reds(): forall $t in Things: sum 1 when: colour($t) is RED end
require reds() <= 1
ordering default:
  size
  order by MERGED, NESTED
  order
end
ordering reverse:
  order
  size
end
"""

SHAPE = (("colour", "a"), ("colour", "b"), ("size", "a"), ("size", "b"), ("order", "a b"))


class Things(ToyInstance):
    """Two things, a and b, under the space above without its constraint."""

    def __init__(self, space: Space) -> None:
        super().__init__([])
        self.variables = tuple(
            Variable(i, choice, tuple(map(ToyObject, names.split())), i, self._universe(space, choice))
            for i, (choice, names) in enumerate(SHAPE)
        )

    @staticmethod
    def _universe(space: Space, choice: str) -> tuple[str, ...] | tuple[int, ...]:
        definition = space.choices[choice]
        return definition.values if isinstance(definition, EnumChoice) else tuple(range(4))


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Space:
    path: Path = tmp_path_factory.mktemp("space") / "things.space"
    path.write_text(SPACE)
    return load_space(path)


def root(space: Space) -> tuple[Things, Candidate]:
    instance = Things(space)
    candidate = instance.root()
    assert candidate is not None
    return instance, candidate


def descend(space: Space, ordering: Ordering, taken: int = 0) -> list[tuple[str, tuple[int, ...]]]:
    """The decisions met when always the same child is taken: (choice and objects, masks)."""
    instance, candidate = root(space)
    met = []
    while (branching := ordering.next(candidate)) is not None:
        variable = branching.variable
        met.append((f"{variable.choice}({', '.join(variable.names)})", branching.masks))
        restricted = instance.restrict(candidate, variable, branching.masks[taken])
        assert restricted is not None
        candidate = restricted
    assert isinstance(candidate, ToyCandidate)
    assert all(mask.bit_count() == 1 for mask in candidate.masks)
    return met


SINGLE_SIZES = (0b1, 0b10, 0b100, 0b1000)
GROUPS = (0b10000, 0b01100, 0b00011)


def test_items_come_in_their_order_and_unlisted_choices_last(space: Space) -> None:
    met = descend(space, select_ordering(Things(space), space), taken=0)
    # MERGED is a single value: nothing is left for the second `order`.
    assert met == [
        ("size(a)", SINGLE_SIZES),
        ("size(b)", SINGLE_SIZES),
        ("order(a, b)", GROUPS),
        ("colour(a)", (1, 2, 4)),
        ("colour(b)", (1, 2, 4)),
    ]


def test_a_group_is_split_by_a_later_item(space: Space) -> None:
    met = descend(space, select_ordering(Things(space), space), taken=1)
    assert met[2:4] == [("order(a, b)", GROUPS), ("order(a, b)", (0b00100, 0b01000))]
    # Values that no group names form the last one.
    met = descend(space, select_ordering(Things(space), space), taken=-1)
    assert met[2:4] == [("order(a, b)", GROUPS), ("order(a, b)", (0b00001, 0b00010))]


def test_a_group_that_no_later_item_splits_is_split_at_the_end(space: Space) -> None:
    instance = Things(space)
    ordering = select_ordering(instance, space, "order by NESTED, colour")
    met = descend(space, ordering, taken=0)
    assert [where for where, _ in met] == [
        "order(a, b)", "colour(a)", "colour(b)", "size(a)", "size(b)", "order(a, b)",
    ]  # fmt: skip
    assert met[0][1] == (0b01100, 0b10011)
    assert met[-1][1] == (0b00100, 0b01000)


def test_a_group_is_no_decision_where_the_domain_lies_within_it(space: Space) -> None:
    instance, candidate = root(space)
    ordering = select_ordering(instance, space, "order by MERGED|NESTED")
    order = instance.variables[4]
    nested = instance.restrict(candidate, order, 0b01100)
    assert nested is not None
    branching = ordering.next(nested)
    assert branching is not None
    assert branching.variable.choice == "colour"


def test_an_ordering_is_chosen_by_name_or_spelled_out(space: Space) -> None:
    instance = Things(space)
    by_name = descend(space, select_ordering(instance, space, "reverse"))
    spelled = descend(space, select_ordering(instance, space, " order , size"))
    assert by_name == spelled
    assert [where for where, _ in by_name][:2] == ["order(a, b)", "size(a)"]
    declared = descend(space, select_ordering(instance, space, "declaration"))
    assert [where for where, _ in declared][:2] == ["colour(a)", "colour(b)"]


@pytest.mark.parametrize(
    ("spec", "column", "message"),
    [
        ("sise", 1, "neither an ordering nor a choice"),
        ("  sise", 3, "neither an ordering nor a choice"),
        ("size, sise", 7, "unknown choice `sise`"),
        ("size, , order", 7, "expected `for` or a name in snake_case, found `,`"),
        ("size, reds", 7, "`reds` follows from other choices and is never decided"),
        ("size, order by MERGED|NESTD", 23, "`order` has no value `NESTD`"),
        ("order by NESTED|INNER", 17, "`INNER` overlaps a group before it"),
        ("size by MERGED", 1, "no named values"),
        ("order MERGED", 7, "found `MERGED`"),
        ("order by", 9, "expected the name of a value, found the end of the file"),
        ("", 1, "found the end of the file"),
        ("dynamic smallest", 9, "no dynamic rule is called `smallest`"),
        ("size($t) for $t in Thing", 20, "unknown set `Thing`"),
        ("size($t)", 6, r"unknown variable `\$t`"),
        ("for $t in Things: size end", 5, "binds a variable that is not used"),
    ],
)
def test_a_wrong_ordering_is_a_diagnostic_at_its_place(
    space: Space, spec: str, column: int, message: str
) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        select_ordering(Things(space), space, spec)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.span.line, diagnostic.span.column) == (1, column)


def test_all_mistakes_of_an_ordering_are_reported_at_once(space: Space) -> None:
    with pytest.raises(DiagnosticError) as caught:
        select_ordering(Things(space), space, "sise, order by X, colour")
    assert len(caught.value.diagnostics) == 2


def test_rollouts_have_an_order_of_their_own_beside_that_of_the_space_alone(
    space: Space, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.space"
    file.write_text(SPACE + "ordering rollout:\n  order\nend\n")
    with_rollout = load_space(file)
    instance, candidate = root(with_rollout)
    for spec in (None, "default", " default "):
        rollouts = select_rollouts(instance, with_rollout, spec)
        assert rollouts is not None
        first = rollouts.next(candidate)
        assert first is not None and first.variable.choice == "order"
    assert select_rollouts(instance, with_rollout, "reverse") is None
    assert select_rollouts(instance, with_rollout, "size") is None
    assert select_rollouts(Things(space), space) is None
