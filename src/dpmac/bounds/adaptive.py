"""A bound whose thresholds are learned privately during training: every look at the data is paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpmac.bounds.allocation import per_layer, promised
from dpmac.bounds.clipping import PerLayerClip, clip_factors
from dpmac.checks import ArgumentError, number
from dpmac.kernels.dense import DensePart
from dpmac.privacy.partition import Partition
from dpmac.privacy.parts import SLACK, Part

WITHIN = " within"  # suffix of the name of the partition that counts examples within the threshold


@dataclass(frozen=True)
class AdaptiveQuantile:
    """Per-partition clipping whose thresholds follow a quantile of the norms, learned during training.

    Each release also contains, for each partition, the centred count of examples within the threshold (each example
    adds +1/2 or -1/2). A ``share`` of the release's privacy goes to the K counts and the rest to the K sums, so that
    the whole still keeps the promise: scale_count = sqrt(K / share) / 2 and scale_i = Theta_i sqrt(K / (1 - share)). In
    terms of noise this is sigma_sum = (sigma^-2 - K (2 sigma_count)^-2)^(-1/2). Then Theta <- Theta exp(-rate (p -
    quantile)), where p is the noisy fraction of examples within it. This is post-processing.
    """

    threshold: float | tuple[float, ...] = 1.0
    quantile: float = 0.5
    rate: float = 0.2
    share: float = 0.05

    def __post_init__(self) -> None:
        PerLayerClip(self.threshold)
        number("quantile", self.quantile, "give a number above 0 and below 1", low=0.0, high=1.0, strict=True)
        number("rate", self.rate, "give a number above 0", low=0.0, high=10.0, strict=True)
        number("share", self.share, "give a share above 0 and below 1", low=0.0, high=1.0, strict=True)

    def promise(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        thresholds = per_layer("threshold", self.threshold, len(partitions))
        root = math.sqrt(len(partitions) / (1.0 - self.share))
        count = 0.5 * math.sqrt(len(partitions) / self.share)
        added = [Partition(p.name + WITHIN, (1,), count) for p in partitions]
        return (*promised(partitions, [root * t for t in thresholds]), *added)

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        thresholds = per_layer("threshold", self.threshold, len(parts))
        clipped, counts = list[Part](), list[Part]()
        for part, threshold in zip(parts, thresholds, strict=True):
            norms = part.norms()
            clipped.append(part.scaled(clip_factors(norms, threshold)))
            centred = torch.where(norms <= threshold, 0.5, -0.5) * (1.0 - SLACK)
            counts.append(DensePart(centred.double().unsqueeze(1)))
        return [*clipped, *counts]

    def learned(self, answer: Mapping[str, Tensor]) -> AdaptiveQuantile:
        """The bound with thresholds updated by the noisy centred counts, divided by the expected batch size."""
        released = [count for name, count in answer.items() if name.endswith(WITHIN)]
        if not released:
            raise ArgumentError("answer", list(answer), "the counts that this bound added must come back to it")
        old = per_layer("threshold", self.threshold, len(released))
        moves = [max(-1.0, min(1.0, self.rate * (float(r) + 0.5 - self.quantile))) for r in released]
        fresh = [min(max(t * math.exp(-move), 1e-12), 1e12) for t, move in zip(old, moves, strict=True)]
        return replace(self, threshold=tuple(fresh))
