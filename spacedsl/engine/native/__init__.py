"""The production engine: propagation and random descents in C, compiled once for each space."""
