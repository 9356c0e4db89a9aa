"""Tiny kernels of plain things, and spaces over them written in place, for tests of single features."""

from __future__ import annotations

from dataclasses import dataclass, field

from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.language.host import Addition, callback, exposed
from tests.engine.examples import load_text


@exposed("id", "name", "weight", "sizes", "near", "spare")
@dataclass(slots=True, eq=False, repr=False)
class Thing:
    id: int
    name: str
    weight: int = 1
    sizes: tuple[int, ...] = (1, 2, 4)
    near: tuple[Thing, ...] = ()
    spare: Thing | None = None
    """What a trigger may add for this thing."""

    def __repr__(self) -> str:
        return self.name


@exposed("things", "some", "add_spare", "add_to_some")
@dataclass(slots=True, eq=False)
class Things:
    things: tuple[Thing, ...]
    some: tuple[Thing, ...] = ()

    @callback
    def add_spare(self, thing: Thing) -> Addition:
        if thing.spare is None:
            return Addition(())
        return Addition((("Things", (), thing.spare),))

    @callback
    def add_to_some(self, thing: Thing) -> Addition:
        return Addition((("Some", (), thing),))


@exposed("limit")
@dataclass(frozen=True, slots=True)
class Machine:
    limit: int = 4


SETS = """\
set Things: iterator = "$kernel.things" end
set Some subsetof Things: iterator = "$kernel.some" end
set Near($thing in Things) subsetof Things: iterator = "$thing.near" end
"""

KIND = """
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
"""


@dataclass(slots=True)
class World:
    """An instance with its things by position, and shorter words for what tests do all the time."""

    kernel: Things
    instance: Instance
    things: tuple[Thing, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.things = self.kernel.things

    def root(self) -> Candidate:
        root = self.instance.root()
        assert root is not None, "the space is empty"
        return root

    def set(
        self, candidate: Candidate, choice: str, *things: Thing, to: tuple[str | int, ...]
    ) -> Candidate | None:
        """The candidate in which a choice has one of these values, in the orientation that is asked for."""
        names = tuple(thing.name for thing in things)
        return self.instance.decide(candidate, Decision(choice, names, to))

    def made(self, candidate: Candidate, choice: str, *things: Thing, to: tuple[str | int, ...]) -> Candidate:
        """The same where it must not be contradictory."""
        child = self.set(candidate, choice, *things, to=to)
        assert child is not None, f"{choice} of {things} cannot be {to}"
        return child


def things(count: int, **attributes: object) -> tuple[Thing, ...]:
    """Things `t0`, `t1`, .. with the same attributes."""
    return tuple(Thing(i, f"t{i}", **attributes) for i in range(count))  # type: ignore[arg-type]


def world(text: str, kernel: Things | int, engine: Engine = Engine.PYTHON) -> World:
    """Loads, compiles and instantiates the text after `SETS`; a number stands for so many plain things."""
    chosen = Things(things(kernel)) if isinstance(kernel, int) else kernel
    return World(chosen, instantiate(compile_space(load_text(SETS + text)), chosen, Machine(), engine))
