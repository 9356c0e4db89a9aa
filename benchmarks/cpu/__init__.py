"""What the product finds on a CPU beside what a user would take instead: `python -m benchmarks.cpu --help`.

Everything that runs is a process of its own: the product's code, and each peer, which may live in another
environment (`make peers`). `cases.py` is the table of kernels, `problems.py` their data and references,
`peers/` one file for each contender, `side.py` the process that runs one, `product.py` makes code of records,
`report.py` makes of all this a table and a document. Taking turns is for `benchmarks/contest.py`.
"""
