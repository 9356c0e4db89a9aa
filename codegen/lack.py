"""What this machine lacks for the work, as an exception; whoever talks to the user shows its message."""

from __future__ import annotations


class EnvironmentLack(Exception):  # noqa: N818 (a lack is no error of the program)
    """This machine lacks something that the work needs; the message says what, and what to do about it."""
