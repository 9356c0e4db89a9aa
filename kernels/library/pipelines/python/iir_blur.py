"""A recursive filter down and up all columns, then all rows."""

from spacedsl import pipeline as pl


def build(width: int = 1536, height: int = 2560) -> pl.Pipeline:
    x, y, c = pl.Var("x"), pl.Var("y"), pl.Var("c")
    alpha = pl.Param("alpha", pl.f32, 0.1)
    image = pl.Input("image", pl.f32, [width, height, 3])
    columns, turned, rows = pl.Func("columns"), pl.Func("turned"), pl.Func("rows")

    def filtered(f: pl.Func, given: pl.Func | pl.Input, across: pl.Var, along: pl.Var, length: int) -> None:
        """`f` along its second variable, there and back."""
        r = pl.RDom(r=range(1, length))
        back = length - 1 - r.r
        f[across, along, c] = pl.undefined(pl.f32)
        f[across, 0, c] = given[across, 0, c]
        f[across, r.r, c] = (1 - alpha) * f[across, r.r - 1, c] + alpha * given[across, r.r, c]
        f[across, back, c] = (1 - alpha) * f[across, length - r.r, c] + alpha * f[across, back, c]

    filtered(columns, image, x, y, height)
    turned[y, x, c] = columns[x, y, c]
    filtered(rows, turned, y, x, width)
    iir_blur = pl.Func("iir_blur")
    iir_blur[x, y, c] = rows[y, x, c]
    return pl.Pipeline("iir_blur", iir_blur.output(width, height, 3))
