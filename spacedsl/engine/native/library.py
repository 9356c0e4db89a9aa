"""The compiled library of a space, and the structures that its functions take.

In: the path of a library. Out: `Library`, whose functions are called without the interpreter's lock. What the
structures hold is said in `compiler/c/runtime.h`, `descents.h` and `rollouts.h`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spacedsl.compiler.c.build import NoCompilerError
from spacedsl.engine.layout import INTEGER_WORDS

FAULT, CONTRADICTION, NARROWED, UNCHANGED = -1, 0, 1, 2

CELL_FIELDS = (
    *("twin", "row", "bit", "source", "key", "active", "universe", "updates"),
    *("leaves", "is_decision", "tally"),
)
TALLY_FIELDS = ("first", "count", "is_product")
NODE_FIELDS = ("op", "cell", "operands", "count", "data", "users", "calls")


class InstanceTables(Structure):
    _fields_ = (
        ("words", c_int32),
        ("row_words", c_int32),
        ("initial", c_void_p),
        ("initial_rows", c_void_p),
        ("cells", c_void_p),
        ("keys", c_void_p),
        ("active", c_void_p),
        ("universes", c_void_p),
        ("lists", c_void_p),
        ("sets", c_void_p),
        ("masks", c_void_p),
        ("reasons", c_void_p),
        ("tables", c_void_p),
        ("node_count", c_int32),
        ("call_count", c_int32),
        ("nodes", c_void_p),
        ("node_data", c_void_p),
        ("links", c_void_p),
        ("calls", c_void_p),
        ("tally_count", c_int32),
        ("contribution_count", c_int32),
        ("tallies", c_void_p),
        ("tallied", c_void_p),
    )


SPLIT_FIELDS = ("cell", "words", "group", "groups", "presence")


class OrderingTables(Structure):
    _fields_ = (
        ("splits", c_int32),
        ("rule", c_int32),
        ("order", c_void_p),
        ("groups", c_void_p),
        ("presence", c_void_p),
    )


class CountTable(Structure):
    _fields_ = (
        ("descents", c_uint64),
        ("complete", c_uint64),
        ("decisions", c_uint64),
        ("refutations", c_uint64),
    )


class WorthTable(Structure):
    _fields_ = (
        ("bounds", c_void_p),
        ("model", c_void_p),
        ("cut_ns", c_double),
        ("scale", c_double),
        ("floor_ns", c_double),
        ("every", c_int32),
        ("repairs", c_int32),
    )


class PartRow(Structure):
    _fields_ = (("mask", c_uint64 * INTEGER_WORDS), ("bound_ns", c_double), ("is_known", c_int64))


class StepRow(Structure):
    _fields_ = (("mask", c_uint64 * INTEGER_WORDS), ("cell", c_int64))


class FoundTable(Structure):
    _fields_ = (
        ("refused", c_uint64),
        ("least_excluded_ns", c_double),
        ("bound_ns", c_double),
        ("steps", c_int64),
    )


@dataclass(frozen=True, slots=True)
class Library:
    path: Path
    functions: ctypes.CDLL


@cache
def load(path: Path) -> Library:
    """Loads a library, once in a process; raises `NoCompilerError`."""
    try:
        functions = ctypes.CDLL(str(path))
    except OSError as error:
        raise NoCompilerError(f"no engine can be loaded from {path.parent}: {error}") from None
    state, words = c_void_p, c_void_p
    signatures = {
        "new_state": (c_void_p, [POINTER(InstanceTables)]),
        "free_state": (None, [state]),
        "fault_of": (c_int32, [state, words]),
        "propagate_root": (c_int32, [state, words]),
        "propagate_limits": (c_int32, [state, words]),
        "restrict_domain": (c_int32, [state, words, c_int32, words]),
        "restrict_domains": (c_int32, [state, words, c_int32, words, words]),
        "restrict_allowed": (c_int32, [state, words, c_int32, words, words]),
        "least_and_greatest_values": (None, [state, words, words, words]),
        "contributions_read": (c_uint64, [state]),
        "next_place": (c_int32, [state, words, POINTER(OrderingTables)]),
        "random_descents": (
            c_int32,
            [
                *(state, words, POINTER(OrderingTables), c_int32, c_uint64, c_uint64, c_uint64),
                *(POINTER(CountTable), words, words),
            ],
        ),
    }
    probing = (state, words, POINTER(OrderingTables), c_uint64, c_uint64, c_uint64)
    signatures |= {
        "count_leaves": (c_int32, [*probing[:3], c_uint64, POINTER(c_uint64)]),
        "knuth_probes": (c_int32, [*probing, c_void_p, c_void_p]),
        "chen_probes": (c_int32, [*probing, c_uint64, c_void_p, c_void_p, POINTER(c_uint64)]),
    }
    signatures["rollout"] = (
        c_int32,
        [
            *(state, words, POINTER(OrderingTables), POINTER(WorthTable), c_double, c_int32, c_int32),
            *(POINTER(PartRow), c_uint64, POINTER(FoundTable), POINTER(StepRow), words),
        ],
    )
    for name, (result, arguments) in signatures.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    return Library(path, functions)
