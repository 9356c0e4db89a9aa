"""Weighted sums of 5x5 neighbours, each of the one before: as many as `stages`."""

from spacedsl import pipeline as pl


def build(width: int = 1536, height: int = 2560, stages: int = 32) -> pl.Pipeline:
    x, y = pl.Var("x"), pl.Var("y")
    image = pl.Input("input", pl.u16, [width, height])
    r = pl.RDom(i=range(-2, 3), j=range(-2, 3))
    before = pl.Func("stage_0")
    before[x, y] = pl.repeat_edge(image, x, y)
    for number in range(1, stages + 1):
        stage = pl.Func(f"stage_{number}" if number < stages else "stencil_chain")
        stage[x, y] = pl.sum(r, pl.u16((r.i + 3) * (r.j + 3)) * before[x + r.i, y + r.j])
        before = stage
    return pl.Pipeline("stencil_chain", before.output(width, height))
