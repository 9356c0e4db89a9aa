"""Where generated code runs: worker processes, guarded buffers, checks and samples of time."""
