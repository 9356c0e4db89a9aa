"""What the applications of the library compute, in NumPy and SciPy, from their descriptions.

In: arrays, the innermost dimension last, and sizes where no array tells them. Out: the array of the output,
of f64 where the application has floats. Nothing here knows the language, its evaluator or bounds inference:
filters are SciPy's, and pyramids are products with matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import ndimage, signal

Array = Any
"""Of NumPy; what SciPy returns has no types."""

LUMA = np.array([0.299, 0.587, 0.114])


def luma(image: Array) -> Array:
    """The brightness of `image[channel, y, x]`."""
    return np.tensordot(LUMA, image[:3].astype(np.float64), 1)


def edged(image: Array, margin: int) -> Array:
    """The last two dimensions with a margin of the nearest elements."""
    return np.pad(image, [(0, 0)] * (image.ndim - 2) + [(margin, margin)] * 2, "edge")


# ---- Toys -------------------------------------------------------------------------------------------------


def toy_trig(width: int, height: int) -> Array:
    with np.errstate(invalid="ignore"):
        g = np.sqrt(np.add.outer(np.sin(np.arange(height + 1.0)), np.cos(np.arange(width + 1.0))))
    return g[:-1, :-1] + g[1:, :-1] + g[:-1, 1:] + g[1:, 1:]


def toy_blur(input: Array) -> Array:
    return signal.convolve2d(input.astype(np.float64), np.outer([1 / 3, 1, 1], [1 / 3, 1, 1]), "valid")


def toy_add(width: int, height: int) -> Array:
    return np.add.outer(np.arange(height), np.arange(width))


# ---- Learning ---------------------------------------------------------------------------------------------


def matmul(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b


def conv_layer(image: Array, filter: Array, bias: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3), (1, 2))
    return np.maximum(np.einsum("nyxkji,kjic->nyxc", windows, filter) + bias, 0)


def depthwise_separable_conv(image: Array, depthwise: Array, pointwise: Array, bias: Array) -> Array:
    weights = depthwise[None].astype(np.float64)
    filtered = np.stack(
        [
            ndimage.correlate(image[..., k], weights[..., k], np.float64, mode="constant")
            for k in range(image.shape[-1])
        ],
        -1,
    )
    return np.maximum(filtered @ pointwise + bias, 0)


def convolved(image: Array, filter: Array, bias: Array) -> Array:
    """`image[.., y, x, channel]` without its outermost rows and columns."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (-3, -2))
    return np.einsum("...yxkji,kjic->...yxc", windows, filter) + bias


def vgg(image: Array, **given: Array) -> Array:
    level = image.astype(np.float64)
    for block, convolutions in enumerate((2, 2, 3, 3, 3), 1):
        for each in range(1, convolutions + 1):
            wide = np.pad(level, [(0, 0), (1, 1), (1, 1), (0, 0)])
            filtered = convolved(wide, given[f"filter_{block}_{each}"], given[f"bias_{block}_{each}"])
            level = np.maximum(filtered, 0)
        batch, height, width, channels = level.shape
        level = level.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))
    return level


def learned_demosaic(mosaic: Array, **given: Array) -> Array:
    """Red, green, green and blue, two by two; each layer is computed as far out as the next one reads."""
    wide = edged(mosaic.astype(np.float64), 6)
    level = np.stack([wide[down::2, right::2] for down in (0, 1) for right in (0, 1)], -1)
    for each in (1, 2, 3):
        level = convolved(level, given[f"filter_{each}"], given[f"bias_{each}"])
        level = np.maximum(level, 0) if each < 3 else np.clip(level, 0, 1)
    result = np.empty((3, *mosaic.shape))
    for place, (down, right) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        pixels = level[..., 3 * place : 3 * place + 3].transpose(2, 0, 1)
        pixels[down + right] = mosaic[down::2, right::2]
        result[:, down::2, right::2] = pixels
    return result


# ---- Filters ----------------------------------------------------------------------------------------------


def blur(input: Array) -> Array:
    """The sums wrap around, as those of 16 bits do."""
    rows = (input[:, :-2] + input[:, 1:-1] + input[:, 2:]) // 3
    return (rows[:-2] + rows[1:-1] + rows[2:]) // 3


def unsharp(image: Array) -> Array:
    gray = luma(image)
    taps = np.exp(-0.5 * (np.arange(-3, 4) / 1.5) ** 2) / (1.5 * np.sqrt(2 * np.pi))
    soft = ndimage.correlate1d(ndimage.correlate1d(gray, taps, 0, mode="nearest"), taps, 1, mode="nearest")
    return (2 * gray - soft) / gray * image


