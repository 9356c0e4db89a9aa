"""A machine with a GPU that is none: a driver whose kernels are twins, for programs that use the driver.

In: the folder of a batch. Out: the same, with a twin in place of each cubin, and the environment of a process
that finds the driver of `fake_driver.cc`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.cuda.batches.writing import COMPARING, PROBES
from spacedsl.codegen.cuda.twin import build_twin

HERE = Path(__file__).parent
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(')
_GRID = """
static twin_index gridDim, blockDim;
template <class... A> static constexpr size_t fake_count(void (*)(A...)) { return sizeof...(A); }
"""
_RUN = """
#include <utility>
template <class... A, size_t... N>
static void fake_run(void (*kernel)(A...), unsigned blocks, unsigned threads, size_t shared, void **arguments,
                     std::index_sequence<N...>) {
  gridDim.x = blocks;
  blockDim.x = threads;
  LAUNCH(kernel, blocks, threads, shared, 0, *(A *)arguments[N]...);
}
"""


def build_image(code: str, library: Path) -> bytes:
    """What the fake driver loads in place of a cubin: the kernels of the code, called by their names."""
    text = [_GRID, code, _RUN]
    for name in dict.fromkeys(_KERNEL.findall(code)):
        kernel_type = f"std::make_index_sequence<fake_count({name})>()"
        text.append(
            f'extern "C" void run_{name}(unsigned b, unsigned t, size_t s, void **a) '
            f"{{ fake_run({name}, b, t, s, a, {kernel_type}); }}"
        )
    return build_twin("\n".join(text), library).read_bytes()


def substitute(folder: Path) -> None:
    """Twins in place of all cubins of a batch."""
    with tempfile.TemporaryDirectory() as scratch:
        for cubin in folder.glob("*/**/*.cubin"):
            cubin.write_bytes(
                build_image(cubin.with_suffix(".cu").read_text(), Path(scratch) / f"{cubin.stem}.so")
            )
    substitute_own(folder)


def substitute_own(folder: Path) -> None:
    """The same of what no implementation is; of probes, which would take a CPU long, nothing is left."""
    with tempfile.TemporaryDirectory() as scratch:
        names = _KERNEL.findall(PROBES.read_text())
        runs = (f'extern "C" void run_{name}(unsigned, unsigned, size_t, void **) {{}}' for name in names)
        comparing = build_image(COMPARING.read_text(), Path(scratch) / "comparing.so")
        (folder / "comparing.cubin").write_bytes(comparing)
        (folder / "probes.cubin").write_bytes(
            build_twin("\n".join(runs), Path(scratch) / "probes.so").read_bytes()
        )


def environment(folder: Path) -> dict[str, str]:
    """Builds the driver in a folder: what a process needs to find it there."""
    flags = ("-O1", "-w", "-x", "c++", "-std=c++17", "-shared", "-fPIC")
    library = build_library((HERE / "fake_driver.cc").read_text(), folder / "libcuda.so.1", flags=flags)
    shutil.copy(library, folder / "libnvidia-ml.so.1")
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}
