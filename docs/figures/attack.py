"""The best membership attack that a guarantee allows: hits against false alarms, for default runs of 8,000 rows."""

from __future__ import annotations

import functools

import numpy as np
from matplotlib.figure import Figure

from dpmac import Plan
from dpmac.report.attack import Attack, attack_on
from figures import COLOURS

SIZE = (9.2, 4.3)
EPSILONS, DELTA, N, BATCH, STEPS = (0.5, 1.0, 2.0, 4.0, 8.0), 1e-5, 8000, 800, 1000
FALSE = [*np.logspace(-4, -1.3, 60).tolist(), *np.linspace(0.051, 1, 120).tolist()]
PAIR = [Attack(((2.0, DELTA),)).true_positives(part) for part in FALSE]


@functools.cache
def found(epsilon: float) -> list[float]:
    """By every pair (epsilon, delta) that the whole run keeps at once, as in a report."""
    plan = Plan.for_budget(
        epsilon=epsilon, delta=DELTA, n=N, batch_size=BATCH, steps=STEPS
    )
    attack = attack_on(plan.mechanisms(), DELTA)
    assert attack is not None
    return [attack.true_positives(part) for part in FALSE]


def draw(figure: Figure, ink: str) -> None:
    for axes, scale in zip(figure.subplots(1, 2), ("linear", "log"), strict=True):
        for epsilon, colour in zip(EPSILONS, COLOURS, strict=True):
            axes.plot(
                FALSE,
                found(epsilon),
                color=colour,
                lw=2,
                label=f"epsilon = {epsilon:g}",
            )
        axes.plot(
            FALSE,
            PAIR,
            color=COLOURS[2],
            lw=1.2,
            ls="--",
            label="by (2, 1e-5) alone",
        )
        axes.plot(FALSE, FALSE, color=ink, lw=1, ls=":", label="guessing")
        low = 0 if scale == "linear" else 1e-4
        axes.set(
            xscale=scale,
            yscale=scale,
            xlim=(low or 0, 1),
            ylim=(low, 1.01),
            xlabel="false alarms",
        )
    left = figure.axes[0]
    left.set_ylabel("members found, at most")
    left.legend(loc="lower right", fontsize=9.5)
