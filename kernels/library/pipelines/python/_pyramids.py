"""Steps between levels of pyramids."""

from spacedsl import pipeline as pl

X, Y = pl.Var("x"), pl.Var("y")


def half(f: pl.Func, name: str, *others: pl.Var) -> pl.Func:
    """Half the size of `f`, which may have more variables."""
    across, both = pl.Func(f"{name}_x"), pl.Func(name)
    across[X, Y, *others] = (
        f[2 * X - 1, Y, *others]
        + f[2 * X + 2, Y, *others]
        + 3 * (f[2 * X, Y, *others] + f[2 * X + 1, Y, *others])
    ) / 8
    both[X, Y, *others] = (
        across[X, 2 * Y - 1, *others]
        + across[X, 2 * Y + 2, *others]
        + 3 * (across[X, 2 * Y, *others] + across[X, 2 * Y + 1, *others])
    ) / 8
    return both


def double(f: pl.Func, name: str, *others: pl.Var) -> pl.Func:
    """Twice the size of `f`."""
    across, both = pl.Func(f"{name}_x"), pl.Func(name)
    across[X, Y, *others] = pl.lerp(
        f[(X + 1) / 2, Y, *others], f[(X - 1) / 2, Y, *others], 0.25 + 0.5 * (X % 2)
    )
    both[X, Y, *others] = pl.lerp(
        across[X, (Y + 1) / 2, *others], across[X, (Y - 1) / 2, *others], 0.25 + 0.5 * (Y % 2)
    )
    return both