def harris(image: Array) -> Array:
    """Without the two outermost rows and columns."""
    gray = luma(image)
    ix, iy = ndimage.sobel(gray, 1) / 12, ndimage.sobel(gray, 0) / 12
    xx, xy, yy = (9 * ndimage.uniform_filter(p, 3) for p in (ix * ix, ix * iy, iy * iy))
    return (xx * yy - xy**2 - 0.04 * (xx + yy) ** 2)[2:-2, 2:-2]


def stencil_chain(input: Array) -> Array:
    weights = np.outer(np.arange(1, 6), np.arange(1, 6))
    level = edged(input, 64).astype(np.int64)
    for _ in range(32):
        level = ndimage.correlate(level, weights)[2:-2, 2:-2] % 2**16
    return level


def max_filter(image: Array) -> Array:
    y, x = np.ogrid[-26:27, -26:27]
    disc = np.hypot(x, y) <= 26.25
    return np.stack([ndimage.maximum_filter(channel, footprint=disc, mode="nearest") for channel in image])


def iir_blur(image: Array, alpha: float = 0.1) -> Array:
    def pass_along(values: Array, axis: int) -> Array:
        """It begins with the first value, as if that had always been there."""
        first = (1 - alpha) * np.take(values, [0], axis)
        return signal.lfilter([alpha], [1, alpha - 1], values, axis, first)[0]

    result = image.astype(np.float64)
    for axis in (1, 2):
        result = np.flip(pass_along(np.flip(pass_along(result, axis), axis), axis), axis)
    return result


def nl_means(image: Array, sigma: float = 0.12) -> Array:
    _, height, width = image.shape
    wide = edged(image.astype(np.float64), 6)
    total, weights = np.zeros(image.shape), np.zeros((height, width))
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            moved = wide[:, 3 + dy : 9 + dy + height, 3 + dx : 9 + dx + width]
            squares = ((moved - wide[:, 3:-3, 3:-3]) ** 2).sum(0)
            weight = np.exp(-signal.convolve2d(squares, np.ones((7, 7)), "valid") / (7 * sigma) ** 2)
            total += weight * moved[:, 3:-3, 3:-3]
            weights += weight
    return np.clip(total / weights, 0, 1)


def bilateral_grid(image: Array) -> Array:
    """Cells of 8 by 8 pixels begin 4 pixels before each multiple of 8; the grid has two more all around."""
    height, width = image.shape
    rows, columns = height // 8 + 6, width // 8 + 6
    pixels = np.clip(np.pad(image.astype(np.float64), ((20, 8 * rows), (20, 8 * columns)), "edge"), 0, 1)
    pixels = pixels[: 8 * rows, : 8 * columns]
    y, x = np.indices(pixels.shape) // 8
    grid = np.zeros((2, 15, rows, columns))
    cells = ((10 * pixels + 0.5).astype(int) + 2, y, x)
    np.add.at(grid[0], cells, pixels)
    np.add.at(grid[1], cells, 1)
    for axis in (1, 2, 3):
        grid = ndimage.correlate1d(grid, [1, 4, 6, 4, 1], axis, mode="constant")
    y, x = np.indices(image.shape)
    at = [10 * np.clip(image, 0, 1) + 2, y / 8 + 2, x / 8 + 2]
    value, weight = (ndimage.map_coordinates(each, at, order=1) for each in grid)
    return value / weight


def bgu(small: Array, wanted: Array, large: Array, cell: int, bins: int, stiffness: float = 0.001) -> Array:
    """As `bilateral_grid`, but what lies in a cell is an affine map, fitted to the pixels around."""

    def gray(image: Array) -> Array:
        return np.clip(np.tensordot([0.25, 0.5, 0.25], image.astype(np.float64), 1), 0, 1)

    _, height, width = small.shape
    rows, columns = height // cell + 6, width // cell + 6
    before = 2 * cell + cell // 2
    margins = [(before, cell * rows), (before, cell * columns)]
    here, there = (
        np.pad(image.astype(np.float64), [(0, 0), *margins], "edge")[:, : cell * rows, : cell * columns]
        for image in (small, wanted)
    )
    y, x = np.indices(here.shape[1:]) // cell
    z = (bins * gray(here) + 0.5).astype(int) + 2
    pixel = np.concatenate([here, np.ones_like(here[:1])])
    grid = np.zeros((4, 7, bins + 6, rows, columns))
    for i, of_pixel in enumerate(pixel):
        for j, value in enumerate([*pixel, *there]):
            np.add.at(grid[i, j], (z, y, x), of_pixel * value)
    for axis in (2, 3, 4):
        grid = ndimage.correlate1d(grid, [1, 4, 6, 4, 1], axis, mode="constant")
    grid = grid.transpose(2, 3, 4, 0, 1)
    stiff = stiffness * (grid[..., 3, 3] + 1)[..., None, None] * np.eye(4)
    maps = np.linalg.solve(grid[..., :4] + stiff, grid[..., 4:] + stiff[..., :3])
    factor = large.shape[1] // height
    y, x = np.indices(large.shape[1:]) / (factor * cell) + 2
    at = [bins * gray(large) + 2, y, x]
    point = [*large.astype(np.float64), 1]
    return np.stack(
        [
            sum(point[i] * ndimage.map_coordinates(maps[..., i, k], at, order=1) for i in range(4))
            for k in range(3)
        ]
    )


