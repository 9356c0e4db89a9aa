"""Which vectors compilers are told to keep in registers: loads of innermost loops that several sums need.

In: a loop, and what is declared around it. Out: names of registers, and how a file tells.

GCC, tuned for some processors, takes a vector from memory where an instruction that needs it can, and for
each of several instructions anew: sums of products that share what they load then wait for it. What would be
too much for registers is left to it, as it would have to be stored first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from spacedsl.codegen.tree.expressions import Load, Register
from spacedsl.codegen.tree.liveness import most_live
from spacedsl.codegen.tree.parts import blocks, own_expressions
from spacedsl.codegen.tree.program import Assign, Loop, Statement, Sweep

MOST_LIVE = 30
"""Of 32 vector registers, as all instruction sets that are told have: two are for scalars in all lanes."""

_BYTES = (16, 32, 64)
_ELEMENT_BYTES = (4, 8)

NOTHING: frozenset[str] = frozenset()

CALL = "KEEP_LOADED"

MACRO = f"""\
/* What several products need is loaded once. */
#if defined(__AVX512F__)
#define {CALL}(vector) __asm__("" : "+v"(vector))
#else
#define {CALL}(vector)
#endif"""


def kept(loop: Loop | Sweep, around: Collection[str]) -> frozenset[str]:
    """The names of registers that are loaded in it and read several times; none where no register of those
    `around` it is assigned to, or another loop is inside.
    """
    body = loop.body
    if not _carries(body, around) or any(map(blocks, body)):
        return NOTHING
    loads = {
        s.register for s in body if isinstance(s, Assign) and _is_load(s) and s.register.name not in around
    }
    read = Counter(e for s in body for e in own_expressions(s) if isinstance(e, Register) and e in loads)
    found = frozenset(register.name for register, count in read.items() if count > 1)
    return found if found and most_live([loop], _registers) <= MOST_LIVE else NOTHING


def _carries(body: Sequence[Statement], around: Collection[str]) -> bool:
    return any(isinstance(s, Assign) and s.register.name in around for s in body)


def _is_load(statement: Assign) -> bool:
    kind = statement.register.type
    nbytes = kind.lanes * kind.dtype.nbytes
    return isinstance(statement.value, Load) and nbytes in _BYTES and kind.dtype.nbytes in _ELEMENT_BYTES


def _registers(register: Register) -> int:
    """Those of vectors that a value takes: a scalar becomes one where it is needed."""
    kind = register.type
    return 0 if kind.lanes == 1 else -(-kind.lanes * kind.dtype.nbytes // max(_BYTES))
