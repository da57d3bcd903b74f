"""``dpmac budget``: what a training run costs, or how much noise a budget needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.privacy.plan import Plan


def budget(
    n: Annotated[int, typer.Option("--n", help="Number of training examples.")],
    batch_size: Annotated[float, typer.Option(help="Expected size of a Poisson batch.")],
    epochs: Annotated[float | None, typer.Option(help="Expected passes over the data. Or give --steps.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of training steps, instead of --epochs.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget to meet. Or give --noise-multiplier.")] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise of each step over its sensitivity: asks what that costs.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Chance that the guarantee does not cover; below 1/n.")] = 1e-5,
    also_gaussian: Annotated[
        list[float] | None,
        typer.Option(
            help="Noise multiplier of a one-off release of all rows in the same budget, such as DP-PCA. Repeatable."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Plan a run: the noise that meets a budget, or the epsilon of a given noise.

    Both figures count every step and every [bold]--also-gaussian[/bold] release, for one row, there or blank (the
    number of rows is public). epsilon (PLD) is the one to quote; RDP, the moments accountant, is older and looser.

    [bold]Examples[/bold]

      dpmac budget --n 60000 --batch-size 1000 --epochs 30 --epsilon 2

      dpmac budget --n 60000 --batch-size 1000 --epochs 30 --noise-multiplier 2.8 --also-gaussian 8 --json
    """
    from dpmac.privacy.accounting import Mechanism
    from dpmac.privacy.plan import Plan, steps_for

    if (epsilon is None) == (noise_multiplier is None):
        raise ArgumentError("--epsilon, --noise-multiplier", (epsilon, noise_multiplier), "give one of the two")
    before = tuple(Mechanism(s, label="one-off release") for s in also_gaussian or ())
    if any(m.noise_multiplier <= 0 for m in before):
        raise ArgumentError("--also-gaussian", also_gaussian, "give noise multipliers above 0")
    if epsilon is not None:
        plan = Plan.for_budget(
            epsilon=epsilon, delta=delta, n=n, batch_size=batch_size, steps=steps, epochs=epochs, before=before
        )
    else:
        if noise_multiplier is None or not noise_multiplier > 0:
            raise ArgumentError("--noise-multiplier", noise_multiplier, "give a number above 0")
        plan = Plan(n, batch_size, steps_for(n, batch_size, steps, epochs), noise_multiplier, delta, before)
    answer = budget_of(plan)
    if as_json:
        typer.echo(json.dumps(answer, allow_nan=False))
        return
    _show(answer)


def budget_of(plan: Plan) -> dict[str, float | int]:
    """The JSON keys of the command, all full precision."""
    return {
        "noise_multiplier": plan.noise_multiplier,
        "epsilon_pld": plan.epsilon("pld"),
        "epsilon_rdp": plan.epsilon("rdp"),
        "delta": plan.delta,
        "sample_rate": plan.sample_rate,
        "steps": plan.steps,
    }


def _show(answer: dict[str, float | int]) -> None:
    from rich.console import Console
    from rich.table import Table

    from dpmac.privacy.accounting import UNIT
    from dpmac.privacy.statement import round_up

    table = Table(title="Privacy budget", caption=f"Unit: {UNIT}", show_header=False)
    rows = [
        ("noise multiplier", round_up(answer["noise_multiplier"])),
        ("epsilon (PLD)", f"[bold]{round_up(answer['epsilon_pld'])}[/bold]"),
        ("epsilon (RDP)", round_up(answer["epsilon_rdp"])),
        ("delta", f"{answer['delta']:g}"),
        ("sampling rate q", f"{answer['sample_rate']:.6g}"),
        ("steps", f"{answer['steps']:,}"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)
