"""A backbone of plain objects for `language/corpus/original.space`: two nests, with a value between them.

An instruction loads x for each iteration of some dimensions, another uses it in dimensions of its own, a
third stores the result there. Both nests lie in one dimension of unknown size. What lowers x to memory is
laid out beforehand: a store behind the load, a load before the use, dimensions for each, and a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spacedsl.language.host import Addition, callback, exposed

Membership = tuple[str, tuple[object, ...], object]


@exposed("id", "name", "is_static", "is_parallel", "level", "possible_sizes", "mapped", "direct")
@dataclass(eq=False)
class Dimension:
    id: int
    name: str
    is_static: bool = True
    is_parallel: bool = True
    level: int = 1
    possible_sizes: tuple[int, ...] = (2, 4)
    mapped: tuple[Dimension, ...] = ()
    """Those that use, iteration by iteration, what this one makes."""
    direct: tuple[Dimension, ...] = ()
    """Of those that are or may become mapped, the ones that no memory may lie in front of."""
    lowering: tuple[Membership, ...] = ()
    """What is added where the dimension is not mapped to one that uses its values."""


@exposed("id", "name", "dims", "has_effects", "is_vectorizable", "is_load", "region")
@dataclass(eq=False)
class Instruction:
    id: int
    name: str
    dims: tuple[Dimension, ...]
    region: Region | None = None
    is_load: bool = False
    has_effects: bool = False
    is_vectorizable: bool = True


@exposed("name", "may_be_shared", "is_written", "item_bytes", "mappings")
@dataclass(eq=False)
class Region:
    name: str
    may_be_shared: bool = False
    is_written: bool = False
    item_bytes: int = 4
    mappings: tuple[Mapping, ...] = ()


@exposed("name", "produced", "consumed")
@dataclass(eq=False)
class Mapping:
    name: str
    produced: Dimension
    consumed: Dimension


@exposed("name", "definitions", "uses", "dims", "mappings")
@dataclass(eq=False)
class Variable:
    name: str
    definitions: tuple[Instruction, ...]
    uses: tuple[Instruction, ...]
    dims: tuple[Dimension, ...]
    mappings: tuple[Mapping, ...] = ()


@exposed("name", "tile_dims", "tiled_dim", "greatest_tiling")
@dataclass(eq=False)
class LogicalDim:
    name: str
    tile_dims: tuple[Dimension, ...]
    tiled_dim: tuple[Dimension, ...]
    greatest_tiling: int = 4


@exposed(
    "statements", "instructions", "mem_insts", "dimensions", "static_dims", "logical_dims", "variables",
    "mappings", "regions", "lower", "store_dim",
)  # fmt: skip
@dataclass(eq=False)
class Kernel:
    instructions: tuple[Instruction, ...]
    dimensions: tuple[Dimension, ...]
    logical_dims: tuple[LogicalDim, ...]
    variables: tuple[Variable, ...]
    mappings: tuple[Mapping, ...]
    regions: tuple[Region, ...]
    statements: tuple[object, ...] = field(init=False)
    mem_insts: tuple[Instruction, ...] = field(init=False)
    static_dims: tuple[Dimension, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.statements = (*self.instructions, *self.dimensions)
        self.mem_insts = tuple(i for i in self.instructions if i.region is not None)
        self.static_dims = tuple(d for d in self.dimensions if d.is_static)

    @callback
    def lower(self, producing: Dimension, using: Dimension) -> Addition:
        return Addition(() if using in producing.direct else producing.lowering)

    @callback
    def store_dim(self, region: Region, mapping: Mapping) -> Addition:
        return Addition((("StoredDims", (), mapping), ("StoredIn", (region,), mapping)))


@exposed(
    "greatest_unroll", "inner_vector", "outer_vector", "greatest_block", "third_dimension", "shared_bytes"
)
@dataclass(frozen=True)
class Gpu:
    greatest_unroll: int = 8
    inner_vector: int = 4
    outer_vector: int = 2
    greatest_block: int = 16
    third_dimension: int = 2
    shared_bytes: int = 64


def two_nests(depth: int) -> Kernel:
    """Each nest has so many dimensions of static size."""
    outer = Dimension(0, "outer", is_static=False, level=0)
    made = tuple(Dimension(1 + i, f"made{i}") for i in range(depth))
    used = tuple(Dimension(3 + i, f"used{i}") for i in range(depth))
    given, result = Region("given"), Region("result", is_written=True)
    load = Instruction(5, "load", (outer, *made), given, is_load=True)
    compute = Instruction(6, "compute", (outer, *used))
    store = Instruction(7, "store", (outer, *used), result, has_effects=True)
    mappings = tuple(Mapping(f"x{i}", a, b) for i, (a, b) in enumerate(zip(made, used, strict=True)))
    x = Variable("x", (load,), (compute,), made, mappings)
    y = Variable("y", (compute,), (store,), used)
    lowering = through_memory(x, outer)
    for a, b in zip(made, used, strict=True):
        a.mapped, a.lowering = (b,), lowering
    return Kernel(
        instructions=(load, compute, store),
        dimensions=(outer, *made, *used),
        logical_dims=(LogicalDim("columns", (used[-1],), (outer,)),),
        variables=(x, y),
        mappings=mappings,
        regions=(given, result),
    )


def through_memory(value: Variable, outer: Dimension) -> tuple[Membership, ...]:
    """What lowering adds: the same objects for each of the variable's mappings."""
    produced = tuple(m.produced for m in value.mappings)
    consumed = tuple(m.consumed for m in value.mappings)
    to_store = tuple(Dimension(10 + i, f"stored{i}") for i in range(len(produced)))
    to_load = tuple(Dimension(20 + i, f"loaded{i}") for i in range(len(consumed)))
    block = Region("block", may_be_shared=True, is_written=True, mappings=value.mappings)
    store = Instruction(30, "store_x", (outer, *to_store), block, has_effects=True)
    load = Instruction(31, "load_x", (outer, *to_load), block, is_load=True)
    before = direct("stored", produced, to_store)
    after = direct("loaded", to_load, consumed)
    variables = (
        Variable("x_to_store", value.definitions, (store,), produced, before),
        Variable("x_in_memory", (store,), (load,), ()),
        Variable("x_from_load", (load,), value.uses, to_load, after),
    )
    return (
        *(("Statements", (), s) for s in (*to_store, *to_load, store, load)),
        *(("Dimensions", (), d) for d in (*to_store, *to_load)),
        *(("StaticDims", (), d) for d in (*to_store, *to_load)),
        *(("Instructions", (), i) for i in (store, load)),
        *(("MemInsts", (), i) for i in (store, load)),
        ("MemRegions", (), block),
        ("Temporaries", (), block),
        *(("MappedDims", (m.produced,), m.consumed) for m in (*before, *after)),
        *(("DimMappings", (), m) for m in (*before, *after)),
        *(("Variables", (), v) for v in variables),
    )


def direct(name: str, left: tuple[Dimension, ...], right: tuple[Dimension, ...]) -> tuple[Mapping, ...]:
    for a, b in zip(left, right, strict=True):
        a.direct = (b,)
    pairs = zip(left, right, strict=True)
    return tuple(Mapping(f"{name}_map{i}", a, b) for i, (a, b) in enumerate(pairs))
