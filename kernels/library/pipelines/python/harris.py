"""Where an image has corners."""

from spacedsl import pipeline as pl


def build(width: int = 1536, height: int = 2560) -> pl.Pipeline:
    x, y = pl.Var("x"), pl.Var("y")
    image = pl.Input("image", pl.f32, [width, height, 3])

    gray, ix, iy = pl.Func("gray"), pl.Func("ix"), pl.Func("iy")
    gray[x, y] = 0.299 * image[x, y, 0] + 0.587 * image[x, y, 1] + 0.114 * image[x, y, 2]
    ix[x, y] = (
        gray[x + 1, y - 1]
        - gray[x - 1, y - 1]
        + 2 * (gray[x + 1, y] - gray[x - 1, y])
        + gray[x + 1, y + 1]
        - gray[x - 1, y + 1]
    ) / 12
    iy[x, y] = (
        gray[x - 1, y + 1]
        - gray[x - 1, y - 1]
        + 2 * (gray[x, y + 1] - gray[x, y - 1])
        + gray[x + 1, y + 1]
        - gray[x + 1, y - 1]
    ) / 12

    products = {"xx": (ix, ix), "yy": (iy, iy), "xy": (ix, iy)}
    multiplied = {name: pl.Func(f"i{name}") for name in products}
    for name, (a, b) in products.items():
        multiplied[name][x, y] = a[x, y] * b[x, y]
    r = pl.RDom(i=range(-1, 2), j=range(-1, 2))
    summed = {name: pl.Func(f"s{name}") for name in products}
    for name, func in multiplied.items():
        summed[name][x, y] = pl.sum(r, func[x + r.i, y + r.j])
    sxx, syy, sxy = summed.values()

    det, trace, harris = pl.Func("det"), pl.Func("trace"), pl.Func("harris")
    det[x, y] = sxx[x, y] * syy[x, y] - sxy[x, y] * sxy[x, y]
    trace[x, y] = sxx[x, y] + syy[x, y]
    harris[x, y] = det[x, y] - 0.04 * trace[x, y] * trace[x, y]
    return pl.Pipeline("harris", harris.output(range(2, width - 2), range(2, height - 2)))
