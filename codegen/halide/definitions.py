"""The algorithm of a pipeline in Halide's Python: inputs, parameters, a Func for each stage.

In: an algorithm, and what is needed of each stage and input. Out: statements of `python.py`, and the names
that they give to what they define, by which a schedule can speak of it. Nothing here is computed anywhere in
particular: a schedule is for others.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from spacedsl.codegen.halide.edges import Edge
from spacedsl.codegen.halide.expressions import TYPES, Expressions
from spacedsl.codegen.halide.meaning import Meaning
from spacedsl.codegen.halide.python import (
    Assign,
    Atom,
    Blank,
    Call,
    Do,
    Index,
    Node,
    Several,
    Statement,
    quoted,
)
from spacedsl.codegen.halide.sums import summed
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Extreme, Linear, linear
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Box,
    Compare,
    Constant,
    Expression,
    Parameter,
    Read,
    Select,
    Stage,
    Unary,
    Undefined,
    Update,
    Variable,
    expressions,
    operands,
    walk,
    with_operands,
)
from spacedsl.kernels.pipeline.arguments import held
from spacedsl.kernels.pipeline.bounds import range_values, values_known
from spacedsl.kernels.pipeline.intervals import Interval, Known, interval
from spacedsl.kernels.pipeline.text import number
from spacedsl.kernels.unique_names import UniqueNames

_TAKEN = frozenset({"hl", "float", "np", "POINTS", "sized", "wanted", "placed", "build", "run"})
"""Names of the module, beside those of Python."""


_VARIABLES = {"s": "s_"}
"""Halide (21.0) loses tiles of this one: in names of loops, `.s` is where the number of a stage begins."""


Promises = dict[Expression, tuple[int, int]]
"""Expressions, and the ends of their values."""


@dataclass(frozen=True, slots=True)
class Names:
    """What everything is called in Python. In Halide, it has the names of the algorithm."""

    unique: UniqueNames
    sources: dict[str, str]
    """Inputs, parameters and stages."""
    variables: dict[str, str]
    ranges: dict[tuple[str, int, str], str]
    """By stage, number of the update, and name."""
    edges: dict[Edge, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    """Of each output, the Func that holds it."""
    combined: set[tuple[str, int]] = field(default_factory=set)
    """Updates, by stage and number, that Halide sees to combine an old value with a new one."""


def named(algorithm: Algorithm) -> Names:
    unique = UniqueNames({*_TAKEN, *keyword.kwlist})
    given = [*(i.name for i in algorithm.inputs), *(p.name for p in algorithm.parameters)]
    sources = {name: unique.fresh(name) for name in (*given, *(s.name for s in algorithm.stages))}
    variables = {
        v: unique.fresh(_VARIABLES.get(v, v))
        for v in dict.fromkeys(v for stage in algorithm.stages for v in stage.variables)
    }
    ranges = {
        (stage.name, count, r.name): unique.fresh(r.name)
        for stage in algorithm.stages
        for count, update in enumerate(stage.updates)
        for r in update.ranges
    }
    return Names(unique, sources, variables, ranges)


def points(algorithm: Algorithm, boxes: Mapping[str, Box]) -> Iterator[tuple[str, Node]]:
    """Of each input and output, the least point and the number of points along each dimension."""
    for name, box in held(algorithm, boxes).items():
        pairs = (Several((Atom(str(e.low)), Atom(str(e.size)))) for e in box)
        yield name, Several(tuple(pairs), "[]")


def define(
    algorithm: Algorithm, boxes: Mapping[str, Box], names: Names, copied: Iterable[str] = ()
) -> tuple[Statement, ...]:
    """What defines all Funcs. Outputs that are `copied` are held by Funcs of their own.

    Those of which more is computed than is wanted are, too.
    """
    writer = _Writer(algorithm, boxes, names)
    stages = [statement for stage in algorithm.stages for statement in writer.stage(stage)]
    results = [
        statement
        for name, wanted in algorithm.outputs.items()
        for statement in writer.result(algorithm.stage(name), name in copied or wanted != boxes[name])
    ]
    return (*writer.inputs(), *writer.edges(), *writer.variables(), *stages, *results)


class _Writer:
    def __init__(self, algorithm: Algorithm, boxes: Mapping[str, Box], names: Names) -> None:
        self.algorithm = algorithm
        self.boxes = boxes
        self.names = names
        self.known = values_known(tuple(summed(algorithm)), algorithm.inputs)
        self.found = _found_by_halide(algorithm)

    # ---- What comes from outside -----------------------------------------------------------------------

    def inputs(self) -> Iterator[Statement]:
        for given in self.algorithm.inputs:
            if given.name in self.boxes:
                name = self.names.sources[given.name]
                rank = Atom(str(given.rank))
                yield Assign(name, Call("hl.ImageParam", (TYPES[given.dtype], rank, quoted(given.name))))
                yield Do(Call("sized", (Atom(name), Index(Atom("POINTS"), (quoted(given.name),)))))
        for scalar in self.algorithm.parameters:
            yield from _parameter(scalar, self.names.sources[scalar.name])

    def edges(self) -> Iterator[Statement]:
        sources = {i.name: i for i in self.algorithm.inputs}
        for edge, name in self.names.edges.items():
            source = sources[edge.source]
            nothing = Call("hl.Expr", ())
            ends = [
                Call("hl.Range", (Atom("0"), Atom(str(extent))) if is_edge else (nothing, nothing))
                for is_edge, extent in zip(edge.dims, source.extents, strict=True)
            ]
            arguments: list[Node] = [Atom(self.names.sources[edge.source])]
            if edge.outside is not None:
                arguments.append(self.expressions({}, {}).typed(edge.outside))
            arguments.append(Several(tuple(ends), "[]"))
            yield Assign(name, Call(f"hl.BoundaryConditions.{edge.rule}", tuple(arguments)))

    def variables(self) -> Iterator[Statement]:
        if self.names.variables:
            names = ", ".join(self.names.variables.values())
            last = "," if len(self.names.variables) == 1 else ""
            made = " ".join(self.names.variables.values())
            yield Assign(f"{names}{last}", Call("hl.vars", (quoted(made),)))

    # ---- Stages ----------------------------------------------------------------------------------------

    def stage(self, stage: Stage) -> Iterator[Statement]:
        box = zip(stage.variables, self.boxes[stage.name], strict=True)
        values = {v: Interval(e.low, e.high) for v, e in box}
        meaning, names = Meaning(values, self.known), {v: self.names.variables[v] for v in stage.variables}
        wanted = self.expressions(names, self.promised(stage, meaning))
        name = self.names.sources[stage.name]
        made = tuple(wanted.alone(meaning.of(v)) for v in stage.values)
        yield Blank()
        yield Assign(name, Call("hl.Func", (quoted(stage.name),)))
        yield Assign(
            Index(Atom(name), tuple(Atom(names[v]) for v in stage.variables)),
            made[0] if len(made) == 1 else Several(made),
        )
        for count, update in enumerate(stage.updates):
            yield from self.update(stage, count, update, values)

    def update(
        self, stage: Stage, count: int, update: Update, values: Mapping[str, Interval]
    ) -> Iterator[Statement]:
        kept = update.variables(stage)
        meaning = Meaning({**{v: values[v] for v in kept}, **range_values(update)}, self.known)
        names = {v: self.names.variables[v] for v in kept}
        names |= {r.name: self.names.ranges[stage.name, count, r.name] for r in update.ranges}
        wanted = self.expressions(names, self.promised(update, meaning))
        condition = None if update.condition is None else meaning.of(update.condition)
        is_of_domain = bool(update.ranges) and not _reads(condition, stage)
        if update.ranges:
            yield from self.ranges(stage, count, update, condition if is_of_domain else None, wanted)
        point = tuple(meaning.of(at) for at in update.point)
        own = tuple(Read(stage.name, point, t, element) for element, t in enumerate(stage.dtypes))
        made = [meaning.of(value) for value in update.values]
        if condition is not None and not is_of_domain:
            made = [Select(condition, value, old) for value, old in zip(made, own, strict=True)]
        bound = {r.name for r in update.ranges}
        used = {n.name for e in (*point, *made) for n in walk(e) if isinstance(n, Variable)}
        if bound and not bound & used:
            # Halide goes through a domain only where a definition has one of its variables.
            first = update.ranges[0]
            holds = Compare(">=", Variable(first.name), Constant(first.low, DType.I32))
            made = [Select(holds, value, old) for value, old in zip(made, own, strict=True)]
        target = wanted.at(Atom(self.names.sources[stage.name]), point)
        if condition is None and len(made) == 1 and isinstance(made[0], Binary) and made[0].left == own[0]:
            self.names.combined.add((stage.name, count))
        match made:
            case [Binary("+" | "-" | "*" as operator, left, right)] if left == own[0]:
                yield Assign(target, wanted.alone(right), operator)
            case [value]:
                yield Assign(target, wanted.alone(value))
            case _:
                yield Assign(target, Several(tuple(map(wanted.alone, made))))

    def ranges(
        self, stage: Stage, count: int, update: Update, condition: Expression | None, wanted: Expressions
    ) -> Iterator[Statement]:
        names = [self.names.ranges[stage.name, count, r.name] for r in update.ranges]
        ends = tuple(Call("hl.Range", (Atom(str(r.low)), Atom(str(r.high - r.low)))) for r in update.ranges)
        domain = self.names.unique.fresh(f"{self.names.sources[stage.name]}_range")
        yield Assign(domain, Call("hl.RDom", (Several(ends, "[]"), quoted(domain))))
        for at, name in enumerate(names):
            yield Assign(name, Index(Atom(domain), (Atom(str(at)),)))
        if condition is not None:
            yield Do(Call(f"{domain}.where", (wanted.of(condition),)))

    def result(self, stage: Stage, is_copied: bool) -> Iterator[Statement]:
        name = source = self.names.sources[stage.name]
        variables = tuple(Atom(self.names.variables[v]) for v in stage.variables)
        yield Blank()
        if is_copied:
            name = self.names.unique.fresh(f"{source}_result")
            value: Node = Index(Atom(source), variables)
            if len(stage.values) > 1:
                value = Several(tuple(Index(value, (Atom(str(n)),)) for n in range(len(stage.values))))
            yield Assign(name, Call("hl.Func", (quoted(name),)))
            yield Assign(Index(Atom(name), variables), value)
        self.names.results[stage.name] = name
        yield Do(Call("wanted", (Atom(name), Index(Atom("POINTS"), (quoted(stage.name),)))))

    # ---- Names and positions ---------------------------------------------------------------------------

    def expressions(self, variables: Mapping[str, str], promised: Promises) -> Expressions:
        sources = {name: Atom(made) for name, made in self.names.sources.items()}
        return Expressions(
            {i.name: i for i in self.algorithm.inputs},
            {s.name: len(s.values) for s in self.algorithm.stages},
            {**sources, **{name: Atom(made) for name, made in variables.items()}},
            self.edge,
            promised,
        )

    def edge(self, edge: Edge) -> Node:
        if edge not in self.names.edges:
            wanted = f"{self.names.sources[edge.source]}_{edge.rule}"
            self.names.edges[edge] = self.names.unique.fresh(wanted)
        return Atom(self.names.edges[edge])

    def promised(self, definition: Stage | Update, meaning: Meaning) -> Promises:
        """Parts of positions whose ends only declarations, or what is known of updates and of bits, tell;
        remainders that do not begin anew; and positions in which a variable stands twice, of which Halide
        takes each for another one.
        """
        nodes = [node for expression in expressions(definition) for node in walk(expression)]
        positions = [at for node in nodes if isinstance(node, Read) for at in node.point]
        if isinstance(definition, Update):
            positions += definition.point
        found: Promises = {}
        for at in positions:
            ends = meaning.values(at)
            if ends.is_bounded and _has_twice(linear(at)):
                found[meaning.of(at)] = (int(ends.low), int(ends.high))
            for rest in _remainders(at):
                ends = meaning.values(rest)
                if ends != meaning.values(Binary("%", Undefined(rest.dtype), rest.right)):
                    found[meaning.of(rest)] = (int(ends.low), int(ends.high))
            for part in _parts(at) if self.differs(at, meaning) else ():
                if self.differs(part, meaning):
                    ends = meaning.values(part)
                    found[meaning.of(part)] = (int(ends.low), int(ends.high))
        return found

    def differs(self, node: Expression, meaning: Meaning) -> bool:
        """Whether more is known of its values than Halide finds out."""
        ends = meaning.values(node)
        return ends.is_bounded and ends != interval(_without_shifts(node), meaning.variables, self.found)


def _has_twice(position: Linear) -> bool:
    """Whether some variable is in two of its atoms, or on both sides of an extreme, as in mirrored copies."""
    names = [name for atom, _ in position.terms for name in atom.names]
    return len(set(names)) < len(names) or any(
        isinstance(atom, Extreme) and not atom.left.names.isdisjoint(atom.right.names)
        for atom, _ in position.terms
    )


def _remainders(at: Expression) -> Iterator[Binary]:
    """All of numbers from 0 on: to Halide, each may be any."""
    for node in walk(at):
        match node:
            case Binary("%", _, Constant(int(divisor), DType.I32)) if divisor > 0:
                yield node


def _parts(at: Expression) -> Iterator[Expression]:
    """What a position is put together from, but for variables and numbers."""
    match at:
        case Variable() | Constant():
            pass
        case Binary("+" | "-" | "*" | "/" | "%" | "min" | "max") | Unary("-"):
            for operand in operands(at):
                yield from _parts(operand)
        case _:
            yield at


def _without_shifts(node: Expression) -> Expression:
    """Halide knows nothing of their values."""
    if isinstance(node, Binary) and node.operator in ("<<", ">>"):
        return Undefined(node.dtype)
    return with_operands(node, tuple(map(_without_shifts, operands(node))))


def _found_by_halide(algorithm: Algorithm) -> Known:
    """What Halide finds out of values by itself: of those of updates, and of inputs, their types."""
    pure = [
        replace(stage, values=tuple(Undefined(t) for t in stage.dtypes), updates=())
        if stage.updates
        else stage
        for stage in algorithm.stages
    ]
    return values_known(pure, [replace(i, values=None) for i in algorithm.inputs])


def _parameter(given: Parameter, name: str) -> Iterator[Statement]:
    """One of 16 bits is given as a wider float; one of 64, of which `Param` keeps 32, in an array."""
    dtype = DType.F32 if given.dtype is DType.F16 else given.dtype
    value = Atom(number(given.value, dtype, with_point=True))
    if dtype is DType.BOOL:
        value = Atom(str(bool(given.value)))
    if dtype is DType.F64:
        yield Assign(name, Call("hl.ImageParam", (TYPES[dtype], Atom("0"), quoted(given.name))))
        yield Do(Call(f"{name}.set", (Call("hl.Buffer", (Call("np.array", (value,)),)),)))
    else:
        yield Assign(name, Call("hl.Param", (TYPES[dtype], quoted(given.name), value)))


def _reads(condition: Expression | None, stage: Stage) -> bool:
    """Whether an update looks at what it goes on with, which a domain would do outside of any tail."""
    parts = () if condition is None else walk(condition)
    return any(isinstance(part, Read) and part.source == stage.name for part in parts)
