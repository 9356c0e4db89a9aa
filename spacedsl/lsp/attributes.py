"""What host expressions may read of the objects that backbones and devices provide.

In: the classes of backbones and devices, which mark what they expose. Out: names of attributes by class.
Plain kernels have kinds of their own, which no class shows: nothing is known of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg import backbone
from spacedsl.language import syntax
from spacedsl.lsp.symbols import Index


@cache
def classes() -> Mapping[str, tuple[str, ...]]:
    """The attributes of each class of a backbone, and of `kernel` and `device`, in alphabetical order."""
    found = {
        name: _exposed(cls)
        for name, cls in vars(backbone).items()
        if isinstance(cls, type) and cls.__module__ == backbone.__name__ and _exposed(cls)
    }
    return MappingProxyType({**found, "kernel": _exposed(backbone.Kernel), "device": _exposed(CpuDevice)})


def _exposed(cls: type) -> tuple[str, ...]:
    names: frozenset[str] = getattr(cls, "__exposed__", frozenset())
    return tuple(sorted(names))


def attributes(index: Index, variable: str, ranges_over: str) -> tuple[str, ...]:
    """Those of a variable's objects, by the `type` of its set or of a superset; none if unknown."""
    if variable in ("kernel", "fun", "device"):
        return classes()["device" if variable == "device" else "kernel"]
    seen: set[str] = set()
    names = [ranges_over]
    while names:
        name = names.pop()
        if name in seen or name not in index.sets:
            continue
        seen.add(name)
        node = index.sets[name].node
        if isinstance(node, syntax.Quotient):
            names.append(node.item.set.name.text)
        elif isinstance(node, syntax.Set):
            of = next((key.host.text.strip() for key in node.keys if key.name.text == "type"), "")
            if of in classes():
                return classes()[of]
            names += [use.name.text for use in node.supersets]
    return ()
