"""The language of `compute:` lines: how it groups, and where its parts stand."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import Source
from spacedsl.kernels.expression import (
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
    walk,
)
from spacedsl.kernels.line_parser import parse_assignment, parse_size
from spacedsl.kernels.located_yaml import PlacedText


def placed(text: str) -> PlacedText:
    return PlacedText(Source("line", text), text, tuple(range(len(text) + 1)))


def parse(text: str) -> Assignment:
    return parse_assignment(placed(text))


def shown(node: Expression) -> str:
    """The grouping, with every operation in parentheses."""
    match node:
        case Constant(value=value):
            return repr(value)
        case Name(name=name):
            return name
        case Read(tensor=tensor, subscripts=subscripts):
            return f"{tensor}[{', '.join(map(shown, subscripts))}]"
        case Negation(operand=operand):
            return f"(-{shown(operand)})"
        case Binary(operator=operator, left=left, right=right):
            return f"({shown(left)} {operator} {shown(right)})"
        case Reduction(operator=operator, indices=indices, body=body):
            return f"{operator}[{', '.join(indices)}]({shown(body)})"
        case Call(function=function, arguments=arguments):
            return f"{function.name}({', '.join(map(shown, arguments))})"


@pytest.mark.parametrize(
    ("text", "grouping"),
    [
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c", "((a / b) * c)"),
        ("a + b * c", "(a + (b * c))"),
        ("-a * b", "((-a) * b)"),
        ("--a", "(-(-a))"),
        ("a - -b", "(a - (-b))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("sum[p](x[p]) * y", "(sum[p](x[p]) * y)"),
        ("max[p, q](x[p, q])", "max[p, q](x[p, q])"),
        ("sum [p] (x[p])", "sum[p](x[p])"),
        ("exp(a, b)", "exp(a, b)"),
        ("x[2*i + 1, j]", "x[((2 * i) + 1), j]"),
        ("1.5e-3 + .5 + 2. + 3", "(((0.0015 + 0.5) + 2.0) + 3)"),
        ("summary + sum_[i]", "(summary + sum_[i])"),
        ("s[]", "s[]"),
    ],
)
def test_operators_group_as_in_arithmetic(text: str, grouping: str) -> None:
    assert shown(parse(f"T[i] = {text}").value) == grouping


def test_every_node_spans_its_own_text() -> None:
    line = "C[i, j] = alpha * sum[p](A[i, p] * -B[p, j])"
    tree = parse(line)
    texts = [n.span.text for n in walk(tree.value)]
    assert texts == [
        "alpha * sum[p](A[i, p] * -B[p, j])",
        "alpha",
        "sum[p](A[i, p] * -B[p, j])",
        "A[i, p] * -B[p, j]",
        "A[i, p]",
        "-B[p, j]",
        "B[p, j]",
    ]
    assert (tree.span.text, tree.target.span.text, tree.target.name_span.text) == (line, "C[i, j]", "C")


def test_a_scalar_target_has_no_subscripts() -> None:
    assert parse("s = 1").target.subscripts == ()
    assert parse("s[] = 1").target.subscripts == ()


def test_sizes_are_arithmetic_alone() -> None:
    assert shown(parse_size(placed("2 * (m + 1) - k"))) == "((2 * (m + 1)) - k)"
