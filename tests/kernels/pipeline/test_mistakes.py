"""What is said of wrong pipelines: the code, the place, and the words that matter."""

from __future__ import annotations

import pytest

from spacedsl.diagnostics import render
from tests.kernels.pipeline.files import mistakes, text_of

# Lines and columns are those of the stages, counted from 1.
STAGES: dict[str, tuple[str, list[tuple[str, int, int, str]]]] = {
    "syntax": ("f(x) = a(x) +", [("KF020", 1, 13, "end too early")]),
    "nothing": ("# nothing", [("KF020", 1, 9, "no stage")]),
    "brackets": ("f(x) = a[x]", [("KF020", 1, 9, "unexpected `[`")]),
    "a power": ("f(x) = a(x) ** 2", [("KF020", 1, 14, "unexpected `*`")]),
    "a word for a sign": ("f(x) = select(x > 1 and x < 3, 1, 2)", [("KF020", 1, 21, "unexpected `and`")]),
    "an inclusive range": ("f(x) = sum[r in 0..3](r)", [("KF020", 1, 19, "unexpected `.`")]),
    "a range without ends": ("f(x) = sum[r](a(r))", [("KF020", 1, 13, "unexpected `]`")]),
    "a choice of another language": ("f(x) = a(x) if x > 1 else 2", [("KF020", 1, 13, "unexpected `if`")]),
    "a reduction as a function": ("f(x) = sum(r in 0:4, a(r))", [("KF022", 1, 8, "stands in brackets")]),
    "a maximum over a range": ("f(x) = max(r in 0:4, a(r))", [("KF022", 1, 8, "stands in brackets")]),
    "a sum of arguments": ("f(x) = sum(a(x), 1)", [("KF022", 1, 8, "range of `sum`")]),
    "a stage that reads itself": ("f(x) = f(x - 1) + 1", [("KF060", 1, 8, "no value yet")]),
    "depth": ("f(x) = " + "(1 + " * 120 + "x" + ")" * 120, [("KF008", 1, 1, "inside each other")]),
    "length": (f"f(x) = x{' + x' * 260}", [("KF008", 1, 1, "256 operations behind each other")]),
    "arguments": (f"f(x) = max({'x, ' * 300}x)", [("KF008", 1, 8, "more than 256 arguments")]),
    "a variable that is not there": ("f(x) = y", [("KF021", 1, 8, "`y` is no variable here")]),
    "a stage below": ("f(x) = g(x)\ng(x) = 1", [("KF021", 1, 8, "is called `g`")]),
    "a name nearly right": ("f(x) = slect(x > 1, 1, 2)", [("KF021", 1, 8, "called `slect`")]),
    "only the first mistake of a stage": ("g(x) = y\nf(x) = g(x)", [("KF021", 1, 8, "`y`")]),
    "too few positions": ("g(x, y) = 1\nf(x) = g(x)", [("KF022", 2, 8, "has 2 variables, not 1")]),
    "a value too many": ("g(x) = (1, 2)\nf(x) = g(x).2", [("KF022", 2, 8, "2 values")]),
    "no value named": ("g(x) = (1, 2)\nf(x) = g(x)", [("KF022", 2, 8, "2 values")]),
    "an element of a function": ("f(x) = abs(x).1", [("KF022", 1, 8, "has one value")]),
    "too few arguments": ("f(x) = pow(x)", [("KF022", 1, 8, "`pow` takes 2 arguments, not 1")]),
    "too many arguments": ("f(x) = abs(x, x)", [("KF022", 1, 8, "`abs` takes 1 argument, not 2")]),
    "select without otherwise": ("f(x) = select(x > 1, 1, x > 2, 3)", [("KF064", 1, 8, "otherwise")]),
    "an edge without extents": ("f(x) = repeat_edge(a, x)", [("KF022", 1, 8, "know the ends of `a`")]),
    "an edge of a stage without ends": (
        "g(x) = 1\nf(x) = mirror_image(g, x)", [("KF022", 2, 8, "know the ends of `g`")]
    ),
    "an edge without a point": ("f(x) = repeat_edge(b, x, 0)", [("KF022", 1, 8, "has 1 variable, not 2")]),
    "an edge of nothing": ("f(x) = repeat_edge(x + 1, x)", [("KF022", 1, 8, "takes a stage or an input")]),
    "an edge of what is not there": (
        "f(x) = repeat_edge(c, x)", [("KF021", 1, 20, "no stage or input is called `c`")]
    ),
    "an edge of a stage below": (
        "f(x) = repeat_edge(g, x in 0:3)\ng(x) = 1", [("KF021", 1, 20, "is called `g`")]
    ),
    "an edge of a wrong stage": ("g(x) = y\nf(x) = repeat_edge(g, x in 0:3)", [("KF021", 1, 8, "`y`")]),
    "an edge of no points": ("f(x) = repeat_edge(a, x in 3:3)", [("KF063", 1, 23, "is empty")]),
    "an edge that is not known": (
        "f(x) = repeat_edge(a, x in 0:x)", [("KF021", 1, 30, "`x` is no variable")]
    ),
    "an edge of several values": (
        "g(x) = (1, 2)\nf(x) = repeat_edge(g, x in 0:3)", [("KF022", 2, 8, "2 values")]
    ),
    "an edge beyond an input": (
        "f(x) = repeat_edge(b, x + 9 in 0:90)", [("KF035", 1, 8, "is read from 9 to 18")]
    ),
    "ends of a function": ("f(x) = abs(x in 0:3)", [("KF022", 1, 12, "may lie outside")]),
    "ends of a point": ("g(x) = 1\nf(x) = g(x in 0:3)", [("KF022", 2, 10, "may lie outside")]),
    "ends of a variable": ("f(x in 0:3) = 1", [("KF061", 1, 3, "each position is a variable")]),
    "ends of what is updated": ("f(x) = 1\nf(x in 0:3) = 1", [("KF022", 2, 3, "may lie outside")]),
    "a stage updated behind an edge": (
        "f(x) = 1\ng(x) = repeat_edge(f, x in 0:3)\nf(x) += 1", [("KF062", 3, 1, "others have read it")]
    ),
    "undefined without a type": ("f(x) = undefined()", [("KF022", 1, 8, "takes a type")]),
    "two argmax": ("f(x) = argmax[r in 0:2, s in 0:2](r)", [("KF022", 1, 8, "over one range")]),
    "values of an update": ("f(x) = 1\nf(x) = (1, 2)", [("KF022", 2, 1, "has 1 value, not 2")]),
    "positions of an update": ("f(x) = 1\nf(x, 0) = 1", [("KF022", 2, 1, "has 1 variable, not 2")]),
    "a function's name": ("clamp(x) = 1", [("KF010", 1, 1, "word of the language")]),
    "an input's name": ("a(x) = 1", [("KF011", 1, 1, "is an input")]),
    "a range named as a size": ("f(x) = sum[n in 0:3](x)", [("KF011", 1, 12, "is a size")]),
    "a range named as a variable": ("f(x) = sum[x in 0:3](x)", [("KF011", 1, 12, "variable already")]),
    "an update first": ("f(x) += 1", [("KF060", 1, 1, "no value yet")]),
    "a position that is no variable": ("f(x, 0) = 1", [("KF061", 1, 6, "each position is a variable")]),
    "a size for a variable": ("f(n) = 1", [("KF061", 1, 3, "each position is a variable")]),
    "a variable twice": ("f(x, x) = 1", [("KF061", 1, 6, "`x` twice")]),
    "neighbours at once": ("f(x) = 1\nf(x) = f(x - 1)", [("KF062", 2, 1, "give a range")]),
    "an update too late": ("f(x) = 1\ng(x) = f(x)\nf(x) += 1", [("KF062", 3, 1, "others have read it")]),
    "a reduction of its own stage": (
        "f(x) = 1\nf(x) = sum[r in 0:3](f(r))", [("KF062", 2, 8, "cannot read it")]
    ),
    "a reduction in one, of its own stage": (
        "f(x) = 1\nf(x) = sum[r in 0:3](sum[s in 0:3](f(r)))", [("KF062", 2, 22, "cannot read it")]
    ),
    "a reduction where its own stage says": (
        "f(x) = 1\nf(x) = sum[r in 0:3 where f(r) > 0](r)", [("KF062", 2, 8, "cannot read it")]
    ),
    "two ranges of one name": ("f(x) = 1\nf(x) += 1 for r in 0:3, r in 0:2", [("KF011", 2, 25, "already")]),
    "a word as a variable": ("f(true) = 1", [("KF010", 1, 3, "word of the language")]),
    "a word as a range": ("f(x) = sum[inf in 0:3](x)", [("KF010", 1, 12, "word of the language")]),
    "the sign of a condition": ("f(x) = -true", [("KF064", 1, 8, "no sign")]),
    "the bits of a condition": ("f(x) = ~true", [("KF064", 1, 8, "not for bool")]),
    "the rest of floats": ("f(x) = a(x) % 2.5", [("KF064", 1, 8, "`%` is for integers, not for f32")]),
    "a choice by a float": (
        "f(x) = mux(a(x), 1, 2)",
        [("KF064", 1, 8, "`mux` chooses by an integer, not by f32")],
    ),
    "a condition as a term": ("f(x) = true + 1", [("KF064", 1, 8, "is for numbers")]),
    "a condition as an end": ("f(x) = sum[r in 0:true](r)", [("KF063", 1, 19, "whole numbers")]),
    "a number beyond all types": (
        f"f(x) = 1{' << 63' * 90}", [("KF064", 1, 8, "this number is too large")]
    ),
    "a number beyond all floats": ("f(x) = 1e200 * 1e200", [("KF064", 1, 8, "this number is too large")]),
    "a value far beyond those there are": ("g(x) = (1, 2)\nf(x) = g(x)." + "1" * 5000, [("KF022", 2, 8, "")]),
    "an empty range": ("f(x) = sum[r in 3:3](r)", [("KF063", 1, 12, "is empty")]),
    "an open range": ("f(x) = sum[r in 0:p](r)", [("KF063", 1, 19, "whole numbers")]),
    "a fraction as a position": ("f(x) = a(x / 2.0)", [("KF064", 1, 10, "whole number, not f32")]),
    "a condition that is a number": ("f(x) = select(x, 1, 2)", [("KF064", 1, 8, "true or false, not i32")]),
    "a filter that is a number": ("f(x) = 1\nf(x) += 1 for r in 0:3 where r", [("KF064", 2, 30, "not i32")]),
    "bits of floats": ("f(x) = a(x) & 1.5", [("KF064", 1, 8, "is for integers")]),
    "a number too large": ("f(x) = b(x) + 300", [("KF064", 1, 8, "300 is no u8")]),
    "numbers as conditions": ("f(x) = (x > 1) + 1", [("KF064", 1, 8, "")]),
    "an update that would lose something": ("f(x) = x\nf(x) += 0.5", [("KF064", 2, 9, "hold every f32")]),
    "outside of an input": ("f(x) = b(x - 1)", [("KF035", 1, 8, "read from -1 to 8, and goes from 0 to 9")]),
    "no end": ("g(i) = i\nf(x) = g(i32(a(x)))", [("KF067", 2, 8, "no end")]),
    "an end beyond 32 bits": ("g(i) = i\nf(x) = g(x * 1000000000)", [("KF067", 2, 8, "within 32 bits")]),
    "a range beyond 32 bits": ("f(x) = sum[r in 0:3000000000](x)", [("KF063", 1, 12, "32 bits")]),
    "a position from one beyond 32 bits": (
        "g(i) = i\nf(x) = g(clamp(x * 1000000000, 0, 5))", [("KF067", 2, 8, "do not hold what")]
    ),
    "a position of 32 bits without a sign, which wraps around": (
        "f(x) = b(i32((u32(x) + 4294967290) / 1000000000))", [("KF067", 1, 8, "no end")]
    ),
    "a position of 64 bits that wraps around": (
        "f(x) = b(i32((i64(x) + 9223372036854775800) / 9223372036854775800))", [("KF067", 1, 8, "no end")]
    ),
    "a position from a stage that wraps around": (
        "g(x) = x * 1000000000\nf(x) = b(g(x) / 2000000000)", [("KF067", 2, 8, "no end")]
    ),
    "a position from a stage that wraps around in between": (
        "g(x) = x * 1000000000 / 1000000000\nf(x) = b(g(x))", [("KF067", 2, 8, "no end")]
    ),
    "a position from what one end is known of": (
        "g(x) = max(i32(a(x)), 0) + 5\nf(x) = b(min(g(x), 9))", [("KF067", 2, 8, "no end")]
    ),
    "no end of what is written": ("f(x) = 0\nf(i32(a(r))) += 1 for r in 0:9", [("KF067", 2, 1, "no end")]),
}  # fmt: skip

