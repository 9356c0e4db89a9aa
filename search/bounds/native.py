"""The bound in compiled code: what `cpu.py` defines, for many candidates at a time.

In: the resources of a `CpuBound`, the places of domains in vectors. Out: `NativeBound`, which gives the
bounds of candidates and the times of all their terms. Raises `NoCompilerError` where no compiler answers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import POINTER, c_double, c_int32, c_void_p
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler.c.build import build
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.device import MemoryLevel
from spacedsl.kernels.linalg.backbone import Dimension, Instruction
from spacedsl.search.bounds.certain import LINE_BYTES, LONGEST_UNROLLED, Alternatives
from spacedsl.search.bounds.domains import USES, Bits, Domains, folds
from spacedsl.search.bounds.layouts import TABLES, Model
from spacedsl.search.bounds.memory import Level, LoopOrder
from spacedsl.search.bounds.nests import Nest
from spacedsl.search.bounds.rates import Rates, byte_rate
from spacedsl.search.bounds.reductions import WINDOW, Reduction, followers, kept_values, least_steps
from spacedsl.search.bounds.resources import Chain, LoadInstructions, Resource, Units
from spacedsl.search.bounds.traffic import costs
from spacedsl.search.bounds.unrolling import UnrolledNest

SOURCE = Path(__file__).parent / "bound.c"

_UNITS, _CHAIN, _LOADS, _LEVEL, _LOOPS = range(5)

Array = NDArray[np.generic]


class NativeBound:
    """Bounds of candidates of one instance. May be used by several threads."""

    def __init__(self, domains: Domains, rates: Rates, resources: Sequence[Resource]) -> None:
        tables = _Tables(domains, rates, resources)
        self._kept = tables.arrays()
        bits = domains.kind_bits
        self._model = Model(
            dim_count=len(tables.rows["dims"]),
            term_count=len(resources),
            reduction_count=len(tables.rows["reductions"]),
            nest_count=len(tables.rows["nests"]),
            unrolled_count=len(tables.rows["unrolled"]),
            vector_bit=bits.get("VECTOR", 0),
            unroll_bit=bits.get("UNROLL", 0),
            parallel_bit=bits.get("PARALLEL", 0),
            inner_bits=domains.order_bits.inner,
            outer_bits=domains.order_bits.outer,
            longest_unrolled=LONGEST_UNROLLED,
            most_tabled=WINDOW,
            line_bytes=LINE_BYTES,
            device_threads=rates.device.threads,
            has_shared_nests=domains.has_shared_nests,
            window=rates.device.window or WINDOW,
            start_ns=rates.device.start_ns or 0.0,
            **{name: array.ctypes.data for name, array in self._kept.items()},
        )
        self._terms = len(resources)
        # Powers of two, so that few libraries serve all kernels.
        most_cuts = max((len(nest.cuts) for nest in tables.nests), default=1)
        rooms = {
            "MOST_DIMS": len(tables.rows["dims"]),
            "MOST_REDUCTIONS": len(tables.rows["reductions"]),
            "MOST_NESTS": len(tables.rows["nests"]),
            "MOST_CUTS": most_cuts,
        }
        self._function = _load(
            build(
                SOURCE.read_text(encoding="utf-8"),
                {name: 1 << max(4, (count - 1).bit_length()) for name, count in rooms.items()},
            )
        )

    @property
    def compiled(self) -> CompiledBound:
        """For others that are compiled, as long as this is there."""
        function = ctypes.cast(self._function, c_void_p).value
        return CompiledBound(function, ctypes.addressof(self._model))

    def bounds(self, candidates: Sequence[Candidate]) -> list[float]:
        """In nanoseconds, in order."""
        count = len(candidates)
        bounds_ns = (c_double * count)()
        self._call(candidates, bounds_ns, None)
        return list(bounds_ns)

    def terms(self, candidate: Candidate) -> list[float]:
        """The times of the resources, in order."""
        terms_ns = (c_double * self._terms)()
        self._call([candidate], (c_double * 1)(), terms_ns)
        return list(terms_ns)

    def _call(self, candidates: Sequence[Candidate], bounds_ns: object, terms_ns: object) -> None:
        vectors = (c_void_p * len(candidates))(*(c.vector.buffer_info()[0] for c in candidates))
        self._function(ctypes.byref(self._model), len(candidates), vectors, bounds_ns, terms_ns)


@cache
def _load(path: Path) -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(str(path)).bounds
    function.restype = None
    function.argtypes = [POINTER(Model), c_int32, c_void_p, c_void_p, c_void_p]
    return function


# ---- Tables --------------------------------------------------------------------------------------------


class _Tables:
    """The rows of all tables; objects are numbered as they are met."""

    def __init__(self, domains: Domains, rates: Rates, resources: Sequence[Resource]) -> None:
        self.domains, self.rates = domains, rates
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}
        self.pool: list[int] = []
        self.reals: list[float] = []
        self.nests: list[Nest] = []
        self._instrs: dict[tuple[tuple[Dimension, ...], Instruction], int] = {}
        self._reductions: dict[Reduction, int] = {}
        self._dims: dict[Dimension, int] = {}
        for place in domains.places:
            self._dims[place.dimension] = len(self._dims)
            sizes = [self._size(place.dimension, size) for size in place.size.universe]
            at = self._append("sizes", sizes)
            self._append(
                "dims", [(place.kind_offset, place.size.cells[0], at, place.dimension.is_reduction, 0)]
            )
        for resource in resources:
            if isinstance(resource, Chain):
                self._reduction(resource.reduction)
        for resource in resources:
            if isinstance(resource, LoopOrder):
                self._nest(resource.nest)
        self._append("terms", [self._term(resource) for resource in resources])
        self._append("unrolled", [self._unrolled(nest) for nest in domains.unrolled])

    def arrays(self) -> dict[str, Array]:
        """None of them empty: C takes pointers to all."""
        found: dict[str, Array] = {
            "pool": np.array(self.pool or [0], np.int32),
            "reals": np.array(self.reals or [0.0], np.float64),
        }
        for name, layout in TABLES.items():
            rows = self.rows[name]
            found[name] = np.array(rows, layout) if rows else np.zeros(1, layout)
        return found

    def _append(self, table: str, rows: Sequence[tuple[object, ...]]) -> tuple[int, int]:
        """Where the rows lie."""
        at = len(self.rows[table])
        self.rows[table] += rows
        return at, len(rows)

    def _ints(self, numbers: Iterable[int]) -> tuple[int, int]:
        listed = list(numbers)
        self.pool += listed
        return len(self.pool) - len(listed), len(listed)

    def _doubles(self, numbers: Iterable[float]) -> tuple[int, int]:
        listed = list(numbers)
        self.reals += listed
        return len(self.reals) - len(listed), len(listed)

    def _bits(self, bits: Bits) -> tuple[int, int]:
        return self._ints(number for pair in bits for number in pair)

    def _dims_of(self, dims: Iterable[Dimension]) -> tuple[int, int]:
        return self._ints(self._dims[dim] for dim in dims)

    def _size(self, dim: Dimension, size: int) -> tuple[object, ...]:
        share = self.domains.share(dim, size)
        numbers = share.is_even, folds(size), size, share.threads, share.speedup
        elements = (self.rates.used_elements(dim.instruction, use, size) for use in USES)
        return (*numbers, *elements)

    def _instr(self, dims: tuple[Dimension, ...], pace: Instruction) -> int:
        key = dims, pace
        if key not in self._instrs:
            scalar = [self.rates.used_instructions(pace, use, 1) for use in USES]
            scalar += [self.rates.most_instructions(pace, use) for use in USES]
            self._instrs[key] = len(self._instrs)
            self._append("instrs", [(self._dims_of(dims), (0, 0), *scalar)])
        return self._instrs[key]

    def _groups(self, work: Iterable[Alternatives]) -> tuple[int, int]:
        rows = []
        for alternatives in work:
            ops = [(self._instr(o.dims, o.pace), 0, o.iterations, o.sums, o.spared) for o in alternatives]
            rows.append(self._append("ops", ops))
        return self._append("groups", rows)

    def _rates_by_threads(self, level: MemoryLevel) -> int:
        every = self.rates.device.threads
        return self._doubles([0.0, *(byte_rate(level, n, every) for n in range(1, every + 1))])[0]

    def _costs_by_threads(self, level: MemoryLevel, *, is_plain: bool) -> int:
        """For each number of threads, the list of pairs of what a loaded and a stored byte cost."""
        every = self.rates.device.threads
        lists = [
            self._doubles(
                ns
                for cost in costs(level, threads, every, is_plain=is_plain)
                for ns in (cost.loaded_ns, cost.stored_ns)
            )
            for threads in range(1, every + 1)
        ]
        return self._ints([0, 0, *(number for at, length in lists for number in (at, length // 2))])[0]

    def _reduction(self, reduction: Reduction) -> int:
        if reduction in self._reductions:
            return self._reductions[reduction]
        instruction = reduction.instruction
        lanes, shares = self._lanes(instruction.reduced_dims), self._shares(instruction.reduced_dims)
        tabled = sorted({reduction.terms / n / share for n in lanes for share in shares})
        tables = [
            (terms, *least_steps(terms, self.rates.device.window or WINDOW))
            for terms in map(float, tabled)
            if terms > LONGEST_UNROLLED
        ]
        loads: list[int] = []
        for load, foreign, bits in zip(
            reduction.loads, reduction.foreign_dims, reduction.detours, strict=True
        ):
            # Copies do not limit what lies side by side along a reduced dimension.
            made = self._ints(
                number
                for own, used in followers(load, instruction)
                for number in (self._dims[own], -1 if used.is_reduction else self._dims[used])
            )
            loads += (*self._dims_of(foreign), *made, *self._bits(bits))
        row = (
            self._instr(instruction.dims, instruction),
            self._doubles(figure for table in tables for figure in table)[0],
            self._dims_of(instruction.free_dims),
            self._dims_of(instruction.reduced_dims),
            self._ints(self.domains.counters[instruction]),
            self._ints(loads),
            self._bits(reduction.split),
            self._bits(reduction.added),
            len(tables),
            reduction.are_disjoint,
            reduction.sums,
            reduction.terms,
            reduction.latency_ns(self.rates),
            kept_values(self.rates.device),
            self.rates.most_loads(reduction.loads) if reduction.loads else 1.0,
        )
        self._reductions[reduction] = self._append("reductions", [row])[0]
        return self._reductions[reduction]

    def _lanes(self, dims: Iterable[Dimension]) -> set[int]:
        """That a vector along one of the dimensions can have, whatever is decided."""
        sizes = {place.dimension: place.size.universe for place in self.domains.places}
        return {1, *(size for dim in dims for size in sizes[dim])}

    def _shares(self, dims: Iterable[Dimension]) -> set[float]:
        """The same of the most speedups that threads can have which share one of the dimensions out."""
        sizes = {place.dimension: place.size.universe for place in self.domains.places}
        of_some = range(2, self.rates.device.threads + 1) if self.domains.has_shared_nests else ()
        return {
            1.0,
            *(self.domains.share(dim, size).speedup for dim in dims for size in sizes[dim]),
            *map(float, of_some),
        }

    def _nest(self, nest: Nest) -> None:
        count = len(nest.dims)
        own = [r for r in self._reductions if r.instruction is nest.instruction]
        cells = [nest.order_cells.get((a, b), 0) for a in range(count) for b in range(count)]
        operands = [
            (
                self._instr(operand.dims, operand.load),
                0,
                self._ints(n for made, used in operand.made for n in (self._dims[made], used)),
                self._ints(map(int, operand.indices)),
                self._doubles(map(float, operand.steps)),
                self._bits(operand.copies),
                operand.item_bytes,
                operand.element_bytes,
            )
            for operand in nest.operands
        ]
        borders = [(b.kept_bytes, self._rates_by_threads(b.level), b.sharers) for b in nest.borders]
        cuts = [(cut.inner, self._ints(n for way in cut.outwards for n in way)) for cut in nest.cuts]
        # A list of pairs: C counts the pairs.
        cuts = [(inner, (at, length // 2)) for inner, (at, length) in cuts]
        row = (
            self._instr(nest.dims, nest.instruction),
            self._reductions[own[0]] if own else -1,
            self._dims_of(nest.dims),
            self._ints(nest.index_of),
            self._ints(sum(1 << d for d in inner) for inner in nest.inner_levels),
            self._ints(nest.extents),
            self._ints(nest.copied),
            self._dims_of(nest.sharing),
            self._append("operands", operands),
            self._append("borders", borders),
            self._append("cuts", cuts),
            self._ints(cells)[0],
            sum(1 << x for x, is_ragged in enumerate(nest.ragged) if is_ragged),
            nest.kept_loads,
            self.rates.most_loads([o.load for o in nest.operands]),
        )
        self.nests.append(nest)
        self._append("nests", [row])

    def _unrolled(self, nest: UnrolledNest) -> tuple[object, ...]:
        counters = [
            (
                self._ints(
                    number
                    for logical in nest.instruction.logical_dims
                    for d in logical.dims
                    for number in (self._dims[d], d in c.dims, logical.extent * (d is logical.dims[-1]))
                ),
                c.upper_end,
                0,
            )
            for c in nest.counters
        ]
        return self._dims_of(nest.instruction.dims), self._append("counters", counters)

    def _level(self, resource: Level) -> int:
        every = self._costs_by_threads(resource.level, is_plain=False)
        plain = (
            self._costs_by_threads(resource.level, is_plain=True) if resource.streams is not None else every
        )
        passed = [(self._bits(p.fused), p.loaded_bytes, p.stored_bytes) for p in resource.passed]
        row = (
            self._append("passed", passed),
            self._dims_of(resource.dims),
            self._bits(resource.streams or ()),
            *(every, plain),
            *(resource.inner_bytes, resource.loaded_bytes, resource.stored_bytes),
        )
        return self._append("levels", [row])[0]

    def _term(self, resource: Resource) -> tuple[object, ...]:
        nothing = (0, 0)
        match resource:
            case Units():
                groups = self._groups(resource.work)
                return (_UNITS, USES.index(resource.use), groups, nothing, 0, 0)
            case Chain():
                subject = self._reductions[resource.reduction]
                return (_CHAIN, 0, nothing, nothing, subject, 0)
            case LoadInstructions():
                sweeps: list[tuple[object, ...]] = [
                    (
                        self._reduction(sweep.reduction),
                        self.nests.index(sweep.nest) if sweep.nest is not None else -1,
                        self._groups(sweep.elements),
                    )
                    for sweep in resource.swept
                ]
                use, groups = USES.index("load"), self._groups(resource.distinct)
                return (_LOADS, use, groups, self._append("sweeps", sweeps), 0, 0)
            case Level():
                return (_LEVEL, 0, nothing, nothing, self._level(resource), 0)
            case LoopOrder():
                subject = self.nests.index(resource.nest)
                return (_LOOPS, 0, nothing, nothing, subject, 0)
        raise TypeError(f"no table holds a {type(resource).__name__}")
