"""What a compiled host expression can do: the guards that its operations go through, and their limits.

In: called by the code that `host_syntax.translate` writes. Out: values, or `RefusedError` where an operation
is not allowed on the values that it met. No guard returns anything that leads out of the exposed objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from types import FunctionType, GeneratorType
from typing import Any

MOST_STEPS = 1_000_000
"""Iterations, and elements of sequences that are made, compared or read by built-ins, in one evaluation."""

MOST_BITS = 1 << 15
"""Of an integer that is made."""

DEEPEST_VALUE = 100
"""Sequences in each other."""

MOST_SHOWN = 10**20 - 1
"""The greatest integer that messages write out: Python refuses to write very long ones."""

BUILTINS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "len": len,
    "max": max,
    "min": min,
    "range": range,
    "set": frozenset,
    "sorted": sorted,
    "sum": sum,
    "tuple": tuple,
}

KEYWORDS: Mapping[str, frozenset[str]] = {
    "max": frozenset({"default"}),
    "min": frozenset({"default"}),
    "sorted": frozenset({"reverse"}),
}
"""Keyword arguments that a built-in may be given."""

_SEQUENCES = (tuple, list, str, range)
_WEIGHTY = (tuple, list, frozenset, str)
"""What can be long, and is compared element by element."""
_COMPARING = frozenset({"max", "min", "set", "sorted", "tuple"})
"""Built-ins that compare, or keep, what a comprehension gives them: all of it is weighed first."""
_NUMBERS = (int, float)


class RefusedError(Exception):
    """The operation is not allowed; the message says why."""


class StepLimitError(RefusedError):
    """The evaluation took more steps than `MOST_STEPS`."""


def attribute(value: object, name: str) -> object:
    """`value.name`, where the value's class exposes it."""
    _check_exposed(value, name)
    return getattr(value, name)


def call_method(value: object, name: str, *args: object) -> object:
    """`value.name(*args)`, where the value's class exposes the method."""
    _check_exposed(value, name)
    if not isinstance(getattr(type(value), name, None), FunctionType):
        raise RefusedError(f"`{name}` of {describe(value)} is not a method: leave out the parentheses")
    return getattr(value, name)(*args)


def call_back(value: object, name: str, *args: object) -> object:
    """`value.name(*args)`, where the method is marked as a callback for triggers."""
    method = getattr(type(value), name, None)
    if not getattr(method, "__callback__", False):
        raise RefusedError(f"{describe(value)} has no callback `{name}`")
    return getattr(value, name)(*args)


class Runtime:
    """The operations that cost steps; one for each evaluation."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def charge(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise StepLimitError(f"more than {MOST_STEPS:,} steps")

    def iterate(self, values: Iterable[object]) -> Iterator[object]:
        """The values of a comprehension's source, each for one step."""
        if isinstance(values, frozenset):
            raise RefusedError("a set has no order: write `sorted(..)` around it")
        if not isinstance(values, (*_SEQUENCES, Mapping)):
            raise RefusedError(f"cannot go through {describe(values)}")
        return self._steps(values)

    def _steps(self, values: Iterable[object]) -> Iterator[object]:
        for value in values:
            self.charge(1)
            yield value

    def weigh(self, value: tuple[object, ...] | list[object] | frozenset[object] | str) -> int:
        """The elements of a sequence or set and of all in it, each for one step.

        A short expression can make a value that holds one part very often, and comparing walks through all.
        """
        weight = 0
        pending = [(value, 0)]
        while pending:
            part, depth = pending.pop()
            if depth > DEEPEST_VALUE:
                raise RefusedError(f"more than {DEEPEST_VALUE} sequences in each other")
            cost = 1 + (len(part) // 16 if isinstance(part, str) else len(part))
            self.charge(cost)
            weight += cost
            if not isinstance(part, str):
                pending += [(element, depth + 1) for element in part if isinstance(element, _WEIGHTY)]
        return weight

    def weighed(self, value: object) -> object:
        """A value that is made here or compared with another."""
        if isinstance(value, _WEIGHTY):
            self.weigh(value)
        return value

    def builtin(self, name: str, *args: object, **keywords: object) -> object:
        if name == "tuple" and args and isinstance(args[0], frozenset):
            raise RefusedError("a set has no order: write `sorted(..)` around it")
        if name in _COMPARING:
            args = tuple(tuple(a) if isinstance(a, GeneratorType) else a for a in args)
        for argument in args:
            if name in _COMPARING and isinstance(argument, _WEIGHTY):
                self.weigh(argument)
            elif isinstance(argument, Sized):
                self.charge(len(argument))
        result = BUILTINS[name](*args, **keywords)
        if isinstance(result, range):
            self.charge(len(result))
        return result

    def add(self, left: Any, right: Any) -> object:
        return self.weighed(left + right)

    def multiply(self, left: object, right: object) -> object:
        """A product of numbers: repeating a sequence is not allowed."""
        a, b = self._numbers("*", left, right)
        return a * b

    def divide(self, left: object, right: object) -> object:
        a, b = self._numbers("/", left, right)
        return a / b

    def floor_divide(self, left: object, right: object) -> object:
        a, b = self._numbers("//", left, right)
        return a // b

    def remainder(self, left: object, right: object) -> object:
        """A remainder of numbers: formatting a string is not allowed."""
        a, b = self._numbers("%", left, right)
        return a % b

    def _numbers(self, sign: str, left: object, right: object) -> tuple[Any, Any]:
        if not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS):
            raise RefusedError(f"`{sign}` needs two numbers, not {describe(left)} and {describe(right)}")
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length(), right.bit_length()
            if sum(bits) > MOST_BITS:
                raise RefusedError(f"integers of more than {MOST_BITS:,} bits together")
            # The words of one times those of the other.
            self.charge(bits[0] * bits[1] // 4096)
        return left, right

    def contains(self, value: object, container: Any) -> bool:
        if not isinstance(container, (*_SEQUENCES, frozenset, Mapping)):
            raise RefusedError(f"`in` needs a sequence or a set, not {describe(container)}")
        # What is hashed, or is an integer in a range, is found at once; else each element is compared.
        is_at_once = isinstance(container, frozenset | Mapping) or (
            isinstance(container, range) and type(value) is int
        )
        each = 1 + (self.weigh(value) if isinstance(value, _WEIGHTY) else 0)
        self.charge(each if is_at_once else each * len(container))
        return value in container

    def item(self, value: Any, key: Any) -> object:
        if not isinstance(value, (*_SEQUENCES, Mapping)):
            raise RefusedError(f"cannot take an element of {describe(value)}")
        self.weighed(key)
        result: object = value[key]
        return self.weighed(result) if isinstance(key, slice) else result


def _check_exposed(value: object, name: str) -> None:
    names = getattr(type(value), "__exposed__", ())
    if name not in names:
        known = f" (it has {', '.join(sorted(names))})" if names else ""
        raise RefusedError(f"{describe(value)} exposes no `{name}`{known}")


def describe(value: object) -> str:
    """The value in a message: never its `repr`, which may be long or foreign."""
    if isinstance(value, int) and abs(value) > MOST_SHOWN:
        return "an integer of more than 20 digits"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    kind = type(value).__name__
    return f"a {kind}"
