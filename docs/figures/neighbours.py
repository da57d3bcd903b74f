"""Two neighbouring tables, one private count, three thousand releases of each: the answers overlap.

The releases are dpmac's own. Seeded, so that the picture is the same in every build; no private row is near.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from dpmac import Ledger
from dpmac.planning.calibration import calibrate
from dpmac.privacy import (
    DensePart,
    JointClip,
    Mechanism,
    Part,
    Partition,
    PrivateRows,
    Query,
    release,
)
from dpmac.randomness import SeededNoise
from figures import COLOURS

SIZE = (9.2, 3.9)
N, ILL, EPSILON, DELTA, RELEASES = 100, 37, 1.0, 1e-5, 3000
BOUND = JointClip(1.0)


def sigma() -> float:
    """The noise of one count, at this budget."""
    return calibrate(lambda s: [Mechanism(s)], EPSILON, DELTA)


def counts(table: PrivateRows, seed: int) -> np.ndarray:
    """Many releases of "how many are ill", each of which would cost the whole budget."""
    partition = Partition("ill", (1,))
    query = Query("count", BOUND.promise([partition]), _parts)
    source, noise = SeededNoise(seed), sigma()
    answers = [
        release(
            table.everything(),
            query,
            noise_multiplier=noise,
            source=source,
            ledger=Ledger(),
        )
        for _ in range(RELEASES)
    ]
    return np.array([float(answer["ill"][0]) for answer in answers])


def _parts(rows: torch.Tensor) -> list[Part]:
    return BOUND.apply([DensePart(rows)])


_kept: dict[str, np.ndarray] = {}


def _both() -> tuple[np.ndarray, np.ndarray]:
    if not _kept:  # light and dark show the same releases
        people = PrivateRows((torch.arange(N) < ILL).float().unsqueeze(1))
        _kept["with"], _kept["without"] = (
            counts(people, 1),
            counts(people.without(0), 2),
        )
    return _kept["with"], _kept["without"]


def draw(figure: Figure, ink: str) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    noise, grid = sigma(), np.linspace(ILL - 15.5, ILL + 14.5, 400)
    bins = np.arange(ILL - 16, ILL + 16)
    for values, middle, colour, label in zip(
        _both(), (ILL, ILL - 1), COLOURS, ("with the patient", "without"), strict=False
    ):
        left.hist(values, bins, density=True, color=colour, alpha=0.35, label=label)
        left.plot(grid, _bell(grid, middle, noise), color=colour, lw=2)
    left.set(
        xlabel="released: how many of the patients are ill",
        ylabel="how often",
        yticks=[],
    )
    left.legend(loc="upper left")
    loss = (grid - (ILL - 0.5)) / noise**2
    right.plot(grid, loss, color=ink, lw=2)
    for side in (-EPSILON, EPSILON):
        right.axhline(side, color=COLOURS[2], ls="--", lw=1.2)
    right.text(grid[0], EPSILON + 0.07, "+ epsilon", color=COLOURS[2])
    right.text(grid[-1], -EPSILON - 0.2, "- epsilon", color=COLOURS[2], ha="right")
    right.set(
        xlabel="released", ylabel="evidence: log of the ratio of both", ylim=(-1.6, 1.6)
    )


def _bell(x: np.ndarray, middle: float, deviation: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - middle) / deviation) ** 2) / (
        deviation * math.sqrt(2 * math.pi)
    )
