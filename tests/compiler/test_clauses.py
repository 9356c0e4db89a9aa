"""The normal form: formulas to clauses, and its limit."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.compiler import compile_space, refusals
from spacedsl.compiler.c import print_c
from spacedsl.compiler.clauses import MOST_VARIABLES
from spacedsl.compiler.formulas import MOST_CLAUSES, MOST_PARTS, complement, conjunction
from spacedsl.compiler.ir import AtMost, EnumEquality, InMask, Linear
from spacedsl.diagnostics import DiagnosticError, Source, Span
from spacedsl.language.space import And, Comparison, Constant, Formula, Is, Not, Or, Requirement, Space, Use
from tests.engine.examples import load_text
from tests.engine.small import SETS

SPAN = Span(Source("test", " "), 0, 1)
TEXT = """
set Things: iterator = "()" end
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
choice enum other($x in Things):
  value A:
  value B:
end
choice integer size($x in Things): "[1]" end
choice counter total(): forall $x in Things: sum 1 when: end
"""


@pytest.fixture(scope="module")
def space() -> Space:
    return load_text(TEXT)


def formulas() -> st.SearchStrategy[Formula]:
    atoms = st.builds(
        Is, st.sampled_from([Use("kind", ("x",)), Use("kind", ("y",))]), st.integers(1, 7), st.just(SPAN)
    ) | st.builds(Constant, st.booleans())
    return st.recursive(
        atoms,
        lambda inner: (
            st.builds(Not, inner)
            | st.builds(And, st.lists(inner, max_size=3).map(tuple))
            | st.builds(Or, st.lists(inner, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )


def holds(formula: Formula, values: dict[Use, int]) -> bool:
    """The formula's truth, by its meaning."""
    match formula:
        case Is(use, mask):
            return bool(mask >> values[use] & 1)
        case Constant(value):
            return value
        case Not(operand):
            return not holds(operand, values)
        case And(operands):
            return all(holds(f, values) for f in operands)
        case Or(operands):
            return any(holds(f, values) for f in operands)
    raise TypeError(formula)


@given(formulas())
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_clauses_mean_what_their_formula_means(formula: Formula) -> None:
    space = load_text(TEXT)
    clauses = conjunction(space, formula, SPAN)
    for x, y in product(range(3), repeat=2):
        values = {Use("kind", ("x",)): x, Use("kind", ("y",)): y}
        meant = all(any(_literal(d, values) for d in clause) for clause in clauses)
        assert meant == holds(formula, values)


def _literal(literal: object, values: dict[Use, int]) -> bool:
    assert isinstance(literal, InMask)
    return bool(literal.mask >> values[literal.use] & 1)


def test_masks_on_one_use_become_one_literal(space: Space) -> None:
    kind = Use("kind", ("x",))
    formula = Or((Is(kind, 1, SPAN), Is(kind, 2, SPAN), Is(Use("other", ("x",)), 1, SPAN)))
    assert conjunction(space, formula, SPAN) == ((InMask(kind, 3), InMask(Use("other", ("x",)), 1)),)


def test_what_always_holds_gives_no_clause(space: Space) -> None:
    kind = Use("kind", ("x",))
    assert conjunction(space, Or((Is(kind, 3, SPAN), Is(kind, 4, SPAN))), SPAN) == ()


def test_more_clauses_than_allowed_are_a_located_error(space: Space) -> None:
    pair = [
        And((Is(Use("kind", (f"x{i}",)), 1, SPAN), Is(Use("kind", (f"y{i}",)), 1, SPAN))) for i in range(6)
    ]
    assert MOST_CLAUSES == 2**5
    with pytest.raises(DiagnosticError, match="SP301"):
        conjunction(space, Or(tuple(pair)), SPAN)
    assert len(conjunction(space, Or(tuple(pair[:5])), SPAN)) == MOST_CLAUSES


def test_complements(space: Space) -> None:
    kind, other = Use("kind", ("x",)), Use("other", ("x",))
    assert complement(space, InMask(kind, 1)) == InMask(kind, 6)
    assert complement(space, EnumEquality(kind, other, True, (0, 1))) == EnumEquality(
        kind, other, False, (0, 1)
    )
    left, right = Linear(Use("total", ()), 1, ()), Linear(None, 1, ((1, 3),))
    # not (total <= 3) is 3 + 1 <= total
    assert complement(space, AtMost(left, right)) == AtMost(Linear(None, 1, ((1, 3), (1, 1))), left)


def test_requirements_know_where_they_come_from() -> None:
    loaded = load_text(TEXT + "require forall $x in Things: size($x) < total()\n")
    (requirement,) = loaded.requirements
    assert isinstance(requirement, Requirement)
    assert requirement.span.line == len(TEXT.splitlines()) + 1
    assert Comparison.LT.value == "<"


def alternatives(count: int) -> str:
    return " || ".join(f"a{i}() is A" for i in range(count))


def declared(count: int) -> str:
    return SETS + "".join(f"choice enum a{i}(): value A: value B: end\n" for i in range(count))


@pytest.mark.parametrize(
    "use",
    [
        "require {}",
        "require !({}) => false",
        "choice counter c(): forall $x in Things: sum 1 when: {}\nend require c() <= 1",
        'trigger forall $x in Things: "$kernel.add_spare($x)" when {}',
    ],
)
def test_a_clause_of_too_many_conditions_is_refused_where_it_stands(use: str) -> None:
    space = load_text(declared(400) + use.format(alternatives(400)))
    (refused,) = refusals(space)
    assert refused.code == "SP301" and "more than 64 conditions" in refused.message
    assert refused.span.line == 404


def test_a_clause_of_as_many_conditions_as_may_be_runs_in_the_deepest_loops() -> None:
    text = declared(MOST_PARTS)
    variables = "".join(f"forall $x{i} in Things: " for i in range(MOST_VARIABLES))
    text += f"choice counter c(): {variables} sum 1 when: {alternatives(MOST_PARTS)}\nend\nrequire c() >= 0\n"
    text += f"require {alternatives(MOST_PARTS)}\n"
    compiled = compile_space(load_text(text))
    assert compiled.code and print_c(compiled.module, compiled.complete)
