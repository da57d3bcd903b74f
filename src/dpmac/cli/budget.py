"""``dpmac budget``: what a training run costs, how much noise a budget needs, and what an estimator would do."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.checks import ArgumentError

if TYPE_CHECKING:
    from dpmac.cli.defaults_preview import DefaultsPreview
    from dpmac.planning.plan import Plan
    from dpmac.privacy import Mechanism

DEFAULT_EPSILON = 2.0  # an estimator's
DEFAULT_DELTA = 1e-5  # of a run whose batch size was given


def budget(
    n: Annotated[int, typer.Option("--n", help="Number of training examples.")],
    batch_size: Annotated[
        float | None,
        typer.Option(help="Expected size of a Poisson batch. Left out: all that an estimator would do by itself."),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Expected passes over the data. Or give --steps.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of training steps, instead of --epochs.")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Budget to meet; 2 if an estimator is planned. Or give --noise-multiplier."),
    ] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise of each step over its sensitivity: asks what that costs.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Chance that the guarantee does not cover; below 1/n. Left out: an estimator's own, or 1e-5 with "
            "--batch-size."
        ),
    ] = None,
    regression: Annotated[
        bool, typer.Option("--regression/--classification", help="Which estimator to plan, without --batch-size.")
    ] = False,
    also_gaussian: Annotated[
        list[float] | None,
        typer.Option(
            help="Noise multiplier of a one-off release of all rows in the same budget, such as DP-PCA. Repeatable."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Plan a run: the noise that meets a budget, or the epsilon of a given noise.

    With [bold]--n[/bold] alone: all that an estimator would do with so many rows if it were told nothing else, by the
    rule of dpmac.training.defaults, and its noise. A classifier spends a part of the budget on recalibrating its
    probabilities, a regressor on measuring its residuals; it is counted.

    With [bold]--batch-size[/bold]: a training run of your own, and nothing else.

    All figures count every step and every [bold]--also-gaussian[/bold] release, for one row, there or blank (the
    number of rows is public). epsilon (PLD) is the one to quote; RDP, the moments accountant, is older and looser.

    [bold]Examples[/bold]

      dpmac budget --n 8000

      dpmac budget --n 50000 --epsilon 0.5 --regression

      dpmac budget --n 60000 --batch-size 1000 --epochs 30 --epsilon 2

      dpmac budget --n 60000 --batch-size 1000 --epochs 30 --noise-multiplier 2.8 --also-gaussian 8 --json
    """
    from dpmac.privacy.accounting import Mechanism

    if epsilon is not None and math.isinf(epsilon):
        raise ArgumentError("--epsilon", epsilon, "give a number above 0: without a budget there is nothing to plan")
    before = tuple(Mechanism(s, label="one-off release") for s in also_gaussian or ())
    if any(m.noise_multiplier <= 0 for m in before):
        raise ArgumentError("--also-gaussian", also_gaussian, "give noise multipliers above 0")
    if batch_size is None:
        if noise_multiplier is not None:
            fix = "give --batch-size too; an estimator takes a budget, --epsilon"
            raise ArgumentError("--noise-multiplier", noise_multiplier, fix)
        preview, plan = _default_plan(n, epsilon, delta, regression, (steps, epochs), before)
        answer = {**budget_of(plan), **_more(preview, plan)}
    else:
        if delta is None:
            delta = DEFAULT_DELTA
        preview, plan = None, _own_plan(n, batch_size, (steps, epochs), epsilon, noise_multiplier, delta, before)
        answer = budget_of(plan)
    if as_json:
        typer.echo(json.dumps(answer, allow_nan=False, default=str))
        return
    _show(answer, preview)


def _default_plan(
    n: int,
    epsilon: float | None,
    delta: float | None,
    regression: bool,
    length: tuple[int | None, float | None],
    before: tuple[Mechanism, ...],
) -> tuple[DefaultsPreview, Plan]:
    """What an estimator would do, and its plan; ``length`` (steps, epochs) is its own if neither is given."""
    from dpmac.checks import number
    from dpmac.cli.defaults_preview import preview_defaults
    from dpmac.planning.plan import Plan

    if epsilon is None:
        epsilon = DEFAULT_EPSILON
    number("epsilon", epsilon, "give a number above 0 (0.5 to 8 is usual)", low=5e-324)
    preview = preview_defaults(n, epsilon=epsilon, delta=delta, regression=regression)
    steps, epochs = length
    if steps is None and epochs is None:
        steps = preview.schedule.steps
    if preview.after is not None:
        before = (*before, preview.after)
    plan = Plan.for_budget(
        epsilon=epsilon,
        delta=preview.delta,
        n=n,
        batch_size=preview.schedule.batch_size,
        steps=steps,
        epochs=epochs,
        before=before,
    )
    return preview, plan


