"""13 convolutions of images, which become half as wide five times: VGG-16, up to the layers that are fully
connected, or the first `blocks` of its five blocks. Outside of each layer are zeros."""

from spacedsl import pipeline as pl

C, X, Y, N = (pl.Var(name) for name in "cxyn")
BLOCKS = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))
"""Of how many times as many channels, and how many convolutions."""


def build(last: int = 7, channels: int = 64, batch: int = 4, blocks: int = len(BLOCKS)) -> pl.Pipeline:
    side, inputs = last * 2**blocks, 3
    image = pl.Input("image", pl.f32, [inputs, side, side, batch])
    padded = pl.Func("padded_1_1")
    padded[C, X, Y, N] = pl.constant_exterior(image, 0, C, X, Y, N)
    pool = pl.Func("pool")

    def in_zeros(f: pl.Func, name: str, side: int) -> pl.Func:
        made = pl.Func(name)
        is_inside = (X >= 0) & (side > X) & (Y >= 0) & (side > Y)
        held = f[C, pl.clamp(X, 0, side - 1), pl.clamp(Y, 0, side - 1), N]
        made[C, X, Y, N] = pl.select(is_inside, held, 0)
        return made

    for block, (times, convolutions) in enumerate(BLOCKS[:blocks], 1):
        outputs = times * channels
        layer = pool
        for each in range(1, convolutions + 1):
            name = f"{block}_{each}"
            filter = pl.Input(f"filter_{name}", pl.f32, [outputs, 3, 3, inputs])
            bias = pl.Input(f"bias_{name}", pl.f32, [outputs])
            if name != "1_1":
                padded = in_zeros(layer, f"padded_{name}", side)
            r = pl.RDom(k=inputs, i=3, j=3)
            total, layer = pl.Func(f"sum_{name}"), pl.Func(f"layer_{name}")
            total[C, X, Y, N] = bias[C]
            total[C, X, Y, N] += filter[C, r.i, r.j, r.k] * padded[r.k, X + r.i - 1, Y + r.j - 1, N]
            layer[C, X, Y, N] = pl.max(total[C, X, Y, N], 0)
            inputs = outputs
        pool = pl.Func(f"pool_{block}" if block < blocks else "vgg")
        pool[C, X, Y, N] = pl.max(
            layer[C, 2 * X, 2 * Y, N],
            layer[C, 2 * X + 1, 2 * Y, N],
            layer[C, 2 * X, 2 * Y + 1, N],
            layer[C, 2 * X + 1, 2 * Y + 1, N],
        )
        side //= 2
    return pl.Pipeline("vgg", pool.output(inputs, last, last, batch))
