"""``dpmac inspect``: what a run folder is, without trusting it: every file is checked first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dpmac.saving import RunFolder

NAMED = 100  # columns


def inspect(
    run: Annotated[Path, typer.Argument(help="The folder of a model.", metavar="RUN")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show what a model is, what it guarantees, and what is in its folder.

    Every file is checked against the manifest; if one was cut, edited or exchanged, the command names it and ends with
    code 1. For an unfinished training it shows what was spent, and how to continue.

    [bold]Examples[/bold]

      dpmac inspect runs/first

      dpmac inspect runs/first --json
    """
    from dpmac.cli.jobs import JOB
    from dpmac.saving import open_folder

    if (run / JOB).exists() and not (run / "dpmac.json").exists():
        answer = _unfinished(run)
    else:
        answer = _finished(open_folder(run))
    if as_json:
        typer.echo(json.dumps(answer, allow_nan=False))
    else:
        _show(run, answer)


def _finished(found: RunFolder) -> dict[str, Any]:
    from dpmac.privacy.sampling import ROW

    manifest, statement, schema, plan = found.manifest, found.statement(), found.schema(), found.plan()
    evaluation, ledger = found.evaluation() or {}, found.ledger()
    counted, declared = "persons", found.declared()
    if ledger.unit == ROW:
        counted = "rows"
    n = steps = None
    if plan is not None:  # a fit in closed form has none
        n, steps = plan.n, plan.steps
    target, columns = None, []
    if schema is not None:
        target, columns = schema.target, list(schema.features)
    module = None
    if found.of_module:  # its code is not in the folder, and nothing here needs it
        module = found.module_name
    return {
        "finished": True,
        "name": manifest["name"],
        "estimator": manifest["estimator"],
        "module": module,
        "created": manifest["created"],
        "dpmac": manifest["dpmac"],
        "private": statement["private"],
        "epsilon": statement["epsilon"],
        "delta": statement["delta"],
        "seeded": statement["seeded"],
        "unit": statement["unit"],
        counted: n,
        "steps": steps,
        "target": target,
        "columns": columns,
        "releases": len(ledger),
        "searched": declared.searched,
        "ranges_from": declared.ranges_from,
        "scores": evaluation.get("scores"),
        "files": {path.name: path.stat().st_size for path in sorted(found.path.iterdir()) if path.is_file()},
    }


def _unfinished(run: Path) -> dict[str, Any]:
    from dpmac.cli.jobs import Job
    from dpmac.cli.training import delta_of
    from dpmac.privacy import Ledger

    job = Job.load(run)
    if Path(job.ledger).exists():
        ledger = Ledger.read(job.ledger)
    else:
        ledger = Ledger()
    return {
        "finished": False,
        "name": job.name,
        "target": job.schema.get("target"),
        job.unit: job.rows,
        "budget": job.epsilon,
        "delta": delta_of(job),
        "releases": len(ledger) - job.before,
        "spent": ledger.epsilon(delta_of(job)),
        "ledger": job.ledger,
        "next": f"dpmac resume {run}",
    }


def _show(run: Path, answer: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=str(run), show_header=False)
    for name, value in answer.items():
        if value is None or name == "files":
            continue
        table.add_row(name.replace("_", " "), Text(_words(name, value)))
    Console().print(table)
    for name, size in answer.get("files", {}).items():
        typer.echo(f"  {name}  {size:,} bytes")


def _score(score: Any) -> str:
    """A number with four decimals; anything else, which somebody has written there by hand, as it is."""
    if isinstance(score, int | float):
        return f"{score:.4f}"
    return str(score)


def _words(name: str, value: Any) -> str:
    from dpmac.disclosure.spent import said

    if name in ("epsilon", "spent"):
        return said(value)
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    if isinstance(value, dict):
        return "\n".join(f"{key.replace('_', ' ')} {_score(score)}" for key, score in value.items())
    if isinstance(value, list):
        more = ""
        if len(value) > NAMED:
            more = f", and {len(value) - NAMED:,} more (--json has all)"
        return ", ".join(map(str, value[:NAMED])) + more
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
