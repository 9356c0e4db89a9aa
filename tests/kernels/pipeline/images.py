"""Random pipelines as text, of what images are computed with.

Stages have one variable or two, and values of several types. They read each other as stencils, smaller and
larger, mirrored and held, at positions that are computed, and beyond edges; inputs, too. Some are tables,
sums, scans, histograms, or have two values. Floats are whole and small, so that sums of them are exact in
any order.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.kernels.pipeline.files import pipeline

TYPES = ("u8", "u16", "i16", "i32", "f32", "f32")
PARAMS = "params: {gain: {dtype: i16, value: 3}, bias: {dtype: f32, value: -2}}\n"
EDGED = ("photo", "depth", "mask")


@dataclass(frozen=True)
class Image:
    lines: tuple[str, ...]
    outputs: str
    row: int
    """About as long as those of the outputs."""

    def file(self) -> PipelineFile:
        inputs = (
            f"{{image: {{dtype: i32, rank: 2}}, photo: {{dtype: u8, extents: [{self.row}, 5]}}, "
            f"depth: {{dtype: f32, extents: [{self.row + 1}, 4]}}, mask: {{dtype: bool, extents: [12, 3]}}}}"
        )
        return pipeline("\n".join(self.lines), self.outputs, inputs, PARAMS)

    def __repr__(self) -> str:
        return "\n" + "\n".join(self.lines) + f"\noutputs: {self.outputs}, row: {self.row}"


def _along(draw: st.DrawFn, name: str) -> str:
    """A position from a variable: mostly near it, sometimes at another speed, turned around, or held."""
    near = f"{name} + {draw(st.integers(-2, 2))}"
    match draw(st.integers(0, 11)):
        case 0:
            return f"2 * {name} + {draw(st.integers(-1, 1))}"
        case 1:
            return f"({name} + {draw(st.integers(-1, 1))}) / 2"
        case 2:
            return f"({name} - 1) / 2 + {draw(st.sampled_from([1, 2, -1]))} * ({name} % 2)"
        case 3:
            return f"clamp({near}, {draw(st.integers(-1, 2))}, {draw(st.integers(3, 9))})"
        case 4:
            return f"{draw(st.integers(3, 9))} - {name}"
        case 5:
            return f"max({near}, {draw(st.integers(0, 3))})"
        case 6:
            return str(draw(st.integers(-1, 3)))
        case _:
            return near


@dataclass(frozen=True)
class _Point:
    """Where a stage is defined."""

    rank: int

    @property
    def y(self) -> str:
        """A number where there is no such variable."""
        return "y" if self.rank == 2 else "1"

    def of(self, name: str, x: str = "x") -> str:
        return f"{name}({x}, y)" if self.rank == 2 else f"{name}({x})"


class _Stages:
    """Lines, and what has been made so far: names, each with a number of variables."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.ranks: dict[str, int] = {}

    def one(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def add(self, kind: str, rank: int) -> None:
        """A stage of a type; `y` stands for a number where it has one variable alone."""
        name, ways = f"s{len(self.ranks)}", 5 * [self.plain]
        ways += [
            self.summed,
            self.scanned,
            self.updated,
            self.chosen,
            self.double,
            self.tabulated,
            self.masked,
        ]
        ways += [self.histogram] if self.ranks else []
        self.lines += self.draw(st.sampled_from(ways))(name, kind, _Point(rank))
        self.ranks[name] = rank

    # ---- Stages ------------------------------------------------------------------------------------------

    def plain(self, name: str, kind: str, at: _Point) -> list[str]:
        return [f"{at.of(name)} = {self.value(kind, 'x', at.y)}"]

    def summed(self, name: str, kind: str, at: _Point) -> list[str]:
        inner = self.value(kind, self.one("(x + r)", "r"), at.y)
        where = self.one("", f" where r != {self.number(0, 2)}")
        ranges = f"{self.range()}, q in 0:{self.number(1, 3)}{where}"
        total = f"{self.one('sum', 'max', 'min')}[{ranges}]({inner})"
        return [f"{at.of(name)} = {_small(kind, total)}"]

    def scanned(self, name: str, kind: str, at: _Point) -> list[str]:
        new = _small(kind, f"{at.of(name, 'r - 1')} + {self.tap(kind, 'r', at.y)}")
        return [
            *self.plain(name, kind, at),
            f"{at.of(name, 'r')} = {new} for {self.range()}{self.where('r', at)}",
        ]

    def updated(self, name: str, kind: str, at: _Point) -> list[str]:
        more = self.tap(kind, "(x + r)", at.y)
        return [
            f"{at.of(name)} = {self.tap(kind, 'x', at.y)}",
            f"{at.of(name)} {self.one('+=', '-=', 'max=')} {more} for {self.range()}{self.where('x', at)}",
        ]

    def histogram(self, name: str, kind: str, at: _Point) -> list[str]:
        """Along a row, or across rows, where each column has one of its own."""
        ranges = f"{self.range()}{self.where('r', at)}"
        bin_of = f"clamp(i32({self.element('r', at.y)}), 0, {self.number(2, 6)})"
        place = at.of(name, bin_of)
        if at.rank == 2 and self.number(0, 1):
            place = f"{name}(x, clamp(i32({self.element('x', 'r')}), 0, {self.number(2, 4)}))"
            ranges = self.range()
        return [f"{at.of(name)} = {self.number(0, 3)}", f"{place} += {self.number(1, 3)} for {ranges}"]

    def chosen(self, name: str, kind: str, at: _Point) -> list[str]:
        best, inner = f"best_{name}", self.value(kind, "(x + r)", at.y)
        return [
            f"{at.of(best)} = {self.one('argmin', 'argmax')}[{self.range()}]({inner})",
            f"{at.of(name)} = {kind}({best}({self.point(at.rank, 'x', at.y)}))",
        ]

    def double(self, name: str, kind: str, at: _Point) -> list[str]:
        two = f"two_{name}({self.point(at.rank, 'x', at.y)})"
        return [
            f"{at.of(f'two_{name}')} = ({self.value(kind, 'x', at.y)}, {self.condition('x', at.y)})",
            f"{at.of(name)} = select({two}.1, {two}.0, {self.tap(kind, 'x', at.y)})",
        ]

    def tabulated(self, name: str, kind: str, at: _Point) -> list[str]:
        place = f"clamp(i32({self.tap('i16', 'x', at.y)}), 0, {self.number(3, 25)})"
        return [
            f"table_{name}(i) = {kind}(i * i % 31)",
            f"{at.of(name)} = table_{name}({place}) + {self.tap(kind, 'x', at.y)}",
        ]

    def masked(self, name: str, kind: str, at: _Point) -> list[str]:
        where = f"is_{name}({self.point(at.rank, 'x', at.y)})"
        values = f"{self.value(kind, 'x', at.y)}, {self.tap(kind, 'x', at.y)}"
        return [
            f"{at.of(f'is_{name}')} = {self.condition('x', at.y)}",
            f"{at.of(name)} = select({where}, {values})",
        ]

    # ---- Values ------------------------------------------------------------------------------------------

    def range(self) -> str:
        return f"r in {self.number(-1, 1)}:{self.number(2, 5)}"

    def where(self, x: str, at: _Point) -> str:
        return self.one("", f" where {self.condition(x, at.y)}")

    def point(self, rank: int, x: str, y: str) -> str:
        return ", ".join(self.positions(rank, x, y))

    def positions(self, rank: int, x: str, y: str) -> list[str]:
        ways = [_along(self.draw, x), f"{y} + {self.number(-1, 1)}"]
        if self.number(0, 4) == 0:
            ways[1] = _along(self.draw, y)
        if rank == 2 and self.number(0, 9) == 0:
            ways.reverse()
        return ways[:rank]

    def element(self, x: str, y: str) -> str:
        name = self.one(*self.ranks)
        return f"{name}({self.point(self.ranks[name], x, y)})"

    def tap(self, kind: str, x: str, y: str) -> str:
        """An element of something, in a type."""
        choice = self.number(0, 11)
        if choice == 0 or not self.ranks:
            return f"{kind}(image({self.point(2, x, y)}))"
        if choice == 1:
            edge = self.one("repeat_edge", "repeat_image", "mirror_image", "mirror_interior")
            return f"{kind}({edge}({self.one(*EDGED)}, {self.point(2, x, y)}))"
        if choice == 2:
            source = self.one(*EDGED)
            outside = "true" if source == "mask" else self.number(0, 9)
            return f"{kind}(constant_exterior({source}, {outside}, {self.point(2, x, y)}))"
        if choice == 3:
            return f"{kind}({self.one('gain', 'bias', 'x' if x == 'x' else 'r', '7')})"
        # Mostly what has been made last, so that there are chains.
        name = [*self.ranks][-1] if choice > 6 else self.one(*self.ranks)
        if choice == 5 and self.number(0, 1):
            return f"{kind}({self.beyond(name, x, y)})"
        if choice == 4:
            held = f"clamp(i32({self.element(x, y)}), {self.number(-1, 1)}, {self.number(2, 6)})"
            return f"{kind}({name}({', '.join([held, y][: self.ranks[name]])}))"
        return f"{kind}({name}({self.point(self.ranks[name], x, y)}))"

    def beyond(self, name: str, x: str, y: str) -> str:
        """A stage that ends somewhere, along one dimension or both."""
        rule = self.one("repeat_edge", "repeat_image", "mirror_image", "mirror_interior", "constant_exterior")
        outside = f"{self.number(0, 9)}, " if rule == "constant_exterior" else ""
        positions = self.positions(self.ranks[name], x, y)
        held = [f"{at} in {self.number(-1, 2)}:{self.number(3, 12)}" for at in positions]
        if len(held) > 1 and (open_at := self.number(0, 2)) < 2:
            held[open_at] = positions[open_at]
        return f"{rule}({name}, {outside}{', '.join(held)})"

    def value(self, kind: str, x: str, y: str) -> str:
        taps = [f"{self.number(1, 3)} * {self.tap(kind, x, y)}" for _ in range(self.number(1, 3))]
        total = self.one(" + ", " - ").join(taps)
        match self.number(0, 6):
            case 0:
                total = f"select({self.condition(x, y)}, {total}, {self.tap(kind, x, y)})"
            case 1:
                total = f"{self.one('min', 'max')}({total}, {self.tap(kind, x, y)})"
            case 2:
                total = f"floor(({total}) * 0.5)" if kind == "f32" else f"({total}) / {self.number(2, 3)}"
        return _small(kind, total)

    def condition(self, x: str, y: str) -> str:
        match self.number(0, 3):
            case 0:
                return f"{x} % 2 == {self.number(0, 1)}"
            case 1:
                return f"{self.tap('i32', x, y)} > {self.tap('i32', x, y)}"
            case 2:
                return f"{x} >= {self.number(1, 3)} && {y} < {self.number(1, 9)}"
            case _:
                return f"{x} <= {self.number(2, 9)} || !({y} > 0)"


def _small(kind: str, value: str) -> str:
    return f"clamp({value}, -999, 999)" if kind == "f32" else value


@st.composite
def images(draw: st.DrawFn, most: int = 5) -> Image:
    """Of a few stages, the last of which is an output; sometimes another one is, too."""
    stages = _Stages(draw)
    for _ in range(draw(st.integers(2, most))):
        stages.add(draw(st.sampled_from(TYPES)), draw(st.sampled_from([1, 2, 2, 2])))
    row = draw(st.integers(1, 14) | st.integers(15, 70))
    extents = [row, draw(st.integers(1, 5)) if row < 15 else draw(st.integers(1, 2))]
    outputs = []
    for name in dict.fromkeys([[*stages.ranks][-1], draw(st.sampled_from([*stages.ranks]))]):
        first = draw(st.sampled_from([0, 0, -1, 2]))
        variables = "xy"[: stages.ranks[name]]
        box = (f"{v}: {first}:{first + n}" for v, n in zip(variables, extents, strict=False))
        outputs.append(f"{name}: {{{', '.join(box)}}}")
    return Image(tuple(stages.lines), "{" + ", ".join(outputs) + "}", max(2, row + draw(st.integers(-2, 2))))
