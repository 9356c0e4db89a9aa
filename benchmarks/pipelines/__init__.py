"""What the product finds for pipelines beside Halide's schedulers: `python -m benchmarks.pipelines --help`.

`applications.py` is the table of what is compared. Halide's schedules are made first, each in a process of
its own (`scheduling.py`, called by `halide.py`), and become libraries; so does our best. Then all take turns
(`benchmarks/contest.py`): `side.py` is the process that runs one, `calls.py` how both kinds of libraries are
called, `signature.py` and `data.py` with what, which `cases.py` takes from kernel files; `buffers.py` is what
Halide's take for arrays. `results.py` keeps all of it in a folder, an application at a time, and `report.py`
makes a table of it. `gpu/` does the same for a GPU that is somewhere else.
"""
