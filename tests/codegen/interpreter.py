"""An interpreter of program trees, written from their meaning: the oracle of lowering and of the printer.

Values are Python numbers and lists of them, so that small integers stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spacedsl.codegen.program import (
    Add,
    Assign,
    Broadcast,
    Div,
    Expression,
    FirstLane,
    Fma,
    Index,
    LaneSum,
    Load,
    Loop,
    Mul,
    Neg,
    Number,
    ParallelLoop,
    ParameterValue,
    Program,
    Register,
    Statement,
    Store,
    Sub,
)

Value = list[Any]
"""The lanes; one for a scalar."""


def interpret(program: Program, memory: dict[str, list[Any]], parameters: Mapping[str, float]) -> None:
    """Runs the program on flat buffers, which it changes."""
    _Interpreter(memory, parameters).block(program.body, {}, {})


class _Interpreter:
    def __init__(self, memory: dict[str, list[Any]], parameters: Mapping[str, float]) -> None:
        self.memory = memory
        self.parameters = parameters

    def block(
        self, body: tuple[Statement, ...], loops: Mapping[str, int], registers: dict[str, Value]
    ) -> None:
        for statement in body:
            match statement:
                case Assign(register, value):
                    registers[register.name] = self.value(value, loops, registers)
                case Store(tensor, index, value):
                    at = self.at(index, loops)
                    for lane, number in enumerate(self.value(value, loops, registers)):
                        self.memory[tensor][at + lane] = number
                case Loop(variable, extent, inner):
                    for i in range(extent):
                        self.block(inner, {**loops, variable: i}, registers)
                case ParallelLoop(variable, extent, inner):
                    # Any order will do: the last iteration first shows a dependence between iterations.
                    for i in reversed(range(extent)):
                        self.block(inner, {**loops, variable: i}, {})

    def at(self, index: Index, loops: Mapping[str, int]) -> int:
        at = index.constant + sum(loops[v] * stride for v, stride in index.terms)
        assert at >= 0
        return at

    def value(self, node: Expression, loops: Mapping[str, int], registers: dict[str, Value]) -> Value:
        def value(part: Expression) -> Value:
            return self.value(part, loops, registers)

        match node:
            case Register(name):
                return registers[name]
            case Load(tensor, index, kind):
                at = self.at(index, loops)
                lanes = self.memory[tensor][at : at + kind.lanes]
                assert len(lanes) == kind.lanes
                return lanes
            case Number(number):
                return [number]
            case ParameterValue(name):
                return [self.parameters[name]]
            case Broadcast(part, lanes):
                return value(part) * lanes
            case FirstLane(part, lanes):
                return value(part) + [0] * (lanes - 1)
            case LaneSum(part):
                return [sum(value(part))]
            case Fma(a, b, c):
                return [x * y + z for x, y, z in zip(value(a), value(b), value(c), strict=True)]
            case Add(a, b):
                return [x + y for x, y in zip(value(a), value(b), strict=True)]
            case Sub(a, b):
                return [x - y for x, y in zip(value(a), value(b), strict=True)]
            case Mul(a, b):
                return [x * y for x, y in zip(value(a), value(b), strict=True)]
            case Div(a, b):
                return [x / y for x, y in zip(value(a), value(b), strict=True)]
            case Neg(a):
                return [-x for x in value(a)]
