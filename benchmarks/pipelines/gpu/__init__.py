"""Pipelines on a GPU beside Halide's schedulers: `python -m benchmarks.pipelines.gpu --help`.

`write` makes one folder of runs and of Halide's schedules, compiled ahead of time, which a machine with a GPU
measures with one command; `report` makes of what comes back tables and a document. `schedulers.py` says which
of Halide's schedulers there are, `folder.py` puts what they make beside the batch, `run_benchmark.py` is what
runs over there, `report.py` the figures.
"""
