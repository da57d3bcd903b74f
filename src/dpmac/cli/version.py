"""``dpmac version``."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the versions that a result depends on.

    [bold]Example[/bold]

      dpmac version
    """
    import platform
    from importlib.metadata import version as installed

    from dpmac import __version__
    from dpmac.disclosure.code import code_digest

    typer.echo(f"dpmac {__version__}")
    for name in ("torch", "dp-accounting", "scikit-learn", "numpy"):
        typer.echo(f"{name} {installed(name)}")
    typer.echo(f"python {platform.python_version()}")
    typer.echo(f"sources sha256 {code_digest()}")
