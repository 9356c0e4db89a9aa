"""Golden decision lists: implementations written by hand, to be as fast as C written by hand.

In: the files of `golden_lists/`. Out: `GoldenList`s, and the complete candidate that one makes of its
kernel's space. `python -m benchmarks.golden` measures them; nothing is measured here.

A file begins with comments, which say what decides the speed, and with entries: `kernel: axpy`, a file of the
library; `sizes: n=4096`, what the list is for if not those of that file; `test: n=1024`, sizes in which it
is tested; `device: avx2` for one with 16 registers of 8 floats in place of 32 of 16. The script follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.kernel_file import LINALG_SPACE, KernelFile, load_kernel
from spacedsl.language.loader import load_space
from tests.codegen.devices import AVX2, DEVICE
from tests.codegen.scripts import decide, script

FOLDER = Path(__file__).parent / "golden_lists"
LIBRARY = Path(__file__).parents[2] / "kernels" / "library"

_ENTRIES = {"kernel", "sizes", "test", "device"}
_DEVICES = {"avx512": DEVICE, "avx2": AVX2}


@dataclass(frozen=True, slots=True)
class GoldenList:
    name: str
    kernel: str
    """Stem of its file in the library."""
    sizes: Mapping[str, int]
    """That it is for, over those of the file."""
    test_sizes: Mapping[str, int]
    device: CpuDevice
    text: str
    """All of the file, whose line numbers messages show."""

    def kernel_file(self, sizes: Mapping[str, int] | None = None) -> KernelFile:
        """With the sizes that the list is for, unless others are given."""
        return load_kernel(LIBRARY / f"{self.kernel}.yaml", self.sizes if sizes is None else sizes)


def golden_lists() -> tuple[GoldenList, ...]:
    return tuple(read(path) for path in sorted(FOLDER.glob("*.txt")))


def read(path: Path) -> GoldenList:
    text = path.read_text(encoding="utf-8")
    head, _, body = text.partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith("#")]
    entries = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    assert {"kernel", "test"} <= set(entries) <= _ENTRIES, f"{path}: has {sorted(entries)}"
    return GoldenList(
        path.stem,
        entries["kernel"],
        _sizes(entries.get("sizes", "")),
        _sizes(entries["test"]),
        _DEVICES[entries.get("device", "avx512")],
        "\n" * (head.count("\n") + 2) + body,
    )


def _sizes(entry: str) -> dict[str, int]:
    sizes = (part.partition("=") for part in entry.split(",") if part.strip())
    return {name.strip(): int(size) for name, _, size in sizes}


def candidate(golden: GoldenList, kernel: KernelFile) -> Candidate:
    """All decisions of the list, taken one by one in the space; raises `RefusedError`."""
    instance = instantiate(_space(), kernel.backbone, golden.device, Engine.NATIVE)
    root = instance.root()
    assert root is not None
    return decide(instance, root, script(kernel.backbone, golden.text))


@cache
def _space() -> CompiledSpace:
    return compile_space(load_space(LINALG_SPACE))
