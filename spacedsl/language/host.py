"""Host expressions: the quoted Python subset of a `.space` file, checked, compiled once, evaluated at instantiation.

In: the text between the quotes. Out: a `HostExpression`, whose value depends only on the objects bound to
its variables. It reaches what the classes of backbone and device objects expose and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def exposed(*attributes: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: host expressions may read these attributes of the class's instances."""

    def mark(cls: type[T]) -> type[T]:
        setattr(cls, "__exposed__", frozenset(attributes) | getattr(cls, "__exposed__", frozenset()))  # noqa: B010
        return cls

    return mark


class HostExpression:
    """Placeholder of the interface; see the module's docstring.

    Fields: `text: str`, `span: Span` (inside the quotes), `variables: tuple[str, ...]` (sorted, without `$`,
    `kernel` and `device` among them where used; `$fun` has become `kernel`).
    """

    text: str
    variables: tuple[str, ...]
