"""Quantities in the engine: a graph of intervals over the domains, and limits on it.

`nodes.py` is the intermediate representation, `grounding.py` makes it for an instance, `intervals.py` says
what each node computes, `evaluation.py` keeps the intervals of one vector up to date, `limits.py` prunes.
"""
