"""What is known of phases that programs have in common: they are verified once.

In: phases that break no rule. Out: whether one has been verified for a program, and what it stores to. The
rules are in `verify.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from spacedsl.codegen.tree.program import Phase, Program
from spacedsl.kernels.tensors import Parameter, Tensor


@dataclass(frozen=True, slots=True)
class Verified:
    """Of a phase that breaks no rule: all of the program that this depends on, and what it stores to."""

    arguments: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]
    touched: Mapping[str, Tensor]
    names: frozenset[str]
    """Of variables and registers, which nothing else has."""
    read: frozenset[str]
    """What others have stored to before."""
    writes: Counter[str]
    starts: Counter[tuple[str, float]]
    uncounted: frozenset[str]

    def is_of(self, program: Program, tensors: Mapping[str, Tensor]) -> bool:
        """Whether it says the same in a program with these arrays."""
        return (
            (self.arguments, self.parameters) == (program.tensors, program.parameters)
            and all(tensors.get(name) == tensor for name, tensor in self.touched.items())
            and self.names.isdisjoint(tensors)
        )


VERIFIED: WeakKeyDictionary[Phase, Verified] = WeakKeyDictionary()
