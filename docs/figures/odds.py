"""What a guess about one patient can become, before and after the model is seen."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from figures import COLOURS

SIZE = (7.6, 4.2)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def draw(figure: Figure, ink: str) -> None:
    axes = figure.subplots()
    before = np.linspace(0, 1, 401)
    for epsilon, colour in zip(EPSILONS, COLOURS, strict=True):
        most = math.exp(epsilon) * before / (1 - before + math.exp(epsilon) * before)
        axes.plot(before, most, color=colour, lw=2, label=f"epsilon = {epsilon:g}")
    axes.plot(before, before, color=ink, lw=1, ls=":", label="nothing learned")
    axes.set(
        xlabel="what an attacker believed before (chance that the patient is in the table)",
        ylabel="at most, after",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )
    axes.legend(loc="lower right")