def _own_plan(
    n: int,
    batch_size: float,
    length: tuple[int | None, float | None],
    epsilon: float | None,
    noise_multiplier: float | None,
    delta: float,
    before: tuple[Mechanism, ...],
) -> Plan:
    """A training run by itself: the plan that meets a budget, or has the noise that was given."""
    from dpmac.planning.plan import Plan, steps_for

    if (epsilon is None) == (noise_multiplier is None):
        raise ArgumentError("--epsilon, --noise-multiplier", (epsilon, noise_multiplier), "give one of the two")
    steps, epochs = length
    if epsilon is not None:
        return Plan.for_budget(
            epsilon=epsilon, delta=delta, n=n, batch_size=batch_size, steps=steps, epochs=epochs, before=before
        )
    if noise_multiplier is None or not noise_multiplier > 0:
        raise ArgumentError("--noise-multiplier", noise_multiplier, "give a number above 0")
    return Plan(n, batch_size, steps_for(n, batch_size, steps, epochs), noise_multiplier, delta, before)


def budget_of(plan: Plan) -> dict[str, Any]:
    """The JSON keys of the command, all full precision."""
    return {
        "noise_multiplier": plan.noise_multiplier,
        "epsilon_pld": plan.epsilon("pld"),
        "epsilon_rdp": plan.epsilon("rdp"),
        "delta": plan.delta,
        "sample_rate": plan.sample_rate,
        "steps": plan.steps,
    }


def _more(preview: DefaultsPreview, plan: Plan) -> dict[str, Any]:
    """The JSON keys that an estimator's plan has beside those."""
    after = None
    if preview.after is not None:
        after = {"label": preview.after.label, "share": preview.share}
    return {
        "batch_size": plan.batch_size,
        "estimator": preview.estimator,
        "defaults": preview.settings(plan),
        "after": after,
    }


def _show(answer: dict[str, Any], preview: DefaultsPreview | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from dpmac.privacy.accounting import UNIT
    from dpmac.privacy.statement import not_less, round_up

    title = "Privacy budget"
    if preview is not None:
        title = f"What {preview.estimator} would do"
    table = Table(title=title, caption=f"Unit: {UNIT}", show_header=False)
    rows = [
        ("noise multiplier", round_up(answer["noise_multiplier"])),
        ("epsilon (PLD)", f"[bold]{round_up(answer['epsilon_pld'])}[/bold]"),
        ("epsilon (RDP)", round_up(answer["epsilon_rdp"])),
        ("delta", not_less(answer["delta"])),
        ("sampling rate q", f"{answer['sample_rate']:.6g}"),
        ("steps", f"{answer['steps']:,}"),
    ]
    if preview is not None:
        rows.append(("batch size, expected", f"{answer['batch_size']:,.0f}"))
        rows += _settings(answer["defaults"])
        rows.append(("after training", _after(preview)))
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)


def _after(preview: DefaultsPreview) -> str:
    if preview.after is None:
        return "nothing: too few rows for a residual's scale"
    return f"{preview.after.label}, {preview.share:.0%} of the budget"


def _settings(defaults: dict[str, Any]) -> list[tuple[str, str]]:
    """The rule's answer for people: what it leaves out is not shown, but for units and whitening."""
    shown = {name.replace("_", " "): _text(value) for name, value in defaults.items()}
    if defaults.get("hidden") == ():
        shown["hidden"] = "none: a linear model"
    elif defaults.get("wide"):
        shown["hidden"] += ", beside a linear model"
    if defaults.get("bins") is not None:
        shown["bins"] = f"{defaults['bins']} pieces of a number's range"
    if defaults.get("whitening") is None:
        shown["whitening"] = "none"
    else:
        shown["whitening"] = f"by drawn rows, power {shown['whitening']}"
    shown.pop("wide", None)
    if not defaults.get("penalty"):
        shown.pop("penalty", None)
    return list(shown.items())


def _text(value: Any) -> str:
    """Any setting for people."""
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
