"""Holes in an image filled, by `levels` levels of half the size each."""

from spacedsl import pipeline as pl

X, Y, C = (pl.Var(name) for name in "xyc")
NEAR = 3
"""Coarser levels than this one stay near the image."""


def half(f: pl.Func, name: str) -> pl.Func:
    across, both = pl.Func(f"{name}_x"), pl.Func(name)
    across[X, Y, C] = (f[2 * X - 1, Y, C] + 2 * f[2 * X, Y, C] + f[2 * X + 1, Y, C]) / 4
    both[X, Y, C] = (across[X, 2 * Y - 1, C] + 2 * across[X, 2 * Y, C] + across[X, 2 * Y + 1, C]) / 4
    return both


def double(f: pl.Func, name: str) -> pl.Func:
    across, both = pl.Func(f"{name}_x"), pl.Func(name)
    across[X, Y, C] = (f[X / 2, Y, C] + f[(X + 1) / 2, Y, C]) / 2
    both[X, Y, C] = (across[X, Y / 2, C] + across[X, (Y + 1) / 2, C]) / 2
    return both


def build(width: int = 1536, height: int = 2560, levels: int = 10) -> pl.Pipeline:
    image = pl.Input("image", pl.f32, [width, height, 4])
    down = [pl.Func("down_0")]
    cover = pl.select(C < 3, pl.repeat_edge(image, X, Y, 3), 1)
    down[0][X, Y, C] = pl.repeat_edge(image, X, Y, C) * cover
    for level in range(1, levels):
        finer = down[-1]
        if level == NEAR + 1:
            finer = pl.Func("near")
            scale = 2**NEAR
            finer[X, Y, C] = down[NEAR][pl.clamp(X, 0, width // scale), pl.clamp(Y, 0, height // scale), C]
        down.append(half(finer, f"down_{level}"))

    # What is not covered comes from the next coarser level, from between its pixels.
    filled = down[-1]
    for level in reversed(range(levels - 1)):
        up = double(filled, f"up_{level}")
        filled = pl.Func(f"filled_{level}")
        filled[X, Y, C] = down[level][X, Y, C] + (1 - down[level][X, Y, 3]) * up[X, Y, C]
    interpolate = pl.Func("interpolate")
    interpolate[X, Y, C] = filled[X, Y, C] / filled[X, Y, 3]
    return pl.Pipeline("interpolate", interpolate.output(width, height, 3))
