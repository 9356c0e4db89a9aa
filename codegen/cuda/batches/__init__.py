"""Offline batches: implementations in a folder, and what checks and times them where there is a GPU."""
