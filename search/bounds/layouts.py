"""The structs of `bound.c`: the layouts of its tables, and the model that points to them.

Nothing is filled in here: `native.py` does that. Names and their order are those of the C code.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_double, c_int32, c_void_p

import numpy as np

from spacedsl.search.bounds.domains import USES


def _record(*names: str, reals: Sequence[str] = ()) -> np.dtype[np.void]:
    """The layout of a C struct: 32-bit numbers, a pair for each name that ends in `[]`, then doubles."""
    fields: list[tuple[str, object]] = [
        (name.removesuffix("[]"), (np.int32, (2,)) if name.endswith("[]") else np.int32) for name in names
    ]
    return np.dtype([*fields, *((name, np.float64) for name in reals)], align=True)


_DIM = _record("kind_cell", "size_cell", "sizes[]", "is_reduction", "pad")
_SIZE = _record("is_even", "folds", reals=("iterations", "threads", "speedup", *USES))
_INSTR = _record("dims[]", "pad[]", reals=(*(f"one_{use}" for use in USES), *(f"most_{use}" for use in USES)))
_OP = _record("instr", "pad", reals=("iterations", "sums", "spared"))
_REDUCTION = _record(
    *("instr", "tables", "free[]", "reduced[]", "counters[]", "loads[]", "split[]", "added[]"),
    *("table_count", "are_disjoint"),
    reals=("sums", "terms", "latency_ns", "kept", "load_rate"),
)
_OPERAND = _record(
    "instr", "pad", "made[]", "matters[]", "steps[]", "copies[]", reals=("item_bytes", "element_bytes")
)
_BORDER = np.dtype([("kept_bytes", np.float64), ("rates", np.int32), ("sharers", np.int32)], align=True)
_NEST = _record(
    *("instr", "reduction", "dims[]", "index_of[]", "inner_levels[]", "extents[]", "copied[]", "sharing[]"),
    *("operands[]", "borders[]", "cuts[]", "order_cells", "ragged"),
    reals=("kept_loads", "load_rate"),
)
_CUT = _record("inner", "ways[]")
_SWEEP = _record("reduction", "nest", "groups[]")
_PASSED = _record("fused[]", reals=("loaded", "stored"))
_LEVELS = _record(
    *("passed[]", "dims[]", "streams[]", "costs", "plain_costs"),
    reals=("inner", "loaded", "stored"),
)
_TERM = _record("kind", "use", "groups[]", "sweeps[]", "subject", "pad")
_COUNTER = _record("levels[]", "upper_end", "pad")
_UNROLLED = _record("dims[]", "counters[]")
_LIST = _record("at", "count")

TABLES = {
    "dims": _DIM,
    "sizes": _SIZE,
    "instrs": _INSTR,
    "ops": _OP,
    "groups": _LIST,
    "reductions": _REDUCTION,
    "operands": _OPERAND,
    "borders": _BORDER,
    "nests": _NEST,
    "cuts": _CUT,
    "sweeps": _SWEEP,
    "passed": _PASSED,
    "levels": _LEVELS,
    "terms": _TERM,
    "counters": _COUNTER,
    "unrolled": _UNROLLED,
}


class Model(Structure):
    """All of it, as C takes it."""

    _fields_ = (
        *((name, c_int32) for name in ("dim_count", "term_count", "reduction_count", "nest_count")),
        *((name, c_int32) for name in ("unrolled_count", "vector_bit", "unroll_bit")),
        *((name, c_int32) for name in ("parallel_bit", "inner_bits", "outer_bits")),
        *((name, c_int32) for name in ("longest_unrolled", "most_tabled", "line_bytes", "device_threads")),
        ("has_shared_nests", c_int32),
        ("window", c_double),
        ("start_ns", c_double),
        ("pool", c_void_p),
        ("reals", c_void_p),
        *((name, c_void_p) for name in TABLES),
    )
