"""Thresholds from a histogram of norms that is released once: the middle of the paper's Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import integer, number
from dpmac.extensions.provenance import PUBLIC, Origin, check_origin
from dpmac.extensions.row_independence import ROWS, check_row_independence
from dpmac.kernels.dense import DensePart
from dpmac.privacy import Ledger, Mechanism, Partition, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.parts import SLACK, Part
from dpmac.randomness import NoiseSource

HISTOGRAM = "norm histogram"


class Thresholds(tuple[float, ...]):
    """One threshold for each partition, for a bound. ``origin`` are the releases that they come from."""

    origin: Origin = PUBLIC


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
    ) -> Thresholds:
        """Release the histograms of the norms of ``parts_of(*rows)`` and read one threshold off each."""
        known = check_origin(ledger, parts_of=parts_of)
        check_row_independence("parts_of", parts_of, rows.blank(ROWS), tokens=True)
        counts = release(
            rows.everything(),
            self.query(parts_of, names),
            noise_multiplier=self.noise_multiplier,
            source=source,
            ledger=ledger,
            micro_batch=micro_batch,
        )
        found = Thresholds(self._read(counts[name].cpu(), self.edges(), rows.n) for name in names)
        found.origin = Origin.of(ledger, known, rows.origin)
        return found

    def query(self, parts_of: Callable[..., Sequence[Part]], names: Sequence[str]) -> Query:
        """One histogram for each of ``names``: the norms of the parts that ``parts_of`` gives."""
        edges = self.edges()
        scale = math.sqrt(len(names)) / (1.0 - SLACK)
        return Query(
            HISTOGRAM,
            tuple(Partition(name, (self.bins + 1,), scale) for name in names),
            lambda *columns: [self._one_hot(part.norms(), edges) for part in parts_of(*columns)],
        )

    @staticmethod
    def _one_hot(norms: Tensor, edges: Tensor) -> DensePart:
        """One count per example; a norm that is not finite goes to the overflow bin."""
        safe = torch.where(torch.isfinite(norms), norms, math.inf)
        places = torch.bucketize(safe, edges.to(norms.device))
        return DensePart(torch.nn.functional.one_hot(places, len(edges) + 1).double())

    def _read(self, counts: Tensor, edges: Tensor, n: int) -> float:
        reached = torch.nonzero(torch.cumsum(counts[:-1], dim=0) >= self.quantile * n).flatten()
        if not len(reached):
            return float(edges[-1])
        return float(edges[reached[0]])
