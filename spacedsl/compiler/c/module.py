"""Printing of all propagators of a space as one C translation unit.

In: a `Module` and its space. Out: `CModule`: the text, and what an instance has to supply. The text stands
between the files `BEFORE` it, whose operations it calls, and those `AFTER` it, which call it. Every function
works on a `State *s` and returns false for a contradiction:

    run_NAME(s, objects..)   a propagator on a binding, or what runs it on all bindings that a wake leaves
    open wake_N(s, cell)          everything that a change of a cell of source N runs wake, compute, start
    the same by cell; the counter of a cell; all propagators on all bindings
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from spacedsl.compiler.c.bindings import print_loops
from spacedsl.compiler.c.build import text_digest
from spacedsl.compiler.c.counts import CountPrinter, counter_of
from spacedsl.compiler.c.expressions import Translations
from spacedsl.compiler.c.filtered import LoopPrinter
from spacedsl.compiler.c.interface import Interface
from spacedsl.compiler.c.names import array, function_name, indent, variable_name
from spacedsl.compiler.c.questions import questions
from spacedsl.compiler.c.statements import Body
from spacedsl.compiler.c.tables import DENSE_WORDS, StaticTables
from spacedsl.compiler.c.wakes import Source, WakePrinter, call, sources
from spacedsl.compiler.ir import FOLLOWED_BITS, Assign, Module, Propagator, Statement
from spacedsl.compiler.ir import Table as Projection
from spacedsl.language.space import EnumChoice, Space, Symmetry

BEFORE = ("runtime.h", "integers.h", "totals.h", "quantities.h", "inverse.h", "limits.h")
AFTER = ("propagation.h", "descents.h", "restrictions.h", "nodes.h", "rollouts.h", "sizes.h")
MOST_INVERTED_BITS = 12
"""Pairs of more values are inverted value by value."""


@dataclass(frozen=True, slots=True)
class CModule:
    """The text, and what its tables, its sources of wakes and its checks stand for."""

    generated: str
    """What depends on the space."""
    interface: Interface

    @property
    def digest(self) -> str:
        return text_digest(self.source)

    @property
    def source(self) -> str:
        """The whole translation unit."""
        head = f"#define FOLLOWED_BITS {FOLLOWED_BITS}\n#define DENSE_WORDS {DENSE_WORDS}"
        return "\n\n".join((head, *map(_runtime, BEFORE), self.generated, *map(_runtime, AFTER)))


def print_c(module: Module, space: Space) -> CModule:
    """The module's text; raises `UnprintableError` for what only the Python engine knows."""
    printer = _Printer(module, space, StaticTables(space), Translations({}))
    found = sources(module, space)
    wakes = WakePrinter(module, space, printer.tables)
    functions: list[list[str]] = [f for p in module.propagators for f in printer.propagator(p)]
    for source in found:
        if source.sites:
            functions += [wakes.changed(source), wakes.function(source)]
    functions += [
        printer.wake(found),
        printer.compute(found),
        printer.start(),
        printer.ask(),
        printer.mirrored(found),
    ]
    constants = [
        *(_projection(number, table) for number, table in enumerate(module.tables)),
        *(
            array(f"uint8_t translation_{number}", numbers)
            for numbers, number in printer.translations.arrays.items()
        ),
        *(_inverse(c) for c in space.choices.values() if isinstance(c, EnumChoice)),
    ]
    parts = [
        "\n".join(printer.tables.definitions()),
        *constants,
        *("\n".join(lines) for lines in functions),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    tables = tuple(printer.tables.requested.values())
    return CModule(text, Interface(tables, found, tuple(printer.tables.checks), questions(module, space)))


@dataclass(frozen=True, slots=True)
class _Printer:
    module: Module
    space: Space
    tables: StaticTables
    translations: Translations

    def propagator(self, propagator: Propagator) -> list[list[str]]:
        """Its function, that for all bindings, and those of its wakes that loop."""
        arguments = propagator.arguments
        body = Body(self.space, self.tables, self.translations, {}, set(arguments))
        locals_ = sorted({s.local.name for s in _flat(propagator.body) if isinstance(s, Assign)})
        lines = [f"Wide {', '.join(f'local_{name}' for name in locals_)};"] if locals_ else []
        places = (f"{Path(span.source.name).name}:{span.line}" for span in propagator.spans)
        comment = f"/* {', '.join(places)} */"
        functions = []
        if propagator.contribution is None:
            lines += body.block(propagator.body)
        else:
            counts = CountPrinter(propagator, self.tables)
            functions.append(_function(counts.name, propagator.contribution.arguments, counts.one(body)))
            lines += counts.all(body)
        functions.append([comment, *_function(propagator.name, arguments, lines)])
        everywhere = print_loops(propagator.loops, self._run(propagator), self.tables)
        functions.append(_function(f"{propagator.name}_everywhere", (), everywhere))
        inner = self._changed(propagator)
        printer = LoopPrinter(self.module, self.space, self.tables)
        for wake in propagator.wakes:
            if wake.loops:
                loops = printer.loops(propagator, wake.loops, inner)
                functions.append(_function(wake.name, wake.use.args, loops))
        for entry in propagator.entries:
            if entry.loops:
                loops = printer.loops(propagator, entry.loops, inner)
                functions.append(_function(entry.name, (entry.variable,), loops))
        return functions

    def _run(self, propagator: Propagator) -> list[str]:
        """What is done for one binding."""
        if propagator.deferred:
            return [CountPrinter(propagator, self.tables).later()]
        return [f"if (!{call(propagator.name, propagator.arguments)})", "    return false;"]

    def _changed(self, propagator: Propagator) -> list[str]:
        """The same where a domain has changed."""
        if propagator.deferred:
            return CountPrinter(propagator, self.tables).changed()
        return self._run(propagator)

    def wake(self, found: Iterable[Source]) -> list[str]:
        cases = [f"case {s.number}: return wake_{s.number}(s, cell);" for s in found if s.sites]
        presence = [] if not self.space.triggers else ["if (!update_presence(s, cell))", "    return false;"]
        return [
            "static bool wake(State *s, int32_t cell)",
            "{",
            *indent([*presence, *_switch(cases, "true")]),
            "}",
        ]

    def compute(self, found: Iterable[Source]) -> list[str]:
        numbers = {source.name: source.number for source in found if not source.is_set}
        cases = []
        for propagator in self.module.propagators:
            if propagator.deferred:
                arguments = "".join(f", key[{place}]" for place in range(len(propagator.arguments)))
                number = numbers[counter_of(propagator)]
                cases.append(f"case {number}: return {function_name(propagator.name)}(s{arguments});")
        key = ["const int32_t *const key = key_of(s, cell);"]
        return [
            "static bool compute(State *s, int32_t cell)",
            "{",
            *indent([*key, *_switch(cases, "true")]),
            "}",
        ]

    def mirrored(self, found: Iterable[Source]) -> list[str]:
        """The other orientation's mask of a pair, by the source of its choice."""
        cases = []
        for source in found:
            choice = self.space.choices.get(source.name)
            if not source.is_set and isinstance(choice, EnumChoice) and choice.symmetry is not Symmetry.NONE:
                cases.append(f"case {source.number}: return inverse_{choice.name}(mask);")
        return [
            "static Word mirrored(int32_t source, Word mask)",
            "{",
            *indent(["switch (source) {", *cases, "default: return mask;", "}"]),
            "}",
        ]

    def ask(self) -> list[str]:
        """What asks about quantities: all of it on all bindings, and one call by its number."""
        limited = [(n, p) for n, p in enumerate(self.module.propagators) if p.limits]
        starts = []
        cases = []
        for number, propagator in limited:
            everywhere = function_name(f"{propagator.name}_everywhere")
            starts += [f"if (!{everywhere}(s))", "    return false;"]
            arguments = "".join(f", at[{place}]" for place in range(1, len(propagator.arguments) + 1))
            cases.append(f"case {number}: return {function_name(propagator.name)}(s{arguments});")
        return [
            "static bool start_limited(State *s)",
            "{",
            *indent([*starts, "return true;"]),
            "}",
            "",
            "static bool ask(State *s, int32_t call)",
            "{",
            "    const int32_t *const at = links_at(s, s->of->calls[call]);",
            "    switch (at[0]) {",
            *indent([*cases, "default: return true;"]),
            "    }",
            "}",
        ]

    def start(self) -> list[str]:
        """Counters first and alone: comparing two that have no bounds yet could raise each for ever."""
        lines: list[str] = []
        for propagator in self.module.propagators:
            if propagator.deferred:
                everywhere = function_name(f"{propagator.name}_everywhere")
                lines += [f"if (!{everywhere}(s) || !compute_all(s))", "    return false;"]
        for propagator in self.module.propagators:
            if not propagator.deferred:
                lines += [f"if (!{function_name(f'{propagator.name}_everywhere')}(s))", "    return false;"]
        return [
            "static bool compute_all(State *s)",
            "{",
            "    while (s->latest) {",
            "        const int32_t cell = s->later[--s->latest];",
            "        s->dirty[cell] = 0;",
            "        if (!compute(s, cell))",
            "            return false;",
            "    }",
            "    return true;",
            "}",
            "",
            "/* Every propagator on every binding. */",
            "static bool start(State *s)",
            "{",
            *indent([*lines, "return true;"]),
            "}",
        ]


def _function(name: str, arguments: Iterable[str], body: list[str]) -> list[str]:
    parameters = "".join(f", int32_t {variable_name(a)}" for a in arguments)
    return [
        f"static bool {function_name(name)}(State *s{parameters})",
        "{",
        *indent([*body, "return true;"]),
        "}",
    ]


def _switch(cases: list[str], otherwise: str) -> list[str]:
    return ["switch (s->of->cells[cell].source) {", *cases, f"default: return {otherwise};", "}"]


def _flat(statements: Iterable[Statement]) -> Iterable[Statement]:
    for statement in statements:
        yield statement
        for name in ("then", "otherwise", "body"):
            yield from _flat(getattr(statement, name, ()))


def _projection(number: int, table: Projection) -> str:
    widest = max(table.entries, default=0)
    entry = next(bits for bits in (8, 16, 32, 64) if widest < 1 << bits)
    return array(f"uint{entry}_t table_{number}", table.entries)


def _inverse(choice: EnumChoice) -> str:
    """`inverse_CHOICE`: the mask of the other orientation; nothing for a choice without symmetry."""
    if choice.symmetry is Symmetry.NONE:
        return ""
    name = f"inverse_{choice.name}"
    if choice.symmetry is Symmetry.SYMMETRIC:
        return f"static inline Word {name}(Word mask) {{ return mask; }}"
    if len(choice.values) > MOST_INVERTED_BITS:
        numbers = array(f"uint8_t {name}_of", choice.inverse)
        return f"{numbers}\n\nstatic inline Word {name}(Word mask) {{ return translated(mask, {name}_of); }}"
    masks = array(f"uint16_t {name}_of", (choice.invert(mask) for mask in range(choice.full + 1)))
    return f"{masks}\n\nstatic inline Word {name}(Word mask) {{ return {name}_of[mask]; }}"


def _runtime(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
