"""What was done to a small image, done to the large one: bilateral guided upsampling.

Each cell of a grid over place and brightness holds the affine map from colours before to colours after that
fits the pixels around best; between its corners, maps are interpolated.
"""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement

from spacedsl import pipeline as pl

X, Y, Z, C, K, I = (pl.Var(name) for name in "xyzcki")  # noqa: E741
CELL = (X, Y, Z)


def func(name: str, point: Sequence[pl.Expr], value: pl.Value) -> pl.Func:
    made = pl.Func(name)
    made[tuple(point)] = value
    return made


def brightness(r: pl.Expr, g: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.clamp(0.25 * r + 0.5 * g + 0.25 * b, 0, 1)


def five(at: Callable[[pl.Value], pl.Expr], v: pl.Var) -> pl.Expr:
    """As much of each neighbour as a binomial says."""
    return at(v - 2) + at(v + 2) + 4 * (at(v - 1) + at(v + 1)) + 6 * at(v)


def solved(sums: pl.Func, stiff: pl.Expr) -> list[pl.Expr]:
    """Of each cell and colour, what each of (r, g, b, 1) is multiplied by.

    The matrix as L D L', column by column: `rest` is what is left of it, and `lower` a part of `diagonal`.
    """
    places = dict(zip(combinations_with_replacement(range(4), 2), range(10), strict=True))
    diagonal: list[pl.Expr] = []
    rest: dict[tuple[int, int], pl.Expr] = {}
    lower: dict[tuple[int, int], pl.Expr] = {}

    def named(name: str, value: pl.Expr) -> pl.Expr:
        found: pl.Expr = func(name, CELL, value)[CELL]
        return found

    for j in range(4):
        for i in range(j, 4):
            left: pl.Expr = sums[X, Y, Z, places[j, i]]
            left = left + stiff if i == j else left
            for p in range(j):
                left = left - lower[j, p] * rest[i, p]
            if i == j:
                diagonal.append(named(f"d_{j}", left))
            else:
                rest[i, j] = left if j == 0 else named(f"u_{i}_{j}", left)
        for i in range(j + 1, 4):
            lower[i, j] = named(f"l_{i}_{j}", rest[i, j] / diagonal[j])

    point = (*CELL, K)
    right = func("right", (*point, I), sums[X, Y, Z, 4 * K + I + 10] + pl.select(I == K, stiff, 0))
    forward: list[pl.Expr] = []
    for i in range(4):
        value: pl.Expr = right[(*point, i)]
        for p in range(i):
            value = value - lower[i, p] * forward[p]
        forward.append(func(f"f_{i}", point, value)[point])
    result: dict[int, pl.Expr] = {}
    for i in reversed(range(4)):
        value = forward[i] / diagonal[i]
        for p in range(i + 1, 4):
            value = value - lower[p, i] * result[p]
        result[i] = func(f"s_{i}", point, value)[point]
    return [result[i] for i in range(4)]


def build(width: int = 192, height: int = 320, factor: int = 8, cell: int = 16, bins: int = 8) -> pl.Pipeline:
    stiffness = pl.Param("stiffness", pl.f32, 0.001)
    small = pl.Input("small", pl.f32, [width, height, 3])
    wanted = pl.Input("wanted", pl.f32, [width, height, 3])
    large = pl.Input("large", pl.f32, [factor * width, factor * height, 3])

    rgb = [func(name, (X, Y), pl.repeat_edge(small, X, Y, c)) for c, name in enumerate("rgb")]
    after = func("after", (X, Y, K), pl.repeat_edge(wanted, X, Y, K))
    colours: list[pl.Expr] = [colour[X, Y] for colour in rgb]
    bright = func("bright", (X, Y), brightness(*colours))
    # Of (r, g, b, 1), all products with each other, then with each colour that is wanted.
    pixel: list[pl.Value] = [*colours, 1]
    products = [
        *(a if b is pixel[3] else a * b for a, b in combinations_with_replacement(pixel, 2)),
        *(after[X, Y, k] if a is pixel[3] else a * after[X, Y, k] for k in range(3) for a in pixel),
    ]
    product = func("product", (X, Y, C), pl.mux(C, products))

    r = pl.RDom(i=cell, j=cell)
    here = cell * X + r.i - cell // 2, cell * Y + r.j - cell // 2
    grid = func("grid", (*CELL, C), 0.0)
    grid[X, Y, pl.i32(bright[here] * bins + 0.5), C] += product[(*here, C)]
    blur_z = func("blur_z", (*CELL, C), five(lambda z: grid[X, Y, z, C], Z))
    blur_x = func("blur_x", (*CELL, C), five(lambda x: blur_z[x, Y, Z, C], X))
    sums = func("sums", (*CELL, C), five(lambda y: blur_x[X, y, Z, C], Y))

    # By least squares; it leaves colours as they are, where little is known.
    stiff = func("stiff", CELL, stiffness * (sums[X, Y, Z, 9] + 1))
    affine = func("affine", (*CELL, K, I), pl.mux(I, solved(sums, stiff[CELL])))

    # Between the eight cells around a large pixel.
    side = factor * cell
    depth = func("depth", (X, Y), bins * brightness(*(large[X, Y, c] for c in range(3))))
    row = func(
        "row",
        (*CELL, K, I),
        pl.lerp(affine[X / side, Y, Z, K, I], affine[X / side + 1, Y, Z, K, I], pl.f32(X % side) / side),
    )
    plane = func(
        "plane",
        (*CELL, K, I),
        pl.lerp(row[X, Y / side, Z, K, I], row[X, Y / side + 1, Z, K, I], pl.f32(Y % side) / side),
    )
    below = pl.i32(depth[X, Y])
    between = func(
        "between",
        (X, Y, K, I),
        pl.lerp(plane[X, Y, below, K, I], plane[X, Y, below + 1, K, I], depth[X, Y] - pl.floor(depth[X, Y])),
    )
    bgu = func(
        "bgu",
        (X, Y, K),
        between[X, Y, K, 0] * large[X, Y, 0]
        + between[X, Y, K, 1] * large[X, Y, 1]
        + between[X, Y, K, 2] * large[X, Y, 2]
        + between[X, Y, K, 3],
    )
    return pl.Pipeline("bgu", bgu.output(factor * width, factor * height, 3))
