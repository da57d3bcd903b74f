"""``dpmac statement``: the guarantee of a model with all its details, and what only people know of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from dpmac.checks import ArgumentError
from dpmac.cli import ending
from dpmac.cli.text import flowing


class RunOrInit(typer.core.TyperGroup):
    """``dpmac statement RUN`` is short for ``dpmac statement show RUN``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["show", *args]
        found: list[str] = super().parse_args(ctx, args)
        return found


statement_app = typer.Typer(
    cls=RunOrInit,
    help=flowing(
        """What a model guarantees, in full; and the questions that only people can answer.

        [bold]dpmac statement RUN[/bold] is short for [bold]dpmac statement show RUN[/bold].

        [bold]Examples[/bold]

          dpmac statement runs/first

          dpmac statement init runs/first
        """
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def show(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Print an entry for the registry of deployments instead, as YAML.")
    ] = False,
) -> None:
    """Say what a model guarantees: epsilon at every delta, the neighbour relation, and how it was done.

    It is composed anew from the ledger in the folder. All of it is public.

    With [bold]--registry[/bold] it prints what the registry of deployments of differential privacy asks for
    (opendp/deployments-registry-data), and is held against the registry's rules first. What only people know it takes
    from RUN/answers.toml: see [bold]dpmac statement init[/bold].

    [bold]Examples[/bold]

      dpmac statement show runs/first

      dpmac statement show runs/first --json

      dpmac statement show runs/first --registry > readmissions_2026.yaml
    """
    from dpmac.disclosure.answers import read_answers
    from dpmac.disclosure.registry import as_yaml, registry_entry
    from dpmac.report.curve import privacy_curve
    from dpmac.report.run_contents import contents_of
    from dpmac.saving import open_folder

    found = contents_of(open_folder(run))
    curve = privacy_curve(found.ledger.mechanisms(), found.delta)
    if registry:
        if as_json:
            raise ArgumentError("--registry", True, "it prints YAML: leave --json out")
        entry = registry_entry(read_answers(run), found.statement, found.details, curve)
        typer.echo(as_yaml(entry), nl=False)
        return
    if as_json:
        typer.echo(json.dumps(_plain(found, curve), allow_nan=False))
        return
    typer.echo(str(found.statement))
    typer.echo("In detail:")
    for one in found.details:
        typer.echo(f"  - {one.title}: {one.text}")
    typer.echo("The whole curve, an upper bound at every point (delta: epsilon):")
    for delta, epsilon in curve:
        typer.echo(f"  {_written(delta)}: {_upwards(epsilon)}")


def init(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write RUN/answers.toml, questions that only people can answer: purpose, responsible, retention, licence.

    Open it, fill in what is known and leave the rest empty. Statement and report print what it says of hyper-parameters
    and ranges, a registry entry ([bold]--registry[/bold]) is made of the rest, and a signature covers it.

    [bold]Example[/bold]

      dpmac statement init runs/first
    """
    from dpmac.disclosure.answers import NAME, template
    from dpmac.files import whole_file
    from dpmac.saving import open_folder

    found = open_folder(run)
    path = found.path / NAME
    if (path.exists() or path.is_symlink()) and not force:
        raise ArgumentError("run", str(path), "there is one already: open it, or write over it with --force")
    known: dict[str, Any] = {"name": str(found.manifest["name"] or ""), "publication_date": found.manifest["created"]}
    purposes = {entry.purpose for entry in found.ledger().entries[-1:] if entry.purpose}
    if purposes:
        known["purpose"] = purposes.pop()
    known |= found.declared().to_dict()
    with whole_file(path) as handle:
        handle.write(template(known))
    typer.echo(f"{path}: open it and answer, then  dpmac statement {run}")


def _plain(found: Any, curve: list[tuple[float, float]]) -> dict[str, Any]:
    statement: dict[str, Any] = found.statement.to_dict()
    points = [{"delta": delta, "epsilon": _finite(epsilon)} for delta, epsilon in curve]
    details = {one.key: one.text for one in found.details}
    return statement | {"spent": found.spent.to_dict(), "details": details, "curve": points}


def _finite(epsilon: float) -> float | None:
    if epsilon < float("inf"):
        return epsilon
    return None


def _written(delta: float) -> str:
    from dpmac.privacy.statement import not_less

    return not_less(delta)


def _upwards(epsilon: float) -> str:
    from dpmac.privacy.statement import round_up

    return round_up(epsilon)


for command in (show, init):
    ending.add(statement_app, command.__name__, command)
