"""How much of the releases' noise is in the weights: known, because the noise is.

A W-step turns released gradients into weights. Adam's step of a weight is linear in its gradients, but for a division
by the root of their mean square. That is taken as it was, and never as less than the noise's own: in the first steps it
is the square of a gradient or two, and a step is no larger for that. So noise of deviation 1 on every gradient becomes
noise of a deviation that follows from the learning rates and these roots alone: here it is carried along, step by step,
as the covariance of Adam's first moment, the weight and its moving average. All of it is post-processing.

What is left out is that later gradients pull a weight back that noise has moved, which makes noise smaller as a rule
(the loss is convex in the weights of a linear model). So this is rather too much than too little; it is an estimate and
no bound that is proved (docs/additive.md has it beside the spread of repeated fits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.mac.optimizers import PlainAdam
from dpmac.mac.polynomial import Polynomial
from dpmac.mac.wsteps.averaged import Averaged, AveragedUpdater
from dpmac.mac.wsteps.base import WeightUpdater
from dpmac.mac.wsteps.optimizer import OptimizerUpdater
from dpmac.nets.network import Network

_MOMENTS = 6  # of first moment m, weight w and average a: mm, mw, ww, ma, wa, aa


@dataclass(frozen=True)
class NoiseGain:
    """A moving average of Adam's weights, and beside it the deviation that noise of deviation 1 on every gradient
    makes in the averaged weights: the updater that ``started`` gets knows it."""

    wstep: Averaged
    deviation: float = 0.0  # of the noise on a gradient, as far as it is known before
    started: list[NoiseGainUpdater] = field(default_factory=list, repr=False, compare=False)

    def start(self, network: Network, steps: int) -> NoiseGainUpdater:
        made = NoiseGainUpdater(self.wstep.start(network, steps), self.deviation)
        self.started[:] = [made]
        return made


class NoiseGainUpdater(WeightUpdater):
    """A :class:`NoiseGain` at work."""

    def __init__(self, averaged: AveragedUpdater, deviation: float) -> None:
        inner = averaged._inner
        if not isinstance(inner, OptimizerUpdater) or not isinstance(inner.optimizer, PlainAdam):
            raise ArgumentError("wstep", type(inner).__name__, "noise is followed through Adam, one step a release")
        self._averaged, self._adam = averaged, inner.optimizer
        self._least = deviation**2
        self._sizes = [parameter.numel() for parameter in averaged.model.parameters()]
        self._shapes = [parameter.shape for parameter in averaged.model.parameters()]
        self._spread = np.zeros((_MOMENTS, sum(self._sizes)))  # so few numbers that torch's calls would cost more

    @property
    def lr(self) -> float:
        return self._averaged.lr

    @property
    def model(self) -> Network:
        return self._averaged.model

    @torch.no_grad()
    def apply(self, polynomials: Sequence[Polynomial]) -> None:
        group = self._adam.param_groups[0]
        rate, (first, second) = group["lr"], group["betas"]
        self._averaged.apply(polynomials)
        kept, states = self._averaged.last_decay, [self._adam._state[place] for place in range(len(self._sizes))]
        done = float(states[0]["step"])
        squares = np.concatenate([state["exp_avg_sq"].reshape(-1).cpu().numpy() for state in states], dtype=np.float64)
        roots = np.sqrt(np.maximum(squares / (1 - second**done), self._least)) + group["eps"]
        step = rate / (1 - first**done) / roots
        mm, mw, ww, ma, wa, aa = self._spread
        mm = first**2 * mm + (1 - first) ** 2
        mw = first * mw  # of the new moment and the old weight
        ww = ww - 2 * step * mw + step**2 * mm
        wa = wa - step * first * ma  # of the new weight and the old average
        ma = kept * first * ma + (1 - kept) * (mw - step * mm)
        mw = mw - step * mm
        aa = kept**2 * aa + 2 * kept * (1 - kept) * wa + (1 - kept) ** 2 * ww
        wa = kept * wa + (1 - kept) * ww
        self._spread = np.stack([mm, mw, ww, ma, wa, aa])

    def deviations(self) -> list[Tensor]:
        """What noise of deviation 1 on every gradient has made in the average so far, one tensor for each parameter."""
        parts = torch.split(torch.from_numpy(np.sqrt(self._spread[-1].clip(0.0, None))), self._sizes)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def state(self) -> dict[str, Any]:
        return {"averaged": self._averaged.state(), "spread": torch.from_numpy(self._spread.copy())}

    def restore(self, state: dict[str, Any]) -> None:
        self._averaged.restore(state["averaged"])
        self._spread = state["spread"].numpy().copy()

    def skip(self, steps: int) -> None:
        self._averaged.skip(steps)
