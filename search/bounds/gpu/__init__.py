"""The lower bound of a GPU: what blocks, threads and copies that are left make of what is certain."""
