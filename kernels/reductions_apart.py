"""Reductions in lines of their own: what many threads reduce to a few results, before it is used.

In: a checked computation. Out: one with the same results. A reduction of many terms with hardly any results
that a line goes on computing with becomes a line before it, whose target is an intermediate:

    s = alpha * sum[p](x[p])    becomes    s_sum = sum[p](x[p]); s = alpha * s_sum

So a target may combine parts of it in memory, where the second line would use what is not there yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from dataclasses import replace
from functools import partial

from spacedsl.kernels.computation import Computation
from spacedsl.kernels.expression import (
    Assignment,
    Binary,
    Call,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
    indices_of,
)
from spacedsl.kernels.linalg.backbone import MOST_ALONE
from spacedsl.kernels.tensors import Tensor, dense_strides
from spacedsl.kernels.unique_names import UniqueNames

LEAST_TERMS = 1 << 14
"""Of a reduction: one block has gone through fewer before another kernel has started."""


def reductions_apart(computation: Computation, declared: Set[str]) -> Computation:
    """`declared`: the names of tensors and parameters."""
    extents = computation.extents
    others = (*computation.intermediates, *(padding.padded for padding in computation.paddings))
    names = UniqueNames({*declared, *extents, *(tensor.name for tensor in others)})
    lines: list[Assignment] = []
    added: list[Tensor] = []
    computed_in = dict(computation.computed_in)

    def apart(reduction: Reduction, target: str) -> Read | None:
        needed = indices_of(reduction)
        free = [i for i in extents if i in needed]
        results = math.prod(extents[i] for i in free)
        if results > MOST_ALONE or math.prod(extents[i] for i in reduction.indices) < LEAST_TERMS:
            return None
        shape = tuple(extents[i] for i in free)
        dtype, name = computed_in[target], names.fresh(f"{target}_{reduction.operator}")
        added.append(Tensor(name, dtype, shape, dense_strides(shape), is_output=True))
        computed_in[name] = dtype
        found = Read(name, tuple(Name(i, reduction.span) for i in free), reduction.span, reduction.span)
        lines.append(Assignment(found, reduction, reduction.span))
        return found

    for line in computation.assignments:
        value = line.value
        if not isinstance(value, Reduction):
            value = _replaced(value, partial(apart, target=line.target.tensor))
        lines.append(replace(line, value=value))
    return replace(
        computation,
        assignments=tuple(lines),
        computed_in=computed_in,
        intermediates=(*computation.intermediates, *added),
    )


def _replaced(node: Expression, apart: Callable[[Reduction], Read | None]) -> Expression:
    """The expression with what `apart` gives for outermost reductions in it."""
    match node:
        case Reduction():
            return apart(node) or node
        case Negation(operand=operand):
            return replace(node, operand=_replaced(operand, apart))
        case Binary(left=left, right=right):
            return replace(node, left=_replaced(left, apart), right=_replaced(right, apart))
        case Call(arguments=arguments):
            return replace(node, arguments=tuple(_replaced(a, apart) for a in arguments))
    return node
