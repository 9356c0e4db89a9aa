"""A kernel of two things that exposes some of what it has, and host expressions evaluated on it."""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.diagnostics import Source, Span
from spacedsl.language.host import Addition, HostExpression, HostKind, callback, exposed, host_expression


@exposed("name", "size", "sizes", "twice", "parent", "table", "secret_free")
@dataclass(eq=False)
class Thing:
    name: str
    size: int
    sizes: tuple[int, ...] = (1, 2, 4)
    parent: Thing | None = None
    hidden: int = 7

    @property
    def table(self) -> dict[str, int]:
        return {"a": 1}

    def twice(self, factor: int = 1) -> int:
        return 2 * self.size * factor

    def __str__(self) -> str:
        return self.name


@exposed("items")
class Kernel:
    items = (Thing("t0", 4), Thing("t1", 6))

    @callback
    def lower(self, thing: Thing) -> Addition:
        return Addition((("Things", (), thing),))

    @callback
    def lower_wrongly(self) -> Addition:
        return None  # type: ignore[return-value]

    def not_marked(self) -> Addition:
        return Addition(())


KERNEL = Kernel()
ENVIRONMENT = {"x": KERNEL.items[0], "y": KERNEL.items[1], "kernel": KERNEL, "device": Thing("gpu", 9)}


def expression(text: str, kind: HostKind = HostKind.VALUE) -> HostExpression:
    """The expression as it stands after one blank and a quote."""
    return host_expression(text, Span(Source("test.space", f' "{text}"'), 2, 2 + len(text)), kind)


def evaluate(text: str, kind: HostKind = HostKind.VALUE) -> object:
    return expression(text, kind).evaluate(ENVIRONMENT)
