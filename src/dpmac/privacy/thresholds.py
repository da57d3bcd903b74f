"""Thresholds learned from the data, privately: every look at the norms is a release, and is paid for.

:class:`NormHistogram` is the histogram of the paper's Algorithm 2, released once; :class:`AdaptiveQuantile` follows a
quantile of the norms all through training, from one noisy count per layer and step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer, number
from dpmac.privacy.accounting import Mechanism, check_multiplier
from dpmac.privacy.bound import SLACK, Block, Partition, PerLayerClip, clip_factors, partitions_of, per_layer
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.noise import NoiseSource
from dpmac.privacy.parts import DensePart, Part
from dpmac.privacy.release import release
from dpmac.privacy.sampling import PrivateRows

HISTOGRAM = "norm histogram"


@dataclass(frozen=True)
class NormHistogram:
    """A differentially private histogram of each partition's norms, and the thresholds read off it.

    ``bins`` public edges, log-spaced from ``low`` to ``high``, with an overflow bin above. Each example adds one count
    to one bin of each of K histograms, so their concatenation has sensitivity sqrt(K); noise of ``noise_multiplier``
    times that is added to every bin, in one unsampled Gaussian event. The threshold of a partition is the smallest edge
    at which the noisy cumulative count reaches ``quantile`` of the public number of rows; the last edge if none does.
    """

    noise_multiplier: float
    quantile: float = 0.5
    low: float = 1e-4
    high: float = 1e2
    bins: int = 60

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        number("quantile", self.quantile, "give a number above 0 and below 1", low=0.0, high=1.0, strict=True)
        number("low", self.low, "give the lowest edge, above 0", low=1e-30, high=1e30)
        number("high", self.high, f"give the highest edge, above low={self.low!r}", low=self.low * 1.0001, high=1e30)
        integer("bins", self.bins, "give a number of bins, at least 2", low=2)

    def edges(self) -> Tensor:
        """The public edges; bin i counts norms in (edge i-1, edge i], the last norms above all edges."""
        return torch.logspace(math.log10(self.low), math.log10(self.high), self.bins, dtype=torch.float64)

    def mechanism(self) -> Mechanism:
        """What the histogram is to the accountant: put it into ``Plan.before``."""
        return Mechanism(self.noise_multiplier, 1.0, 1, HISTOGRAM)

    def thresholds(
        self,
        rows: PrivateRows,
        parts_of: Callable[..., Sequence[Part]],
        names: Sequence[str],
        source: NoiseSource,
        ledger: Ledger,
        micro_batch: int | None = None,
    ) -> tuple[float, ...]:
        """Release the histograms of the norms of ``parts_of(*rows)`` and read one threshold off each."""
        edges = self.edges()
        scale = math.sqrt(len(names)) / (1.0 - SLACK)
        counts = release(
            rows.everything(),
            lambda *columns: [self._one_hot(part.norms(), edges) for part in parts_of(*columns)],
            [Partition(name, (self.bins + 1,), scale) for name in names],
            noise_multiplier=self.noise_multiplier,
            source=source,
            ledger=ledger,
            label=HISTOGRAM,
            micro_batch=micro_batch,
        )
        return tuple(self._read(count.cpu(), edges, rows.n) for count in counts)

    @staticmethod
    def _one_hot(norms: Tensor, edges: Tensor) -> DensePart:
        """One count per example; a norm that is not finite goes to the overflow bin."""
        safe = torch.where(torch.isfinite(norms), norms, math.inf)
        places = torch.bucketize(safe, edges.to(norms.device))
        return DensePart(torch.nn.functional.one_hot(places, len(edges) + 1).double())

    def _read(self, counts: Tensor, edges: Tensor, n: int) -> float:
        reached = torch.nonzero(torch.cumsum(counts[:-1], dim=0) >= self.quantile * n).flatten()
        return float(edges[reached[0]] if len(reached) else edges[-1])


@dataclass(frozen=True)
class AdaptiveQuantile:
    """Per-partition clipping whose thresholds follow a quantile of the norms, learned as training goes.

    Each release also carries, per partition, the centred count of examples within the threshold (each example adds
    +1/2 or -1/2). A ``share`` of the release's privacy goes to the K counts and the rest to the K sums, so that the
    whole still keeps the promise: scale_count = sqrt(K / share) / 2 and scale_i = Theta_i sqrt(K / (1 - share)). In
    terms of noise this is sigma_sum = (sigma^-2 - K (2 sigma_count)^-2)^(-1/2). Then Theta <- Theta exp(-rate (p -
    quantile)), with p the noisy share of examples within it: post-processing.
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

    def promise(self, blocks: Sequence[Block]) -> tuple[Partition, ...]:
        thresholds = per_layer("threshold", self.threshold, len(blocks))
        root = math.sqrt(len(blocks) / (1.0 - self.share))
        count = 0.5 * math.sqrt(len(blocks) / self.share)
        added = [Partition(f"{block.name} within", (1,), count) for block in blocks]
        return (*partitions_of(blocks, [root * t for t in thresholds]), *added)

    def apply(self, parts: Sequence[Part]) -> list[Part]:
        thresholds = per_layer("threshold", self.threshold, len(parts))
        clipped, counts = list[Part](), list[Part]()
        for part, threshold in zip(parts, thresholds, strict=True):
            norms = part.norms()
            clipped.append(part.scaled(clip_factors(norms, threshold)))
            centred = torch.where(norms <= threshold, 0.5, -0.5) * (1.0 - SLACK)
            counts.append(DensePart(centred.double().unsqueeze(1)))
        return [*clipped, *counts]

    def learned(self, released: Sequence[Tensor]) -> AdaptiveQuantile:
        """``released`` are the noisy centred counts over the expected batch size."""
        if not released:
            raise ArgumentError("released", released, "the counts that this bound added must come back to it")
        old = per_layer("threshold", self.threshold, len(released))
        moves = [max(-1.0, min(1.0, self.rate * (float(r) + 0.5 - self.quantile))) for r in released]
        fresh = [min(max(t * math.exp(-move), 1e-12), 1e12) for t, move in zip(old, moves, strict=True)]
        return replace(self, threshold=tuple(fresh))
