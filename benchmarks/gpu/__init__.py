"""What the product finds for a GPU beside what a user would take instead: `python -m benchmarks.gpu --help`.

`write` makes one folder of runs, naive kernels and peers, which a machine with a GPU measures with one
command; `report` makes of what comes back a table and a document. `cases.py` is the table of kernels,
`naive.cu` the kernels that anybody would write first, `run_benchmark.py` what runs over there, `report.py`
the figures. `arguments.py`, `runner.py` and `measured.py` are shared with pipelines
(`benchmarks/pipelines/gpu`): the options of both commands, how peers are measured over there, and how what
came of it is read.
"""
