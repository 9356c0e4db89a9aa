"""The semantic backbone of dense linear algebra: instructions, their loop nests, and how values flow.

In: built by `build.py` from a kernel file's computation. Out: the objects that `spaces/linalg.space` names,
read by bounds and by code generation. Nothing here decides anything: sizes, order, nesting and kinds of
dimensions are choices of the space.

The address of a memory access is `offset + sum(index(l) * stride for l, stride in strides)` in elements,
where the index of a logical dimension with levels d0, d1, .. (outermost first) in the access's own nest is
`sum(i(d_j) * size(d_j+1) * size(d_j+2) * ..)`. Iterations where that is not below the extent do not exist.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, Op, neutral
from spacedsl.kernels.tensors import Parameter, Scratch, Tensor
from spacedsl.language.host import Addition, callback, exposed


@exposed("name", "dims")
@dataclass(slots=True, eq=False, repr=False)
class Index:
    """An index of the computation: its dimensions in all nests. Those of reloads are not listed."""

    name: str
    """`*.i`: it belongs to no instruction."""
    dims: tuple[Dimension, ...] = ()

    def __repr__(self) -> str:
        return self.name


@exposed("name", "dims", "is_parted")
@dataclass(slots=True, eq=False, repr=False)
class Level:
    """One level of an index: its dimensions in all nests. Those of reloads are not listed."""

    name: str
    """`*.i.0` is level 0 of index i."""
    index: Index
    dims: tuple[Dimension, ...] = ()
    is_parted: bool = False
    """Of an outermost level: whether something is gained where memory adds up sums over it."""

    def __repr__(self) -> str:
        return self.name


class Axis(enum.Enum):
    """A side of a fragment: how its iterations are shared out among the threads of a warp.

    With `lane` the number of a thread in its warp, ROWS go by lane / 4, the others by lane % 4: of the
    columns of a result, a thread has two neighbours; of the terms of an operand, those in its 4 bytes.
    """

    ROWS = "rows"
    COLUMNS = "columns"
    TERMS = "terms"


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a dimension may be of the small matrices that tensor cores multiply."""

    axis: Axis
    size: int
    """Iterations that it has then."""


@exposed("id", "name", "group", "level", "possible_sizes", "inner_levels", "outer_level", "mapped_to",
         "instruction", "logical", "index", "is_reduction", "is_free_outermost", "is_added_up",
         "is_read_back", "has_few_results", "has_hardly_any_results", "is_parted", "is_vectorizable",
         "item_bytes", "maker_dim", "layout_dim", "revisited_by", "aligned_lanes",
         "fragment_size")  # fmt: skip
