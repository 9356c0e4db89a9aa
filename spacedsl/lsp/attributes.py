"""What host expressions may read of the objects that backbones and devices provide.

In: the backbones, and the kernel files beside a space that name it. Out: names of attributes, of the classes
that the members of a set have. A class says what it exposes; which one it is, the `type` of a set says, or
the objects that its iterator gives on such a kernel. A plain kernel file has classes of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.backbones import BACKBONES, load_any
from spacedsl.kernels.device import CpuDevice
from spacedsl.language import syntax
from spacedsl.language.host import host_expression
from spacedsl.lsp.symbols import Index

MOST_FILES = 100
"""Kernel files of a folder that are looked at."""

MOST_BYTES = 1 << 20
"""Of one of them: many times what a person writes."""

MOST_OBJECTS = 20
"""Members of a set whose classes are looked at; all are mostly of one."""


def attributes(index: Index, variable: str, ranges_over: str, kernels: Sequence[object]) -> tuple[str, ...]:
    """Those of a variable's objects, in alphabetical order; none if nothing is known of them."""
    if variable == "device":
        return _exposed([CpuDevice])
    if variable in ("kernel", "fun"):
        return _exposed(type(kernel) for kernel in kernels) or _exposed(
            b.classes[0] for b in BACKBONES.values()
        )
    named = _type_name(index, ranges_over)
    known = {c.__name__: c for backbone in BACKBONES.values() for c in backbone.classes if _exposed([c])}
    if named in known:
        return _exposed([known[named]])
    members = (item for kernel in kernels for item in _members(index, ranges_over, kernel, ()))
    return _exposed(type(item) for item in islice(members, MOST_OBJECTS))


def kernels_beside(paths: Iterable[Path]) -> tuple[object, ...]:
    """The kernels of the files in the folders of spaces that name one of them by `space:`."""
    resolved = {path.resolve() for path in paths}
    found: list[object] = []
    for folder in sorted({path.parent for path in resolved}):
        for path in islice(sorted(folder.glob("*.yaml")), MOST_FILES):
            try:
                status = path.stat()
                if status.st_size <= MOST_BYTES:
                    space, kernel = _loaded(path, status.st_mtime_ns)
                    found += [kernel] if space in resolved else []
            except OSError:
                continue  # it is gone, or nobody's business
    return tuple(found)


@lru_cache(maxsize=MOST_FILES)
def _loaded(path: Path, changed_ns: int) -> tuple[Path | None, object]:
    """The space that a kernel file names and its kernel, as of a time; neither where it is no kernel file."""
    try:
        kernel = load_any(path)
    except DiagnosticError:
        return None, None
    return kernel.space.resolve(), kernel.backbone


def _exposed(classes: Iterable[type]) -> tuple[str, ...]:
    names: set[str] = set()
    for each in classes:
        names |= getattr(each, "__exposed__", frozenset())
    return tuple(sorted(names))


def _above(index: Index, name: str) -> Iterator[syntax.Set]:
    """The set, or the one that it is a quotient of, and its supersets."""
    names, seen = [name], set[str]()
    while names:
        current = names.pop(0)
        if current in seen or current not in index.sets:
            continue
        seen.add(current)
        node = index.sets[current].node
        if isinstance(node, syntax.Quotient):
            names.append(node.item.set.name.text)
        elif isinstance(node, syntax.Set):
            yield node
            names += [use.name.text for use in node.supersets]


def _type_name(index: Index, name: str) -> str:
    types = (_key(node, "type") for node in _above(index, name))
    return next((host.text.strip() for host in types if host is not None), "")


def _key(node: syntax.Set, name: str) -> syntax.Host | None:
    return next((key.host for key in node.keys if key.name.text == name), None)


def _members(index: Index, name: str, kernel: object, path: tuple[str, ...]) -> Iterator[object]:
    """What a set has on a kernel, and then what its supersets have; `path`: the sets that ask for it."""
    for node in _above(index, name) if name not in path else ():
        iterator = _key(node, "iterator")
        if iterator is None:
            continue
        bindings: list[dict[str, object]] = [{"kernel": kernel}]
        for param in node.params:
            over = islice(_members(index, param.set.name.text, kernel, (*path, name)), MOST_OBJECTS)
            items = list(over)
            bindings = [{**b, param.variable.name: item} for b in bindings for item in items][:MOST_OBJECTS]
        for binding in bindings:
            yield from _evaluated(iterator, binding)


def _evaluated(iterator: syntax.Host, binding: Mapping[str, object]) -> Iterable[object]:
    try:
        found = host_expression(iterator.text, iterator.span).evaluate(binding)
    except (DiagnosticError, KeyError):
        return ()  # it is wrong, or asks the device: nothing is known here
    return found if isinstance(found, tuple) else ()
