"""Implementations of linear algebra as program trees: loops, registers, temporaries."""
