"""The language of `stages:`: how its operators group."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import Source
from spacedsl.kernels.located_yaml import PlacedText
from spacedsl.kernels.pipeline.parser import parse_stages
from spacedsl.kernels.pipeline.syntax import Call, Infix, Name, Node, Number, Prefix


def parse(expression: str) -> Node:
    text = f"f(x) = {expression}"
    (definition,) = parse_stages(PlacedText(Source("stages", text), text, tuple(range(len(text) + 1))))
    return definition.values[0]


def shown(node: Node) -> str:
    """The grouping, with every operation in parentheses."""
    match node:
        case Number(value=value):
            return repr(value)
        case Name(name=name):
            return name
        case Call(name=name, arguments=arguments):
            return f"{name.name}({', '.join(map(shown, arguments))})"
        case Prefix(operator, operand):
            return f"({operator}{shown(operand)})"
        case Infix(operator, left, right):
            return f"({shown(left)} {operator} {shown(right)})"
        case _:
            raise NotImplementedError


@pytest.mark.parametrize(
    ("text", "grouping"),
    [
        ("a - b - c", "((a - b) - c)"),
        ("-a * b % c", "(((-a) * b) % c)"),
        ("a << b + 1", "(a << (b + 1))"),
        ("a >> 1 << b", "((a >> 1) << b)"),
        ("a << 1 < b >> 1", "((a << 1) < (b >> 1))"),
        ("a <= b", "(a <= b)"),
        ("a >= b", "(a >= b)"),
        ("a & b << 1 | c ^ d", "((a & (b << 1)) | (c ^ d))"),
        ("a & b == c", "((a & b) == c)"),
        ("!(a < b) && c > d || e", "(((!(a < b)) && (c > d)) || e)"),
        ("g(x + 1, -y).0 + 1", "(g((x + 1), (-y)) + 1)"),
    ],
)
def test_operators_group_as_in_c_but_for_bits_before_comparisons(text: str, grouping: str) -> None:
    assert shown(parse(text)) == grouping
