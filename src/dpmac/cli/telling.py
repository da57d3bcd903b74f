"""What ``dpmac train`` and ``dpmac resume`` say of a training: before it, and when it is done."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job
    from dpmac.cli.training import Trained


def introduce(job: Job, shared: bool, table: Any) -> None:
    """What is going to be trained on ``table``, and where the ledger stands."""
    from dpmac.cli.accounts import standing
    from dpmac.cli.training import delta_of
    from dpmac.privacy import Ledger

    typer.echo(_introduced(job, table))
    if shared:
        path = Path(job.ledger)
        typer.echo(f"ledger {path.name}: {standing(Ledger.at(path, job.data_set, new=True), delta_of(job))}")
    else:
        typer.echo("no --ledger was given: the run keeps its own, which knows of nothing else from these rows")


def _introduced(job: Job, table: Any) -> str:
    if job.pictures is not None:
        from dpmac.cli.pictures import introduced

        return introduced(job, table)
    kind = {"classification": "a classifier", "regression": "a regressor"}.get(str(job.schema.get("task")))
    target = ""
    if kind:
        target = f" of {job.schema['target']}"
    return f"training {kind or 'an autoencoder'}{target} on {job.rows:,} {job.unit}, epsilon {job.epsilon:g}"


def tell(job: Job, done: Trained, seconds: float, *, as_json: bool) -> None:
    """What was made: for people on standard output, or for a script as JSON."""
    from dpmac.cli.accounts import standing

    privacy = done.estimator.privacy_
    epsilon, scores = privacy.epsilon, (done.evaluation or {}).get("scores")
    if Path(job.ledger).exists():
        ledger = Path(job.ledger)
    else:
        ledger = done.folder / "ledger.jsonl"
    finite = None  # JSON has no infinity
    if epsilon < float("inf"):
        finite = epsilon
    if as_json:
        answer = {
            "run": str(done.folder),
            "estimator": type(done.estimator).__name__,
            job.unit: job.rows,
            "epsilon": finite,
            "delta": privacy.delta,
            "seeded": privacy.ledger.seeded,
            "ledger": str(ledger),
            "releases": len(privacy.ledger),
            "seconds": round(seconds, 3),
            "scores": scores,
        }
        typer.echo(json.dumps(answer, allow_nan=False))
        return
    typer.echo(f"done in {seconds:.1f} s: {done.folder}")
    typer.echo(str(privacy.statement()).split("\nUnit of privacy")[0])
    if job.before:
        typer.echo(
            f"this counts everything that the ledger {ledger} holds; the budget of this model was {job.epsilon:g}"
        )
    if privacy.ledger.account is not None:
        typer.echo(f"ledger {ledger.name}: {standing(privacy.ledger, privacy.delta)}")
    for key, value in (scores or {}).items():
        typer.echo(f"{key.replace('_', ' ')} on the public rows: {value:.4f}")
    typer.echo(f"\nnext:  dpmac report {done.folder}\n       dpmac predict {done.folder} FILE --out predictions.csv")
    if epsilon == float("inf"):
        sys.stderr.write("dpmac: this model is not private\n")