def hist_eq(image: Array) -> Array:
    red, _, blue = image.astype(np.float64)
    gray = luma(image)
    levels = gray.astype(int)
    below = np.cumsum(np.bincount(levels.ravel(), minlength=256))
    equal = below[levels] * 255 / gray.size
    red_part, blue_part = 0.713 * (red - gray), 0.564 * (blue - gray)
    result = [equal + 1.4 * red_part, equal - 0.343 * blue_part - 0.711 * red_part, equal + 1.765 * blue_part]
    return np.clip(result, 0, 255).astype(np.uint8)


# ---- Pyramids: each level is the product of a finer or a coarser one with matrices -------------------------

Region = tuple[range, range]
"""Positions, down and across, which may lie outside of the image."""
Taps = Callable[[int], Mapping[int, float]]
"""Of a position, where it reads in another level, and with which weights."""


def smooth_half(at: int) -> Mapping[int, float]:
    return {2 * at - 1: 1 / 8, 2 * at: 3 / 8, 2 * at + 1: 3 / 8, 2 * at + 2: 1 / 8}


def smooth_double(at: int) -> Mapping[int, float]:
    return {at // 2: 0.75, at // 2 + (1 if at % 2 else -1): 0.25}


def tent_half(at: int) -> Mapping[int, float]:
    return {2 * at - 1: 1 / 4, 2 * at: 1 / 2, 2 * at + 1: 1 / 4}


def tent_double(at: int) -> Mapping[int, float]:
    return {at // 2: 0.5, at // 2 + 1: 0.5} if at % 2 else {at // 2: 1.0}


def read_by(taps: Taps, region: Region, other: Region = (range(0), range(0))) -> Region:
    """What a region reads, and all of another one."""

    def along(positions: range, also: range) -> range:
        read = [p for at in positions for p in taps(at)] + list(also)
        return range(min(read), max(read) + 1)

    return along(region[0], other[0]), along(region[1], other[1])


def resampled(image: Array, given: Region, wanted: Region, taps: Taps) -> Array:
    """From the level at `given` to another one at `wanted`."""

    def matrix(rows: range, columns: range) -> Array:
        weights = np.zeros((len(rows), len(columns)))
        for row in rows:
            for column, weight in taps(row).items():
                weights[rows.index(row), columns.index(column)] = weight
        return weights

    return matrix(wanted[0], given[0]) @ image @ matrix(wanted[1], given[1]).T


def part(image: Array, given: Region, wanted: Region) -> Array:
    """At positions outside of `given`, the nearest elements."""
    y, x = (np.clip(w, g[0], g[-1]) - g[0] for g, w in zip(given, wanted, strict=True))
    return image[..., y, :][..., x]


def whole(image: Array) -> Region:
    return range(image.shape[-2]), range(image.shape[-1])


def local_laplacian(image: Array, levels: int, alpha: float = 1.0, beta: float = 1.0) -> Array:
    wanted = [whole(image)]
    for _ in range(7):
        wanted.append(read_by(smooth_double, wanted[-1]))
    made = [wanted[7]]
    for j in range(6, -1, -1):
        made.insert(0, read_by(smooth_half, made[0], wanted[j]))

    gray = luma(part(image, wanted[0], made[0])) / 65535
    index = np.clip((256 * (levels - 1) * gray).astype(int), 0, 256 * (levels - 1))
    k = np.arange(levels)[:, None, None]
    off, middle = index / 256 - k, k / (levels - 1)
    tones = beta * (gray - middle) + middle + alpha / (levels - 1) * off * np.exp(-(off**2) / 2)

    def chosen(tones: Array, gray: Array) -> Array:
        """Between the two tones that the gray lies between."""
        low = np.clip(((levels - 1) * gray).astype(int), 0, levels - 2)
        a, b = (np.take_along_axis(tones, each[None], 0)[0] for each in (low, low + 1))
        return a + ((levels - 1) * gray - low) * (b - a)

    finer = []
    for j in range(7):
        coarse_gray, coarse = (resampled(each, made[j], made[j + 1], smooth_half) for each in (gray, tones))
        lost = part(tones, made[j], wanted[j]) - resampled(coarse, made[j + 1], wanted[j], smooth_double)
        finer.append(chosen(lost, part(gray, made[j], wanted[j])))
        gray, tones = coarse_gray, coarse
    result = chosen(tones, gray)
    for j in range(6, -1, -1):
        result = resampled(result, wanted[j + 1], wanted[j], smooth_double) + finer[j]
    return np.clip(image * (result + 0.01) / (luma(image) / 65535 + 0.01), 0, 65535).astype(np.uint16)


def interpolate(image: Array) -> Array:
    """The fourth level is made of what the third one has within an eighth of the size."""
    wanted = [whole(image)]
    for _ in range(9):
        wanted.append(read_by(tent_double, wanted[-1]))
    within = (range(image.shape[1] // 8 + 1), range(image.shape[2] // 8 + 1))
    made = [wanted[9]]
    for j in range(8, -1, -1):
        read = within if j == 3 else read_by(tent_half, made[0])
        made.insert(0, read_by(lambda at: {at: 1}, read, wanted[j]))

    covered = np.concatenate([image[:3] * image[3].astype(np.float64), image[3:]])
    level = part(covered, wanted[0], made[0])
    levels = [part(level, made[0], wanted[0])]
    for j in range(1, 10):
        given = made[j - 1]
        if j == 4:
            given = read_by(tent_half, made[4])
            level = part(part(level, made[3], within), within, given)
        level = resampled(level, given, made[j], tent_half)
        levels.append(part(level, made[j], wanted[j]))
    filled = levels.pop()
    for j in range(8, -1, -1):
        filled = levels[j] + (1 - levels[j][3]) * resampled(filled, wanted[j + 1], wanted[j], tent_double)
    return filled[:3] / filled[3]


def smoothed_costs(left: Array, right: Array, slices: int, reach: int) -> Array:
    """Of each depth at each pixel, and as far around the image as the samples of `lens_blur` reach."""
    _, height, width = left.shape
    wanted = [(range(-reach, height + reach), range(-reach, width + reach))]
    for _ in range(7):
        wanted.append(read_by(smooth_double, wanted[-1]))

    def at(image: Array, moved: int) -> Array:
        """The nearest pixels, and as many further to the right."""
        down, across = wanted[0]
        shifted = range(across.start + moved, across.stop + moved)
        return part(image.astype(np.float64), whole(image), (down, shifted))

    here = at(left, 0)
    apart = [abs(here - at(right, moved)) for moved in range(2 * slices)]
    cost = np.stack([(np.minimum(apart[2 * z], apart[2 * z + 1]) ** 2).sum(0) for z in range(slices)])
    level = np.stack([cost * cost.var(0), np.broadcast_to(cost.var(0), cost.shape)])
    levels, given = [level], wanted[0]
    for j in range(1, 8):
        inside = (range(max(height >> j, 1)), range(max(width >> j, 1)))
        read = read_by(smooth_half, inside)
        level = resampled(part(level, given, read), read, inside, smooth_half)
        levels.append(part(level, inside, wanted[j]))
        given = inside
    pulled = levels.pop()
    for j in range(6, -1, -1):
        pulled = (resampled(pulled, wanted[j + 1], wanted[j], smooth_double) + levels[j]) / 2
    return pulled[0] / pulled[1]


def lens_blur(left: Array, right: Array, slices: int, focus: int, reach: int, samples: int) -> Array:
    _, height, width = left.shape
    depth = np.argmin(smoothed_costs(left, right, slices, reach), axis=0)
    radius = abs(depth - focus) / 2
    middle = (slice(reach, -reach), slice(reach, -reach))
    widest = ndimage.maximum_filter(radius, 2 * reach + 1)[middle]
    y, x = np.indices((height, width))
    opaque = np.concatenate([left, np.full((1, height, width), 255)]).astype(np.float64)
    total = opaque.copy()
    for s in range(samples):
        hashed = (73 * x + 151 * y + 283 * s) % 65536, (73 * x + 151 * y + 283 * s + 389) % 65536
        u, v = (
            np.clip((((2531 * h + 4241) % 1024 / 512 - 1) * widest).astype(int), -reach, reach)
            for h in hashed
        )
        there = (y + v + reach, x + u + reach)
        is_near = (u**2 + v**2 < radius[middle] ** 2) | (depth[there] < depth[middle])
        reaches = is_near & (u**2 + v**2 < radius[there] ** 2)
        seen = opaque[:, np.clip(y + v, 0, height - 1), np.clip(x + u, 0, width - 1)]
        total += np.where(reaches, seen, 0)
    return total[:3] / total[3]


# ---- Cameras ----------------------------------------------------------------------------------------------


def camera_pipe(sensor: Array, gamma: float = 2, contrast: float = 50, sharpen: int = 32) -> Array:
    """Of even sizes. All is computed for the whole sensor, whose margins take what wraps around."""

    def at(plane: Array, x: int, y: int) -> Array:
        return np.roll(plane, (-y, -x), (-2, -1))

    def mean(a: Array, b: Array) -> Array:
        return (a + b + 1) // 2

    def alike(pairs: list[tuple[Array, Array]], values: list[Array]) -> Array:
        """The value of the pair that differs less; of the second one, where both differ as much."""
        (a, b), (c, d) = pairs
        return np.where(abs(a - b) < abs(c - d), values[0], values[1])

    raw = sensor.astype(int)
    raw = np.minimum(raw, np.max([at(raw, 2, 0), at(raw, -2, 0), at(raw, 0, 2), at(raw, 0, -2)], 0))
    top, red, blue, low = raw[::2, ::2], raw[::2, 1::2], raw[1::2, ::2], raw[1::2, 1::2]
    pairs = [(at(top, 1, 0), top), (at(low, 0, -1), low)]
    green_r = alike(pairs, [mean(*pair) for pair in pairs])
    pairs = [(at(low, -1, 0), low), (at(top, 0, 1), top)]
    green_b = alike(pairs, [mean(*pair) for pair in pairs])

    def corrected(colour: Array, green: Array, *moves: tuple[int, int]) -> Array:
        """How much a colour is more than green, at two places."""
        return mean(*(at(colour, *m) for m in moves)) - mean(*(at(green, *m) for m in moves))

    def diagonal(colour: Array, green: Array, side: int) -> Array:
        """`side` is -1 where the other places lie to the left and below, 1 where to the right and above."""
        ways = [((0, 0), (side, -side)), ((side, 0), (0, -side))]
        ends = [(at(colour, *a), at(colour, *b)) for a, b in ways]
        return alike(ends, [corrected(colour, green, *way) for way in ways])

    def together(a: Array, b: Array, c: Array, d: Array) -> Array:
        full = np.empty_like(raw)
        full[::2, ::2], full[::2, 1::2], full[1::2, ::2], full[1::2, 1::2] = a, b, c, d
        return full

    colours = np.stack(
        [
            together(
                top + corrected(red, green_r, (-1, 0), (0, 0)),
                red,
                green_b + diagonal(red, green_r, -1),
                low + corrected(red, green_r, (0, 0), (0, 1)),
            ),
            together(top, green_r, green_b, low),
            together(
                top + corrected(blue, green_b, (0, 0), (0, -1)),
                green_r + diagonal(blue, green_b, 1),
                blue,
                low + corrected(blue, green_b, (0, 0), (1, 0)),
            ),
        ]
    )
    matrix = np.array([[430, -120, -30], [-70, 380, -40], [-10, -150, 470]])
    offset = np.array([5000, 4600, 4800])[:, None, None]
    light = np.clip((np.arange(1024) - 25) / 998, 0, 1) ** (1 / gamma)
    end = 2 - 2 ** (contrast / 100)
    half = np.minimum(light, 1 - light)
    tone = (2 - 2 * end) * half**2 + end * half
    curve = np.clip(255 * np.where(light > 0.5, 1 - tone, tone) + 0.5, 0, 255).astype(int)
    toned = curve[np.clip((np.tensordot(matrix, colours, 1) - offset) // 256, 0, 1023)]
    soft = toned
    for x, y in ((0, 1), (1, 0)):
        soft = mean(mean(at(soft, x, y), at(soft, -x, -y)), soft)
    return np.clip(toned + (toned - soft) * sharpen // 32, 0, 255)[:, 12:-36, 16:-16].astype(np.uint8)
