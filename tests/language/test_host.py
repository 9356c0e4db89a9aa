"""Host expressions: what they compute, what they refuse, and where they say that it went wrong."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.diagnostics import DiagnosticError, Source, Span
from spacedsl.language.host import Addition, HostExpression, HostKind, callback, exposed, host_expression
from tests.language.timing import limited


@exposed("name", "size", "sizes", "twice", "parent", "table", "secret_free")
@dataclass(eq=False)
class Thing:
    name: str
    size: int
    sizes: tuple[int, ...] = (1, 2, 4)
    parent: Thing | None = None
    hidden: int = 7

    @property
    def table(self) -> dict[str, int]:
        return {"a": 1}

    def twice(self, factor: int = 1) -> int:
        return 2 * self.size * factor

    def __str__(self) -> str:
        return self.name


@exposed("items")
class Kernel:
    items = (Thing("t0", 4), Thing("t1", 6))

    @callback
    def lower(self, thing: Thing) -> Addition:
        return Addition((("Things", (), thing),))

    @callback
    def lower_wrongly(self) -> Addition:
        return None  # type: ignore[return-value]

    def not_marked(self) -> Addition:
        return Addition(())


KERNEL = Kernel()
ENVIRONMENT = {"x": KERNEL.items[0], "y": KERNEL.items[1], "kernel": KERNEL, "device": Thing("gpu", 9)}


def expression(text: str, kind: HostKind = HostKind.VALUE) -> HostExpression:
    """The expression as it stands after one blank and a quote."""
    return host_expression(text, Span(Source("test.space", f' "{text}"'), 2, 2 + len(text)), kind)


def evaluate(text: str, kind: HostKind = HostKind.VALUE) -> object:
    return expression(text, kind).evaluate(ENVIRONMENT)


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
    "text",
    ["(" * 1000, "-" * 3000 + "1", "not " * 500 + "1", "1 + " * 500 + "1", "[" * 150 + "]" * 150, "9" * 5000],
)
def test_an_expression_beyond_all_measure_is_refused(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        expression(text)
    assert {d.code for d in caught.value.diagnostics} == {"SP060"}


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


@pytest.mark.parametrize(
    "text",
    [
        "().__class__.__bases__[0].__subclasses__()",
        "$x.__init__.__globals__",
        "$x.twice.__func__.__globals__",
        "$x.twice.__self__",
        "$kernel.lower.__wrapped__",
        "[c for c in ().__class__.__mro__]",
        "''.__class__.__name__",
        "'{0.__class__}'.format($x)",
        "f'{$x.__class__}'",
        "f'{open(1)}'",
        "'%s' % $x",
        "(1).__class__",
        "(x for x in [1]).gi_frame",
        "[x for x in [1]].gi_frame",
        "$x.__cl\U0001d44ess__",
        "$x.\uff3f_class__",
        "__builtins__",
        "__builtins__['open']",
        "_\uff3fimport__('os')",
        "globals()",
        "vars($x)",
        "type($x)",
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "print(1)",
        "input()",
        "breakpoint()",
        "g_run",
        "g_run.charge(-1000000000)",
        "g_attribute($x, 'hidden')",
        "v_x.hidden",
        "[c_a for a in [1]]",
        "[0 for g_run in [1] if g_run.charge(-1)]",
        "[a.hidden for a in [$x]]",
        "[0 for $x.size in [1]]",
        "[0 for $x.sizes[0] in [1]]",
        "(lambda: 0)()",
        "(y := $x)",
        "max($x.sizes, key=$x.hidden)",
        "sorted([$x], key=print)",
        "sum(['a'], '')",
        "min(default=$x.__class__, *[()])",
        "$x.hidden",
        "$x.setattr",
        "$x.table.clear()",
        "$x.sizes.append(1)",
        "$kernel.lower($x)",
        "$kernel.not_marked()",
        "import os",
        "1; import os",
        "$x.size = 3",
        "del $x.size",
        "[await 1 for a in [1]]",
        "[a async for a in [1]]",
        "(yield 1)",
        "1 if True else open('/etc/passwd').read()",
    ],
)
def test_nothing_but_what_is_exposed_can_be_reached(text: str) -> None:
    before = repr(vars(KERNEL.items[0]))
    with pytest.raises(DiagnosticError) as caught:
        evaluate(text)
    assert {d.code for d in caught.value.diagnostics} <= {"SP060", "SP062"}
    assert repr(vars(KERNEL.items[0])) == before


SQUARES = " ".join(f"for a{i + 1} in [a{i} * a{i}]" for i in range(99))
PAIRS = " ".join(f"for a{i + 1} in [(a{i}, a{i})]" for i in range(45))
TWICE = " ".join(f"for a{i + 1} in [a{i} + a{i}]" for i in range(60))
DEEPER = " ".join(f"for a{i + 1} in [(a{i},)]" for i in range(150))
MANY = "for n in range(500000)"


@pytest.mark.parametrize(
    "text",
    [
        f"[1 for a in range(1000) {MANY}]",
        f"sum(1 {MANY} for m in range(1000000))",
        "len(range(10000000000000000000000))",
        "any(n < 0 for n in range(900000) for m in range(900000))",
        f"[1 for a0 in [10] {SQUARES}]",
        f"[a99 // 3 for a0 in [10] {SQUARES}]",
        f"[1 for a in [{'9' * 3000}] for b in [a + 1] {MANY} if a * b == n]",
        f"[1 for a0 in [1] {PAIRS}]",
        f"[1 for a0 in ['a'] {TWICE}]",
        f"[1 for a0 in [(1,)] {TWICE}]",
        f"[1 for a0 in [1] {DEEPER}]",
        f"[1 for s in [[n {MANY}]] for t in [[n {MANY}]] for i in range(100) if s == t]",
        f"[1 for r in [range(400000)] {MANY} if 'a' in r]",
        f"[1 for r in [[m for m in range(400000)]] {MANY} if 'a' in r]",
        f"[1 for s in [[m for m in range(1000)]] {MANY} if s < s]",
        f"[1 for s in [[m for m in range(1000)]] {MANY} if s in {{s}}]",
        f"len([[m for m in range(1000)] {MANY}])",
        f"len([s[1:] for s in [[m for m in range(1000)]] {MANY}])",
        f"len([sorted(s) for s in [[m for m in range(1000)]] {MANY}])",
        f"min(s for s in [[m for m in range(1000)]] {MANY})",
        "'a' * 1000000000",
        "[0] * 1000000000",
        "9 ** 9 ** 9",
        "1 << 1000000000",
        "'%1000000000d' % 1",
    ],
    ids=lambda text: text[:60],
)
def test_no_expression_takes_long_or_much_memory(text: str) -> None:
    tracemalloc.start()  # makes everything several times as slow
    try:
        with limited(6.0), pytest.raises(DiagnosticError) as caught:
            evaluate(text)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert {d.code for d in caught.value.diagnostics} <= {"SP060", "SP062", "SP063"}
    assert all(len(d.message) < 300 for d in caught.value.diagnostics)


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


PIECES = [
    *[
        "$x",
        "$kernel",
        ".size",
        ".sizes",
        ".items",
        ".__class__",
        ".twice",
        "a",
        "é",
        "1",
        "0",
        "'a'",
        "None",
    ],
    *[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        " for a in ",
        " if ",
        " else ",
        " and ",
        " not ",
        " in ",
        " is ",
    ],
    *["-", "+", "*", "/", "%", "**", "<<", "=", "==", "<", ":=", "#", "\\", "0x", "1e9", "j", "..."],
    *["sum", "len", "range", "tuple", "set", "max", "sorted", "lambda", "yield", "await "],
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_text_does_anything_but_have_a_value_or_a_diagnostic(text: str) -> None:
    try:
        found = expression(text)
        if set(found.variables) <= set(ENVIRONMENT):  # the checker's business
            found.evaluate(ENVIRONMENT)
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            assert 2 <= diagnostic.span.start <= diagnostic.span.end <= 2 + len(text)
