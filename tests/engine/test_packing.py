"""Packed candidates: the same vectors again, from few bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.engine.packing import Packing
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language.loader import load_space
from tests.engine.agreement import random_step
from tests.engine.small import Things, things, world
from tests.engine.test_linalg_against_oracles import MATMUL, SmallCpu

TWICE = MATMUL.replace("i: [[2, 4]], j: [[2, 4]]", "i: [[2], [2]], j: [[2], [2]]")


def check_round_trips(instance: Instance, descents: int) -> Packing:
    root = instance.root()
    assert root is not None
    packing = Packing(root)
    for descent in range(descents):
        rng = random.Random(descent)
        candidate = root
        while not candidate.is_complete:
            packed = packing.pack(candidate)
            assert len(packed) == packing.size_bytes
            assert packing.unpack(packed).vector == candidate.vector
            child = instance.restrict(candidate, *random_step(candidate, rng))
            if child is None:
                break
            candidate = child
    return packing


@pytest.mark.parametrize("engine", Engine)
def test_candidates_of_a_matrix_product_tiled_twice_pack_into_half_a_kilobyte(
    tmp_path: Path, engine: Engine
) -> None:
    path = tmp_path / "matmul.yaml"
    path.write_text(TWICE)
    compiled = compile_space(load_space(Path("kernels/spaces/linalg.space")))
    instance = instantiate(compiled, load_kernel(path).backbone, SmallCpu(), engine)
    packing = check_round_trips(instance, 1 if engine is Engine.PYTHON else 6)
    # 35 statements, and 12 that triggers may add.
    assert 100 < packing.size_bytes < 512
    root = instance.root()
    assert root is not None
    assert len(root.vector) * root.vector.itemsize > 10 * packing.size_bytes


def test_wide_integers_and_objects_that_triggers_add_are_packed_too() -> None:
    text = """
choice integer size($x in Things): "$x.sizes" end
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
choice counter total(): forall $x in Things: sum size($x) when: kind($x) is B end
trigger forall $x in Things: "$kernel.add_spare($x)" when kind($x) is A
require total() >= 30
require forall $x in Things: forall $y in Things: size($x) != size($y) || kind($x) is C
"""
    nodes = things(3, sizes=tuple(range(1, 100)))
    for number, node in enumerate(nodes):
        node.spare = things(10, sizes=(3, 70))[5 + number]
    check_round_trips(world(text, Things(nodes)).instance, 4)


def test_bytes_of_another_root_are_refused() -> None:
    here = world("choice enum c($x in Things):\n  value A:\n  value B:\nend", 3)
    packing = Packing(here.root())
    with pytest.raises(ValueError, match="4 bytes"):
        packing.unpack(b"\x01\x01\x01\x01")
    for packed in (b"\x3c", b"\xd5"):  # no value for the first; a bit of no value
        with pytest.raises(ValueError, match="contradict"):
            packing.unpack(packed)
    assert packing.pack(packing.unpack(b"\x15")) == b"\x15"
