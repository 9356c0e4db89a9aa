"""One propagator in two languages: the C text, compiled, does what the Python function does."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.compiler.c import is_printable, print_c
from spacedsl.compiler.ir import Propagator
from spacedsl.engine.domains import Contradiction
from spacedsl.language.space import EnumChoice
from tests.compiler.test_relations import ORDER, TRIANGLE
from tests.engine.examples import load_text

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
OBJECTS = 3

CLAUSE = """
require forall $a in Things: forall $b in Things: forall $c in Things:
  order($a, $b) is MERGED || kind($a) != kind($b) || order($b, $c) is BEFORE || kind($c) == kind($a)
"""


def cells_of(compiled: CompiledSpace, choice: str) -> tuple[list[int], int]:
    """Cells by flattened object ids, and where the next choice's begin: dense, the diagonal unused."""
    first = 0
    for name, definition in compiled.complete.choices.items():
        count = OBJECTS ** len(definition.params)
        if name == choice:
            return list(range(first, first + count)), first + count
        first += count
    raise KeyError(choice)


class Both:
    """A propagator loaded twice, over vectors in which every pair has a cell."""

    def __init__(self, text: str, folder: Path) -> None:
        self.compiled = compile_space(load_text(ORDER + text))
        (self.propagator,) = self.compiled.module.propagators
        assert is_printable(self.propagator)
        self.enums = {n: c for n, c in self.compiled.complete.choices.items() if isinstance(c, EnumChoice)}
        self.words = sum(OBJECTS ** len(c.params) for c in self.enums.values())
        self._load(self.propagator, folder)

    def _load(self, propagator: Propagator, folder: Path) -> None:
        printed = print_c(propagator, self.compiled.module, self.compiled.complete)
        source, library = folder / "propagator.c", folder / "propagator.so"
        source.write_text(printed.source)
        assert COMPILER is not None
        command = [COMPILER, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([*command, "-o", str(library), str(source)], check=True, timeout=60)
        fields: list[Any] = [
            ("v", ctypes.POINTER(ctypes.c_uint64)),
            ("objects", ctypes.c_int32),
            ("queue", ctypes.POINTER(ctypes.c_int32)),
            ("queued", ctypes.c_int32),
            *((f"at_{name}", ctypes.POINTER(ctypes.c_int32)) for name in printed.choices),
        ]
        self.state_type = type("State", (ctypes.Structure,), {"_fields_": fields})
        self.choices = printed.choices
        self.function = getattr(ctypes.CDLL(str(library)), propagator.name)

    def in_c(self, vector: list[int], objects: tuple[int, ...]) -> list[int] | None:
        words = (ctypes.c_uint64 * self.words)(*vector)
        queue = (ctypes.c_int32 * 64)()
        state: Any = self.state_type()
        state.v, state.objects, state.queue, state.queued = words, OBJECTS, queue, 0
        kept = []
        for name in self.choices:
            cells = cells_of(self.compiled, name)[0]
            table = (ctypes.c_int32 * len(cells))(*cells)
            kept.append(table)
            setattr(state, f"at_{name}", table)
        return list(words) if self.function(ctypes.byref(state), *objects) else None

    def in_python(self, vector: list[int], objects: tuple[int, ...]) -> list[int] | None:
        v = list(vector)
        owner = {
            cell: (name, place)
            for name in self.enums
            for place, cell in enumerate(cells_of(self.compiled, name)[0])
        }

        def narrow(cell: int, mask: int) -> None:
            if not mask:
                raise Contradiction
            v[cell] = mask
            name, place = owner[cell]
            choice = self.enums[name]
            if choice.inverse != tuple(range(len(choice.values))):
                left, right = divmod(place, OBJECTS)
                v[cells_of(self.compiled, name)[0][right * OBJECTS + left]] = choice.invert(mask)

        def make_other(left: int, right: int, _: object) -> None:
            for fixed, other in ((left, right), (right, left)):
                if not v[fixed] & (v[fixed] - 1) and v[fixed] & v[other]:
                    narrow(other, v[other] & ~v[fixed])

        def make_same(left: int, right: int, _: object) -> None:
            shared = v[left] & v[right]
            for cell in (left, right):
                if shared != v[cell]:
                    narrow(cell, shared)

        namespace: dict[str, Any] = {"v": v, "narrow": narrow, "Contradiction": Contradiction}
        namespace.update(make_same=make_same, make_other=make_other)
        for name, choice in self.enums.items():
            cells = cells_of(self.compiled, name)[0]
            rows = [cells[i * OBJECTS : (i + 1) * OBJECTS] for i in range(OBJECTS)]
            namespace[f"at_{name}"] = rows if len(choice.params) == 2 else cells
        exec(self.compiled.code, namespace)
        try:
            namespace[self.propagator.name](*objects)
        except Contradiction:
            return None
        return v

    def random_vector(self, rng: random.Random) -> list[int]:
        vector = [0] * self.words
        for name, choice in self.enums.items():
            cells = cells_of(self.compiled, name)[0]
            for place, cell in enumerate(cells):
                decided = 1 << rng.randrange(len(choice.values))
                mask = decided if rng.random() < 0.6 else rng.randrange(1, choice.full + 1)
                vector[cell] = mask
                if len(choice.params) == 2:
                    left, right = divmod(place, OBJECTS)
                    vector[cells[right * OBJECTS + left]] = choice.invert(mask)
        return vector


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("text", [TRIANGLE, CLAUSE], ids=["relation", "clause"])
def test_the_c_text_narrows_random_domains_as_the_python_text_does(text: str, tmp_path: Path) -> None:
    both = Both(text, tmp_path)
    rng = random.Random(11)
    narrowed = contradicted = 0
    for _ in range(2000):
        vector = both.random_vector(rng)
        objects = tuple(rng.sample(range(OBJECTS), len(both.propagator.arguments)))
        expected = both.in_python(vector, objects)
        assert both.in_c(vector, objects) == expected
        contradicted += expected is None
        narrowed += expected is not None and expected != vector
    assert narrowed > 100
    assert contradicted > 20


def test_what_cannot_be_printed_yet_is_said_to_be_so() -> None:
    text = "choice counter total(): forall $x in Things: sum 1 when: kind($x) is A end\n"
    compiled = compile_space(load_text(ORDER + text))
    (counter,) = compiled.module.propagators
    assert not is_printable(counter)
    with pytest.raises(ValueError, match="count_total"):
        print_c(counter, compiled.module, compiled.complete)
