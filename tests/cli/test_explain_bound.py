"""`explain --bound`: what it says about a candidate and a record, and how mistakes are answered."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import ROOT, Run
from tests.cli.running import run

MATMUL = ROOT / "kernels" / "library" / "matmul_small.yaml"
GENERIC = ROOT / "kernels" / "devices" / "generic-x86-64.yaml"
FIXED = (MATMUL, "--bound", "--device", GENERIC)


def test_terms_are_sentences_the_largest_first() -> None:
    ran = run("explain", *FIXED)
    assert (ran.code, ran.err) == (0, "")
    head, *lines = ran.out.splitlines()
    found = re.match(r"no implementation that is left takes less than ([\d.]+ \w+) on generic-x86-64: ", head)
    assert found is not None
    assert lines[0].strip().startswith(f"{found[1]}  ")
    terms = {line.strip().split("  ", 1)[1].split(":")[0] for line in lines if not line.startswith("no ")}
    assert {"floating-point multipliers", "load instructions"} <= terms
    assert "fma handles 2,097,152 elements, in vectors of up to" in ran.out


def test_the_document_has_all_terms_and_decisions_raise_them() -> None:
    documents = []
    without_vectors = [f"dim_kind(fma.{dim}) = LOOP" for dim in ("i2", "j2", "p1")]
    for flags in ((), [word for kind in without_vectors for word in ("--decide", kind)]):
        ran = run("explain", *FIXED, *flags, "--json")
        assert ran.code == 0, ran.err
        documents.append(json.loads(ran.out))
    for document in documents:
        times = [term["bound_ns"] for term in document["terms"]]
        assert document["bound_ns"] == times[0]
        assert times == sorted(times, reverse=True)
    assert documents[1]["bound_ns"] > documents[0]["bound_ns"]


def test_a_record_is_explained_by_its_decisions(explored: Run) -> None:
    kernel = ROOT / "kernels" / "library" / "matmul.yaml"
    sizes = ("--size", "m=8", "--size", "n=16", "--size", "k=4")
    ran = run("explain", kernel, *sizes, "--bound", "--decisions", explored.best, "--json")
    assert ran.code == 0, ran.err
    bound_ns = json.loads(ran.out)["bound_ns"]
    assert bound_ns == pytest.approx(json.loads(explored.best.read_text())["bound_ns"])


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("size(fma.i0) <= 4",), 2, "--bound explains a time, and a question asks for something else"),
        (("--decide", "size(fma.q0) = 4"), 2, "fma.q0"),
        (("--time", "soon"), 2, "`soon` is not a length of time"),
        (("--decide", "size(fma.i2) = 2", "--decide", "size(load_A.i2) = 4"), 3, "the constraints refuse"),
        (
            ("--size", "m=64", *(f for d in "ip" for f in ("--decide", f"dim_kind(load_A.{d}0) = UNROLL"))),
            3,
            "unrolled copies: load_A has more than",
        ),
    ],
)
def test_mistakes_are_answered(flags: tuple[str, ...], code: int, message: str) -> None:
    ran = run("explain", *FIXED, *flags)
    assert ran.code == code
    assert message in ran.err
    assert "Traceback" not in ran.err
