"""Runs the command line in this process, as a user would call it."""

from __future__ import annotations

from dataclasses import dataclass

from typer.testing import CliRunner

from spacedsl.cli.app import app


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


def run(*arguments: object) -> Ran:
    """The exit code and both streams of `spacedsl ARGUMENTS`; an exception that escapes fails the test."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return Ran(result.exit_code, result.stdout, result.stderr)