INPUTS = "{a: {dtype: f32, rank: 1}, b: {dtype: u8, extents: [10]}}"
MORE = "sizes: {n: 8}\nparams: {p: {dtype: i32, value: 3}}\n"


@pytest.mark.parametrize("case", STAGES)
def test_a_mistake_in_the_stages(case: str) -> None:
    stages, expected = STAGES[case]
    text = text_of(stages, "{f: {x: 10}}", INPUTS, MORE)
    head = text[: text.index("stages: |")].count("\n") + 1
    found = mistakes(text)
    places = [(d.code, d.span.line - head, d.span.column - 2) for d in found]
    assert places == [(code, line, column) for code, line, column, _ in expected], "\n".join(
        map(render, found)
    )
    for diagnostic, (*_, words) in zip(found, expected, strict=True):
        assert words in diagnostic.message


FILES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "no rank": ("inputs: {a: {dtype: f32}}", [("KF006", "neither `rank` nor `extents`")]),
    "two ranks": (
        "inputs: {a: {dtype: f32, rank: 2, extents: [3]}}",
        [("KF016", "1 extent, and 2 as its rank")],
    ),
    "no extent": ("inputs: {a: {dtype: f32, extents: [0]}}", [("KF012", "at least 1")]),
    "an unknown size": ("inputs: {a: {dtype: f32, extents: [m]}}", [("KF014", "unknown size `m`")]),
    "values of another type": (
        "inputs: {a: {dtype: u8, rank: 1, values: [0, 256]}}",
        [("KF065", "no values of u8")],
    ),
    "no values": ("inputs: {a: {dtype: u8, rank: 1, values: [9, 1]}}", [("KF065", "no values of u8")]),
    "another type": ("inputs: {a: {dtype: u9, rank: 1}}", [("KF007", "dtype")]),
    "no values of a float": (
        "inputs: {a: {dtype: f16, rank: 1, values: [0, 4097]}}",
        [("KF065", "0 to 4097 are no values of f16")],
    ),
    "a fraction": ("params: {p: {dtype: i32, value: 0.5}}", [("KF065", "0.5 is no i32")]),
    "a truth value as a number": ("params: {p: {dtype: f32, value: true}}", [("KF065", "True is no f32")]),
    "an infinite value": ("params: {p: {dtype: i32, value: .inf}}", [("KF065", "inf is no i32")]),
    "a reserved name": ("inputs: {in: {dtype: f32, rank: 1}}", [("KF010", "reserved word")]),
    "no such stage": ("outputs: {g: {x: 3}}", [("KF021", "no stage is called `g`")]),
    "other variables": ("outputs: {f: {y: 3}}", [("KF066", "the variables of `f` are `x`")]),
    "no points": ('outputs: {f: {x: "3:3"}}', [("KF063", "is empty")]),
    "too many points": ("outputs: {f: {x: 3000000000}}", [("KF013", "32 bits")]),
    "points too far away": ('outputs: {f: {x: "3000000000:3000000001"}}', [("KF063", "32 bits")]),
    "too large an input": ("inputs: {a: {dtype: f32, extents: [3000000000]}}", [("KF013", "32 bits")]),
    "no number of points": ("outputs: {f: {x: 0}}", [("KF012", "at least 1")]),
    "an unknown end": ('outputs: {f: {x: "0:m"}}', [("KF014", "unknown size `m`")]),
    "an unreadable end": ('outputs: {f: {x: "0:"}}', [("KF020", "")]),
    "no output": ("outputs: {}", [("KF007", "at least 1 entry")]),
    "an unknown key": ("tensors: {}", [("KF005", "unknown key `tensors`")]),
    "a size of many digits": (f"sizes: {{n: {'1' * 5000}}}", [("KF003", "cannot be read")]),
    "a parameter of many digits": (
        f"params: {{p: {{dtype: f32, value: {'1' * 310}}}}}",
        [("KF003", "cannot be read")],
    ),
    "a tolerance of many digits": (f"tolerance: {'1' * 310}", [("KF003", "cannot be read")]),
}


