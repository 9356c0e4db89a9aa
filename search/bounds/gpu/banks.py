"""How often shared memory is accessed for one element of each thread of a warp: conflicts between its banks.

In: a load whose value may be copied to memory that a block shares, and what uses it; then the vectors of
candidates. Out: passes, at least; 0 until all is decided that says where threads find elements, but for what
comes last: of layouts and paddings that are left, the best counts. So it never falls.

Threads of a warp differ by their numbers alone: strides and sizes of threads are powers of two, so that each
warp reads the same pattern, moved by a constant, and so do all iterations and tiles. That moves banks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spacedsl.engine.instance import Instance
from spacedsl.kernels.banks import BANK_BYTES, BANKS, passes
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.linalg.backbone import VECTOR_BYTES, Dimension, Instruction
from spacedsl.kernels.linalg.layout import PADDINGS, element_steps, innermost_first
from spacedsl.language.space import EnumChoice
from spacedsl.search.bounds.domains import Integers, Place, order_bits, values_of

WARP = BANKS
"""Threads that access memory together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Named:
    """Where the domain of a choice among names lies; where a space has no such choice, the one value."""

    cell: int | None
    names: tuple[str, ...]

    @classmethod
    def of(cls, instance: Instance, choice: str, about: Instruction, otherwise: str) -> _Named:
        found = instance.space.choices.get(choice)
        if not isinstance(found, EnumChoice):
            return cls(None, (otherwise,))
        return cls(instance.offset(choice, about), found.values)

    def left(self, vector: Sequence[int]) -> tuple[str, ...]:
        if self.cell is None:
            return self.names
        mask = vector[self.cell]
        return tuple(name for bit, name in enumerate(self.names) if mask >> bit & 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Dim:
    """A dimension of what loads the copy, where the domains about it lie."""

    number: int
    """Its position among those of its load."""
    place: Place
    stride: Integers
    made: int
    """Of the kind of the dimension that copies."""
    made_stride: Integers
    laid_out: int
    """Of the kind of the one that layouts go by."""
    merged: tuple[int, ...]
    """Of the order of the dimension that copies and those of all that loads again."""
    own_merged: int
    """The same of this one."""

    @property
    def cells(self) -> Iterator[int]:
        yield from (self.place.kind_offset, *self.place.size.cells, *self.stride.cells)
        yield from (self.made, *self.made_stride.cells, self.laid_out, *self.merged)


@dataclass(frozen=True, slots=True)
class _Decided:
    """What has been decided about a dimension that takes room."""

    dim: _Dim
    size: int
    apart: int
    """Threads between neighbours; 0 where threads do not share it out."""


@dataclass(frozen=True, slots=True, eq=False)
class Banks:
    """Of one operand."""

    item_bytes: int
    dims: tuple[_Dim, ...]
    orders: dict[tuple[int, int], int]
    """Where the order of the loops of two of them lies that the layout goes by."""
    layout: _Named
    padding: _Named
    whole: tuple[tuple[int, int], ...]
    """Pairs (cell, mask) that say that no tile ends early."""
    kind_bits: dict[str, int]
    inner: int
    outer: int
    merged: int
    """Values of `order` in its domains."""

    @classmethod
    def of(
        cls, instance: Instance, device: GpuDevice, load: Instruction, user: Instruction, item_bytes: int
    ) -> Banks | None:
        """None where nothing is known: memory has other banks, or the load is never loaded again."""
        reloads = [r for r in load.reloads if user in r.consumers]
        order = instance.space.choices.get("order")
        has_banks = device.shared_bytes_per_cycle == BANKS * BANK_BYTES and device.warp == WARP
        if not has_banks or len(reloads) != 1 or not isinstance(order, EnumChoice):
            return None
        (reload,) = reloads
        ragged = [logical.dims[0] for logical in user.logical_dims if logical.is_ragged]
        whole = tuple(pair for dim in ragged for pair in values_of(instance, dim, ("NONE",)))
        if len(whole) < len(ragged):
            return None
        nesting, first = order_bits(instance), load.reloads[0]
        pairs = ((n, m) for n in range(len(first.dims)) for m in range(n))
        kinds = instance.universe("dim_kind", reload.dims[0])
        return cls(
            item_bytes,
            tuple(_dim(instance, load, reload, n) for n in range(len(reload.dims))),
            {(n, m): instance.offset("order", first.dims[n], first.dims[m]) for n, m in pairs},
            _Named.of(instance, "layout", load, "NESTED"),
            _Named.of(instance, "padding", load, "NONE"),
            whole,
            {str(kind): 1 << bit for bit, kind in enumerate(kinds)},
            nesting.inner,
            nesting.outer,
            order.mask("MERGED"),
        )

    @property
    def cells(self) -> Iterator[int]:
        """All that it depends on."""
        for dim in self.dims:
            yield from dim.cells
        yield from self.orders.values()
        yield from (cell for cell in (self.layout.cell, self.padding.cell) if cell is not None)
        yield from (cell for cell, _ in self.whole)

    def passes(self, vector: Sequence[int]) -> float:
        """For an element of each thread of a warp, on average of those that are loaded at once."""
        kept = self.decided(vector)
        if not kept or not any(self.is_loaded(each, vector) for each in kept):
            return 0.0
        numbers = [each.dim.number for each in kept]
        nested = [self.orders[pair] for pair in self.orders if pair[0] in numbers and pair[1] in numbers]
        if any(vector[cell] not in (self.inner, self.outer) for cell in nested):
            return 0.0
        unroll, layouts = self.kind_bits["UNROLL"], self.layout.left(vector)
        copied = [vector[each.dim.laid_out] for each in kept]
        if "SPREAD" in layouts and any(kinds & unroll and kinds != unroll for kinds in copied):
            return 0.0
        return min(
            (
                self.laid_out(kept, vector, PADDINGS[padding], is_spread=layout == "SPREAD")
                for layout in layouts
                for padding in self.padding.left(vector)
            ),
            default=0.0,
        )

    def decided(self, vector: Sequence[int]) -> list[_Decided]:
        """The dimensions that take room; none where it is not known which, or what they are."""
        if any(vector[cell] != mask for cell, mask in self.whole):
            return []
        found: list[_Decided] = []
        thread, fragment = self.kind_bits["THREAD"], self.kind_bits.get("FRAGMENT", 0)
        for dim in self.dims:
            orders = [vector[cell] for cell in dim.merged]
            if all(left == self.merged for left in orders):
                continue
            sizes, kinds = dim.place.size.left(vector), vector[dim.place.kind_offset]
            strides = dim.stride.left(vector) if kinds == thread else [0]
            is_kept = any(not left & self.merged for left in orders)
            is_either = kinds & fragment or (kinds & thread and kinds != thread)
            if not is_kept or is_either or len(sizes) != 1 or len(strides) != 1:
                return []
            found.append(_Decided(dim, sizes[0], strides[0]))
        return found

    def is_loaded(self, each: _Decided, vector: Sequence[int]) -> bool:
        """Whether threads certainly find there what others have put there, or their own loops have.

        Else what a thread has copied may be what it needs, and still in its registers.
        """
        dim, bits = each.dim, self.kind_bits
        if each.size == 1:
            return False
        if each.apart:
            is_elsewhere = each.apart not in dim.made_stride.left(vector)
            return is_elsewhere or not vector[dim.made] & bits["THREAD"]
        return vector[dim.place.kind_offset] == bits["LOOP"] and not vector[dim.own_merged] & self.merged

    def laid_out(
        self, kept: Sequence[_Decided], vector: Sequence[int], padding: int, *, is_spread: bool
    ) -> float:
        """With a layout, and so many bytes between rows."""

        def is_outside(one: _Decided, other: _Decided) -> bool:
            n, m = one.dim.number, other.dim.number
            if n > m:
                return vector[self.orders[n, m]] == self.outer
            return vector[self.orders[m, n]] == self.inner

        def is_apart(each: _Decided) -> bool:
            return is_spread and vector[each.dim.laid_out] == self.kind_bits["UNROLL"]

        placed = innermost_first(kept, is_outside, is_apart)
        rows = ((each.dim.place.dimension.index, each.size) for each in placed)
        steps, _ = element_steps(rows, self.item_bytes, padding)
        moving = [(e.apart, e.size, step) for e, step in zip(placed, steps, strict=True) if e.size > 1]
        neighbours = 1
        for apart, size, step in moving:
            if apart or step != neighbours:
                break
            neighbours *= size
        return passes_of_warp(tuple(each for each in moving if each[0]), neighbours, self.item_bytes)


def _dim(instance: Instance, load: Instruction, reload: Instruction, number: int) -> _Dim:
    def order(made: Dimension, dim: Dimension) -> int:
        return instance.offset("order", made, dim)

    made, dim = load.dims[number], reload.dims[number]
    return _Dim(
        number=number,
        place=Place.of(instance, dim),
        stride=Integers.of(instance, "thread_stride", dim),
        made=instance.offset("dim_kind", made),
        made_stride=Integers.of(instance, "thread_stride", made),
        laid_out=instance.offset("dim_kind", load.reloads[0].dims[number]),
        merged=tuple(order(made, each.dims[number]) for each in load.reloads),
        own_merged=order(made, dim),
    )


@lru_cache(maxsize=1 << 16)
def passes_of_warp(threads: tuple[tuple[int, int, int], ...], neighbours: int, item_bytes: int) -> float:
    """Of the best of the vectors that a compiler may load, for each of their elements.

    `threads`: of the dimensions that threads share out, threads between neighbours, iterations, and elements
    that one moves. `neighbours`: elements side by side that a thread loads. A block has at least the threads
    that these tell apart; more of them need nothing less.
    """
    if any(number & (number - 1) for apart, size, _ in threads for number in (apart, size)):
        return 0.0
    lanes = range(min(WARP, max((apart * size for apart, size, _ in threads), default=1)))
    firsts = [sum(lane // apart % size * step for apart, size, step in threads) for lane in lanes]
    return min(
        _passes(firsts, width, item_bytes) / width for width in _widths(threads, neighbours, item_bytes)
    )


def _widths(threads: Sequence[tuple[int, int, int]], neighbours: int, item_bytes: int) -> Iterator[int]:
    """Elements of vectors, which begin at a multiple of their number in each thread. Rows that are no power
    of two may end within one.
    """
    width = 1
    while width * item_bytes <= VECTOR_BYTES and width < 2 * neighbours:
        if all(step % width == 0 for _, _, step in threads):
            yield width
        width *= 2


def _passes(firsts: Sequence[int], width: int, item_bytes: int) -> int:
    """Of a load: where elements are less than a word, it may begin with any of a word's."""
    return min(
        passes(
            [first + begin for first in firsts],
            width * item_bytes,
            item_bytes,
            is_shared_load=True,
            warp=WARP,
        )
        for begin in range(0, max(1, BANK_BYTES // item_bytes), width)
    )
