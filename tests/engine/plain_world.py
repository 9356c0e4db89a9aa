"""Plain objects and a space over them, both as text, and candidates spoken of by names: `foo(a, b)`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.kernels.kernel_file import LINALG_SPACE
from spacedsl.kernels.located_yaml import parse_document
from spacedsl.kernels.plain.kernel_file import check_plain
from spacedsl.language.space import EnumChoice
from tests.engine.examples import load_text

ABC = "value A: value B: value C:"
"""The values of most enums of the scenarios."""
SETS = """
set Insts: iterator = "$kernel.insts" end
set Dims: iterator = "$kernel.dims" end
"""


@dataclass(frozen=True, slots=True)
class PlainWorld:
    instance: Instance

    @property
    def root(self) -> Candidate:
        root = self.instance.root()
        assert root is not None, "the space is empty"
        return root

    def set(self, candidate: Candidate, use: str, *values: str | int) -> Candidate | None:
        """The candidate in which the choice has one of these values; None where that is contradictory."""
        choice, names = _parts(use)
        definition = self.instance.space.choices[choice]
        if isinstance(definition, EnumChoice):
            values = definition.names(definition.mask(*map(str, values)))
        return self.instance.decide(candidate, Decision(choice, names, values))

    def after(self, *uses: tuple[str | int, ...], since: Candidate | None = None) -> Candidate:
        """The candidate after decisions `("foo(a)", "A", "B")`, none of which must be contradictory."""
        candidate = since or self.root
        for use, *values in uses:
            child = self.set(candidate, str(use), *values)
            assert child is not None, f"{use} cannot be {values}"
            candidate = child
        return candidate

    def left(self, candidate: Candidate, use: str) -> tuple[str, ...] | tuple[int, ...]:
        """The values that a choice still has."""
        choice, names = _parts(use)
        return candidate.possible(choice, *self._objects(names))

    def interval(self, candidate: Candidate, use: str) -> tuple[int, int]:
        choice, names = _parts(use)
        return candidate.interval(choice, *self._objects(names))

    def is_present(self, candidate: Candidate, use: str) -> bool:
        """Whether the objects of a decision are there for certain."""
        choice, names = _parts(use)
        return candidate.is_present(self.instance.variable(choice, *self._objects(names)))

    def _objects(self, names: tuple[str, ...]) -> tuple[object, ...]:
        objects = self.instance.objects
        return tuple(objects.objects[objects.names.index(name)] for name in names)


def plain_world(objects: str, space: str) -> PlainWorld:
    """`objects` stands below `objects:` in a kernel file; `space` is all of a `.space` file."""
    text = f"kernel: world\nbackbone: plain\nspace: {LINALG_SPACE.name}\nobjects:\n" + "\n".join(
        f"  {line}" for line in objects.strip().splitlines()
    )
    # Any space that exists: the one to be used is given as text.
    document = parse_document(Source("world.yaml", text), "KF")
    kernel = check_plain(document, LINALG_SPACE).backbone
    return PlainWorld(instantiate(compile_space(load_text(space)), kernel, None))


def _parts(use: str) -> tuple[str, tuple[str, ...]]:
    match = re.fullmatch(r"(\w+)\((.*)\)", use)
    assert match is not None, use
    return match[1], tuple(name.strip() for name in match[2].split(",")) if match[2] else ()
