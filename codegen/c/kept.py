"""Which vectors compilers are told to keep in registers: loads of innermost loops that several sums need.

In: a loop, and what is declared around it. Out: names of registers, and how a file tells.

GCC, tuned for some processors, takes a vector from memory where an instruction that needs it can, and for
each of several instructions anew: sums of products that share what they load then wait for it. What would be
too much for registers is left to it, as it would have to be stored first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from spacedsl.codegen.tree.expressions import Load, Register
from spacedsl.codegen.tree.liveness import most_live
from spacedsl.codegen.tree.parts import blocks, own_expressions
from spacedsl.codegen.tree.program import Assign, Loop, Statement, Sweep

_BYTES = (16, 32, 64)
_ELEMENT_BYTES = (4, 8)


@dataclass(frozen=True, slots=True)
class Told:
    """How it is told where vectors have registers of their own, and which of these there are."""

    call: str
    vector_bytes: int
    most_live: int
    """Of the registers; the others are for scalars in all lanes."""


FEW, MANY = Told("KEEP_FEW_LOADED", 32, 14), Told("KEEP_LOADED", 64, 30)
"""16 registers, as all processors have that are told, or 32 of them."""

MACROS = f"""\
/* What several products need is loaded once: where it and their sums are few, or there are many registers. */
#if defined(__AVX512F__)
#define {MANY.call}(vector) __asm__("" : "+v"(vector))
#define {FEW.call}(vector) {MANY.call}(vector)
#elif defined(__AVX__)
#define {MANY.call}(vector)
#define {FEW.call}(vector) __asm__("" : "+x"(vector))
#else
#define {MANY.call}(vector)
#define {FEW.call}(vector)
#endif"""


@dataclass(frozen=True, slots=True)
class Kept:
    names: frozenset[str] = frozenset()
    call: str = ""


NOTHING = Kept()


def kept(loop: Loop | Sweep, around: Collection[str]) -> Kept:
    """The registers that are loaded in it and read several times; none where no register of those `around` it
    is assigned to, or another loop is inside.
    """
    body = loop.body
    if not _carries(body, around) or any(map(blocks, body)):
        return NOTHING
    loads = {
        s.register for s in body if isinstance(s, Assign) and _is_load(s) and s.register.name not in around
    }
    read = Counter(e for s in body for e in own_expressions(s) if isinstance(e, Register) and e in loads)
    shared = [register for register, count in read.items() if count > 1]
    for told in (FEW, MANY):
        names = frozenset(r.name for r in shared if _nbytes(r) <= told.vector_bytes)
        if names and most_live([loop], partial(_registers, told.vector_bytes)) <= told.most_live:
            return Kept(names, told.call)
    return NOTHING


def _carries(body: Sequence[Statement], around: Collection[str]) -> bool:
    return any(isinstance(s, Assign) and s.register.name in around for s in body)


def _is_load(statement: Assign) -> bool:
    register = statement.register
    is_known = _nbytes(register) in _BYTES and register.type.dtype.nbytes in _ELEMENT_BYTES
    return is_known and isinstance(statement.value, Load)


def _nbytes(register: Register) -> int:
    return register.type.lanes * register.type.dtype.nbytes


def _registers(nbytes: int, register: Register) -> int:
    """Those of vectors that a value takes: a scalar becomes one where it is needed."""
    return 0 if register.type.lanes == 1 else -(-_nbytes(register) // nbytes)
