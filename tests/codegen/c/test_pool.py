"""The thread pool of generated code: no data race, no lost round, whoever calls and however often."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.lower import lower
from tests.codegen.kernels import axpy
from tests.codegen.listings import AXPY_VECTOR
from tests.codegen.scripts import script

_MAIN = """
#include <stdio.h>
#include <time.h>
static void *call(void *argument) {
  float *z = argument, x[480], y[480];
  for (int i = 0; i < 480; ++i) x[i] = (float)i, y[i] = 1;
  for (int round = 0; round < 300; ++round) {
    axpy(x, y, z, (float)round);
    for (int i = 0; i < 480; ++i)
      if (z[i] != (float)round * (float)i + 1) return argument;
    /* Long enough, now and then, for the workers to fall asleep. */
    if (round % 100 == 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  return NULL;
}
int main(void) {
  static float z[2][480];
  pthread_t other;
  void *wrong;
  pthread_create(&other, NULL, call, z[1]);
  int status = call(z[0]) != NULL;
  pthread_join(other, &wrong);
  return status || wrong != NULL;
}
"""


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined", None])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_two_callers_share_a_pool(sanitizer: str | None, threads: int, tmp_path: Path) -> None:
    kernel = axpy(480, "{i: [[10], [16]]}").backbone
    program = lower(kernel, script(kernel, AXPY_VECTOR.format(i0=3, i1=10)))
    # Every CPU may be used more than once here, so that there are that many threads on any machine.
    text = print_c(program, threads).replace(
        "pool.cpus[count++] = cpu;", "while (count < POOL_THREADS) pool.cpus[count++] = cpu;"
    )
    (tmp_path / "main.c").write_text(text + _MAIN, encoding="utf-8")
    compiler = find_compiler()
    flags = [f for f in compiler.flags if f not in ("-shared", "-fPIC")]
    flags += [f"-fsanitize={sanitizer}"] if sanitizer else []
    command = [*compiler.command, *flags, "-o", str(tmp_path / "main"), str(tmp_path / "main.c")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0 and sanitizer:
        pytest.skip(f"{compiler.version} has no sanitizer for this: {built.stderr[-200:]}")
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


_AFFINITY = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments) {
  static float x[480], y[480], z[480];
  cpu_set_t wanted, found;
  axpy(x, y, z, 1);
  /* Started on all CPUs; then the caller may use the given ones alone, and is on the last of them. */
  CPU_ZERO(&wanted);
  for (int i = 1; i < count; ++i) CPU_SET(atoi(arguments[i]), &wanted);
  if (count > 1) {
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(atoi(arguments[count - 1]), &last);
    sched_setaffinity(0, sizeof last, &last);
    sched_setaffinity(0, sizeof wanted, &wanted);
  }
  sched_getaffinity(0, sizeof wanted, &wanted);
  axpy(x, y, z, 1);
  sched_getaffinity(0, sizeof found, &found);
  printf("%d %d", CPU_EQUAL(&wanted, &found), caller_cpu);
}
"""


def test_the_caller_runs_apart_from_the_workers_and_may_then_run_where_it_could(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU: nobody can be elsewhere")
    kernel = axpy(480, "{i: [[10], [16]]}").backbone
    program = lower(kernel, script(kernel, AXPY_VECTOR.format(i0=3, i1=10)))
    text = print_c(program, 2).replace(
        "  pool_chunk(0);\n", "  caller_cpu = sched_getcpu();\n  pool_chunk(0);\n"
    )
    text = text.replace("static int pool_run", "static int caller_cpu;\nstatic int pool_run")
    (tmp_path / "main.c").write_text(text + _AFFINITY, encoding="utf-8")
    compiler = find_compiler()
    flags = [f for f in compiler.flags if f not in ("-shared", "-fPIC")]
    subprocess.run([*compiler.command, *flags, "-o", "main", "main.c"], cwd=tmp_path, check=True)
    for allowed, place in (([cpus[0], cpus[1]], cpus[0]), ([cpus[1]], cpus[1]), ([cpus[0]], cpus[0])):
        command = [str(tmp_path / "main"), *map(str, allowed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == f"1 {place}"
