"""Kernel files of the plain backbone: from YAML text to objects.

In: the path of a kernel file, and values of integer parameters from the command line. Out: a frozen
`PlainFile`, or a `DiagnosticError` with every mistake that was found, each at its place in the file.

Every text in an attribute is the name of an object, and stands for it. An attribute is of one type in all
objects of a kind; an object without an attribute that is a list elsewhere has an empty list.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span, in_order
from spacedsl.engine.decision import Decision
from spacedsl.kernels.decided import decisions_of, not_a_space
from spacedsl.kernels.located_yaml import Document
from spacedsl.kernels.plain.backbone import (
    KERNEL_ATTRIBUTES,
    OBJECT_ATTRIBUTES,
    PlainKernel,
    PlainObject,
    build_kernel,
    kind_class,
)
from spacedsl.kernels.schema import ObjectEntry, PlainEntry
from spacedsl.kernels.sizes import SizeOverrideError
from spacedsl.kernels.validation import closest, read_model

Place = tuple[str | int, ...]

_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OBJECT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*")

_UNREADABLE = object()
"""In place of a value with a mistake in it, which has been reported."""


@dataclass(frozen=True, slots=True, eq=False)
class PlainFile:
    """A checked kernel file of plain objects."""

    path: Path
    text: str
    name: str
    sizes: Mapping[str, int]
    """The integer parameters, those given from outside in place of the file's."""
    backbone: PlainKernel
    space: Path
    decisions: tuple[Decision, ...]
    """Fixed by the file, to be applied to the root."""


def check_plain(document: Document, path: Path, sizes: Mapping[str, int] = MappingProxyType({})) -> PlainFile:
    """`path` is where the file's `space:` starts from; `sizes` replace integer parameters of the same name.

    Raises `SizeOverrideError` for a wrong entry of `sizes`, `DiagnosticError` with all that is wrong.
    """
    entry, report = read_model(PlainEntry, document, "KF")
    if entry is None:
        raise DiagnosticError(in_order(report))
    return _Loader(document, entry, list(report)).load(path, sizes)


