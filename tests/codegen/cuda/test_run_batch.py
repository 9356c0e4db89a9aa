"""The runner of batches in parts: what it compares, how it waits, what its probes do."""

from __future__ import annotations

import ctypes
import errno
import io
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from spacedsl.codegen.cuda.batches import arena, driver, run_batch
from spacedsl.codegen.cuda.batches.writing import COMPARING, PROBES
from spacedsl.codegen.running.differences import first_difference
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import elements
from tests.codegen.cuda.fake_gpu import build_image

NEAR = np.array(0.25)


@pytest.mark.parametrize("shape", [(), (7,), (5, 3), (4, 3, 2)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I32, DType.BF16, DType.F16])
def test_the_one_element_that_is_off_is_found(
    shape: tuple[int, ...], dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena, "CHUNK", 4)
    tensor = {"name": "C", "dtype": dtype.label}
    values = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    wrong = values.copy()
    at = tuple(extent - 1 for extent in shape)
    wrong[at] += 1.0
    right, off = (elements(dtype, array) for array in (values, wrong))
    assert arena._difference(right, right, NEAR, tensor) is None
    assert arena._difference(off, right, NEAR, tensor) == at


def test_what_is_no_number_is_near_to_nothing_but_itself() -> None:
    tensor, nan = {"name": "C", "dtype": "f32"}, np.float32("nan")
    some, other = np.array([nan, np.inf, 1.0], np.float32), np.array([nan, np.inf, nan], np.float32)
    assert arena._difference(some, some, NEAR, tensor) is None
    assert arena._difference(some, other, NEAR, tensor) == (2,)
    assert arena._difference(other, some, NEAR, tensor) == (2,)


def test_each_element_may_have_a_tolerance_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "CHUNK", 4)
    tensor, right = {"name": "C", "dtype": "f32"}, np.zeros((5, 3), np.float32)
    tolerance = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert arena._difference(right + tolerance, right, tolerance, tensor) is None
    tolerance[3, 1] = 9
    assert arena._difference(right + np.float32(9.5), right, tolerance + 1, tensor) == (0, 0)
    off = right.copy()
    off[3, 1] = 9.5
    assert arena._difference(off, right, tolerance, tensor) == (3, 1)


def test_where_anything_may_be_there_may_be_no_number() -> None:
    """As where workers compare."""
    tensor = {"name": "C", "dtype": "f32"}
    some, other = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 2], np.float32)
    tolerance = np.array([np.inf, np.inf, 0], np.float32)
    assert arena._difference(some, other, tolerance, tensor) is None
    assert first_difference(some, other, tolerance) == ""
    assert arena._difference(some, other, tolerance[[0, 2, 1]], tensor) == (1,)


def test_what_is_recorded_is_not_written_again_for_a_line_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be no room for it, or no time."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    results, line = tmp_path / "results.jsonl", '{"problem": "axpy", "digest": "00"}\n'
    results.write_text(line + '{"problem": "ax')
    monkeypatch.setattr(run_batch, "RESULTS", results)
    monkeypatch.setattr(Path, "write_text", refuse)
    assert run_batch._done() == {("axpy", "00")}
    assert results.read_text() == line


