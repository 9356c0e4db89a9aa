"""The program tree: what it is made of, what may be said of it, and which trees are none."""
