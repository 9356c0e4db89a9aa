"""Where words go: data to stdout, everything else to stderr, and how much of it.

In: text and values that are ready to show. It keeps the user's wish for quiet or detail, and decides
nothing else.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spacedsl.cli.faults import CommandError, Fault

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


class Verbosity(enum.IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Console:
    """Both streams of one command."""

    def __init__(self, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self.verbosity = verbosity
        self._err: RichConsole | None = None

    @classmethod
    def of(cls, *, verbose: bool, quiet: bool) -> Console:
        """The console for the flags `-v` and `-q`; the two together are an error."""
        if verbose and quiet:
            raise CommandError("-v and -q exclude each other")
        return cls(Verbosity.VERBOSE if verbose else Verbosity.QUIET if quiet else Verbosity.NORMAL)

    @property
    def err(self) -> RichConsole:
        """Stderr with colours where it is a terminal (or `FORCE_COLOR`), and none under `NO_COLOR`."""
        if self._err is None:
            from rich.console import Console as RichConsole

            class Stderr(RichConsole):
                def on_broken_pipe(self) -> None:
                    """How a command ends is not for a library to say."""
                    raise BrokenPipeError

            self._err = Stderr(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        return self._err

    @property
    def is_interactive(self) -> bool:
        """Whether stderr is a terminal that a live view can be drawn on."""
        return sys.stderr.isatty() and not self.err.is_dumb_terminal

    def data(self, text: str) -> None:
        """Text for stdout, as it is."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def document(self, value: Mapping[str, object]) -> None:
        """One JSON document for stdout."""
        self.data(json.dumps(value, indent=2, allow_nan=False))

    def say(self, text: str, style: str | None = None) -> None:
        """A line for a person, unless `-q`."""
        if self.verbosity >= Verbosity.NORMAL:
            self.err.print(text, style=style, markup=False)

    def warn(self, text: str) -> None:
        """What stops nothing and should be known, unless `-q`."""
        self.say(f"warning: {text}", style="yellow")

    def detail(self, text: str) -> None:
        """A line for a person who asked for more with `-v`."""
        if self.verbosity >= Verbosity.VERBOSE:
            self.err.print(text, style="dim", markup=False)

    def fault(self, fault: Fault) -> None:
        """What stopped the command."""
        from rich.text import Text

        head = () if fault.is_rendered else (("error: ", "bold red"),)
        self.err.print(Text.assemble(*head, fault.message))
        if fault.hint is not None:
            self.err.print(f"  {fault.hint}", markup=False)
