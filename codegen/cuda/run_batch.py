"""Checks and times the implementations of this folder on the GPU of this machine: `python run_batch.py`.

In: `batch.json` and, in a folder for each problem, `problem.json`, which says what is there, `cases.npz` with
inputs and expected results, a cubin for each implementation. Out: `results.jsonl`: a line for each, times in
nanoseconds or why there are none, behind one that says what the device is like. Needs NumPy and a driver.

A worker process runs the implementations of a problem, one after the other. Where one hangs or breaks the
device's context, the worker is replaced, and the next one follows. What has a line already is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from spacedsl.codegen.cuda.driver import OUT_OF_MEMORY, Array, Clock, Device, DeviceError, Launch, Stopwatch

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"

LIMIT_S = 60.0
"""Of one implementation, in a worker that has its arrays."""
START_S = 300.0
"""Of a worker, until it has its arrays, and of the limits of the device."""
END_S = 20.0
"""Of a worker, until it has ended."""
SLOW = 2.0
"""Of what takes so many times as long as the best, few samples are enough."""
GUARD_BYTES = 4096
"""In front of each array and behind it."""
GUARD = 0xA5
COPIED_BYTES = 256 << 20
CHUNK = 1 << 22
"""Elements that are compared at a time."""


# ---- The limits of the device --------------------------------------------------------------------------


def limits(device: Device, stopwatch: Stopwatch) -> dict[str, float]:
    """What a launch costs, and the most that memory and arithmetic give: bytes, operations per nanosecond."""
    probes = device.load((HERE / "probes.cubin").read_bytes())
    kernel = {
        name: device.function(probes, name) for name in ("empty", "copy", "fma_f32", "fma_f64", "mma_bf16")
    }
    empty = device.prepare(kernel["empty"], 1, 32, 0, [])
    found = {
        f"launch_{cache}_ns": _median_ns(stopwatch, empty, is_cold=cache == "cold")
        for cache in ("warm", "cold")
    }
    to, source = (device.allocate(COPIED_BYTES) for _ in range(2))
    device.fill(source, 0, COPIED_BYTES)
    copies = [
        device.prepare(
            kernel["copy"], per_sm * device.sms, threads, 0,
            [np.uint64(to), np.uint64(source), np.int64(COPIED_BYTES // 16)],
        )
        for per_sm in (2, 4, 8, 16)
        for threads in (256, 512, 1024)
    ]  # fmt: skip
    found["copy_bytes_per_ns"] = 2 * COPIED_BYTES / min(_median_ns(stopwatch, each) for each in copies)
    rounds = 16
    for name, argument, operations in (
        ("fma_f32", [np.float32(0.5)], 1024 * 256),
        ("fma_f64", [np.float64(0.5)], 1024 * 256),
        ("mma_bf16", [], 64 * 4096 * 256 // 32),
    ):
        launches = [
            device.prepare(
                kernel[name], per_sm * device.sms, 256, 0, [np.uint64(to), *argument, np.int32(rounds)]
            )
            for per_sm in (4, 8)
        ]
        times_ns = [_median_ns(stopwatch, each) for each in launches]
        found[f"{name}_flops_per_ns"] = max(
            operations * rounds * per_sm * device.sms / time_ns
            for per_sm, time_ns in zip((4, 8), times_ns, strict=True)
        )
    device.synchronize()
    for address in (to, source):
        device.free(address)
    device.unload(probes)
    return found


def _median_ns(stopwatch: Stopwatch, launch: Launch, *, is_cold: bool = False) -> float:
    return float(np.median(stopwatch.samples_ns(partial(stopwatch.device.launch, launch), is_cold=is_cold)))


# ---- One problem ---------------------------------------------------------------------------------------


def make_cases(folder: Path) -> None:
    """The test cases of a problem that came without them; raises `CasesError`."""
    command = [sys.executable, "-m", "spacedsl.codegen.cuda.batch_cases", str(folder)]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        last = ran.stderr.strip().rpartition("\n")[2]
        raise CasesError(f"{folder.name} came without test cases, which need spacedsl here: {last}")


class CasesError(Exception):
    """There is nothing to check with."""


class Arena:
    """The arrays of a problem on the device, with guards around them that nothing may write to."""

    def __init__(self, device: Device, folder: Path) -> None:
        self.device, self.folder = device, folder
        self.problem: dict[str, Any] = json.loads((folder / "problem.json").read_text())
        if not (folder / "cases.json").exists():
            make_cases(folder)
        self.cases: list[dict[str, Any]] = json.loads((folder / "cases.json").read_text())
        with np.load(folder / "cases.npz") as arrays:
            self.arrays: dict[str, Array] = dict(arrays)
        self.sizes = {t["name"]: int(t["nbytes"]) for t in self.problem["tensors"]}
        self.addresses = {name: self._guarded(nbytes) for name, nbytes in self.sizes.items()}
        self.scratch: dict[str, tuple[int, int]] = {}
        self.stopwatch = Stopwatch(device)
        self.clock = Clock(device)
        self.best_ns: dict[str, float] = {}
        """Of the implementations that this process has timed: `warm_ns`, `cold_ns`."""

    def _guarded(self, nbytes: int) -> int:
        return self.device.allocate(nbytes + 2 * GUARD_BYTES) + GUARD_BYTES

    def room(self, name: str, nbytes: int) -> int:
        """The address of an array that an implementation has for itself."""
        address, size = self.scratch.get(name, (0, -1))
        if size < nbytes:
            if address:
                self.device.free(address - GUARD_BYTES)
            address, size = self._guarded(nbytes), nbytes
            self.scratch[name] = (address, size)
        return address

    def enter(self, case: int) -> None:
        """Inputs as they are in a case, outputs that are no numbers."""
        for name, address, nbytes in self._arrays():
            for end in (address - GUARD_BYTES, address + nbytes):
                self.device.fill(end, GUARD, GUARD_BYTES)
            if name in self.sizes and (array := self.arrays.get(f"{case}/in/{name}")) is not None:
                self.device.upload(address, array)
            elif name in self.sizes:
                self.device.fill(address, 0xFF, nbytes)

    def _arrays(self) -> Iterator[tuple[str, int, int]]:
        for name, nbytes in self.sizes.items():
            yield name, self.addresses[name], nbytes
        for name, (address, nbytes) in self.scratch.items():
            yield name, address, nbytes

    def wrong(self, case: int) -> str:
        """What is wrong with the outputs, or with what lies around an array; empty where nothing is."""
        about = self.cases[case]
        for tensor in self.problem["tensors"]:
            expected = self.arrays.get(f"{case}/out/{tensor['name']}")
            if expected is None:
                continue
            found = np.empty_like(expected)
            self.device.download(found, self.addresses[tensor["name"]])
            at = _difference(_elements(found, tensor), _elements(expected, tensor), about, tensor)
            if at is not None:
                values = (_elements(flat, tensor)[at] for flat in (found, expected))
                got, wanted = (_numbers(value, tensor) for value in values)
                return f"{tensor['name']}{list(at)} is {got}, not {wanted} (inputs: {about['name']})"
        guard = np.empty(GUARD_BYTES, np.uint8)
        for name, address, nbytes in self._arrays():
            for end, where in ((address - GUARD_BYTES, "before"), (address + nbytes, "behind")):
                self.device.download(guard, end)
                if not (guard == GUARD).all():
                    return f"something was written {where} {name}"
        return ""


def _elements(flat: Array, tensor: dict[str, Any]) -> Array:
    """The elements of a tensor among all that lies between its first and its last one, as they are kept."""
    strides = [s * flat.itemsize for s in tensor["strides"]]
    return np.lib.stride_tricks.as_strided(flat, tensor["shape"], strides)


def _numbers(kept: Array, tensor: dict[str, Any]) -> Array:
    """What `bf16` and `f16` are kept as bits of; others as they are."""
    if tensor["dtype"] == "bf16":
        return (kept.astype(np.uint32) << 16).view(np.float32)
    if tensor["dtype"] == "f16":
        return kept.view(np.float16).astype(np.float32)
    return kept


def _difference(
    found: Array, expected: Array, case: dict[str, Any], tensor: dict[str, Any]
) -> tuple[int, ...] | None:
    """The index of the first element that is off by more than the tolerance; None where there is none."""
    tolerance = case["tolerances"][tensor["name"]]
    rows = max(1, CHUNK * len(expected) // max(expected.size, 1)) if expected.ndim else 1
    for first in range(0, len(expected) if expected.ndim else 1, rows):
        part = np.s_[first : first + rows] if expected.ndim else ()
        got, wanted = (_numbers(np.ascontiguousarray(a[part]), tensor) for a in (found, expected))
        if got.dtype.kind in "iu":
            got, wanted = got.astype(np.float64), wanted.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            is_near = np.abs(got - wanted) <= tolerance
        if is_near.all():
            continue
        is_near |= (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        if not is_near.all():
            at = [int(n) for n in np.argwhere(~is_near.reshape(got.shape))[0]]
            return (first + at[0], *at[1:]) if expected.ndim else ()
    return None


class Implementation:
    """One, loaded."""

    def __init__(self, arena: Arena, entry: dict[str, Any]) -> None:
        self.arena, self.entry = arena, entry
        self.module = arena.device.load((arena.folder / entry["cubin"]).read_bytes())
        self.kernels = [
            arena.device.function(self.module, launch["name"], launch["shared"])
            for launch in entry["launches"]
        ]
        self.addresses = dict(arena.addresses)
        for scratch in entry["scratch"]:
            address = arena.room(scratch["name"], scratch["nbytes"])
            arena.device.fill(address, 0 if scratch["is_zeroed"] else 0xFF, scratch["nbytes"])
            self.addresses[scratch["name"]] = address

    def prepared(self, parameters: dict[str, float]) -> list[Launch]:
        """Its launches with their arguments, in order."""
        return [
            self.arena.device.prepare(
                kernel, launch["blocks"], launch["threads"], launch["shared"],
                [self._argument(name, parameters) for name in launch["arguments"]],
            )
            for kernel, launch in zip(self.kernels, self.entry["launches"], strict=True)
        ]  # fmt: skip

    def _argument(self, name: str, parameters: dict[str, float]) -> np.generic:
        if name in self.addresses:
            return np.uint64(self.addresses[name])
        kinds: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
        value: np.generic = kinds[self.arena.problem["parameters"][name]](parameters[name])
        return value

    def close(self) -> None:
        self.arena.device.unload(self.module)


def measure(arena: Arena, entry: dict[str, Any]) -> dict[str, Any]:
    """Checked on all test cases, then timed on the first one, warm and cold, and checked once more."""
    implementation = Implementation(arena, entry)
    cases = arena.cases
    for case in reversed(range(len(cases))):
        arena.enter(case)
        for launch in implementation.prepared(cases[case]["parameters"]):
            arena.device.launch(launch)
        arena.device.synchronize()
        wrong = arena.wrong(case)
        if wrong:
            implementation.close()
            return {"failure": "wrong_result", "message": wrong}
    launches = implementation.prepared(cases[0]["parameters"])
    call = partial(arena.device.launch_all, launches)
    times = {}
    for cache in ("warm", "cold"):
        name = f"{cache}_ns"
        best_ns = arena.best_ns.get(name, math.inf)
        times[name] = arena.stopwatch.samples_ns(call, is_cold=cache == "cold", enough_ns=SLOW * best_ns)
        arena.best_ns[name] = min(best_ns, float(np.median(times[name])))
    clock = arena.clock.sm_mhz()
    wrong = arena.wrong(0)
    implementation.close()
    if wrong:
        return {"failure": "wrong_result", "message": f"after it was timed: {wrong}"}
    return {**times, "sm_mhz": clock}


# ---- Processes -----------------------------------------------------------------------------------------


def work(folder: Path) -> None:
    """A worker: reads numbers of implementations, or `limits`, and answers each with a line."""
    # What a kernel or the driver prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    batch = json.loads((HERE / "batch.json").read_text())
    try:
        device = Device()
        if device.compute_capability != batch["compute_capability"]:
            is_of = f"{device.name} is of compute capability {device.compute_capability}"
            wanted = f"the batch is for {batch['device']}, {batch['compute_capability']}"
            raise DeviceError(f"{is_of}, and {wanted}")
        arena = Arena(device, folder)
    except (DeviceError, CasesError, MemoryError) as error:
        _say(answers, {"message": str(error)})
        return
    about = {"name": device.name, "compute_capability": device.compute_capability, "driver": device.driver,
             "sms": device.sms, "clock_mhz": device.clock_mhz, "l2_bytes": device.l2_bytes}  # fmt: skip
    _say(answers, {"device": about})
    for line in sys.stdin:
        try:
            if line.strip() == "limits":
                answer: dict[str, Any] = {"limits": limits(device, arena.stopwatch)}
            else:
                answer = measure(arena, arena.problem["implementations"][int(line)])
        except DeviceError as error:
            # Whatever it was, the context may be gone: the next one gets a new worker.
            failure = "memory" if error.status == OUT_OF_MEMORY else "crash"
            _say(answers, {"failure": failure, "message": str(error), "is_over": True})
            return
        _say(answers, answer)


def _say(answers: IO[str], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


class Worker:
    def __init__(self, problem: str) -> None:
        command = [sys.executable, str(HERE / "run_batch.py"), "--worker", problem]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.about = self.answer(START_S)

    def ask(self, question: str, limit_s: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{question}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._lost()
        return self.answer(limit_s)

    def answer(self, limit_s: float) -> dict[str, Any]:
        """The next line; where none comes in time, the worker is ended."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(limit_s):
                self.close()
                return {"failure": "run_timeout", "message": f"no answer in {limit_s:g} s", "is_over": True}
        try:
            found: dict[str, Any] = json.loads(self.process.stdout.readline())
        except ValueError:
            return self._lost()
        return found

    def _lost(self) -> dict[str, Any]:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self.close()
        message = f"the worker ended with status {self.process.returncode}"
        return {"failure": "crash", "message": message, "is_over": True}

    def close(self) -> None:
        """A worker that the driver does not let go is left alone."""
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)


