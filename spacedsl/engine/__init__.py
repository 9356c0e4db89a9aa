"""The engine: a compiled space on a kernel, its candidates, and their propagation."""