@pytest.mark.parametrize("case", FILES)
def test_a_mistake_beside_the_stages(case: str) -> None:
    given, expected = FILES[case]
    key = given.split(":")[0]
    text = text_of("f(x) = x", "{f: {x: 10}}")
    lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
    found = mistakes("\n".join([*lines[:2], given, *lines[2:]]) + "\n")
    assert [d.code for d in found] == [code for code, _ in expected], "\n".join(map(render, found))
    for diagnostic, (_, words) in zip(found, expected, strict=True):
        assert words in diagnostic.message
        assert diagnostic.span.line == 3


def test_a_stage_that_is_read_too_early_is_said_to_stand_below() -> None:
    (found,) = mistakes(text_of("f(x) = g(x)\ng(x) = 1", "{f: {x: 10}}"))
    assert found.hint == "it is defined below: a stage reads those above it"


def test_all_mistakes_are_reported_at_once() -> None:
    text = text_of("f(x) = y\ng(x) = z\nh(x) = f(x) + u8(300.5, 2)", "{h: {x: 3}}")
    assert [d.code for d in mistakes(text)] == ["KF021", "KF021"]


SEVERAL = "f(x) = (x, x + 1)\n"


@pytest.mark.parametrize(
    "text",
    [
        text_of(SEVERAL + "g(x) = f_0(x)", "{f: {x: 9}, g: {x: 9}}", "{f_0: {dtype: i32, rank: 1}}"),
        text_of(SEVERAL, "{f: {x: 9}}", more="params: {f_1: {dtype: i32, value: 1}}\n"),
        text_of(SEVERAL + "f_0(x) = x", "{f: {x: 9}, f_0: {x: 9}}"),
    ],
    ids=["an input", "a parameter", "an output"],
)
def test_the_arrays_of_an_output_are_called_as_no_other_argument(text: str) -> None:
    """Those of `f`, which has two values, are `f_0` and `f_1`."""
    assert [(d.code, d.span.text) for d in mistakes(text)] == [("KF011", "f")]


def test_stages_that_are_kept_inside_may_be_called_as_arrays_are() -> None:
    assert not mistakes(text_of("f_0(x) = x\nf(x) = (f_0(x), x + 1)", "{f: {x: 9}}"))
