"""``dpmac reproduce``: runs the package ``reproduction`` of a clone, which is not a part of the installed one."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import typer

import dpmac

FORWARDED = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""The command's ``context_settings``: every argument is handed on, ``--help`` too."""


def reproduce(context: typer.Context) -> None:
    """Run the paper's tables and figures again; arguments as of [bold]python -m reproduction[/bold], in a clone."""
    root = Path(dpmac.__file__).resolve().parents[2]
    if (root / "reproduction" / "command.py").is_file():  # run from a clone
        sys.path.insert(0, str(root))
    try:
        command = import_module("reproduction.command")
    except ModuleNotFoundError as error:
        if error.name not in ("reproduction", "reproduction.command"):
            raise
        sys.stderr.write(
            "dpmac: reproduce needs the folder reproduction/ of dpmac's source repository, which is not installed: "
            "clone the repository and give this command in it\n"
        )
        raise typer.Exit(2) from None
    command.main(context.args, "dpmac reproduce")
