"""Host expressions: that they reach nothing but what is exposed, and take neither long nor much memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.diagnostics import DiagnosticError
from tests.language.host_objects import ENVIRONMENT, KERNEL, evaluate, expression
from tests.language.timing import limited


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


@pytest.mark.parametrize(
    "text",
    ["(" * 1000, "-" * 3000 + "1", "not " * 500 + "1", "1 + " * 500 + "1", "[" * 150 + "]" * 150, "9" * 5000],
)
def test_an_expression_beyond_all_measure_is_refused(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        expression(text)
    assert {d.code for d in caught.value.diagnostics} == {"SP060"}


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
