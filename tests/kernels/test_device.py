"""Device descriptions: what is shipped loads, and where each mistake is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.device import DEVICES, load_any_device, load_device

GENERIC = DEVICES / "generic-x86-64.yaml"

BROKEN: dict[str, tuple[tuple[str, str], list[tuple[str, str]]]] = {
    "an unknown key": (("threads: 4", "threads: 4\nthread: 4"), [("DV005", "unknown key `thread`")]),
    "a missing key": (("threads: 4\n", ""), [("DV006", "`threads` is missing")]),
    "no threads": (("threads: 4", "threads: 0"), [("DV007", "`threads`: expected at least 1")]),
    "a rate of 0": (("instructions_per_ns: 16.0", "instructions_per_ns: 0"), [("DV007", "more than 0")]),
    "an endless rate": (("bytes_per_ns: 20.0", "bytes_per_ns: .inf"), [("DV007", "finite")]),
    "a rate that is text": (("bytes_per_ns: 20.0", "bytes_per_ns: fast"), [("DV007", "a number")]),
    "no number of bytes": (("capacity_bytes: 131072", "capacity_bytes: 1.5"), [("DV007", "an integer")]),
    "levels out of order": (
        ("capacity_bytes: 2097152", "capacity_bytes: 4096"),
        [("DV010", "L2 is smaller")],
    ),
    "memory in the middle": (("capacity_bytes: 33554432", "capacity_bytes: null"), [("DV010", "DRAM lies")]),
    "an unknown dtype": (("dtype: i32, latency_ns", "dtype: i23, latency_ns"), [("DV011", "`i23`")]),
    "another kind": (("kind: cpu", "kind: gpu"), [("DV007", "'cpu'")]),
    "a key twice": (("threads: 4", "threads: 4\nthreads: 4"), [("DV004", "given twice")]),
    "no YAML": (("threads: 4", "threads: [4"), [("DV001", "not YAML")]),
}


def test_the_generic_device_is_shipped() -> None:
    device = load_device(GENERIC)
    assert (device.name, device.threads, device.vector_bytes) == ("generic-x86-64", 4, 32)
    assert [level.name for level in device.memory] == ["L1", "L2", "L3", "DRAM"]
    assert device.memory[-1].capacity_bytes is None


@pytest.mark.parametrize("path", sorted(DEVICES.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_device_loads_and_is_named_as_its_file(path: Path) -> None:
    device = load_any_device(path)
    assert device.kind == "gpu" or device.name == path.stem


@pytest.mark.parametrize("name", BROKEN)
def test_every_mistake_is_reported_at_its_place(name: str, tmp_path: Path) -> None:
    (old, new), expected = BROKEN[name]
    text = GENERIC.read_text()
    assert old in text
    path = tmp_path / "device.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DiagnosticError) as raised:
        load_device(path)
    found = raised.value.diagnostics
    assert [d.code for d in found] == [code for code, _ in expected]
    assert all(words in d.message for d, (_, words) in zip(found, expected, strict=True))
    if name not in ("a missing key", "levels out of order", "memory in the middle"):
        assert any(abs(d.span.line - text[: text.index(old)].count("\n") - 1) <= 1 for d in found)


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "device.yaml"
    path.write_text("")
    with pytest.raises(DiagnosticError, match="DV002"):
        load_device(path)


def test_a_measured_device_survives_a_round_trip(tmp_path: Path) -> None:
    device = load_device(GENERIC)
    path = tmp_path / "copy.yaml"
    path.write_text(device.model_dump_json())
    assert load_device(path) == device
