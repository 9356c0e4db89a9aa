"""What the domains of a candidate still allow: lanes, copies and threads of every dimension.

In: an instance, its device's rates, then candidates. Out: a `View` of a candidate. Only `size`, `dim_kind`
and counters of unrolled copies are read: what the order of statements adds is not used yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.layout import ABSENT, CERTAIN, INTEGER_WORDS, PRESENT, WORD_BITS
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel
from spacedsl.language.space import EnumChoice
from spacedsl.search.bounds.arithmetic import UNITS
from spacedsl.search.bounds.certain import Operation
from spacedsl.search.bounds.rates import Rates, Use
from spacedsl.search.bounds.unrolling import UnrolledNest, unroll_counters

USES: tuple[Use, ...] = (*UNITS, "load", "store")


@dataclass(frozen=True, slots=True)
class Freedom:
    """What one dimension can still be. Without the possibility, a number is 1."""

    least: int
    """Fewest iterations."""
    most: int
    lanes: int
    """Most iterations in one vector instruction."""
    elements_per_ns: dict[Use, float]
    """Most iterations in a ns as a vector; empty where VECTOR is impossible."""
    paces: dict[Use, tuple[tuple[int, float], ...]]
    """The same for each number of lanes that is left."""
    is_vector: bool
    """It can be nothing else."""
    copies: int
    """Most unrolled iterations."""
    is_even: bool
    """It is parallel for certain, and every thread has as many of its iterations as any other."""
    threads: int
    speedup: float
    """Of its iterations by threads: the slowest thread has at least ceil(size / threads) of them."""


Bits = tuple[tuple[int, int], ...]
"""Pairs (position of a word in a candidate's vector, mask of values in its domain)."""


class Share(NamedTuple):
    """How threads can share the iterations of a dimension."""

    threads: int
    speedup: float
    """Of the slowest thread over one that does all of it."""
    is_even: bool
    """Whether all threads certainly have the same."""


class OrderBits(NamedTuple):
    """Values of `order` in its domains; 0 where a space has no such value."""

    inner: int
    outer: int


@dataclass(frozen=True, slots=True)
class View:
    """The freedoms of one candidate, by dimension."""

    rates: Rates
    freedoms: dict[Dimension, Freedom]
    most_accumulators: dict[Instruction, float]
    """By reduction, what counters leave; infinite where none counts them."""
    vector: Sequence[int]
    """Of the candidate, for those who know where domains lie."""
    order_bits: OrderBits
    has_shared_nests: bool
    """Whether more than one dimension of a nest can be parallel: their iterations are shared out together."""
    overfull: Instruction | None
    """Whose body needs more copies than there may be: then there is no implementation."""

    def may_be(self, bits: Bits) -> bool:
        """Whether the domains still have any of the values."""
        return any(self.vector[cell] & mask for cell, mask in bits)

    def speedup(self, dims: Iterable[Dimension]) -> float:
        """By threads. Work outside of a nest's parallel dimensions is done by all threads."""
        shared = [d for d in dims if self.freedoms[d].threads > 1]
        if self.has_shared_nests and len(shared) > 1:
            return float(self.threads(shared))
        return max((self.freedoms[d].speedup for d in shared), default=1.0)

    def elements_per_ns(self, operation: Operation, use: Use) -> float:
        """Most iterations that one thread completes in a ns."""
        return max(self._per_ns(operation, use, vector) for vector in self.vectors(operation.dims))

    def _per_ns(self, operation: Operation, use: Use, vector: Dimension | None) -> float:
        if vector is None:
            return self.rates.used_instructions(operation.pace, use, 1)
        return self.freedoms[vector].elements_per_ns.get(use, 0.0)

    def lanes(self, dims: Iterable[Dimension]) -> int:
        return max((self.freedoms[d].lanes for d in dims), default=1)

    def copies(self, dims: Iterable[Dimension]) -> int:
        return math.prod(self.freedoms[d].copies for d in dims)

    def accumulators(self, reduction: Instruction, vector: Dimension | None = None) -> float:
        """Most unrolled copies of a reduction; `vector`, where it is a dimension, is none of them."""
        copies = self.copies(d for d in reduction.free_dims if d is not vector)
        return min(copies, self.most_accumulators.get(reduction, math.inf))

    def vectors(self, dims: Sequence[Dimension]) -> list[Dimension | None]:
        """Which of the dimensions of a nest can be its vector; None: none is. There is at most one."""
        certain = [d for d in dims if self.freedoms[d].is_vector]
        return [*certain] or [None, *(d for d in dims if self.freedoms[d].elements_per_ns)]

    def threads(self, dims: Iterable[Dimension]) -> int:
        threads = [self.freedoms[d].threads for d in dims]
        if self.has_shared_nests:
            return min(self.rates.device.threads, math.prod(threads))
        return max(threads, default=1)

    def started_ns(self, time_ns: float) -> float:
        """With the start of a parallel loop that is certain: threads begin their share when they are awake.

        A share that is smaller than that of the calling thread could be done in time all the same.
        """
        starts = time_ns > 0 and any(f.is_even for f in self.freedoms.values())
        return time_ns + (self.rates.device.start_ns or 0.0 if starts else 0.0)

    def time_ns(self, alternatives: Sequence[Operation], use: Use) -> float:
        """Of those operations of which one is certain."""
        return min(self._operation_ns(o, use) for o in alternatives)

    def _operation_ns(self, operation: Operation, use: Use) -> float:
        """The least over all dimensions that can be the vector, and their lanes where these are terms."""
        times_ns = (self._vector_ns(operation, use, vector) for vector in self.vectors(operation.dims))
        return min(times_ns) / self.speedup(operation.dims)

    def _vector_ns(self, operation: Operation, use: Use, vector: Dimension | None) -> float:
        """Lanes that are terms are added up: more of them take less time to accumulate and more to add up."""
        if vector is None or not vector.is_reduction or not operation.sums:
            return operation.iterations / self._per_ns(operation, use, vector)
        fold_ns = operation.sums / self.rates.most_instructions(operation.pace, use)
        return min(
            (
                max(0, operation.iterations - operation.spared * max(0, lanes - 2)) / elements
                + folds(lanes) * fold_ns
                for lanes, elements in self.freedoms[vector].paces.get(use, ())
            ),
            default=math.inf,
        )


def folds(lanes: int) -> int:
    """Additions that make one sum of the lanes of a vector of terms: each at most halves their number."""
    return (lanes - 1).bit_length()


class Domains:
    """Reads candidates of one instance, whose space has the choices `size` and `dim_kind`."""

    def __init__(self, instance: Instance, rates: Rates) -> None:
        kernel = linalg_kernel(instance)
        self._rates = rates
        kinds = instance.universe("dim_kind", kernel.dimensions[0]) if kernel.dimensions else ()
        self.kind_bits = {str(kind): 1 << position for position, kind in enumerate(kinds)}
        self.places = tuple(Place.of(instance, d) for d in kernel.dimensions)
        counters = {i: tuple(unroll_counters(instance, i)) for i in kernel.instructions}
        self.counters = {
            reduction: tuple(
                c.upper_end for c in counters[reduction] if c.dims.issuperset(reduction.free_dims)
            )
            for reduction in kernel.reductions
        }
        """For each reduction, where numbers lie that its accumulators do not exceed."""
        vector_bit, unroll_bit = (self.kind_bits.get(kind, 0) for kind in ("VECTOR", "UNROLL"))
        self.unrolled = tuple(
            UnrolledNest(instruction, counted, vector_bit, unroll_bit)
            for instruction, counted in counters.items()
            if counted and is_always(instance, instruction)
        )
        self.order_bits = order_bits(instance)
        self.has_shared_nests = _has_shared_nests(instance, kernel)
        self._places = {place.dimension: place for place in self.places}
        self._known: dict[tuple[Dimension, int, int], Freedom] = {}

    def view(self, candidate: Candidate) -> View:
        vector = candidate.vector
        kinds = {place.dimension: vector[place.kind_offset] for place in self.places}
        freedoms = {
            place.dimension: self._freedom(place, kinds[place.dimension], vector) for place in self.places
        }
        ranges = {d: (freedom.least, freedom.most) for d, freedom in freedoms.items()}
        left = {nest: nest.kinds_left(kinds, ranges, vector) for nest in self.unrolled}
        for found in left.values():
            for d, kept in (found or {}).items():
                if kept != kinds[d]:
                    freedoms[d] = self._freedom(self._places[d], kept, vector)
        most = {
            reduction: float(min(vector[end] for end in ends))
            for reduction, ends in self.counters.items()
            if ends
        }
        overfull = next((nest.instruction for nest, found in left.items() if found is None), None)
        return View(self._rates, freedoms, most, vector, self.order_bits, self.has_shared_nests, overfull)

    def _freedom(self, place: Place, kinds: int, vector: Sequence[int]) -> Freedom:
        sizes = place.size.mask(vector)
        key = place.dimension, kinds, sizes
        if key not in self._known:
            self._known[key] = self._freedom_of(place, kinds, sizes)
        return self._known[key]

    def _freedom_of(self, d: Place, kinds: int, sizes: int) -> Freedom:
        def may_be(kind: str) -> bool:
            return bool(kinds & self.kind_bits.get(kind, 0))

        instruction = d.dimension.instruction
        possible = d.size.of_mask(sizes)
        lanes = possible if may_be("VECTOR") else []
        shares = [self.share(d.dimension, n) for n in possible]
        parallel = shares if may_be("PARALLEL") else []
        paces = {
            use: tuple((n, self._rates.used_elements(instruction, use, n)) for n in lanes)
            for use in USES
            if lanes
        }
        return Freedom(
            least=min(possible, default=1),
            most=max(possible, default=1),
            lanes=max(lanes, default=1),
            elements_per_ns={use: max(elements for _, elements in pace) for use, pace in paces.items()},
            paces=paces,
            is_vector=bool(lanes) and kinds == self.kind_bits["VECTOR"],
            copies=max(possible, default=1) if may_be("UNROLL") else 1,
            is_even=kinds == self.kind_bits.get("PARALLEL") and all(share.is_even for share in shares),
            threads=max((share.threads for share in parallel), default=1),
            speedup=max((share.speedup for share in parallel), default=1.0),
        )

    def share(self, dimension: Dimension, size: int) -> Share:
        """Of a last iteration that may be less than the others, nothing is certain."""
        every = self._rates.device.threads
        threads = min(size, every)
        is_ragged = dimension.logical.is_ragged
        if is_ragged and (size - 1) % every == 0:
            return Share(threads, float(threads), is_even=False)
        return Share(threads, size / math.ceil(size / every), size % every == 0 and not is_ragged)


def _has_shared_nests(instance: Instance, kernel: Kernel) -> bool:
    """Whether a dimension of some nest can be parallel inside another one: tried out on the root."""
    root = instance.root()
    if root is None or not order_bits(instance).inner:
        return root is not None
    return any(parallel_inside(instance, root, i.dims, i.dims) for i in kernel.instructions)


def parallel_inside(
    instance: Instance, root: Candidate, dims: Iterable[Dimension], nest: Sequence[Dimension]
) -> bool:
    """Whether one of these dimensions can be both parallel and inside one of a nest."""
    inner = order_bits(instance).inner
    return any(
        candidate.vector[instance.offset("order", dim, other)] & inner
        for dim in dims
        if (candidate := with_kind(instance, root, dim, "PARALLEL")) is not None
        for other in nest
        if other is not dim
    )


def with_kind(instance: Instance, root: Candidate, dim: Dimension, kind: str) -> Candidate | None:
    """The root once a dimension is of a kind; None where it cannot be."""
    kinds = instance.universe("dim_kind", dim)
    if kind not in kinds:
        return None
    bit = 1 << [str(each) for each in kinds].index(kind)
    variable = instance.variable("dim_kind", dim)
    return instance.restrict(root, variable, bit) if root.mask(variable) & bit else None


def linalg_kernel(instance: Instance) -> Kernel:
    """The backbone of an instance; raises `TypeError` where it is not one of linear algebra."""
    if not isinstance(instance.kernel, Kernel):
        raise TypeError(f"no bound is known for a backbone of the type {type(instance.kernel).__name__}")
    return instance.kernel


def order_bits(instance: Instance) -> OrderBits:
    """Which bits of the domains of `order` stand for nesting."""
    order = instance.space.choices.get("order")
    if not isinstance(order, EnumChoice):
        return OrderBits(0, 0)
    return OrderBits(*(order.mask(name) if name in order.values else 0 for name in ("INNER", "OUTER")))


def is_always(instance: Instance, member: object, set_name: str | None = None, *of: object) -> bool:
    """Whether an object is a member of a set (statements, without a name) whatever triggers do."""
    ids = instance.objects.ids
    if set_name is None:
        order = instance.space.choices.get("order")
        set_name = order.params[0].set.name if order is not None else ""
    key = tuple(ids[id(item)] for item in of)
    conditional = {(name, fact_key or (), place) for name, fact_key, place in instance.layout.presence}
    return (set_name, key, ids[id(member)]) not in conditional


def detours(instance: Instance, made: Instruction, user: Instruction) -> Bits:
    """By which a trigger may still put something between what makes a value and its user.

    It adds to the users of the value, or takes the present one away, or adds what loads the value again.
    `CERTAIN` is always set.
    """
    ids = instance.objects.ids
    again = {(ids[id(load)],) for load in made.reloads if id(load) in ids}
    changed: list[tuple[int, int]] = []
    for (*maker, consumer), cell in instance.layout.doubtful.get(("Consumers", False), {}).items():
        is_user = consumer == ids[id(user)]
        if maker == [ids[id(made)]]:
            changed.append((cell, ABSENT if is_user else PRESENT))
        elif is_user and tuple(maker) in again:
            changed.append((cell, PRESENT))
    if not is_always(instance, made):
        changed.append((CERTAIN, PRESENT))
    return tuple(changed)


def values_of(instance: Instance, about: Instruction | Dimension, names: Sequence[str]) -> Bits:
    """Values with one of these names, of choices about a statement."""
    return tuple(
        (instance.offset(choice.name, about), choice.mask(value))
        for choice, value in _named(instance, about, names)
    )


def without(
    instance: Instance, root: Candidate, about: Instruction | Dimension, names: Sequence[str]
) -> Candidate | None:
    """The root without such values; None where there is nothing else."""
    candidate: Candidate | None = root
    for choice, value in _named(instance, about, names):
        variable = instance.variable(choice.name, about)
        if candidate is not None:
            left = candidate.mask(variable) & ~choice.mask(value)
            candidate = instance.restrict(candidate, variable, left) if left else None
    return candidate


def _named(
    instance: Instance, about: Instruction | Dimension, names: Sequence[str]
) -> Iterator[tuple[EnumChoice, str]]:
    """Choices about a statement, each with a value that has one of these names."""
    key = (instance.objects.ids[id(about)],)
    enums = (choice for choice in instance.space.choices.values() if isinstance(choice, EnumChoice))
    for choice in enums:
        if len(choice.params) == 1 and key in instance.objects.keys(choice.params):
            yield from ((choice, value) for value in choice.values if value in names)


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """Where the domain of a choice among integers lies, and those that it is of."""

    cells: tuple[int, ...]
    universe: tuple[int, ...]

    @classmethod
    def of(cls, instance: Instance, choice: str, dimension: Dimension) -> Integers:
        universe = tuple(int(each) for each in instance.universe(choice, dimension))
        first = instance.offset(choice, dimension)
        words = INTEGER_WORDS if len(universe) > WORD_BITS else 1
        return cls(tuple(range(first, first + words)), universe)

    def mask(self, vector: Sequence[int]) -> int:
        """A bit for each that is left."""
        return sum(vector[cell] << WORD_BITS * word for word, cell in enumerate(self.cells))

    def left(self, vector: Sequence[int]) -> list[int]:
        return self.of_mask(self.mask(vector))

    def of_mask(self, mask: int) -> list[int]:
        return [each for bit, each in enumerate(self.universe) if mask >> bit & 1]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where the domains of a dimension lie."""

    dimension: Dimension
    kind_offset: int
    size: Integers

    @classmethod
    def of(cls, instance: Instance, dimension: Dimension) -> Place:
        kind_offset = instance.offset("dim_kind", dimension)
        return cls(dimension, kind_offset, Integers.of(instance, "size", dimension))
