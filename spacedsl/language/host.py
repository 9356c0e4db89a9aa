"""Host expressions: the quoted Python subset of a `.space` file, checked and compiled once.

In: the text between the quotes. Out: a `HostExpression`, evaluated at instantiation, whose value depends only
on the objects bound to its variables. It reaches what the classes of backbone and device objects expose and
nothing else: `host_syntax.py` checks and rewrites the text, and what it does goes through `host_runtime.py`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, TypeVar

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language import host_runtime
from spacedsl.language.applications import renamed, written
from spacedsl.language.host_parser import character
from spacedsl.language.host_runtime import RefusedError, Runtime, StepLimitError
from spacedsl.language.host_syntax import translate

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., "Addition"])

AMBIENT = ("kernel", "device")
"""Variables that are in scope in every host expression."""

LONGEST_MESSAGE = 200
"""Characters of what Python says of an operation: it shows the values, some of which are long."""

_SYNONYMS = {"fun": "kernel"}
_FILE_NAME = "<host expression>"
_GLOBALS: dict[str, object] = {
    "__builtins__": {},
    "g_attribute": host_runtime.attribute,
    "g_call_back": host_runtime.call_back,
    "g_call_method": host_runtime.call_method,
    "g_slice": slice,
}


def exposed(*attributes: str) -> Callable[[T], T]:
    """Class decorator: host expressions may read (and call) these attributes of the instances."""

    def mark(cls: T) -> T:
        setattr(cls, "__exposed__", frozenset(attributes) | getattr(cls, "__exposed__", frozenset()))  # noqa: B010
        return cls

    return mark


@dataclass(frozen=True, slots=True)
class Addition:
    """What a trigger's callback adds: (name of the set, arguments of the set, object). Objects may be new."""

    memberships: tuple[tuple[str, tuple[object, ...], object], ...]


def callback(method: F) -> F:
    """Method decorator: triggers may call it. It must be a pure function of backbone and arguments."""
    setattr(method, "__callback__", True)  # noqa: B010
    return method


class HostKind(enum.Enum):
    VALUE = "value"
    CALLBACK = "callback"  # one call of a method that is marked with `callback`; in triggers only


@dataclass(frozen=True, slots=True)
class HostExpression:
    """A checked expression. Two are equal when they say the same; made by `host_expression`."""

    text: str
    """As written, but for `$fun`, which has become `$kernel`."""
    variables: tuple[str, ...]
    """Sorted, without `$`; `kernel` and `device` are among them where they are used."""
    kind: HostKind
    span: Span = field(compare=False)
    """What stands between the quotes."""
    uses: tuple[tuple[str, Span], ...] = field(compare=False, repr=False)
    """Each use of a variable, with its place."""
    _written: str = field(compare=False, repr=False)
    _parameters: tuple[str, ...] = field(compare=False, repr=False)
    """The variable that each parameter of the function stands for."""
    _function: Callable[..., Any] = field(compare=False, repr=False)

    @property
    def free_variables(self) -> tuple[str, ...]:
        """Those that stand for objects of sets; `$kernel` and `$device` are always in scope."""
        return tuple(name for name in self.variables if name not in AMBIENT)

    def about(self, names: Mapping[str, str]) -> HostExpression:
        """The same about other variables, map applications among them."""
        parameters = tuple(names.get(name, name) for name in self._parameters)
        variables = tuple(sorted(set(parameters)))
        return replace(
            self, text=renamed(self.text, names), variables=variables, uses=(), _parameters=parameters
        )

    def evaluate(self, environment: Mapping[str, object]) -> object:
        """The value, with the variables' objects in `environment` (names without `$`).

        A list is returned as a tuple and a set as a sorted tuple, objects by their names; a callback returns
        an `Addition`. Raises `DiagnosticError` (SP062, SP063) at the place in the string that failed.
        """
        objects = [environment[name] for name in self._parameters]
        try:
            return self._result(self._function(Runtime(), *objects))
        except (
            RefusedError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise DiagnosticError([self._failure(error, environment)]) from error

    def _result(self, value: object) -> object:
        if self.kind is HostKind.CALLBACK:
            if not isinstance(value, Addition):
                raise RefusedError("the callback returned no `Addition`")
            return value
        if isinstance(value, frozenset):
            return _in_order(value)
        return tuple(value) if isinstance(value, (list, range)) else value

    def _failure(self, error: Exception, environment: Mapping[str, object]) -> Diagnostic:
        code = "SP063" if isinstance(error, StepLimitError) else "SP062"
        message = str(error) if isinstance(error, RefusedError) else f"{type(error).__name__}: {error}"
        message = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}..."
        objects = {name: environment[name] for name in self.free_variables}
        bound = [f"{written(name)} = {getattr(item, 'name', item)}" for name, item in objects.items()]
        hint = f"for {', '.join(bound)}" if bound else None
        return Diagnostic(code, message, self._place(error.__traceback__), hint)

    def _place(self, traceback: TracebackType | None) -> Span:
        """The innermost operation of this expression that was running."""
        span = self.span
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code.co_filename == _FILE_NAME:
                *_, start, end = list(code.co_positions())[traceback.tb_lasti // 2]
                if start is not None and end is not None:
                    span = self._inside(character(self._written, start), character(self._written, end))
            traceback = traceback.tb_next
        return span

    def _inside(self, start: int, end: int) -> Span:
        return Span(self.span.source, self.span.start + start, self.span.start + end)


def _in_order(elements: frozenset[Any]) -> tuple[Any, ...]:
    """Values as they compare, objects by their names."""
    if not elements or not all(hasattr(each, "name") for each in elements):
        return tuple(sorted(elements))
    if len({str(each.name) for each in elements}) < len(elements):
        raise RefusedError("objects of a set have one name, and no order")
    return tuple(sorted(elements, key=lambda each: str(each.name)))


def host_expression(text: str, span: Span, kind: HostKind = HostKind.VALUE) -> HostExpression:
    """Checks and compiles the text that `span` covers, in which line continuations are blanks.

    Raises `DiagnosticError` with everything that is wrong (SP060), each at its place inside the string.
    """

    def inside(start: int, end: int) -> Span:
        return Span(span.source, span.start + start, span.start + end)

    translation = translate(text, is_callback=kind is HostKind.CALLBACK)
    if translation.function is None:
        raise DiagnosticError(
            Diagnostic("SP060", p.message, inside(p.start, p.end), p.hint) for p in translation.problems
        )
    try:
        code = compile(translation.function, _FILE_NAME, "eval", dont_inherit=True)
    except (SyntaxError, RecursionError, MemoryError):
        raise DiagnosticError([Diagnostic("SP060", "too complicated for Python", span)]) from None
    parameters = tuple(_SYNONYMS.get(name, name) for name in translation.parameters)
    return HostExpression(
        text=re.sub(r"\$fun\b", "$kernel", text),
        variables=tuple(sorted(set(parameters))),
        kind=kind,
        span=span,
        uses=tuple((_SYNONYMS.get(u.name, u.name), inside(u.start, u.end)) for u in translation.uses),
        _written=text,
        _parameters=parameters,
        _function=eval(code, dict(_GLOBALS)),  # the code holds guarded operations only
    )
