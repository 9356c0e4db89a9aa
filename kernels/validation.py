"""Plain data from YAML against a pydantic model, with every error at its place in the text.

In: a `Document` and the model that its data should fit. Out: the model, or diagnostics for unknown keys,
missing keys and values of the wrong kind. It knows nothing of what the keys mean.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from spacedsl.diagnostics import Diagnostic, Span
from spacedsl.kernels.located_yaml import Document, Path


def closest(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the known name nearest to a wrong one, or all of them when they are few."""
    names = list(known)
    near = [n for n in names if n.lower() == name.lower()]
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    if 0 < len(names) <= 6:
        return "known here: " + ", ".join(f"`{n}`" for n in names)
    return None


class Frozen(BaseModel):
    """A model of finite numbers that nothing changes, whose attributes' docstrings go into its schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


Model = TypeVar("Model", bound=BaseModel)


def read_model(
    model: type[Model], document: Document, prefix: str
) -> tuple[Model | None, tuple[Diagnostic, ...]]:
    """The document as `model`, with unknown keys left out, and everything that is wrong with its shape.

    `prefix` (KF, DV) begins the codes: 005 unknown key, 006 missing key, 007 wrong kind of value.
    """
    report: list[Diagnostic] = []
    data = document.data
    if not isinstance(data, dict):
        message = f"expected a mapping with the keys of a {'kernel' if prefix == 'KF' else 'device'}"
        return None, (Diagnostic(prefix + "003", message, document.value()),)
    while True:
        try:
            return model.model_validate(data), tuple(report)
        except ValidationError as error:
            unknown = [tuple(e["loc"]) for e in error.errors() if e["type"] == "extra_forbidden"]
            if not unknown:
                return None, (*report, *_shape_errors(error, document, prefix))
            report += [_unknown_key(model, path, document, prefix) for path in unknown]
            data = _without(data, (), frozenset(unknown))


def _without(data: object, path: Path, unknown: frozenset[Path]) -> Any:
    if isinstance(data, dict):
        return {k: _without(v, (*path, k), unknown) for k, v in data.items() if (*path, k) not in unknown}
    if isinstance(data, list):
        return [_without(v, (*path, i), unknown) for i, v in enumerate(data)]
    return data


def _unknown_key(model: type[BaseModel], path: Path, document: Document, prefix: str) -> Diagnostic:
    holder = _model_at(model, path[:-1])
    hint = closest(str(path[-1]), holder.model_fields) if holder is not None else None
    if hint is None and holder is not None:
        hint = "keys here: " + ", ".join(f"`{name}`" for name in holder.model_fields)
    return Diagnostic(prefix + "005", f"unknown key `{path[-1]}`", document.key(*path), hint)


def _model_at(annotation: Any, path: Sequence[str | int]) -> type[BaseModel] | None:
    """The model whose keys stand at `path`."""
    for part in path:
        annotation = _optional(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            annotation = annotation.model_fields[str(part)].annotation
        elif get_origin(annotation) in (dict, Mapping, list, tuple):
            annotation = next(a for a in reversed(get_args(annotation)) if a is not Ellipsis)
    annotation = _optional(annotation)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _optional(annotation: Any) -> Any:
    """`T` of `T | None`."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        members = [a for a in get_args(annotation) if a is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation


def _shape_errors(error: ValidationError, document: Document, prefix: str) -> list[Diagnostic]:
    """One diagnostic for each place; the members of a union report there separately."""
    report: list[Diagnostic] = []
    expected: dict[Path, list[str]] = {}
    places = [tuple(item["loc"]) for item in error.errors()]
    for item in error.errors():
        loc = tuple(item["loc"])
        if item["type"] == "too_short" and any(p[: len(loc)] == loc and p != loc for p in places):
            continue  # pydantic does not count entries that are wrong, and those are reported
        if item["type"] == "missing":
            holder = document.value(*loc[:-1])
            shown = document.keys.get(loc[:-1]) or Span(holder.source, holder.start, holder.start + 1)
            where = _owner(loc[:-1])
            report.append(Diagnostic(prefix + "006", f"the key `{loc[-1]}`{where} is missing", shown))
            continue
        place = loc
        while place not in document.values:
            place = place[:-1]
        words = _EXPECTED.get(item["type"], item["msg"].lower())
        expected.setdefault(place, []).append(words.format(**item.get("ctx", {})))
    for place, kinds in expected.items():
        found = document.value(*place)
        has_text = found.end > found.start
        span = found if has_text or not place else document.key(*place)
        name = next((f"`{p}`: " for p in reversed(place) if isinstance(p, str)), "")
        message = f"{name}expected {' or '.join(dict.fromkeys(kinds))}"
        hint = _AS_LIST if set(kinds) == {_LIST} else None
        report.append(
            Diagnostic(prefix + "007", message, span, hint if has_text else "nothing is given here")
        )
    return report


def _owner(path: Path) -> str:
    """` of ..`: whose key it is."""
    if not path:
        return ""
    if isinstance(path[-1], int):
        return f" of entry {path[-1] + 1} of `{path[-2]}`"
    return f" of `{path[-1]}`"


_LIST = "a list"
_AS_LIST = "begin each entry with `- ` on a line of its own, or write `[..]`"

_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "literal_error": "{expected}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "too_short": "at least {min_length} entry",
    "none_required": "nothing",
}
