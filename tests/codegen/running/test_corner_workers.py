"""Test cases of a corner are made once for all who ask for it; a server that is lost is started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spacedsl.codegen.running import corner_workers
from spacedsl.codegen.running.cases import NotFiniteError
from spacedsl.codegen.running.corner_workers import CornerWorkers
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.running.process import ForkServer, WorkerFailure
from tests.codegen.evaluating import ends
from tests.codegen.kernels import parse

KERNEL = parse("""
kernel: scaled
backbone: linalg
sizes: {n: 4096, m: 4}
tensors:
  x: {dtype: f32, shape: [n, m]}
  y: {dtype: f32, shape: [n, m], output: true}
compute:
  - y[i, j] = 2 * x[i, j]
""")


@pytest.fixture
def workers() -> Iterator[CornerWorkers]:
    opened = CornerWorkers(KERNEL, Options())
    yield opened
    opened.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The parts that servers were started for, with their processes."""
    servers: list[Any] = []
    corner = ForkServer.corner

    def noted(server: ForkServer, part: Any) -> ForkServer:
        servers.append(corner(server, part))
        return servers[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr(ForkServer, "corner", noted)
    return servers


def pid_of(server: Any) -> int:
    return int(server._process.pid)


def test_cases_of_a_corner_are_made_once(workers: CornerWorkers, made: list[Any]) -> None:
    processes = set()
    for size in (8, 16, 8, 8):
        with workers.fresh({"i": size, "j": 4}) as (worker, cases):
            assert cases == 2, "a random one, and one that has all weaknesses"
            assert worker.is_alive
            processes.add(worker.pid)
    assert len(made) == 2
    assert len(processes) == 4, "each has a process of its own"


def test_threads_share_the_cases_of_a_corner(workers: CornerWorkers, made: list[Any]) -> None:
    def worked(_: int) -> int:
        with workers.fresh({"i": 64, "j": 4}) as (worker, cases):
            assert worker.is_alive
            return cases

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(worked, range(8))) == [2] * 8
    assert len(made) == 1


def test_a_worker_that_crashes_costs_the_others_nothing(workers: CornerWorkers, made: list[Any]) -> None:
    with workers.fresh({"i": 8, "j": 4}) as (first, _), workers.fresh({"i": 8, "j": 4}) as (second, _):
        os.kill(first.pid, signal.SIGSEGV)
        with pytest.raises(WorkerFailure, match="SIGSEGV"):
            first.request("load", 10.0, library="", symbol="")
        assert second.is_alive
    assert len(made) == 1


def test_a_server_that_is_lost_is_started_again(workers: CornerWorkers, made: list[Any]) -> None:
    part = {"i": 8, "j": 4}
    with workers.fresh(part):
        pass
    os.kill(pid_of(made[0]), signal.SIGKILL)
    assert ends(pid_of(made[0]))
    with workers.fresh(part) as (worker, cases):
        assert worker.is_alive
        assert cases == 2
    assert len(made) == 2


def test_where_all_of_them_are_lost_they_are_started_again(workers: CornerWorkers, made: list[Any]) -> None:
    parts = [{"i": size, "j": 4} for size in (8, 16)]
    for part in parts:
        with workers.fresh(part):
            pass
    workers._workers.server()._process.kill()
    assert all(ends(pid_of(server)) for server in made)
    for part in parts:
        with workers.fresh(part) as (worker, _):
            assert worker.is_alive
    assert len(made) == 4


def test_few_servers_are_kept(
    workers: CornerWorkers, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corner_workers, "KEPT", 2)
    parts = [{"i": size, "j": 4} for size in range(8, 14)]
    with workers.fresh(parts[0]) as (kept, _):
        for part in parts:
            with workers.fresh(part):
                pass
        assert kept.is_alive, "what is in use is not ended"
        assert [server.is_alive for server in made] == [True, False, False, False, True, True]
    workers.close()
    assert all(ends(pid_of(server)) for server in made)


def test_a_corner_without_numbers_says_so_to_all(made: list[Any]) -> None:
    kernel = parse("""
kernel: ratio
backbone: linalg
sizes: {n: 64}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n], output: true}
compute:
  - y[i] = x[i] / (x[i] - x[i])
""")
    workers = CornerWorkers(kernel, Options())
    try:
        for _ in range(2):
            with pytest.raises(NotFiniteError), workers.fresh({"i": 8}):
                pass
        assert all(ends(pid_of(server)) for server in made)
    finally:
        workers.close()


def test_cases_that_take_too_long_are_a_failure(
    workers: CornerWorkers, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with workers.fresh({"i": 8, "j": 4}):
        pass
    monkeypatch.setattr("spacedsl.codegen.running.process._CORNER_TIMEOUT_S", 0.001)
    with pytest.raises(WorkerFailure, match="no test cases after 0"), workers.fresh({"i": 4096, "j": 4}):
        pass
    assert ends(pid_of(made[1])), "it does not go on making them"
