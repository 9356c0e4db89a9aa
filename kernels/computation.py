"""What a kernel file declares, and what its `compute:` lines mean.

In a `Computation`, every name alone is a scalar parameter, every subscript is affine and every index has one
extent. `resolution.py` checks lines and makes it; how it is implemented is for others to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spacedsl.diagnostics import Span
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import Assignment
from spacedsl.kernels.tensors import Parameter, Tensor


@dataclass(frozen=True, slots=True)
class Declarations:
    """The names that a kernel file declares: sizes, tensors (in order) and scalar parameters."""

    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    parameters: Mapping[str, Parameter]
    spans: Mapping[str, Span]
    """Where each tensor, parameter and extent is declared."""
    extents: Mapping[str, int] = field(default_factory=dict)
    """Of indices, where the file says them."""
    accumulate: DType | None = None
    """What lines of floating-point numbers compute in, where the file says it."""


@dataclass(frozen=True, slots=True)
class Padding:
    """An input that is read outside of its shape, as a copy with zeros around it."""

    tensor: Tensor
    padded: Tensor
    indices: tuple[str, ...]
    """Over the elements of the input."""


@dataclass(frozen=True, slots=True)
class Computation:
    """Checked assignments, in order, and the extent of each index in order of first appearance.

    The indices of paddings come last.
    """

    assignments: tuple[Assignment, ...]
    extents: Mapping[str, int]
    computed_in: Mapping[str, DType]
    """What each line computes in, by its target."""
    intermediates: tuple[Tensor, ...] = ()
    """Tensors that are assigned to and not declared."""
    paddings: tuple[Padding, ...] = ()

    @property
    def free_indices(self) -> frozenset[str]:
        """The indices that stand on the left of some assignment."""
        copied = (i for padding in self.paddings for i in padding.indices)
        return frozenset((*copied, *(i for a in self.assignments for i in a.target.indices)))
