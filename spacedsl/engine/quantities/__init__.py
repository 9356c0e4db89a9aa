"""Quantities in the engine: a graph of intervals over the domains, and limits on it.

`nodes.py` is the intermediate representation. `grounding.py` makes it for an instance, with what `terms.py`
makes of each term, node by node with `building.py`; `sites.py` says where propagators ask about it.
`intervals.py` is what each node computes, `evaluation.py` keeps the intervals of one vector up to date, and
`limits.py` prunes. `dependencies.py` is what quantities read, for the search for cycles of presence.
"""
