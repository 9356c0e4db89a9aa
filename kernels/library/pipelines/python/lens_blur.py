"""Out of focus but for one depth, which two images tell; costs of depths are smoothed by `levels` levels of
half the size each."""

from spacedsl import pipeline as pl
from spacedsl.kernels.library.pipelines.python._pyramids import X, Y, double, half

Z, C, S, AXIS = (pl.Var(name) for name in ("z", "c", "s", "axis"))


def costs(left: pl.Input, right: pl.Input) -> pl.Func:
    """How unlike a pixel and those of the other image are that it would be at each depth."""
    difference, cost = pl.Func("difference"), pl.Func("cost")
    here = pl.repeat_edge(left, X, Y, C)
    difference[X, Y, Z, C] = pl.f32(
        pl.min(
            pl.absd(here, pl.repeat_edge(right, X + 2 * Z, Y, C)),
            pl.absd(here, pl.repeat_edge(right, X + 2 * Z + 1, Y, C)),
        )
    )
    each = [difference[X, Y, Z, c] * difference[X, Y, Z, c] for c in range(3)]
    cost[X, Y, Z] = each[0] + each[1] + each[2]
    return cost


def smoothed(cost: pl.Func, width: int, height: int, slices: int, levels: int) -> pl.Func:
    """Costs where they say little come from around: half the size, and back."""
    r = pl.RDom(z=slices)
    mean, mean_of_squares = pl.Func("mean"), pl.Func("mean_of_squares")
    confidence, push = pl.Func("confidence"), [pl.Func("push_0")]
    mean[X, Y] = pl.sum(r, cost[X, Y, r.z]) / slices
    mean_of_squares[X, Y] = pl.sum(r, cost[X, Y, r.z] * cost[X, Y, r.z]) / slices
    confidence[X, Y] = mean_of_squares[X, Y] - mean[X, Y] * mean[X, Y]
    push[0][X, Y, Z, C] = pl.mux(C, [cost[X, Y, Z], 1]) * confidence[X, Y]
    for level in range(1, levels + 1):
        down = half(push[-1], f"down_{level}", Z, C)
        push.append(pl.Func(f"push_{level}"))
        x, y = (pl.clamp(v, 0, extent // 2**level - 1) for v, extent in ((X, width), (Y, height)))
        push[-1][X, Y, Z, C] = down[x, y, Z, C]
    pull = push[-1]
    for level in reversed(range(levels)):
        up = double(pull, f"up_{level}", Z, C)
        pull = pl.Func(f"pull_{level}")
        pull[X, Y, Z, C] = pl.lerp(up[X, Y, Z, C], push[level][X, Y, Z, C], 0.5)
    filtered = pl.Func("filtered")
    filtered[X, Y, Z] = pull[X, Y, Z, 0] / pull[X, Y, Z, 1]
    return filtered


def build(
    width: int = 192,
    height: int = 320,
    slices: int = 32,
    focus: int = 13,
    reach: int = 9,
    samples: int = 32,
    levels: int = 7,
) -> pl.Pipeline:
    left, right = (pl.Input(name, pl.u8, [width, height, 3]) for name in ("left", "right"))
    filtered = smoothed(costs(left, right), width, height, slices, levels)
    depth, radius = pl.Func("depth"), pl.Func("radius")
    r = pl.RDom(z=slices)
    depth[X, Y] = pl.argmin(r, filtered[X, Y, r.z])

    # A point is spread over a disc that grows with its distance from the focus.
    radius[X, Y] = pl.f32(pl.abs(depth[X, Y] - focus)) / 2
    widest_y, widest = pl.Func("widest_y"), pl.Func("widest")
    around = pl.RDom(j=range(-reach, reach + 1)), pl.RDom(i=range(-reach, reach + 1))
    widest_y[X, Y] = pl.maximum(around[0], radius[X, Y + around[0].j])
    widest[X, Y] = pl.maximum(around[1], widest_y[X + around[1].i, Y])

    # Samples around each pixel, of those that may reach it, from a hash.
    hashed, share, offset = pl.Func("hash"), pl.Func("share"), pl.Func("offset")
    hashed[X, Y, S, AXIS] = (73 * X + 151 * Y + 283 * S + 389 * AXIS) & 65535
    share[X, Y, S, AXIS] = pl.f32((2531 * hashed[X, Y, S, AXIS] + 4241) & 1023) / 512 - 1
    offset[X, Y, S, AXIS] = pl.clamp(pl.i32(share[X, Y, S, AXIS] * widest[X, Y]), -reach, reach)
    distance, area, weight = pl.Func("distance"), pl.Func("area"), pl.Func("weight")
    across, down = offset[X, Y, S, 0], offset[X, Y, S, 1]
    distance[X, Y, S] = pl.f32(across * across + down * down)
    area[X, Y] = radius[X, Y] * radius[X, Y]
    is_seen = (distance[X, Y, S] < area[X, Y]) | (depth[X + across, Y + down] < depth[X, Y])
    weight[X, Y, S] = pl.select(is_seen & (distance[X, Y, S] < area[X + across, Y + down]), 1.0, 0.0)

    opaque, total, lens_blur = pl.Func("opaque"), pl.Func("total"), pl.Func("lens_blur")
    opaque[X, Y, C] = pl.f32(pl.select(C < 3, pl.repeat_edge(left, X, Y, C), 255))
    s = pl.RDom(s=samples).s
    total[X, Y, C] = opaque[X, Y, C]
    total[X, Y, C] += weight[X, Y, s] * opaque[X + offset[X, Y, s, 0], Y + offset[X, Y, s, 1], C]
    lens_blur[X, Y, C] = total[X, Y, C] / total[X, Y, 3]
    return pl.Pipeline("lens_blur", lens_blur.output(width, height, 3))
