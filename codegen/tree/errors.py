"""Why an implementation becomes no code: its decisions are no program, or its program breaks a rule.

In: what lowering and the verifier find wrong. Out: exceptions, whose messages name decisions, or rule and
place.
"""

from __future__ import annotations


class LoweringError(Exception):
    """A set of decisions that is no program; the message names the decisions."""


class VerificationError(Exception):
    """A program tree that breaks a rule; the message names the rule and the place."""


def refuse(fault: str | None) -> None:
    """Raises `VerificationError` where there is one."""
    if fault is not None:
        raise VerificationError(fault)
