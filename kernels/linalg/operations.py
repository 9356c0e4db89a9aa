"""What instructions do with values: operations, and how reductions combine.

In: nothing. Out: the operations by name, and what is neutral to those by which reductions combine values.
What they are in NumPy is for `kernels/reference.py`, and what they are in C for code generation.
"""

from __future__ import annotations

import enum
import math

from spacedsl.kernels.dtypes import DType

ELEMENT_TYPES = (DType.F32, DType.F64, DType.I32, DType.BF16, DType.F16)
"""Of what instructions read and write."""


class Op(enum.Enum):
    """What an instruction does with its operands, in order. FMA is a * b + c."""

    LOAD = "load"
    STORE = "store"
    MOVE = "move"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    NEG = "neg"
    FMA = "fma"
    MAX = "max"
    MIN = "min"
    ABS = "abs"
    SQRT = "sqrt"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    GELU = "gelu"


FUNCTIONS = (Op.ABS, Op.SQRT, Op.EXP, Op.LOG, Op.TANH, Op.SIGMOID, Op.GELU)
"""Functions of one operand. GELU(x) is x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))."""


class Combine(enum.StrEnum):
    """How a reduction combines values; in any order, so that partial results can be combined as well."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"


def neutral(combine: Combine, dtype: DType) -> float:
    """The value that changes nothing when it is combined with another."""
    match combine:
        case Combine.SUM:
            return 0.0
        case Combine.PROD:
            return 1.0
        case Combine.MAX:
            return -math.inf if dtype.is_float else dtype.least
        case Combine.MIN:
            return math.inf if dtype.is_float else dtype.greatest
