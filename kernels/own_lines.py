"""Lines of their own for what has no place among the loops of the line that uses it.

In: a checked computation. Out: one with the same results. Such a part of an expression becomes a line before
the one that goes on computing with it; the target of that line is an intermediate:

    y[i] = alpha * sum[p](A[i, p])                           y_sum[i] = sum[p](A[i, p])
                                                             y[i] = alpha * y_sum[i]
    D[i, j] = sum[p](sum[q](A[i, q] * B[q, p]) * C[p, j])    D_sum[i, p] = sum[q](A[i, q] * B[q, p])
                                                             D[i, j] = sum[p](D_sum[i, p] * C[p, j])
    y[i] = x[i] / sqrt(sum[p](x[p] * x[p]))                  y_sqrt = sqrt(sum[p](x[p] * x[p]))
                                                             y[i] = x[i] / y_sqrt

The first is so on a GPU, where there are many terms and hardly any results: a target may combine parts of
it in memory, where the second line would use what is not there yet. The others are so everywhere. Of the
second, all j would have to be summed up beside each other, since what has been computed for a p is kept until
the next one only. Of the third, what has no index would be in a register of one thread, so that all i would
be its own; what is in memory is loaded by any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import replace
from itertools import combinations

from spacedsl.kernels.computation import Computation
from spacedsl.kernels.expression import (
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
    indices_of,
    walk,
)
from spacedsl.kernels.linalg.backbone import MOST_ALONE
from spacedsl.kernels.tensors import Tensor, dense_strides
from spacedsl.kernels.unique_names import UniqueNames

LEAST_TERMS = 1 << 14
"""Of a reduction: one block has gone through fewer before another kernel has started."""


def own_lines(computation: Computation, declared: Set[str], *, are_shared_out: bool) -> Computation:
    """`declared`: the names of tensors and parameters. `are_shared_out`: also those of a few results."""
    extents = computation.extents
    others = (*computation.intermediates, *(padding.padded for padding in computation.paddings))
    names = UniqueNames({*declared, *extents, *(tensor.name for tensor in others)})
    lines: list[Assignment] = []
    added: list[Tensor] = []
    computed_in = dict(computation.computed_in)

    def has_few_results(reduction: Reduction) -> bool:
        results = math.prod(extents[i] for i in indices_of(reduction))
        terms = math.prod(extents[i] for i in reduction.indices)
        return are_shared_out and results <= MOST_ALONE and terms >= LEAST_TERMS

    def apart(part: Expression, target: str) -> Read:
        needed = indices_of(part)
        free = [i for i in extents if i in needed]
        shape = tuple(extents[i] for i in free)
        dtype, name = computed_in[target], names.fresh(f"{target}_{_word(part)}")
        computed_in[name] = dtype
        found = Read(name, tuple(Name(i, part.span) for i in free), part.span, part.span)
        add(Assignment(found, part, part.span))
        added.append(Tensor(name, dtype, shape, dense_strides(shape), is_output=True))
        return found

    def varies(indices: Iterable[str]) -> bool:
        return any(extents[i] > 1 for i in indices)

    def add(line: Assignment) -> None:
        """The line, behind those that it needs."""
        target = frozenset(line.target.indices)
        inside = [r for r in _reductions(line.value) if r is not line.value]
        is_chain = _is_chain([own for own in map(indices_of, inside) if own <= target])

        def has_no_place(reduction: Reduction, around: frozenset[str]) -> bool:
            own = indices_of(reduction)
            if own == target | around:
                return False
            return not is_chain or not own <= target

        def replaced(node: Expression, around: frozenset[str]) -> Expression:
            is_scalar = _is_computed(node) and not varies(indices_of(node)) and varies(target | around)
            if is_scalar and node is not line.value:
                return apart(node, line.target.tensor)
            match node:
                case Reduction(indices=indices, body=body):
                    is_few = not around and has_few_results(node)
                    if node is not line.value and (is_few or has_no_place(node, around)):
                        return apart(node, line.target.tensor)
                    return replace(node, body=replaced(body, around | set(indices)))
                case Negation(operand=operand):
                    return replace(node, operand=replaced(operand, around))
                case Binary(left=left, right=right):
                    return replace(node, left=replaced(left, around), right=replaced(right, around))
                case Call(arguments=arguments):
                    return replace(node, arguments=tuple(replaced(a, around) for a in arguments))
            return node

        value = replaced(line.value, frozenset())
        lines.append(replace(line, value=value))

    for line in computation.assignments:
        add(line)
    return replace(
        computation,
        assignments=tuple(lines),
        computed_in=computed_in,
        intermediates=(*computation.intermediates, *added),
    )


def _is_computed(node: Expression) -> bool:
    """Whether it takes an instruction: numbers alone are folded."""
    is_leaf = isinstance(node, Constant | Name | Read)
    return not is_leaf and any(isinstance(part, Name | Read) for part in walk(node))


def _word(part: Expression) -> str:
    """What it is called by."""
    match part:
        case Reduction(operator=operator):
            return operator
        case Call(function=function):
            return function.name
        case _:
            return "scalar"


def _reductions(node: Expression) -> list[Reduction]:
    return [n for n in walk(node) if isinstance(n, Reduction)]


def _is_chain(sets: list[frozenset[str]]) -> bool:
    """Whether loops can be nested so that each of these sets is that of all loops outside of some."""
    return all(a <= b or b <= a for a, b in combinations(sets, 2))
