"""Brightness spread over all levels."""

from spacedsl import pipeline as pl


def build(width: int = 1536, height: int = 2560) -> pl.Pipeline:
    x, y, c, i = pl.Var("x"), pl.Var("y"), pl.Var("c"), pl.Var("i")
    image = pl.Input("image", pl.u8, [width, height, 3])

    luma, level = pl.Func("luma"), pl.Func("level")
    red_difference, blue_difference = pl.Func("red_difference"), pl.Func("blue_difference")
    luma[x, y] = 0.299 * image[x, y, 0] + 0.587 * image[x, y, 1] + 0.114 * image[x, y, 2]
    red_difference[x, y] = (image[x, y, 0] - luma[x, y]) * 0.713 + 128
    blue_difference[x, y] = (image[x, y, 2] - luma[x, y]) * 0.564 + 128
    level[x, y] = pl.u8(pl.clamp(luma[x, y], 0, 255))

    rows, histogram, below = pl.Func("rows"), pl.Func("histogram"), pl.Func("below")
    r = pl.RDom(r=width)
    rows[i, y] = 0
    rows[level[r.r, y], y] += 1
    r = pl.RDom(r=height)
    histogram[i] = 0
    histogram[i] += rows[i, r.r]
    r = pl.RDom(r=range(1, 256))
    below[i] = histogram[0]
    below[r.r] = below[r.r - 1] + histogram[r.r]

    equal, red, green, blue = (pl.Func(name) for name in ("equal", "red", "green", "blue"))
    equal[x, y] = pl.clamp(pl.f32(below[level[x, y]]) * (255.0 / (width * height)), 0, 255)
    red[x, y] = equal[x, y] + (red_difference[x, y] - 128) * 1.4
    green[x, y] = equal[x, y] - 0.343 * (blue_difference[x, y] - 128) - 0.711 * (red_difference[x, y] - 128)
    blue[x, y] = equal[x, y] + 1.765 * (blue_difference[x, y] - 128)
    hist_eq = pl.Func("hist_eq")
    hist_eq[x, y, c] = pl.u8(pl.clamp(pl.mux(c, [red[x, y], green[x, y], blue[x, y]]), 0, 255))
    return pl.Pipeline("hist_eq", hist_eq.output(width, height, 3))
