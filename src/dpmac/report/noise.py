"""What the noise of a training has put into the weights: copies of a model that differ from it by as much.

The noise's law is public, and so is what the optimiser does with it. So the same steps are run on noise alone, with
made-up draws: what becomes of the weights is how far those of the model are from where they would have gone without
noise. Adam divides by the size of what it gets, so in each layer that is multiplied by the noise's share of what was
released. All of it is post-processing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dpmac.disclosure.settings import chosen_defaults
from dpmac.mac.optimizers import BETAS, EPSILON
from dpmac.mac.wsteps.base import cosine
from dpmac.planning.plan import Plan
from dpmac.privacy import Ledger
from dpmac.randomness import SeededNoise
from dpmac.report.spending import signals_of
from dpmac.training.run import Record

COPIES = 8
MOST = 400_000_000  # numbers that are drawn at most
SEED = 1910_06925


def noisy_copies(estimator: Any, plan: Plan | None, ledger: Ledger, history: Sequence[Record]) -> list[Any]:
    """Shallow copies of a fitted estimator whose networks differ from its own by the noise alone; none where the
    training was not that of the default optimiser, or the copies would take too long."""
    layers, rule = signals_of(estimator, plan, ledger, history), chosen_defaults(estimator, plan)
    if plan is None or rule is None or not layers or not any(layers[0].noise):
        return []
    numbers = sum(layer.numbers for layer in layers)
    if numbers * plan.steps * COPIES > MOST or not hasattr(estimator, "run_"):
        return []
    rate = estimator.learning_rate or rule.learning_rate
    shares = [_share(layer.noise, layer.released) for layer in layers]
    if getattr(estimator, "calibration_", None):
        shares[-1] *= float(estimator.calibration_[0])  # written into the last layer
    source, found = SeededNoise(SEED, "/copies"), []
    for place in range(COPIES):
        draw, other = source.spawn(f"{place}"), copy.copy(estimator)
        network = copy.deepcopy(estimator.network_)
        moved = walk_of_noise(draw, numbers, plan.steps, rate, rule.average)
        start = 0
        for layer, share in zip(network.weight_layers, shares, strict=True):
            matrix = layer.matrix()
            part = moved[start : start + matrix.numel()].reshape(matrix.shape)
            layer.write(matrix + share * part.to(matrix))
            start += matrix.numel()
        other.network_ = network
        other.run_ = copy.copy(estimator.run_)
        object.__setattr__(other.run_, "model", network)
        found.append(other)
    return found


def walk_of_noise(draw: SeededNoise, numbers: int, steps: int, rate: float, average: float) -> Tensor:
    """Where Adam gets on independent normal slopes, from 0: the moving average of its way, float32 (``numbers``,)."""
    at, kept = torch.zeros(numbers), torch.zeros(numbers)
    first, second = torch.zeros(numbers), torch.zeros(numbers)
    for step in range(1, steps + 1):
        slope = draw.normal((numbers,)).float()
        first.lerp_(slope, 1 - BETAS[0])
        second.lerp_(slope.square(), 1 - BETAS[1])
        length = rate * cosine((step - 1) / steps) / (1 - BETAS[0] ** step)
        at -= length * first / ((second / (1 - BETAS[1] ** step)).sqrt() + EPSILON)
        decay = min(average, step / (10.0 + step))
        kept.lerp_(at, 1 - decay)
    return kept


def _share(noise: Sequence[float], released: Sequence[float]) -> float:
    """The noise's part in the length of what was released."""
    whole = math.fsum(r**2 for r in released)
    if not whole > 0:
        return 1.0
    return min(1.0, math.sqrt(math.fsum(n**2 for n in noise) / whole))
