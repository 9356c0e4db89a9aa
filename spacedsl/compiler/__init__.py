"""The compiler: a typed space becomes propagators, which are printed as Python or as C.

typed space --clauses--> clauses, counts --relations--> relations --lower--> propagator IR --python, c--> text

The Python is printed when somebody asks for it, and the C (`compiler/c`) where no library of it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType

from spacedsl.compiler.ir import Module
from spacedsl.compiler.lower import lower
from spacedsl.compiler.python import PythonModule, print_python
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.language.space import Space

__all__ = ["CompiledSpace", "compile_space", "refusals"]


@dataclass(frozen=True, eq=False)
class CompiledSpace:
    """A space with its propagators; nothing here depends on a kernel."""

    space: Space
    complete: Space
    """The space with the internal counters that decide its quotients among its choices."""
    module: Module
    digest: str = field(default="", init=False)
    """Of the text that all this was made of; none, as `replace` leaves it, where a part was changed since."""

    @cached_property
    def python(self) -> PythonModule:
        return print_python(self.module, self.complete)

    @cached_property
    def code(self) -> CodeType:
        """Of the Python module."""
        return compile(self.python_source, f"<propagators of {self.space.name}>", "exec", dont_inherit=True)

    @property
    def python_source(self) -> str:
        """The propagators as a Python module, each with the text of the space that it comes from."""
        return self.python.source


MOST_KEPT = 16
_kept: dict[tuple[str, str, tuple[str, ...]], CompiledSpace] = {}
"""By digest, name and files, which messages name; the one asked for last at the end."""


def compile_space(space: Space) -> CompiledSpace:
    """Compiles; raises `DiagnosticError` (SP30x) for what has no normal form.

    The last `MOST_KEPT` spaces that have a digest are kept, so that each is compiled once.
    """
    key = space.digest, space.name, space.sources
    if key in _kept:
        _kept[key] = _kept.pop(key)
        return _kept[key]
    module, complete = lower(space)
    compiled = CompiledSpace(space, complete, module)
    if space.digest:
        object.__setattr__(compiled, "digest", space.digest)
        _kept[key] = compiled
        if len(_kept) > MOST_KEPT:
            del _kept[next(iter(_kept))]
    return compiled


def refusals(space: Space) -> tuple[Diagnostic, ...]:
    """What of a checked space cannot be compiled."""
    try:
        compile_space(space)
    except DiagnosticError as error:
        return error.diagnostics
    return ()
