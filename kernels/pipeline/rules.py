"""What an update may do, however it was written.

In: a stage and an update of it. Out: what is wrong with it, in words. Types are for `typing.py`.
"""

from __future__ import annotations

from spacedsl.kernels.pipeline.algorithm import Stage, Update, Variable, reads


def misplaced(stage: Stage, update: Update) -> str | None:
    """None where nothing is wrong.

    What an update that is done for each value of a variable reads of its stage has that variable at the same
    position: so its iterations do not see each other.
    """
    kept = update.variables(stage)
    for read in reads(update):
        if read.source != stage.name:
            continue
        for variable, at in zip(stage.variables, read.point, strict=True):
            if variable in kept and at != Variable(variable):
                return (
                    f"the update is done for each `{variable}` by itself, and reads `{stage.name}` for "
                    "another one: give a range to go through in order"
                )
    return None