@dataclass(slots=True, eq=False, repr=False)
class Dimension:
    """One level of one logical dimension in one instruction's nest. The builder fills in the relations."""

    id: int
    name: str
    """Stable: `fma.i0` is level 0 of index i in the nest of instruction `fma`."""
    index: str
    level: int
    group: Level
    """What it has in common with the same level of the same index in other nests."""
    possible_sizes: tuple[int, ...]
    is_reduction: bool
    is_vectorizable: bool
    """Innermost level only: whether the instruction's own access is contiguous along it, or is arithmetic (a
    reduction's order of terms is free)."""
    item_bytes: int
    """Of what its instruction computes in: a lane of a vector."""
    instruction: Instruction
    inner_levels: tuple[Dimension, ...] = ()
    mapped_to: tuple[Dimension, ...] = ()
    maker_dim: Dimension | None = None
    """Of a reload's dimension: that of the maker's nest that it follows."""
    layout_dim: Dimension | None = None
    """Of a reload's dimension: that of the reload whose nest gives the temporary its layout."""
    fragment: Fragment | None = None
    """Of an innermost level: what it may be of the matrices that tensor cores multiply."""
    revisited_by: tuple[Dimension, ...] = ()
    """Of an outermost level: the same in the next nest that accesses its instruction's large tensor."""

    @property
    def is_free_outermost(self) -> bool:
        """Whether it is the outermost level of an index that is not summed over."""
        return self.level == 0 and not self.is_reduction

    @property
    def is_added_up(self) -> bool:
        """Whether memory can combine what each of its iterations has of a reduction."""
        return any(self.group in start.added_levels for start in self.instruction.initialisers)

    @property
    def is_summed_up(self) -> bool:
        """Whether memory can add that up: of sums alone."""
        return self.is_added_up and self.instruction.combine is Combine.SUM

    @property
    def is_read_back(self) -> bool:
        """Of a reduction that memory can combine: whether the kernel itself reads its result."""
        return any(user.readers for user in self.instruction.consumers)

    @property
    def has_few_results(self) -> bool:
        """Of a reduction that memory can combine: whether threads, or blocks, can have a part of each."""
        return all(user.instances <= MOST_RESULTS for user in self.instruction.consumers)

    @property
    def has_hardly_any_results(self) -> bool:
        """The same: whether there are so few that blocks with one each leave a GPU without work."""
        return all(user.instances <= MOST_ALONE for user in self.instruction.consumers)

    @property
    def is_parted(self) -> bool:
        """Whether memory can add up what its iterations have, without gaps, and something is gained."""
        stored = (user.access.tensor for user in self.instruction.consumers if user.access is not None)
        return self.is_summed_up and self.group.is_parted and all(t.span == t.elements for t in stored)

    @property
    def fragment_size(self) -> int:
        """Iterations of it as a side of a fragment; 0 where it cannot be one."""
        return 0 if self.fragment is None else self.fragment.size

    @property
    def aligned_lanes(self) -> int:
        """Of an access: the most neighbours that begin at a multiple of their number, as the tensor does.

        A power of two, and not more than `VECTOR_BYTES` together.
        """
        most = min(VECTOR_LANES, VECTOR_BYTES // max(self.instruction.item_bytes, self.item_bytes))
        if self.instruction.is_narrow and not self.logical.is_ragged:
            most = VECTOR_BYTES // self.instruction.item_bytes
        access = self.instruction.access
        if access is None:
            return most
        apart = math.gcd(access.offset, *(s for logical, s in access.strides if logical.index != self.index))
        return math.gcd(most, apart)

    @property
    def logical(self) -> LogicalDim:
        """The index in the instruction's nest that this is a level of."""
        return next(g for g in self.instruction.logical_dims if g.index == self.index)

    @property
    def outer_level(self) -> Dimension:
        """The level of the same index just outside this one; of the outermost there is none."""
        return self.logical.dims[self.level - 1]

    @property
    def is_optional(self) -> bool:
        """Whether it is between two levels and may have one iteration: a tiling can do without it."""
        return self.level > 0 and bool(self.inner_levels) and 1 in self.possible_sizes

    def __repr__(self) -> str:
        return self.name


@exposed("name", "extent", "dims", "is_ragged")
@dataclass(slots=True, eq=False, repr=False)
class LogicalDim:
    """One index of one instruction: its extent and its levels, outermost first."""

    name: str
    """Stable: `fma.i`."""
    index: str
    extent: int
    dims: tuple[Dimension, ...] = ()
    is_ragged: bool = False
    """Whether tile sizes are on offer that do not divide the extent: the last tile may end early."""

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class ParameterValue:
    parameter: Parameter


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What `instruction` made at the mapped iteration: pairs (dimension of it, dimension of the user)."""

    instruction: Instruction
    mapping: tuple[tuple[Dimension, Dimension], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """The user's own result of the previous iteration of `reduced`; at the first one, that of `initialiser`.

    `mapping`: pairs (dimension of the initialiser, dimension of the user), one for each free dimension.
    """

    initialiser: Instruction
    mapping: tuple[tuple[Dimension, Dimension], ...]
    reduced: tuple[Dimension, ...]


Operand = Number | ParameterValue | Value | Accumulator


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """Where an instruction reads or writes, in elements of `tensor`."""

    tensor: Tensor
    offset: int
    strides: tuple[tuple[LogicalDim, int], ...]
    """The instruction's own logical dimensions and how far one step of each moves."""


LARGE_BYTES = 1 << 20
"""More than a core keeps in caches of its own."""

MOST_RESULTS = 1 << 18
"""Of sums that threads share: of more results, tiles of 64 x 64 are more than a GPU has multiprocessors."""

MOST_ALONE = 256
"""Of reductions that blocks share whose results a kernel itself goes on with: of more, each block has one."""

MOST_SHORT = 64
"""Terms of a sum to which it matters whether the first one is added to nothing."""

VECTOR_BYTES, VECTOR_LANES = 16, 4
"""Most that a thread of a GPU loads or stores with one instruction, if it begins at a multiple of that."""


@exposed(
    "id", "name", "dims", "foreign_indices", "consumers", "reduced_dims", "free_dims", "initialisers",
    "is_short", "readers", "followed_dims", "added_levels", "item_bytes", "is_storable", "maker", "is_large",
    "is_access", "is_narrow", "neighbours", "register_lanes",
)  # fmt: skip
@dataclass(slots=True, eq=False, repr=False)
class Instruction:
    """A scalar operation in its own nest. The builder fills in the relations."""

    id: int
    name: str
    """Stable: `load_A`, `init`, `fma`, `store_C`; numbered where a name recurs."""
    op: Op
    dtype: DType
    """What it computes in: a load converts what it reads, a store rounds to what the tensor holds."""
    operands: tuple[Operand, ...] = ()
    access: Access | None = None
    """For LOAD and STORE."""
    logical_dims: tuple[LogicalDim, ...] = ()
    dims: tuple[Dimension, ...] = ()
    foreign_indices: tuple[Index, ...] = ()
    """Indices that it does not depend on."""
    consumers: tuple[Instruction, ...] = ()
    reduced_dims: tuple[Dimension, ...] = ()
    free_dims: tuple[Dimension, ...] = ()
    initialisers: tuple[Instruction, ...] = ()
    readers: tuple[Instruction, ...] = ()
    """Loads, later in the computation, of what this store writes."""
    followed_dims: tuple[Dimension, ...] = ()
    """Of the store that wrote what this load reads: its iteration i alone writes what iteration i of the same
    dimension reads here."""
    added_levels: tuple[Level, ...] = ()
    """Of what a reduction starts from, and of the store of its result, where memory can combine parts: the
    outermost levels of what it sums over."""
    maker: Instruction | None = None
    """Of a reload: the instruction whose value it loads from a temporary."""
    reloads: tuple[Instruction, ...] = ()
    """What loads its value for each of its users, should it go through memory."""

    @property
    def foreign_dims(self) -> tuple[Dimension, ...]:
        """Dimensions of indices that it does not depend on; those of reloads are not listed."""
        return tuple(d for index in self.foreign_indices for d in index.dims)

    @property
    def instances(self) -> int:
        """How often it runs in its own nest."""
        return math.prod(logical.extent for logical in self.logical_dims)

    @property
    def is_storable(self) -> bool:
        """Whether its value may go through memory to its users."""
        return bool(self.reloads)

    @property
    def is_access(self) -> bool:
        """Whether it loads or stores."""
        return self.op in (Op.LOAD, Op.STORE)

    @property
    def access_dtype(self) -> DType:
        """Of the elements in memory, for a load or store."""
        return self.dtype if self.access is None else self.access.tensor.dtype

    @property
    def item_bytes(self) -> int:
        """Of an element in memory, for a load or store."""
        return self.access_dtype.nbytes

    @property
    def is_narrow(self) -> bool:
        """Of a load whose value may go through memory: whether it loads less than it computes in."""
        return self.is_storable and self.op is Op.LOAD and self.item_bytes < self.dtype.nbytes

    @property
    def register_lanes(self) -> int:
        """Of what it computes in, the most that a vector of a GPU holds."""
        return min(VECTOR_LANES, VECTOR_BYTES // self.dtype.nbytes)

    @property
    def neighbours(self) -> tuple[Dimension, ...]:
        """Those of its dimensions along which it accesses neighbours."""
        return tuple(d for d in self.dims if d.is_vectorizable)

    @property
    def is_large(self) -> bool:
        """Of a load or store: whether its tensor is larger than what a core keeps in caches of its own."""
        return self.access is not None and self.access.tensor.nbytes > LARGE_BYTES

    @property
    def is_copy(self) -> bool:
        """Of a reload: whether it alone reads the copy of an argument, which nothing writes."""
        made = self.maker
        if made is None or made.access is None or len(made.reloads) > 1:
            return False
        return not made.access.tensor.is_output

    @property
    def combine(self) -> Combine | None:
        """How it combines values, where it is a reduction."""
        return _COMBINE.get(self.op) if self.reduced_dims else None

    @property
    def starts_from_nothing(self) -> bool:
        """Of a reduction: whether its first value changes nothing of what is combined with it."""
        nothing = None if self.combine is None else (Number(neutral(self.combine, self.dtype)),)
        return all(start.op is Op.MOVE and start.operands == nothing for start in self.initialisers)

    @property
    def is_short(self) -> bool:
        """Of a reduction: whether it has so few terms that the first may as well be its first value."""
        reduced = (logical for logical in self.logical_dims if logical.dims[0].is_reduction)
        return self.starts_from_nothing and math.prod(g.extent for g in reduced) <= MOST_SHORT

    def __repr__(self) -> str:
        return self.name


_COMBINE = {
    Op.ADD: Combine.SUM, Op.FMA: Combine.SUM, Op.MUL: Combine.PROD, Op.MAX: Combine.MAX, Op.MIN: Combine.MIN
}  # fmt: skip


@exposed("value")
@dataclass(frozen=True, slots=True)
class UnevenSize:
    """A tile size on offer that is no power of two."""

    name: str
    value: int


@exposed("name", "statements", "instructions", "loads", "stores", "singular", "reductions", "dimensions",
         "logical_dims", "ragged_dims", "optional_dims", "uneven_sizes", "indices", "levels", "storable",
         "prefetchable", "fragment_dims", "reload")  # fmt: skip
@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """The backbone of one kernel. `tensors` are its arguments.

    `statements`: instructions, then dimensions; ids are positions there. Reloads are no part of them.
    """

    name: str
    tensors: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    dimensions: tuple[Dimension, ...]
    logical_dims: tuple[LogicalDim, ...]
    uneven_sizes: tuple[UnevenSize, ...]
    indices: tuple[Index, ...]
    levels: tuple[Level, ...]
    scratch: tuple[Scratch, ...] = ()
    statements: tuple[Instruction | Dimension, ...] = field(init=False)
    loads: tuple[Instruction, ...] = field(init=False)
    stores: tuple[Instruction, ...] = field(init=False)
    singular: tuple[Instruction, ...] = field(init=False)
    """The instructions that are not loads."""
    reductions: tuple[Instruction, ...] = field(init=False)
    ragged_dims: tuple[Dimension, ...] = field(init=False)
    """The outermost levels of ragged indices."""
    optional_dims: tuple[Dimension, ...] = field(init=False)
    """The levels that a tiling can do without."""
    storable: tuple[Instruction, ...] = field(init=False)
    """Those whose value may go through memory."""
    reloads: tuple[Instruction, ...] = field(init=False)
    """What may load them again."""
    prefetchable: tuple[Instruction, ...] = field(init=False)
    """Loads of arguments, in a loop: what they will read can be asked for before."""

    fragment_dims: tuple[Dimension, ...] = field(init=False)
    """Those that may be sides of fragments."""

    @callback
    def reload(self, maker: Instruction, user: Instruction) -> Addition:
        """What comes between an instruction that writes its value to a temporary and one of its users."""
        loads = [load for load in maker.reloads if user in load.consumers]
        dims = [d for load in loads for d in load.dims]
        levels = tuple(("LevelDims", (d.group,), d) for d in dims)
        indices = tuple(("IndexDims", (d.group.index,), d) for d in dims)
        optional = tuple(("OptionalDims", (), d) for d in dims if d.is_optional)
        fragments = tuple(("FragmentDims", (), d) for d in dims if d.fragment is not None)
        copies = tuple(("Copies", (), load) for load in loads if load.is_copy)
        large = tuple(("LargeCopies", (), load) for load in loads if load.is_copy and maker.is_large)
        reloads = tuple(("Reloads", (), load) for load in loads)
        return Addition((*reloads, *copies, *large, *levels, *indices, *optional, *fragments))

    def __post_init__(self) -> None:
        def fix(name: str, value: tuple[object, ...]) -> None:
            object.__setattr__(self, name, value)

        fix("statements", (*self.instructions, *self.dimensions))
        fix("loads", tuple(i for i in self.instructions if i.op is Op.LOAD))
        fix("stores", tuple(i for i in self.instructions if i.op is Op.STORE))
        fix("singular", tuple(i for i in self.instructions if i.op is not Op.LOAD))
        fix("reductions", tuple(i for i in self.instructions if i.reduced_dims))
        fix("ragged_dims", tuple(g.dims[0] for g in self.logical_dims if g.is_ragged))
        fix("optional_dims", tuple(d for d in self.dimensions if d.is_optional))
        fix("storable", tuple(i for i in self.instructions if i.is_storable))
        fix("reloads", tuple(load for maker in self.storable for load in maker.reloads))
        fix("fragment_dims", tuple(d for d in self.dimensions if d.fragment is not None))
        fix(
            "prefetchable",
            tuple(i for i in self.loads if i.dims and i.access and i.access.tensor in self.tensors),
        )
