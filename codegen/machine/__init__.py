"""What this machine can do at most, measured."""