class _Loader:
    """The stages of one load and their common list of diagnostics."""

    def __init__(self, document: Document, entry: PlainEntry, report: list[Diagnostic]) -> None:
        self.document = document
        self.entry = entry
        self.report = report
        self.objects: dict[str, PlainObject] = {}
        self.named_at: dict[str, Span] = {}

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        hint: str | None = None,
        related: tuple[tuple[Span, str], ...] = (),
    ) -> None:
        self.report.append(Diagnostic(code, message, span, hint, related=related))

    def load(self, path: Path, sizes: Mapping[str, int]) -> PlainFile:
        if not _OBJECT.fullmatch(self.entry.kernel):
            self.bad_name(self.entry.kernel, self.document.value("kernel"))
        integers = self.override(sizes)
        self.member_names()
        kinds = {kind: self.name_objects(kind, entries) for kind, entries in self.entry.objects.items()}
        for kind, entries in self.entry.objects.items():
            self.fill(kind, entries, kinds[kind])
        parameters = {
            name: integers.get(name, self.value(value, ("parameters", name)))
            for name, value in self.entry.parameters.items()
        }
        space = path.parent / self.entry.space
        mistake = not_a_space(space)
        if mistake is not None:
            self.error("KF041", mistake, self.document.value("space"))
        if self.report:
            raise DiagnosticError(in_order(self.report))
        present = {kind: tuple(o for o in objects if o is not None) for kind, objects in kinds.items()}
        return PlainFile(
            path=path,
            text=self.document.source.text,
            name=self.entry.kernel,
            sizes=MappingProxyType(integers),
            backbone=build_kernel(self.entry.kernel, {**present, **parameters}),
            space=space,
            decisions=decisions_of(self.entry.decisions),
        )

    def override(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The integer parameters with those from the command line in place."""
        integers = {
            name: value
            for name, value in self.entry.parameters.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }
        for name in sizes:
            if name not in integers:
                hint = closest(name, integers)
                message = f"`{self.entry.kernel}` has no integer parameter `{name}`"
                raise SizeOverrideError(message + (f"; {hint}" if hint else ""))
        return {**integers, **sizes}

    # ---- Names ----

    def bad_name(self, name: str, span: Span) -> None:
        hint = "letters, digits and `_ . : + -`, beginning with a letter, a digit or `_`"
        self.error("KF010", f"{name!r} cannot be the name of an object", span, hint)

    def attribute_name(self, name: str, span: Span, taken: Iterable[str]) -> None:
        """What host expressions say after a dot."""
        if not _ATTRIBUTE.fullmatch(name):
            hint = "letters, digits and `_`, beginning with a letter"
            self.error("KF010", f"{name!r} cannot be read in a host expression", span, hint)
        elif keyword.iskeyword(name) or name in taken:
            self.error("KF010", f"`{name}` is a reserved word", span, "choose another name")

    def member_names(self) -> None:
        """Kinds and parameters are attributes of the kernel."""
        for kind in self.entry.objects:
            self.attribute_name(kind, self.document.key("objects", kind), KERNEL_ATTRIBUTES)
        for name in self.entry.parameters:
            span = self.document.key("parameters", name)
            self.attribute_name(name, span, KERNEL_ATTRIBUTES)
            if name in self.entry.objects:
                related = ((self.document.key("objects", name), "declared here first"),)
                self.error("KF011", f"`{name}` is declared twice", span, related=related)

    def name_objects(self, kind: str, entries: list[ObjectEntry]) -> list[PlainObject | None]:
        """The objects of a kind, so far without their attributes; None where a name cannot be used."""
        attributes = dict.fromkeys(a for entry in entries for a in entry.__pydantic_extra__)
        readable = [a for a in attributes if _ATTRIBUTE.fullmatch(a) and a not in OBJECT_ATTRIBUTES]
        is_readable = _ATTRIBUTE.fullmatch(kind) is not None
        made = kind_class(kind if is_readable else "kind", readable)
        found: list[PlainObject | None] = []
        for position, entry in enumerate(entries):
            place: Place = ("objects", kind, position)
            span = self.document.values.get((*place, "name"), self.document.value(*place))
            for attribute in entry.__pydantic_extra__:
                self.attribute_name(attribute, self.document.key(*place, attribute), OBJECT_ATTRIBUTES)
            found.append(None)
            if not _OBJECT.fullmatch(entry.name):
                self.bad_name(entry.name, span)
            elif entry.name in self.objects:
                related = ((self.named_at[entry.name], "named here first"),)
                self.error("KF011", f"two objects are named `{entry.name}`", span, related=related)
            else:
                item = made()
                item.id, item.name = len(self.objects), entry.name
                found[-1] = self.objects[entry.name] = item
                self.named_at[entry.name] = span
        return found

    # ---- Values ----

    def fill(self, kind: str, entries: list[ObjectEntry], objects: list[PlainObject | None]) -> None:
        """Gives the objects of a kind their attributes."""
        attributes = dict.fromkeys(a for entry in entries for a in entry.__pydantic_extra__)
        for attribute in attributes:
            if not _ATTRIBUTE.fullmatch(attribute) or attribute in OBJECT_ATTRIBUTES:
                continue
            given: list[tuple[int, object]] = [
                (
                    position,
                    self.value(entry.__pydantic_extra__[attribute], ("objects", kind, position, attribute)),
                )
                for position, entry in enumerate(entries)
                if attribute in entry.__pydantic_extra__
            ]
            self.check_types(kind, attribute, given)
            values = dict(given)
            is_list = any(isinstance(value, tuple) for value in values.values())
            for position, item in enumerate(objects):
                if position not in values and not is_list:
                    self.missing(kind, position, attribute)
                elif item is not None:
                    setattr(item, attribute, values.get(position, ()))

    def missing(self, kind: str, position: int, attribute: str) -> None:
        name = self.entry.objects[kind][position].name
        place: Place = ("objects", kind, position)
        span = self.document.values.get((*place, "name"), self.document.value(*place))
        hint = "what one object of a kind has, all have; only lists may be left out, and are empty then"
        self.error("KF006", f"the attribute `{attribute}` of `{name}` is missing", span, hint)

    def value(self, given: object, place: Place) -> object:
        """The value of an attribute or parameter: texts have become the objects that they name."""
        if isinstance(given, str):
            if given in self.objects:
                return self.objects[given]
            span = self.document.value(*place)
            hint = (
                closest(given, self.objects) or "a text is the name of an object; declare it under `objects:`"
            )
            self.error("KF050", f"no object is named `{given}`", span, hint)
            return _UNREADABLE
        if isinstance(given, list):
            return tuple(self.value(item, (*place, at)) for at, item in enumerate(given))
        if isinstance(given, dict):
            message = "expected a number, true or false, the name of an object, or a list of these"
            self.error("KF007", message, self.document.value(*place))
            return _UNREADABLE
        return given

    def check_types(self, kind: str, attribute: str, given: list[tuple[int, object]]) -> None:
        """One type in all objects of the kind, also within lists."""
        first: dict[int, tuple[str, Place]] = {}

        def look(value: object, place: Place, depth: int) -> None:
            name = _type_name(value)
            if name is None:
                return
            known, where = first.setdefault(depth, (name, place))
            if name != known:
                related = ((self.document.value(*where), f"{known} here"),)
                message = f"`{attribute}` is {name} here, and {known} elsewhere"
                self.error("KF007", message, self.document.value(*place), related=related)
            elif isinstance(value, tuple):
                for at, item in enumerate(value):
                    look(item, (*place, at), depth + 1)

        for position, value in given:
            look(value, ("objects", kind, position, attribute), 0)


def _type_name(value: object) -> str | None:
    """In words; None where it could be of any type."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, tuple):
        return "a list"
    if isinstance(value, PlainObject):
        return f"one of `{type(value).__name__}`"
    return None
