"""The command ``dpmac``. It imports nothing, so that an interruption is reported in one line from the start."""

from __future__ import annotations

import sys
from typing import Any

INTERRUPTED = 130


def __getattr__(name: str) -> Any:
    if name == "app":
        from dpmac.cli.commands import app

        return app
    raise AttributeError(f"module 'dpmac.cli' has no attribute {name!r}")


def main() -> None:
    """Entry point: an error ends with one clear line and the exit code that :mod:`dpmac.cli.ending` says."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a letter that a terminal has not ends no command
    try:
        from dpmac.cli.ending import notes

        with notes():
            sys.modules[__name__].app()
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, KeyboardInterrupt) or (type(error) is SystemExit and error.code == INTERRUPTED):
            sys.stderr.write("dpmac: interrupted\n")  # typer ends without a word
            sys.exit(INTERRUPTED)
        raise
    except Exception as error:
        from dpmac.cli.ending import end

        end(error)
