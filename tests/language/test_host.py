"""Host expressions: what they compute, what they refuse, and where they say that it went wrong."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.language.host import Addition, HostKind, exposed
from tests.language.host_objects import KERNEL, Thing, evaluate, expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$x.size // 3 + $y.size % 4 - 1 * 2", 4 // 3 + 6 % 4 - 2),
        ("$x.size / 8", 0.5),
        ("-$x.size < +$y.size <= 6", True),
        ("not $x.parent and ($x.size == 4 or None)", True),
        ("$x.parent is None", True),
        ("$x is not $y", True),
        ("$x in $kernel.items and $x.size not in [1, 2]", True),
        ("1 if $x.size > $y.size else 2", 2),
        ("[s * t for s in $x.sizes if s > 1 for t in (s, 3)]", (4, 6, 16, 12)),
        ("sum(t.size for t in $kernel.items)", 10),
        ("max([n for n in range(10) if n % 3 == 0], default=0)", 9),
        ("min((), default=3)", 3),
        ("sorted({3, 1, 2}, reverse=True)", (3, 2, 1)),
        ("set([3, 1, 3])", (1, 3)),
        ("{n % 3 for n in range(9)}", (0, 1, 2)),
        ("len(tuple(range(2, 9, 3)))", 3),
        ("any(s > 3 for s in $x.sizes) and not all(s > 3 for s in $x.sizes)", True),
        ("abs(-3)", 3),
        ("$x.sizes[0] + $x.sizes[-1]", 5),
        ("$x.sizes[1:]", (2, 4)),
        ("$x.table['a']", 1),
        ("$x.twice() + $x.twice(2)", 24),
        ("'a' + 'b'", "ab"),
        ("'$x'", "$x"),
        ("[a + b for a, b in [(1, 2), (3, 4)]]", (3, 7)),
        ("$fun.items[0].name", "t0"),
        ("  $x.size  ", 4),
        ("$device.size", 9),
        ("[$x.size for s in $x.sizes]", (4, 4, 4)),
        ("True", True),
    ],
)
def test_an_expression_has_the_value_that_python_gives_it(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize("text", ["set($kernel.items)", "{t for s in $x.sizes for t in $kernel.items}"])
def test_objects_of_a_set_are_in_the_order_of_their_names(text: str) -> None:
    found = evaluate(text)
    assert isinstance(found, tuple)
    assert [each.name for each in found] == sorted(item.name for item in KERNEL.items)


def test_objects_of_one_name_have_no_order() -> None:
    twins = expression("{$x, $y}")
    with pytest.raises(DiagnosticError, match="objects of a set have one name, and no order"):
        twins.evaluate({"x": Thing("twin", 4), "y": Thing("twin", 6)})


def test_the_variables_are_sorted_and_fun_is_the_kernel() -> None:
    found = expression("$y.size + $x.size + len($fun.items) + $y.size")
    assert found.variables == ("kernel", "x", "y")
    assert found.text == "$y.size + $x.size + len($kernel.items) + $y.size"
    assert [(name, span.text) for name, span in found.uses] == [
        ("y", "$y"), ("x", "$x"), ("kernel", "$fun"), ("y", "$y"),
    ]  # fmt: skip


def test_expressions_that_say_the_same_are_equal() -> None:
    assert expression("$x.size") == expression("$x.size")
    assert hash(expression("$x.size")) == hash(expression("$x.size"))
    assert expression("$x.size") != expression("$y.size")


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("2 ** 9", "2 ** 9", "`**` is not allowed"),
        ("1 + (1 << 9)", "1 << 9", "`<<` is not allowed"),
        ("$x.size | 1", "$x.size | 1", "`|` is not allowed"),
        ("lambda: 1", "lambda: 1", "`lambda` is not allowed"),
        ("(a := 1)", "a := 1", "`:=` is not allowed"),
        ("f'{1}'", "f'{1}'", "a formatted string is not allowed"),
        ("{1: 2}", "{1: 2}", "a dictionary is not allowed"),
        ("b'x'", "b'x'", "this literal is not allowed"),
        ("1 if 1 else ...", "...", "this literal is not allowed"),
        ("$x.__class__", "$x.__class__", "`__class__` is private"),
        ("$x._hidden()", "$x._hidden", "`_hidden` is private"),
        ("open('x')", "open", "unknown function `open`"),
        ("__import__('os')", "__import__", "unknown function `__import__`"),
        ("getattr($x, 'size')", "getattr", "unknown function `getattr`"),
        ("x.size", "x", "unknown name `x`"),
        ("_x", "_x", "unknown name `_x`"),
        ("max", "max", "`max` is a function: it needs arguments"),
        ("(1).real()()", "(1).real()()", "this cannot be called"),
        ("sum([[1]], [])", "sum([[1]], [])", "`sum` takes one argument here"),
        ("sorted($x.sizes, key=len)", "key=len", "`sorted` takes no argument `key` here"),
        ("max(*$x.sizes)", "*$x.sizes", "`*` in front of an argument is not allowed"),
        ("(s for s in $x.sizes)", "(s for s in $x.sizes)",
         "a generator stands only inside a call such as `sum(..)`"),
        ("[1 for max in $x.sizes]", "max", "a comprehension binds plain names"),
        ("1 in (1,) == 1", "1 in (1,) == 1", "`in` is part of a chain of comparisons"),
        ("'é' + é", "é", "unknown name `é`"),
        ("1 +* 2", "*", "not a Python expression: invalid syntax"),
        ("$", "$", "not a Python expression: invalid syntax"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_subset_is_refused_at_its_place(text: str, at: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        expression(text)
    found = caught.value.diagnostics[0]
    assert (found.code, found.message) == ("SP060", message)
    # The last occurrence: where a text recurs, the mistake is the later one.
    assert found.span.start == 2 + text.rindex(at) and found.span.text == at


def test_all_that_is_wrong_with_an_expression_is_reported() -> None:
    with pytest.raises(DiagnosticError) as caught:
        expression("a + (b ** 2)")
    assert [d.message for d in caught.value.diagnostics] == [
        "unknown name `a`", "unknown name `b`", "`**` is not allowed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "at", "message"),
    [
        ("1 + $x.hidden", "SP062", "$x.hidden", "a Thing exposes no `hidden`"),
        ("$x.sizes.count", "SP062", "$x.sizes.count", "a tuple exposes no `count`"),
        ("$x.size()", "SP062", "$x.size()", "`size` of a Thing is not a method: leave out the parentheses"),
        ("1 + 1 // ($x.size - 4)", "SP062", "1 // ($x.size - 4)", "ZeroDivisionError"),
        ("$x.sizes[7]", "SP062", "$x.sizes[7]", "IndexError"),
        ("$x.table['b']", "SP062", "$x.table['b']", "KeyError"),
        ("'a' < 1", "SP062", "'a' < 1", "TypeError"),
        ("'é' + 'a' * 2", "SP062", "'a' * 2", "`*` needs two numbers"),
        ("$x.sizes * 2", "SP062", "$x.sizes * 2", "`*` needs two numbers"),
        ("'%d' % 2", "SP062", "'%d' % 2", "`%` needs two numbers"),
        ("$x[0]", "SP062", "$x[0]", "cannot take an element of a Thing"),
        ("1 in $x", "SP062", "1 in $x", "`in` needs a sequence or a set"),
        ("[1 for a in 3]", "SP062", "3", "cannot go through 3"),
        ("tuple({1})", "SP062", "tuple({1})", "a set has no order"),
        ("[a for a in {1}]", "SP062", "{1}", "a set has no order"),
        ("1 + len(range(2000000))", "SP063", "range(2000000)", "more than 1,000,000 steps"),
        ("[1 for a in range(900000) for b in range(900000)]", "SP063", "range(900000)", "more than"),
        ("[$x.sizes + $x.sizes for a in range(190001)]", "SP063", "$x.sizes + $x.sizes", "more than"),
    ],
)  # fmt: skip
def test_an_evaluation_that_fails_says_where(text: str, code: str, at: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        evaluate(text)
    (found,) = caught.value.diagnostics
    assert found.code == code and found.message.startswith(message)
    assert found.span.text == at


def test_a_failure_names_the_objects_that_it_happened_for() -> None:
    with pytest.raises(DiagnosticError) as caught:
        evaluate("$x.hidden + $y.size + len($kernel.items)")
    assert caught.value.diagnostics[0].hint == "for $x = t0, $y = t1"


def test_a_callback_adds_what_the_backbone_says() -> None:
    assert evaluate("$kernel.lower($x)", HostKind.CALLBACK) == Addition((("Things", (), KERNEL.items[0]),))


@pytest.mark.parametrize(
    "text", ["$kernel.lower", "1 + 1", "max($x)", "$kernel.lower(a=1)", "$kernel.items[0].f()"]
)
def test_a_callback_is_one_call_of_a_method(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        expression(text, HostKind.CALLBACK)
    assert caught.value.diagnostics[0].message == "a trigger calls one method of the backbone"


def test_a_callback_must_be_marked_and_return_an_addition() -> None:
    with pytest.raises(DiagnosticError, match="a Kernel has no callback `not_marked`"):
        evaluate("$kernel.not_marked()", HostKind.CALLBACK)
    with pytest.raises(DiagnosticError, match="returned no `Addition`"):
        evaluate("$kernel.lower_wrongly()", HostKind.CALLBACK)


def test_callbacks_are_out_of_reach_of_other_expressions() -> None:
    with pytest.raises(DiagnosticError, match="a Kernel exposes no `lower`"):
        evaluate("$kernel.lower($x)")


def test_a_subclass_exposes_what_its_base_exposes() -> None:
    @exposed("extra")
    class Special(Thing):
        extra = 5

    special = Special("s", 3)
    assert expression("$x.extra + $x.size").evaluate({"x": special}) == 8
    assert "extra" not in Thing.__exposed__  # type: ignore[attr-defined]
