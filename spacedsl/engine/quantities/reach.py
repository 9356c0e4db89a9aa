"""How far one choice can move a node: a bound over all of its values in one pass.

In: a node, and for each operand `most`, at least the greatest low end, and `fewest`, at most the least high
end, that it has when the choice has any one of its values. Out: the same of the node. Where a limit's
`fewest` is still 1, no value of the choice makes it false, and none has to be tried. Of what does not depend
on the choice both are the ends that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from spacedsl.engine.quantities.intervals import Interval, added, clamped, divided
from spacedsl.engine.quantities.nodes import Node, Op


def reached(
    node: Node, most: Sequence[int], fewest: Sequence[int], moved: Mapping[int, Interval], now: Interval
) -> Interval:
    """`moved`: the intervals that nodes have now which the choice moves; `now`: that of the node itself."""
    operands = node.operands
    match node.op:
        case Op.SUM:
            pairs = list(zip(operands, node.data, strict=True))
            return (
                added([most[n] if sign > 0 else -fewest[n] for n, sign in pairs]),
                added([fewest[n] if sign > 0 else -most[n] for n, sign in pairs]),
            )
        case Op.PRODUCT:
            if all((moved[n][0] if n in moved else most[n]) >= 0 for n in operands):
                return clamped(prod(most[n] for n in operands)), clamped(prod(fewest[n] for n in operands))
            return now[1], now[0]
        case Op.MINIMUM:
            return min(most[n] for n in operands), min(fewest[n] for n in operands)
        case Op.MAXIMUM:
            return max(most[n] for n in operands), max(fewest[n] for n in operands)
        case Op.FLOOR | Op.CEIL:
            a, b = operands
            up = node.op is Op.CEIL
            return (
                divided(most[a], fewest[b] if most[a] >= 0 else most[b], up),
                divided(fewest[a], most[b] if fewest[a] >= 0 else fewest[b], up),
            )
        case Op.SELECT:
            pairs = list(zip(operands[::2], operands[1::2], strict=True))
            always = [x for c, x in pairs if fewest[c]]
            if always:
                return min(most[n] for n in always), max(fewest[n] for n in always)
            some = [x for c, x in pairs if c in moved]
            return max(most[n] for n in some), min(fewest[n] for n in some)
        case Op.NOT:
            return 1 - fewest[operands[0]], 1 - most[operands[0]]
        case Op.AT_MOST:
            a, b = operands
            return int(fewest[a] <= most[b]), int(most[a] <= fewest[b])
        case Op.EQUAL:
            a, b = operands
            return (
                int(fewest[a] <= most[b] and fewest[b] <= most[a]),
                int(most[a] <= fewest[b] and most[b] <= fewest[a]),
            )
    raise TypeError(f"a leaf is moved by its own choice only: {node}")
