"""`lsp`: the language server, which an editor starts."""

from __future__ import annotations

import os

from spacedsl.cli.faults import CommandError, ExitCode


def lsp() -> ExitCode:
    """Serve an editor on stdin and stdout, as the language server of `.space` files."""
    try:
        from spacedsl.lsp.server import make_server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise CommandError(
            f"the package {error.name} is not installed",
            ExitCode.ENVIRONMENT,
            "`pip install 'spacedsl[lsp]'` installs what the language server needs",
        ) from None
    # The server closes its streams at the end; those of this process stay open.
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        make_server().start_io(requests, answers)
    return ExitCode.OK