def _done() -> set[tuple[str, str]]:
    """Problems and digests of what has been run before. A line that was cut off is removed."""
    if not RESULTS.exists():
        return set()
    text = RESULTS.read_text()
    lines = text.splitlines()[: text.count("\n")]
    RESULTS.write_text("".join(f"{line}\n" for line in lines))
    return {(found["problem"], found["digest"]) for line in lines if "digest" in (found := json.loads(line))}


class NoDeviceError(Exception):
    """There is no GPU that this batch is for, or it is gone."""


class Run:
    """One run of the whole folder."""

    def __init__(self, results: IO[str], seconds: float | None) -> None:
        self.results, self.seconds = results, seconds
        self.done = _done()
        self.began = time.monotonic()
        self.is_known = False
        """Whether there is a line about the device."""
        self.worker: Worker | None = None

    def run(self) -> None:
        problems = json.loads((HERE / "batch.json").read_text())["problems"]
        for number, problem in enumerate(problems):
            until_s = None
            if self.seconds is not None:
                spent_s = time.monotonic() - self.began
                until_s = spent_s + (self.seconds - spent_s) / (len(problems) - number)
            self._run_problem(problem, until_s)
            self.close()

    def _run_problem(self, problem: str, until_s: float | None) -> None:
        entries = json.loads((HERE / problem / "problem.json").read_text())["implementations"]
        for number, entry in enumerate(entries):
            if (problem, entry["digest"]) in self.done:
                continue
            if until_s is not None and time.monotonic() - self.began > until_s:
                print(f"{problem}: no time is left after {number} of {len(entries)}", file=sys.stderr)
                return
            worker = self.worker = self.worker or self._start(problem)
            result = worker.ask(str(number), LIMIT_S)
            if result.pop("is_over", False):
                self.close()
            self._write({"problem": problem, "digest": entry["digest"], **result})
            said = result.get("message") or f"{np.median(result['warm_ns']) / 1e3:.2f} us"
            print(f"{problem} {number + 1}/{len(entries)} {entry['digest'][:12]} {said}", flush=True)

    def _start(self, problem: str) -> Worker:
        worker = Worker(problem)
        if "device" not in worker.about:
            worker.close()
            raise NoDeviceError(worker.about["message"])
        if not self.is_known:
            answer = worker.ask("limits", START_S)
            if "limits" not in answer:
                worker.close()
                raise NoDeviceError(answer["message"])
            self._write({**worker.about, **answer, "host": platform.node()})
            self.is_known = True
        return worker

    def _write(self, line: dict[str, Any]) -> None:
        self.results.write(json.dumps(line) + "\n")
        self.results.flush()

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
        self.worker = None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worker", metavar="PROBLEM", help=argparse.SUPPRESS)
    parser.add_argument(
        "--seconds", type=float, default=None, help="begin nothing new after this long, shared by problems"
    )
    options = parser.parse_args()
    if options.worker is not None:
        work(HERE / options.worker)
        return 0
    with RESULTS.open("a") as results:
        run = Run(results, options.seconds)
        try:
            run.run()
        except NoDeviceError as error:
            print(f"no GPU can be used here: {error}", file=sys.stderr)
            return 5
        except KeyboardInterrupt:
            print("interrupted: the same command goes on", file=sys.stderr)
            return 130
        finally:
            run.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
