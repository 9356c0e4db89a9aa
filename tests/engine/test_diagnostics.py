"""What each mistake of a space on a kernel says and where; lines are counted from the end of `SETS`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.language.host import Addition, callback, exposed
from tests.engine.small import KIND, SETS, Thing, Things, things, world

SIZES = 'choice integer size($x in Things): "$x.sizes" end\n'

HUGE = "9" * 2000
"""Its cube has more digits than Python writes out."""


@exposed("twins", "tell", "stray")
class Odd(Things):
    """A backbone that gives what none may give."""

    twins = (Thing(7, "twin"), Thing(8, "twin"))

    @callback
    def tell(self, thing: Thing) -> Addition:
        return Addition((("Near", (thing, thing), thing),))

    @callback
    def stray(self, thing: Thing) -> Addition:
        return Addition((("Near", (self.twins[0],), thing),))


@dataclass(frozen=True)
class Case:
    text: str
    code: str
    line: int
    column: int
    message: str


CASES = [
    Case('set Twins: iterator = "$kernel.twins" end', "SP401", -2, 5, "2 objects are named twin"),
    Case('set Numbers: iterator = "[3]" end', "SP401", 1, 26,
         "3 has no name, and what lies in a set needs one"),
    Case('set Text: iterator = "\'abc\'" end', "SP402", 1, 23,
         "the iterator of Text gave a str, not objects"),
    Case('set Twice: iterator = "[x for i in [1, 2] for x in $kernel.some]" end', "SP402", 1, 24,
         "the iterator of Twice gave an object twice"),
    Case('choice integer n($x in Things): "3" end', "SP411", 1, 34,
         "the universe of n(t0) is 3, not a collection of integers"),
    Case('choice integer n(): "[1, 2.5]" end', "SP411", 1, 22,
         "the universe of n() holds 2.5, which is no integer from 0 to 2**63 - 1"),
    Case('choice integer n(): "range(257)" end', "SP411", 1, 22,
         "the universe of n() has 257 values, not 1 to 256"),
    Case('choice counter c(): forall $x in Things: sum "0 - 1" when: end', "SP413", 1, 16,
         "a contribution of -1 to a counter that needs at least 0 from each"),
    Case('choice enum k($x in Things): value A: value B: end\n'
         'trigger forall $x in Things: "$kernel.tell($x)" when k($x) is A', "SP422", 2, 31,
         "the callback gives 2 arguments to Near, which takes another number"),
    Case('choice enum k($x in Things): value A: value B: end\n'
         'trigger forall $x in Things: "$kernel.stray($x)" when k($x) is A', "SP422", 2, 31,
         "the callback adds t0 to Near(twin), but Near is not defined there"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code} {case.text[:50]}")
def test_what_is_wrong_on_a_kernel_is_said_at_its_place(case: Case) -> None:
    some = things(2)
    with pytest.raises(DiagnosticError) as caught:
        world(case.text, Odd(some, some[:1]))
    found = caught.value.diagnostics[0]
    place = (found.span.line - SETS.count("\n"), found.span.column)
    assert (found.code, *place, found.message) == (case.code, case.line, case.column, case.message)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ('set Wrong subsetof Some: iterator = "$kernel.things" end\n', "SP403", "t1"),
        ('set Wrong subsetof Things:\n disjoint: Some\n iterator = "$kernel.things"\nend\n', "SP404", "t0"),
        ('set Wrong:\n type = "Nothing"\n iterator = "$kernel.things"\nend\n', "SP405", "Thing"),
        ('choice integer size($x in Things): "[]" end\n', "SP411", "size(t0)"),
        ('choice integer size($x in Things): "range(300)" end\n', "SP411", "300"),
        ('choice integer size($x in Things): "[0 - 1]" end\n', "SP411", "-1"),
        (f'choice integer size(): "[x * x * x for x in [{HUGE}]]" end\n', "SP411", "an integer of more"),
        (f'set Wrong: iterator = "[x * x * x for x in [{HUGE}]]" end\n', "SP401", "an integer of more"),
        (f'set Wrong: iterator = "max([x * x * x for x in [{HUGE}]])" end\n', "SP402", "an integer of more"),
        *(
            (f"{SIZES}choice counter count(): {declared} end\nrequire {condition}\n", "SP412", "needed here")
            for declared, condition in [
                ("sum \"'a'\" when:", "count() < 3"),
                ('base "1 / 2" sum 1 when:', "count() < 3"),
                ("sum 1 when:", 'count() < "5 / 2"'),
                ("sum 1 when:", 'forall $x in Things: "$x.name" * size($x) == count()'),
                ("sum 1 when:", 'forall $x in Things: size($x) + "None" < count()'),
                ("sum 1 when:", 'forall $x in Things: size($x) < "$x.name"'),
                ('sum "$kernel.things[0].name" when: "$kernel.things[0].name"', "count() < 3"),
            ]
        ),
    ],
)
def test_what_is_wrong_with_a_kernel_is_located(text: str, code: str, words: str) -> None:
    all_of_them = things(2)
    with pytest.raises(DiagnosticError) as caught:
        world(text + KIND, Things(all_of_them, some=all_of_them[:1]))
    assert caught.value.diagnostics[0].code == code
    assert words in str(caught.value)


def test_a_reverse_claim_is_checked() -> None:
    text = (
        'set Far($x in Things) subsetof Things:\n iterator = "$x.near"\n'
        ' reverse forall $y in Things = "$y.near"\nend\n'
    )
    a, b = things(2)
    a.near, b.near = (b,), (a,)
    assert world(text + KIND, Things((a, b))).instance.root() is not None
    b.near = ()
    with pytest.raises(DiagnosticError, match="SP406"):
        world(text + KIND, Things((a, b)))
