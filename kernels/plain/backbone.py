"""The plain backbone: objects with a name and attributes, all of them written in a kernel file.

In: built by `plain/kernel_file.py`. Out: what host expressions read as `$kernel` and as the members of sets:
each kind of objects and each parameter is an attribute of the kernel, and each attribute of an object is one
of the object. It means nothing by itself: whatever follows from an attribute stands in a `.space` file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spacedsl.language.host import Addition, callback, exposed
from spacedsl.language.host_runtime import RefusedError, describe


@exposed("id", "name")
class PlainObject:
    """One object. Every kind has a class of its own, named as the kind, whose attributes are exposed."""

    __slots__ = ("id", "name")

    id: int
    """Position in the file."""
    name: str

    def __repr__(self) -> str:
        return self.name


@exposed("name")
class PlainKernel:
    """All objects of a file. Every file has a class of its own, which exposes its kinds and parameters."""

    __slots__ = ("name",)

    name: str

    @callback
    def add(self, set_name: object, objects: object, *arguments: object) -> Addition:
        """What a trigger adds: an object, or several, to a set (with these arguments if it takes some)."""
        if not isinstance(set_name, str):
            raise RefusedError(f"`add` needs the name of a set in quotes first, not {describe(set_name)}")
        items = objects if isinstance(objects, tuple) else (objects,)
        for item in (*items, *arguments):
            if not isinstance(item, PlainObject):
                raise RefusedError(f"`add` adds objects, not {describe(item)}")
        return Addition(tuple((set_name, arguments, item) for item in items))

    def __repr__(self) -> str:
        return self.name


KERNEL_ATTRIBUTES = frozenset({"add", "name"})
"""Names that no kind and no parameter can have."""

OBJECT_ATTRIBUTES = frozenset({"id", "name"})
"""Names of attributes that every object has."""


def kind_class(kind: str, attributes: Iterable[str]) -> type[PlainObject]:
    """The class of the objects of a kind."""
    names = tuple(attributes)
    return exposed(*names)(type(kind, (PlainObject,), {"__slots__": names}))


def build_kernel(name: str, members: Mapping[str, object]) -> PlainKernel:
    """The kernel with its kinds (tuples of objects) and parameters."""
    made: type[PlainKernel] = exposed(*members)(type("kernel", (PlainKernel,), {"__slots__": tuple(members)}))
    kernel = made()
    kernel.name = name
    for member, value in members.items():
        setattr(kernel, member, value)
    return kernel
