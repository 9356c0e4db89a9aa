"""A blur that stops at edges: brightness is a third dimension, of `cells`, and pixels are `side` together."""

from collections.abc import Callable

from spacedsl import pipeline as pl


def build(width: int = 1536, height: int = 2560, side: int = 8, cells: int = 10) -> pl.Pipeline:
    x, y, z, c = pl.Var("x"), pl.Var("y"), pl.Var("z"), pl.Var("c")
    image = pl.Input("image", pl.f32, [width, height])

    bright, grid = pl.Func("bright"), pl.Func("grid")
    bright[x, y] = pl.clamp(pl.repeat_edge(image, x, y), 0, 1)
    r = pl.RDom(i=side, j=side)
    pixel = bright[side * x + r.i - side // 2, side * y + r.j - side // 2]
    grid[x, y, z, c] = 0.0
    grid[x, y, pl.i32(pixel * cells + 0.5), c] += pl.mux(c, [pixel, 1])

    def five(at: Callable[[pl.Value], pl.Expr], v: pl.Var) -> pl.Expr:
        """As much of each neighbour as a binomial says."""
        return at(v - 2) + at(v + 2) + 4 * (at(v - 1) + at(v + 1)) + 6 * at(v)

    blur_z, blur_x, blur_y = pl.Func("blur_z"), pl.Func("blur_x"), pl.Func("blur_y")
    blur_z[x, y, z, c] = five(lambda z: grid[x, y, z, c], z)
    blur_x[x, y, z, c] = five(lambda x: blur_z[x, y, z, c], x)
    blur_y[x, y, z, c] = five(lambda y: blur_x[x, y, z, c], y)

    # Between the eight cells around a pixel.
    across, down = pl.f32(x % side) / side, pl.f32(y % side) / side
    depth, plane, between = pl.Func("z"), pl.Func("plane"), pl.Func("between")
    depth[x, y] = cells * bright[x, y]
    plane[x, y, z, c] = pl.lerp(
        pl.lerp(blur_y[x / side, y / side, z, c], blur_y[x / side + 1, y / side, z, c], across),
        pl.lerp(blur_y[x / side, y / side + 1, z, c], blur_y[x / side + 1, y / side + 1, z, c], across),
        down,
    )
    below = pl.i32(depth[x, y])
    between[x, y, c] = pl.lerp(
        plane[x, y, below, c], plane[x, y, below + 1, c], depth[x, y] - pl.floor(depth[x, y])
    )
    bilateral_grid = pl.Func("bilateral_grid")
    bilateral_grid[x, y] = between[x, y, 0] / between[x, y, 1]
    return pl.Pipeline("bilateral_grid", bilateral_grid.output(width, height))
