"""How a command ends: one clear line and a code that a script can read, never a traceback.

0: what was asked is done. 1: it failed: a damaged or edited file, not enough budget left, a full disk. 2: the
arguments are wrong, or a file does not fit them; nothing was spent. 130: interrupted.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer

from dpmac.cli.text import flowing

CODES = (
    "Exit codes: 0 done; 1 what was asked failed (a damaged or edited file, not enough budget left, a full disk); "
    "2 wrong arguments, or a file that does not fit them: nothing was spent; 130 interrupted."
)
NOTHING_SPENT = 2  # the exit code that says so
TRACEBACK = "DPMAC_TRACEBACK"  # in the environment: show where an error came from
_BY_THE_LEDGER = ("total_epsilon",)  # arguments that are right by themselves, and fail by what a ledger holds
Command = TypeVar("Command", bound=Callable[..., Any])


class Failed(Exception):  # noqa: N818 - not an error of the code
    """What was asked failed, in one line; ``code`` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Told(SystemExit):
    """The end of a command whose error has been printed already."""


def told(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the message of an error that a user can act on; None for any other."""
    from dpmac.checks import ArgumentError

    if isinstance(error, Failed):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted"
    if isinstance(error, ArgumentError):
        code = NOTHING_SPENT
        if error.name in _BY_THE_LEDGER:
            code = 1
        return code, str(error)
    if isinstance(error, OSError) and error.strerror:
        where = ""
        if error.filename is not None:
            where = f"{error.filename}: "
        return 1, f"{where}{error.strerror}"
    if isinstance(error, ValueError | OSError | RuntimeError):
        return 1, str(error)
    return None


def end(error: BaseException) -> NoReturn:
    """Exit with the message and the code of an error; raise it if it is not one that a user can act on."""
    known = told(error)
    if known is None or (os.environ.get(TRACEBACK) and not isinstance(error, KeyboardInterrupt)):
        raise error
    sys.stderr.write(f"dpmac: {known[1]}\n")
    raise Told(known[0])


def clear(command: Command) -> Command:
    """``command``, with its errors reported in one line each."""

    @functools.wraps(command)
    def told_in_one_line(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, BrokenPipeError) or type(error).__module__.split(".")[0] in ("typer", "click"):
                raise  # typer ends these itself: a reader that went away, typer.Exit, wrong usage
            end(error)

    return told_in_one_line  # type: ignore[return-value]


@contextmanager
def notes() -> Iterator[None]:
    """Warnings inside are one line each, without the place in the code that they come from."""

    def written(message: Warning | str, *_: Any, **__: Any) -> None:
        sys.stderr.write(f"dpmac: {message}\n")

    with warnings.catch_warnings():
        warnings.showwarning = written
        yield


def add(app: typer.Typer, name: str, command: Callable[..., Any]) -> None:
    """Put a command into ``app``, its docstring as help."""
    app.command(name, help=flowing(command.__doc__))(clear(command))
