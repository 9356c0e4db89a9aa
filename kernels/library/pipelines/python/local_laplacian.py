"""Local contrast enhanced: `depth` levels of half the size each, and `levels` tones."""

from spacedsl import pipeline as pl
from spacedsl.kernels.library.pipelines.python._pyramids import X, Y, double, half

C, K = pl.Var("c"), pl.Var("k")


def between_tones(f: pl.Func, gray: pl.Func, name: str, level: int, levels: int) -> pl.Func:
    """Of two neighbouring tones, as much of each as the gray between them says."""
    between, below, chosen = pl.Func(f"between_{level}"), pl.Func(f"below_{level}"), pl.Func(name)
    between[X, Y] = gray[X, Y] * (levels - 1)
    below[X, Y] = pl.clamp(pl.i32(between[X, Y]), 0, levels - 2)
    chosen[X, Y] = pl.lerp(f[X, Y, below[X, Y]], f[X, Y, below[X, Y] + 1], between[X, Y] - below[X, Y])
    return chosen


def build(width: int = 1536, height: int = 2560, levels: int = 8, depth: int = 8) -> pl.Pipeline:
    alpha, beta = pl.Param("alpha", pl.f32, 1), pl.Param("beta", pl.f32, 1)
    image = pl.Input("image", pl.u16, [width, height, 3])
    last = depth - 1

    floating = pl.Func("floating")
    floating[X, Y, C] = pl.f32(pl.repeat_edge(image, X, Y, C)) / 65535
    gray = [pl.Func("gray_0")]
    gray[0][X, Y] = 0.299 * floating[X, Y, 0] + 0.587 * floating[X, Y, 1] + 0.114 * floating[X, Y, 2]

    # The image with other tones, one for each brightness k that may be in the middle.
    tone, middle, index = pl.Func("tone"), pl.Func("middle"), pl.Func("index")
    i = pl.Var("i")
    part = pl.f32(i) / 256
    tone[i] = alpha / (levels - 1) * part * pl.exp(-pl.f32(i) / 256 * part / 2)
    middle[K] = pl.f32(K) / (levels - 1)
    index[X, Y] = pl.clamp(pl.i32(gray[0][X, Y] * (256 * (levels - 1))), 0, 256 * (levels - 1))
    gauss = [pl.Func("gauss_0")]
    gauss[0][X, Y, K] = beta * (gray[0][X, Y] - middle[K]) + middle[K] + tone[index[X, Y] - 256 * K]

    for level in range(1, depth):
        gauss.append(half(gauss[-1], f"gauss_{level}", K))
    for level in range(1, depth):
        gray.append(half(gray[-1], f"gray_{level}"))

    # What each level has and the next coarser one lacks.
    laplace = {}
    for level in reversed(range(last)):
        wide = double(gauss[level + 1], f"wide_{level}", K)
        laplace[level] = pl.Func(f"laplace_{level}")
        laplace[level][X, Y, K] = gauss[level][X, Y, K] - wide[X, Y, K]

    result = between_tones(gauss[last], gray[last], f"result_{last}", last, levels)
    blend = {
        level: between_tones(laplace[level], gray[level], f"blend_{level}", level, levels)
        for level in reversed(range(last))
    }
    for level in reversed(range(last)):
        up = double(result, f"up_{level}")
        result = pl.Func(f"result_{level}")
        result[X, Y] = up[X, Y] + blend[level][X, Y]

    ratio, local_laplacian = pl.Func("ratio"), pl.Func("local_laplacian")
    ratio[X, Y] = (result[X, Y] + 0.01) / (gray[0][X, Y] + 0.01)
    local_laplacian[X, Y, C] = pl.u16(pl.clamp(image[X, Y, C] * ratio[X, Y], 0, 65535))
    return pl.Pipeline("local_laplacian", local_laplacian.output(width, height, 3))