@pytest.mark.parametrize(
    ("failure", "error"), [("memory", run_batch.NoArenaError), ("crash", run_batch.NoDeviceError)]
)
def test_a_problem_that_leaves_no_room_for_the_limits_ends_nothing_else(
    failure: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self, problem: str) -> None:
            self.about = {"device": {"name": problem}}

        def ask(self, question: str, limit_s: float) -> dict[str, Any]:
            return {"failure": failure, "message": f"no {question}", "is_over": True}

        def close(self) -> None:
            pass

    monkeypatch.setattr(run_batch, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(run_batch, "Worker", Full)
    results = io.StringIO()
    with pytest.raises(error, match="no limits"):
        run_batch.Run(results, None)._start("axpy")
    assert results.getvalue() == ""


class SlowHost:
    """A device that is through with `delays` fillings before the host has launched a sample."""

    l2_bytes = 1 << 20

    def __init__(self, delays: int) -> None:
        self.delays = delays
        self.queue: list[str] = []
        self.samples: list[list[str]] = []

    def allocate(self, nbytes: int) -> int:
        return nbytes

    def event(self) -> object:
        return object()

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.queue.append("delay" if nbytes == driver.DELAY_BYTES else "flush")

    def record(self, event: object) -> None:
        self.queue.append("event")

    def has_passed(self, event: object) -> bool:
        return self.queue.count("delay") <= self.delays

    def elapsed_ns(self, start: object, end: object) -> float:
        self.samples.append(self.queue)
        self.queue = []
        return 1e3


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_sample_that_waited_for_the_host_is_thrown_away(is_cold: bool) -> None:
    device = SlowHost(delays=3)
    call = ["first", "second"]
    watch = driver.Stopwatch(cast("Any", device))
    times_ns = watch.samples_ns(lambda: device.queue.extend(call), is_cold=is_cold)
    calls = 1 if is_cold else driver.CALLS
    assert times_ns == [1e3 / calls] * driver.SAMPLES
    samples = device.samples if is_cold else device.samples[1:]  # the first says how many calls are one
    assert [sample.count("delay") for sample in samples] == [1, 2, *[4] * driver.SAMPLES]
    warming = ["flush"] if is_cold else call
    assert device.samples[-1][4:] == [*warming, "event", *call * calls, "event"]


@pytest.mark.parametrize(("enough_ns", "samples"), [(99.0, driver.LEAST_SAMPLES), (101.0, driver.SAMPLES)])
def test_of_what_is_clearly_slow_few_samples_are_enough(enough_ns: float, samples: int) -> None:
    watch = driver.Stopwatch(cast("Any", SlowHost(delays=0)))
    assert watch.samples_ns(lambda: None, is_cold=False, enough_ns=enough_ns) == [100.0] * samples


def test_the_probes_do_what_their_rates_say(tmp_path: Path) -> None:
    image = tmp_path / "probes.so"
    image.write_bytes(build_image(PROBES.read_text(), tmp_path / "built.so"))
    library = ctypes.CDLL(str(image))

    def launch(name: str, blocks: int, threads: int, *arguments: Any) -> None:
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        getattr(library, f"run_{name}")(blocks, threads, ctypes.c_size_t(0), pointers)

    source = np.arange(4 * 1003, dtype=np.float32)
    to = np.zeros_like(source)
    arrays = (ctypes.c_void_p(a.ctypes.data) for a in (to, source))
    launch("copy", 3, 32, *arrays, ctypes.c_longlong(1003))
    assert (to == source).all()
    sums = np.zeros(64)
    launch("fma_f64", 2, 32, ctypes.c_void_p(sums.ctypes.data), ctypes.c_double(0.5), ctypes.c_int(3))
    # x * 0.5 + 0.5, 3 * 64 times: eight chains go to 1.
    assert np.allclose(sums, 8.0)


@pytest.fixture(scope="module")
def comparing(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("comparing")
    image = folder / "comparing.so"
    image.write_bytes(build_image(COMPARING.read_text(), folder / "built.so"))
    return ctypes.CDLL(str(image))


def _is_off(library: ctypes.CDLL, dtype: DType, found: Any, expected: Any, tolerance: Any) -> bool:
    """What the kernel says, of flat arrays as they are kept."""
    own = np.ascontiguousarray(tolerance, np.float64) if np.ndim(tolerance) else None
    is_off = ctypes.c_int(0)
    arguments = (
        ctypes.c_void_p(found.ctypes.data),
        ctypes.c_void_p(expected.ctypes.data),
        ctypes.c_void_p(0 if own is None else own.ctypes.data),
        ctypes.c_double(0.0 if own is not None else float(tolerance)),
        ctypes.c_longlong(found.size),
        ctypes.c_void_p(ctypes.addressof(is_off)),
    )
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
    getattr(library, f"run_compare_{dtype.label}")(3, 32, ctypes.c_size_t(0), pointers)
    return bool(is_off.value)


@pytest.mark.parametrize("has_own", [False, True])
@pytest.mark.parametrize("dtype", list(DType))
def test_the_device_sees_what_the_host_sees(comparing: ctypes.CDLL, dtype: DType, has_own: bool) -> None:
    random, tensor = np.random.default_rng(7), {"name": "C", "dtype": dtype.label}
    outcomes = set()
    for _ in range(200):
        values = random.integers(0, 2 if dtype is DType.BOOL else 100, 300).astype(float)
        changed = values.copy()
        for at in random.integers(0, 300, random.integers(0, 3)):
            changed[at] += random.choice([-1, 1, 0.25, np.nan, np.inf] if dtype.is_float else [-1, 1])
            if dtype.is_float and random.random() < 0.3:
                values[at] = random.choice([np.nan, np.inf, values[at]])
        found, expected = (elements(dtype, array) for array in (changed, values))
        tolerance = np.asarray(random.choice([0.0, 0.25, 1.0, np.inf], 300 if has_own else None))
        seen = _is_off(comparing, dtype, found, expected, tolerance)
        assert seen == (arena._difference(found, expected, tolerance, tensor) is not None)
        outcomes.add(seen)
    assert outcomes == {False, True}
