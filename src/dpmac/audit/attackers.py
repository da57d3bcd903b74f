"""Two attackers who look at a release and say whether the row was there. Both choose how before they look.

*Who knows* computes the row's exact share beforehand, and takes the inner product of what was released with it, in
units of the noise: the best test against a correct build. *Who learns* believes nothing of what the code says of
itself: from some draws of its own, which are not judged, it learns the best linear test (Fisher's discriminant). It
finds noise that is missing in some coordinates, shared between two of them, or the same in every release, where the
first attacker would be misled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from scipy.special import ndtr
from torch import Tensor

from dpmac.audit.confidence import Corner, Counts, lower, upper
from dpmac.audit.curves import Claim, strength

KNOWS, LEARNS = "knows", "learns"
PER_COORDINATE = 10  # draws to learn from, for each coordinate that is learned
TINY = 1e-10  # of the mean variance: a direction with less noise has none
STEPS = 64  # thresholds that are tried before any draw is judged


@dataclass(frozen=True)
class Attacker:
    """Says "there" if ``statistic`` of what it saw exceeds ``threshold``."""

    name: str
    statistic: Callable[[Tensor], Tensor]  # (draws, width) to (draws,)
    threshold: float

    def counts(self, without: Tensor, with_row: Tensor) -> Counts:
        """How often it says so, of draws that it has not seen before."""
        said = [int((self.statistic(seen) > self.threshold).sum()) for seen in (without, with_row)]
        return Counts(said[0], said[1], len(without))


def who_knows(direction: Tensor, claim: Claim, draws: int, miss: float) -> Attacker:
    """For what is N(0, 1) in every coordinate without the row, and moved by ``direction`` when the row is sampled.

    The threshold is the one that proves most if the build is correct and the claim holds with equality.
    """
    rate, length = claim[0].sample_rate, float(direction.norm())
    if length == 0.0:
        return Attacker(KNOWS, lambda seen: seen @ direction, 0.0)

    def expected(z: float) -> tuple[float, float]:
        a = float(ndtr(-z))
        return a, (1.0 - rate) * a + rate * float(ndtr(length - z))

    places = [-1.0 + k * (length + 4.0) / STEPS for k in range(STEPS)]
    best = max(places, key=lambda z: proves(claim, *expected(z), draws, miss))
    return Attacker(KNOWS, lambda seen: seen @ (direction / length), best)


def who_learns(without: Tensor, with_row: Tensor, claim: Claim, draws: int, miss: float) -> Attacker:
    """From draws of both tables: the best linear statistic by their means and covariance, and its best threshold."""
    move = with_row.mean(dim=0) - without.mean(dim=0)
    centred = without - without.mean(dim=0)
    covariance = centred.T @ centred / max(len(without) - 1, 1)
    values, vectors = torch.linalg.eigh(covariance)
    floor = max(TINY * float(values.mean()), 1e-30)
    weights = vectors @ ((vectors.T @ move) / values.clamp(min=floor))
    weights = weights / weights.norm().clamp(min=1e-300)
    threshold = best_threshold([seen @ weights for seen in (without, with_row)], claim, draws, miss)
    return Attacker(LEARNS, lambda seen: seen @ weights, threshold)


def best_threshold(seen: Sequence[Tensor], claim: Claim, draws: int, miss: float) -> float:
    """Of statistics without and with the row: the threshold that would prove most in ``draws`` more like them.

    Rates are smoothed a little, so that the choice does not follow the chance of a few.
    """
    both = torch.cat(list(seen))
    low, high = float(both.min()), float(both.max())
    places = torch.linspace(low, high, STEPS + 1, dtype=torch.float64)[:-1] + (high - low) / (2 * STEPS)
    width = max(float(seen[0].std()) * len(seen[0]) ** -0.2, 1e-300)
    rates = [torch.special.ndtr((one[:, None] - places) / width).mean(dim=0).tolist() for one in seen]
    proven = [proves(claim, a, b, draws, miss) for a, b in zip(*rates, strict=True)]
    return float(places[proven.index(max(proven))])


def proves(claim: Claim, a: float, b: float, draws: int, miss: float) -> float:
    """The strength that ``draws`` a side prove, if the rates turn out to be ``a`` and ``b``.

    Of a claim whose curve has no closed form, that of plain Gaussian mechanisms: quick, and good for a choice.
    """
    corner = Corner(upper(a * draws, draws, miss / 2), lower(b * draws, draws, miss / 2))
    if len(claim) == 1 and claim[0].count == 1 and claim[0].search is None:
        simple = claim
    else:
        simple = (type(claim[0])(1.0),)
    found = strength(simple, corner)
    if 0.0 < found < math.inf:
        return found
    if found == math.inf:  # everything, or nothing: then the rates decide
        return 1e9 + b - a
    return b - a - 1.0


def coordinates(direction: Tensor, sizes: Sequence[int], most: int) -> Tensor:
    """Which coordinates to learn from: at most ``most``, those that the row moves most.

    ``sizes`` are the numbers of coordinates of the partitions, in order. A place that is moved in one partition is
    looked at in all that have it: noise that two of them share shows only where both are seen.
    """
    parts = torch.split(direction.abs(), list(sizes))
    places: list[int] = []
    for place in _by_size(parts):
        wider = places
        if place not in places:
            wider = [*places, place]
        if sum(sum(p < size for p in wider) for size in sizes) > max(most, 2):
            break
        places = wider
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    found = [start + p for start, size in zip(starts, sizes, strict=True) for p in places if p < size]
    return torch.tensor(sorted(found) or [int(direction.abs().argmax())])


def _by_size(parts: Sequence[Tensor]) -> list[int]:
    """Places within their partition, of all partitions, the most moved first."""
    pairs = [(float(value), place) for part in parts for place, value in enumerate(part.tolist())]
    return [place for _, place in sorted(pairs, key=lambda pair: -pair[0])]
