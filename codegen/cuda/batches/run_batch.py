"""Checks and times the implementations of this folder on the GPU of this machine: `python run_batch.py`.

In: `batch.json` and, in a folder for each problem, `problem.json`, which says what is there, `cases.npz` with
inputs and expected results, a cubin for each implementation. Out: `results.jsonl`: a line for each, times in
nanoseconds or why there are none, behind one that says what the device is like. Needs NumPy and a driver.

A worker process runs the implementations of a problem, one after the other. Where one hangs or breaks the
device's context, the worker is replaced, and the next one follows; a crash counts once the new worker has
found the device. What has a line already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from spacedsl.codegen.cuda.batches.arena import Arena, CasesError
from spacedsl.codegen.cuda.batches.driver import OUT_OF_MEMORY, DeviceError
from spacedsl.codegen.cuda.batches.measuring import device_of, limits, measure

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"

LIMIT_S = 60.0
"""Of one implementation, in a worker that has its arrays."""
START_S = 300.0
"""Of a worker, until it has its arrays, and of the limits of the device."""
END_S = 20.0
"""Of a worker, until it has ended."""


def work(folder: Path) -> None:
    """A worker: reads numbers of implementations, or `limits`, and answers each with a line."""
    # What a kernel or the driver prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        device = device_of(HERE)
    except DeviceError as error:
        _say(answers, {"message": str(error), "is_no_device": True})
        return
    try:
        arena = Arena(device, folder)
    except (DeviceError, CasesError, MemoryError) as error:
        _say(answers, {"message": str(error) or type(error).__name__})
        return
    about = {"name": device.name, "compute_capability": device.compute_capability, "driver": device.driver,
             "sms": device.sms, "clock_mhz": device.clock_mhz, "l2_bytes": device.l2_bytes}  # fmt: skip
    _say(answers, {"device": about})
    for line in sys.stdin:
        try:
            if line.strip() == "limits":
                answer: dict[str, Any] = {
                    "limits": limits(device, arena.stopwatch, (HERE / "probes.cubin").read_bytes())
                }
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
        with suppress(ProcessLookupError):
            # With what it has started: test cases may be being made.
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)


def _done() -> set[tuple[str, str]]:
    """Problems and digests of what has been run before. A line that was cut off is removed."""
    if not RESULTS.exists():
        return set()
    text = RESULTS.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        os.truncate(RESULTS, whole)
    lines = text[:whole].splitlines()
    return {(found["problem"], found["digest"]) for line in lines if "digest" in (found := json.loads(line))}


class NoDeviceError(Exception):
    """There is no GPU that this batch is for, or it is gone."""


class NoArenaError(Exception):
    """There are no arrays or no test cases of a problem; of others there may be."""


class Run:
    """One run of the whole folder."""

    def __init__(self, results: IO[str], seconds: float | None) -> None:
        self.results, self.seconds = results, seconds
        self.done = _done()
        self.began = time.monotonic()
        self.is_known = False
        """Whether there is a line about the device."""
        self.is_whole = True
        """Whether all problems could be run."""
        self.worker: Worker | None = None

    def run(self) -> None:
        problems = json.loads((HERE / "batch.json").read_text())["problems"]
        for number, problem in enumerate(problems):
            until_s = None
            if self.seconds is not None:
                spent_s = time.monotonic() - self.began
                until_s = spent_s + (self.seconds - spent_s) / (len(problems) - number)
            try:
                self._run_problem(problem, until_s)
            except NoArenaError as error:
                print(f"{problem} cannot be run here: {error}", file=sys.stderr)
                self.is_whole = False
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
                if result["failure"] == "crash":
                    # Without a device, it was not the implementation that failed.
                    self.worker = self._start(problem)
            self._write({"problem": problem, "digest": entry["digest"], **result})
            said = result.get("message") or f"{np.median(result['warm_ns']) / 1e3:.2f} us"
            print(f"{problem} {number + 1}/{len(entries)} {entry['digest'][:12]} {said}", flush=True)

    def _start(self, problem: str) -> Worker:
        worker = Worker(problem)
        if "device" not in worker.about:
            worker.close()
            is_lost = worker.about.get("is_no_device", False)
            raise (NoDeviceError if is_lost else NoArenaError)(worker.about["message"])
        if not self.is_known:
            answer = worker.ask("limits", START_S)
            if "limits" not in answer:
                worker.close()
                # Arrays of another problem may leave more room.
                is_full = answer.get("failure") == "memory"
                raise (NoArenaError if is_full else NoDeviceError)(answer["message"])
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
    return 0 if run.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
