"""The JSON Schemas say what the loaders say, as far as a schema can: judged by an independent validator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from spacedsl.kernels.json_schema import STORED, FileKind, json_schema
from tests.cli.running import run

ROOT = Path(__file__).parents[2]
KERNELS = sorted((ROOT / "kernels/library").rglob("*.yaml"))
DEVICES = sorted((ROOT / "kernels/devices").glob("*.yaml"))
KINDS: tuple[FileKind, ...] = get_args(FileKind)


def faults(kind: FileKind, data: object) -> list[str]:
    validator = Draft202012Validator(json.loads(json_schema(kind)))
    return [error.json_path for error in validator.iter_errors(data)]


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_copy_is_that_of_the_models(kind: FileKind) -> None:
    stored = STORED[kind].read_text(encoding="utf-8")
    assert stored == json_schema(kind), "run python -m spacedsl.kernels.json_schema"
    Draft202012Validator.check_schema(json.loads(stored))


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_prints_it(kind: FileKind) -> None:
    ran = run("schema", kind)
    assert (ran.code, ran.out, ran.err) == (0, json_schema(kind), "")


def test_another_kind_is_a_usage_error() -> None:
    ran = run("schema", "space")
    assert (ran.code, ran.out) == (2, "")
    assert "choose kernel or device" in ran.err


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_kernel_of_the_library_is_right(path: Path) -> None:
    assert faults("kernel", read(path)) == []


@pytest.mark.parametrize("path", DEVICES, ids=lambda path: path.stem)
def test_every_device_that_is_shipped_is_right(path: Path) -> None:
    assert faults("device", read(path)) == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("kernel", {"backbone": "other"}),
        ("kernel", {"sizes": {"m": 1.5}}),
        ("kernel", {"tensor": {}}),
        ("kernel", {"compute": []}),
        ("kernel", {"cache": "hot"}),
        ("kernel", {"search": {"evaluations": 0}}),
        ("device", {"threads": 0}),
        ("device", {"kind": "tpu"}),
        ("device", {"memory": []}),
        ("device", {"speed": 1}),
    ],
)
def test_what_has_the_wrong_form_is_found(kind: FileKind, wrong: dict[str, object]) -> None:
    path = ROOT / "kernels/library/matmul.yaml" if kind == "kernel" else DEVICES[0]
    assert faults(kind, read(path)) == []
    assert faults(kind, {**read(path), **wrong}) != []


@pytest.mark.parametrize(
    ("kind", "model", "key", "said"),
    [
        ("kernel", "KernelEntry", "compute", "Assignments"),
        ("kernel", "TensorEntry", "strides", "packed row by row when absent"),
        ("device", "MemoryLevel", "bytes_per_ns", "Most that one thread can read from here"),
        ("device", "ArithmeticRate", "lanes", "Elements of one instruction"),
    ],
)
def test_the_documentation_of_a_key_is_its_description(
    kind: FileKind, model: str, key: str, said: str
) -> None:
    entry = json.loads(json_schema(kind))["$defs"][model]["properties"][key]
    assert said in entry["description"]
