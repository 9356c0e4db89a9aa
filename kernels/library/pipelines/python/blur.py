"""A 3x3 box, in rows and then in columns."""

from spacedsl import pipeline as pl


def build(width: int = 6400, height: int = 4800) -> pl.Pipeline:
    x, y = pl.Var("x"), pl.Var("y")
    image = pl.Input("input", pl.u16, 2)
    blur_x, blur_y = pl.Func("blur_x"), pl.Func("blur_y")
    blur_x[x, y] = (image[x, y] + image[x + 1, y] + image[x + 2, y]) / 3
    blur_y[x, y] = (blur_x[x, y] + blur_x[x, y + 1] + blur_x[x, y + 2]) / 3
    return pl.Pipeline("blur", blur_y.output(width, height))
