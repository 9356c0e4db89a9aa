"""Every complete candidate of `linalg.space` is a program that computes what NumPy computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.verify import verify
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.kernels import dot, matmul
from tests.codegen.listings import DOT_SPLIT
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import RefusedError, decide, script
from tests.codegen.zoo import zoo
from tests.rules import rules_of

ZOO = zoo()


@pytest.mark.parametrize("name", ZOO)
def test_random_candidates_are_right(name: str, tmp_path: Path) -> None:
    kernel = ZOO[name]
    instance, case = space_of(kernel), integer_case(kernel)
    random = np.random.default_rng(11)
    for number in range(8):
        preferred = {"dim_kind": ("VECTOR", "UNROLL", "PARALLEL")[number % 3]} if number % 4 else {}
        if number % 3:
            preferred["storage"] = "TEMPORARY"
        candidate = random_candidate(instance, random, preferred)
        assert candidate is not None and candidate.is_complete
        program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
        assert interpreted_difference(kernel, program, case) == ""
        if number < 2:
            assert compiled_difference(kernel, program, case, tmp_path) == ""


def test_only_terms_that_copies_take_are_split() -> None:
    kernel = dot(144, "{p: [[6], [8]]}")
    instance, text = space_of(kernel), DOT_SPLIT.format(kind="L", p0=3, p1=6)
    root = instance.root()
    assert root is not None
    assert decide(instance, root, script(kernel.backbone, text)).is_complete
    with pytest.raises(RefusedError, match=r"refuses accumulation\(fma\) = SPLIT"):
        decide(instance, root, script(kernel.backbone, text.replace("p1 U", "p1 L")))


def test_equal_decisions_give_equal_code() -> None:
    kernel = matmul(8, 16, 6, "{i: [[2, 4]], j: [[4, 8]], p: [[2, 3]]}")
    candidate = random_candidate(space_of(kernel), np.random.default_rng(3))
    assert candidate is not None
    texts = {print_c(lower(kernel.backbone, CandidateImplementation(candidate)), 2) for _ in range(2)}
    assert len(texts) == 1


RULES = {
    "a value is made before it is used": (
        "matmul of primes",
        """require forall $inst in Instructions: forall $user in Consumers($inst):
  order($inst, $user) is BEFORE
""",
    ),
    "a value travels through a fused dimension or a register for each iteration": (
        "matmul of primes",
        "  storage($inst) is TEMPORARY"
        """ || order($made, $used) is MERGED || dim_kind($made) is UNROLL | VECTOR
""",
    ),
    "a value is loaded again after it has been made": (
        "copied operands",
        """require forall $load in Reloads:
  order(maker($load), $load) is BEFORE
""",
    ),
    "a vector is of neighbours in the temporary": (
        "copied operands",
        """  order(layout_dim($other), layout_dim($dim)) is OUTER
    || dim_kind($dim) is not VECTOR && dim_kind(maker_dim($dim)) is not VECTOR
""",
    ),
    "what is read from memory has been written": (
        "two lines",
        """require forall $inst in Instructions: forall $reader in Readers($inst):
  order($inst, $reader) is BEFORE
require forall $inst in Instructions:
        forall $reader in Readers($inst):
        forall $dim in OwnDims($inst):
  order($dim, $reader) is BEFORE || "$dim in $reader.followed_dims"
  order($dim, $reader) is BEFORE | OUTER
""",
    ),
    "fused levels of ragged indices have the same tiles inside": (
        "ragged lines",
        """  order($a, $b) is not MERGED || tile($a) == tile($b)
""",
    ),
}
"""Each with a kernel in which some candidates break it once it is gone."""


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_wrong_candidates_are_caught_and_nothing_else_happens(
    rule: str, tmp_path: Path
) -> None:
    name, text = RULES[rule]
    kernel = ZOO[name]
    whole = rules_of(kernel.space)
    assert text in whole
    path = tmp_path / "wrong.space"
    # A rule that was alone under its quantifiers leaves them to an empty one.
    path.write_text(whole.replace(text, "" if text.startswith("require") else "  true\n"), encoding="utf-8")
    instance, case = space_of(kernel, path), integer_case(kernel)
    random = np.random.default_rng(6)
    caught = 0
    for number in range(160):
        if number >= 12 and caught:
            break
        candidate = random_candidate(instance, random)
        if candidate is None:
            continue
        try:
            program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
        except (LoweringError, VerificationError):
            caught += 1
        else:
            caught += interpreted_difference(kernel, program, case) != ""
    assert caught > 0
