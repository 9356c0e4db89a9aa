"""Printing of loops with a filter: a word of objects at a time, and the propagator on those that need it.

In: loops, and what `filters.py` finds that rules objects out. Out: lines of C that call a propagator. What is
in a word is printed by `words.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.compiler.c.bindings import print_loops, print_static_test
from spacedsl.compiler.c.filters import Filter, filter_of
from spacedsl.compiler.c.names import indent, variable_name
from spacedsl.compiler.c.tables import StaticTables
from spacedsl.compiler.c.words import text
from spacedsl.compiler.ir import (
    AllOf,
    Distinct,
    If,
    Loop,
    Member,
    Module,
    Present,
    Propagator,
    StaticTest,
)
from spacedsl.language.space import Space


@dataclass(frozen=True, slots=True)
class LoopPrinter:
    module: Module
    space: Space
    tables: StaticTables

    def loops(self, propagator: Propagator, loops: tuple[Loop, ...], innermost: list[str]) -> list[str]:
        """The loops of a wake, the innermost one with a filter if there is any use for one."""
        found = filter_of(propagator, loops[-1].variable, self.module.tables, self.space)
        if found is None:
            return print_loops(loops, innermost, self.tables)
        present = _present(propagator)
        variable = loops[-1].variable
        lacking = [
            f"~(s->rows + {self.tables.lacking(test.set)})[word]"
            for test in present
            if test.variable == variable and variable not in test.set.args
        ]
        others = [
            f"s->v[{self.tables.presence(test.set, test.variable)}] == PRESENT"
            for test in present
            if variable not in (test.variable, *test.set.args)
        ]
        filtered = self._filtered(found, loops[-1], innermost, lacking)
        if others:
            filtered = [f"if ({' && '.join(others)}) {{", *indent(filtered), "}"]
        return print_loops(loops[:-1], filtered, self.tables)

    def _filtered(self, found: Filter, loop: Loop, innermost: list[str], lacking: list[str]) -> list[str]:
        name = variable_name(loop.variable)
        words, tests = self._static_words(loop)
        if tests:
            conditions = " && ".join(print_static_test(test, self.tables) for test in tests)
            innermost = [f"if ({conditions}) {{", *indent(innermost), "}"]
        return [
            *(
                f"const Word *const row{number} = s->rows + {self.tables.rows(row.use.choice, row.other)};"
                for number, row in enumerate(found.rows)
            ),
            *self._fixed(found),
            "for (int32_t word = 0; word < ROW_WORDS; word++) {",
            *indent(self._need(found)),
            *(f"    need &= {word};" for word in (*words, *lacking)),
            "    for (; need; need &= need - 1) {",
            f"        const int32_t {name} = word * 64 + __builtin_ctzll(need);",
            *indent(innermost, 2),
            "    }",
            "}",
        ]

    def _fixed(self, found: Filter) -> list[str]:
        """The masks of the fixed domains, one behind the other."""
        index = ""
        for use in found.fixed:
            word = f"s->v[{self.tables.cell(use.choice, use.args)}]"
            index = f"({index}) << {len(self.space.enum(use).values)} | {word}" if index else word
        return [f"const Word fixed = {index};"] if index else []

    def _need(self, found: Filter) -> list[str]:
        if not found.fixed:
            return [f"Word need = {text(found.cases[0][1])};"]
        by_text: dict[str, list[int]] = {}
        for masks, word in found.cases:
            index = 0
            for mask, use in zip(masks, found.fixed, strict=True):
                index = index << len(self.space.enum(use).values) | mask
            by_text.setdefault(text(word), []).append(index)
        lines = ["Word need;", "switch (fixed) {"]
        for expression, indices in by_text.items():
            lines += [f"case {index}:" for index in indices]
            lines += [f"    need = {expression};", "    break;"]
        return [*lines, "default:", "    need = ~(Word)0;", "}"]

    def _static_words(self, loop: Loop) -> tuple[list[str], list[StaticTest]]:
        """What sets say of all objects at once, and the tests that are left for each."""
        if loop.member is None:
            words = [f"{self.tables.member_set(loop.source)}[word]"]
        else:
            words = [f"{self.tables.owner_set(loop.source.name, loop.member)}[word]"]
        tests: list[StaticTest] = []
        for test in loop.tests:
            match test:
                case Distinct(left, right) if loop.variable in (left, right):
                    other = right if left == loop.variable else left
                    words.append(f"all_but({variable_name(other)}, word)")
                case Member(variable, ref) if variable == loop.variable and variable not in ref.args:
                    words.append(f"{self.tables.member_set(ref)}[word]")
                case _:
                    tests.append(test)
        return words, tests


def _present(propagator: Propagator) -> tuple[Present, ...]:
    """Objects that have to be members of sets for certain, or the propagator does nothing."""
    match propagator.body:
        case (If(AllOf(tests), _, ()),):
            return tuple(test for test in tests if isinstance(test, Present) and test.certain)
    return ()
