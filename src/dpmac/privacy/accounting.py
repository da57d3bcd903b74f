"""The privacy cost of a list of mechanisms, by dp-accounting (called here and in ``kernels/loss_distributions.py``).

The reported epsilon comes from privacy loss distributions (PLD): dp-accounting replaces each privacy curve by chords
above it and counts truncated tails as infinite losses, so in exact arithmetic this is an upper bound. Tail masses are
differences of numbers near 1: for every release, a composition can miss up to 1e-15 of probability, which is then
missing from delta (measured, not proved). We set ten times that aside (:data:`ROUNDOFF`). Where this would be over a
tenth of delta, we report the epsilon of the Renyi accountant (RDP) instead, which works with logarithms (see
:func:`trusted`). Releases on all rows only have a closed form. :func:`figure_of` says which one gave the figure.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpmac.checks import ArgumentError, integer, number
from dpmac.kernels.loss_distributions import FULL, Effort, composed, gaussian_epsilon, one_gaussian
from dpmac.kernels.moments import merged
from dpmac.kernels.selection import Selection, figure_with_searches, renyi_epsilon

Accountant = Literal["pld", "rdp"]
Figure = tuple[float, Literal["pld", "rdp", "gaussian"]]  # epsilon, and what gave it: "gaussian" is the closed form
MIN_MULTIPLIER = 0.01  # below it epsilon is in the thousands, and the accountants are unreliable
MIN_DELTA = 1e-12
ROUNDOFF = 1e-14  # probability set aside for each release: over ten times the rounding error observed in PLDs
UNIT = "one row, there or blank (the number of rows is public)"


@dataclass(frozen=True)
class Mechanism:
    """``count`` Gaussian releases of sensitivity 1, each on a Poisson sample of the rows.

    ``noise_multiplier`` is the standard deviation of the noise divided by the sensitivity; 0 means no privacy.
    ``sample_rate`` 1 means that all rows were used (the plain Gaussian mechanism). ``overflow`` is an upper bound on
    the probability that a sample is full (:class:`dpmac.privacy.sampling.PoissonSampler`). A row then shares the
    capacity with others, and the release has sensitivity 2; :func:`with_overflow` says what this costs. ``split`` names
    the split of the data set whose rows alone were read; "" if any row may have been. No place is in two splits.
    """

    noise_multiplier: float
    sample_rate: float = 1.0
    count: int = 1
    label: str = "gaussian"
    overflow: float = 0.0
    split: str = ""
    search: Selection | None = None  # of private runs: then this is the least noise multiplier of any of their releases

    def __post_init__(self) -> None:
        # stored as plain floats: a half-precision number would round or overflow in later arithmetic
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        rate = number("sample_rate", self.sample_rate, "give a number above 0 and at most 1", low=5e-324, high=1.0)
        object.__setattr__(self, "sample_rate", rate)
        object.__setattr__(self, "count", integer("count", self.count, "give a whole number, at least 0", low=0))
        chance = number("overflow", self.overflow, "give a chance from 0 to below 1", low=0.0, high=1.0 - 2**-53)
        object.__setattr__(self, "overflow", chance)
        if self.search is not None and (self.noise_multiplier, rate, chance) != (self.search.least_noise, 1.0, 0.0):
            raise ArgumentError("search", self.search, "give its least_noise, and no rate or overflow beside it")

    def describe(self, of: str = "rows") -> str:
        """One line for the privacy statement; ``of`` names the things that samples are drawn from."""
        of += f" of the split {self.split!r}" * bool(self.split)
        if self.search is not None:
            return f"{self.label}: {self.search.describe(of)}"
        rows = f"all {of}"
        if self.sample_rate < 1.0:
            cut = f", larger than its capacity at most once in {1 / self.overflow:.2g}" if self.overflow else ""
            rows = f"a Poisson sample of the {of} (rate {self.sample_rate:.6g}{cut})"
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"{self.label}: Gaussian mechanism, noise multiplier {self.noise_multiplier:.6g}, on {rows}, {times}"


def check_multiplier(noise_multiplier: float) -> float:
    """Check ``noise_multiplier`` and return it as a float: 0, or a number that the accountants can handle."""
    fix = f"give a number from {MIN_MULTIPLIER:g} to 1e9, or 0 for no privacy at all"
    sigma = number("noise_multiplier", noise_multiplier, fix, low=0.0, high=1e9)
    if sigma == 0:
        return sigma
    return number("noise_multiplier", noise_multiplier, fix, low=MIN_MULTIPLIER)


def by_split(mechanisms: Sequence[Mechanism]) -> list[tuple[Mechanism, ...]]:
    """For each split, what its rows took part in: releases from all rows, and its own (docs/proof.md, "Splits")."""
    names = {m.split for m in mechanisms} - {""} or {""}
    return [merged(replace(m, split="") for m in mechanisms if m.split in ("", name)) for name in sorted(names)]


def epsilon_of(mechanisms: Sequence[Mechanism], delta: float, accountant: Accountant = "pld") -> float:
    """The epsilon at ``delta`` of the composition of ``mechanisms``; infinity if any of them has no noise.

    It is an upper bound with either accountant, up to the rounding that ROUNDOFF is for, and 0 if nothing was released.
    "pld" asks for the epsilon that we report, which is RDP's where PLD's cannot be trusted (see :func:`trusted`).
    """
    return figure_of(mechanisms, delta, accountant)[0]


def figure_of(mechanisms: Sequence[Mechanism], delta: float, accountant: Accountant = "pld") -> Figure:
    """:func:`epsilon_of`, and what computed it."""
    delta = number("delta", delta, "give a number from 1e-12 to below 1", low=MIN_DELTA, high=1.0 - 2**-53)
    unlabelled = merged(replace(m, label="") for m in mechanisms)
    # sorted, so that the order of the releases does not change the last digit
    ordered = sorted(unlabelled, key=lambda m: (m.noise_multiplier, m.sample_rate, m.overflow))
    return cost_of(tuple(ordered), delta, accountant, FULL)


def trusted(mechanisms: Sequence[Mechanism], delta: float) -> tuple[Accountant, float]:
    """The accountant whose epsilon holds at ``delta``, and the delta to pass to it, for mechanisms without overflow.

    That is PLD at ``delta`` minus ROUNDOFF for each release, or RDP if ROUNDOFF would take more than a tenth of delta.
    """
    spare = ROUNDOFF * (1 + sum(m.count for m in mechanisms))
    return ("pld", delta - spare) if delta > 10 * spare else ("rdp", delta)


def with_overflow(mechanisms: Sequence[Mechanism], delta: float) -> list[tuple[list[Mechanism], float]]:
    """Mechanisms without overflow that bound the given ones, and the delta for each: every item is an upper bound.

    Which *other* places a step draws has the same distribution for two neighbouring tables. For either of them, some
    step's sample is full with probability at most P, the sum of all ``overflow``; outside of this event all steps are
    the mechanisms without overflow. Hence delta(epsilon) is at most theirs plus P (docs/kernels.md has the proof). If
    P would exceed a tenth of delta, there is a second bound: each such release has at worst sensitivity 2.
    """
    chance = math.fsum(m.count * m.overflow for m in mechanisms) * (1.0 + 1e-12)
    plain = ([replace(m, overflow=0.0) for m in mechanisms], delta - chance)
    if delta > 10 * chance:
        return [plain]

    def worst(m: Mechanism) -> Mechanism:
        half = m.noise_multiplier / 2 if m.overflow else m.noise_multiplier
        return replace(m, noise_multiplier=half * (half >= MIN_MULTIPLIER), overflow=0.0)

    doubled = ([worst(m) for m in mechanisms], delta)
    return [plain, doubled] if delta - chance >= MIN_DELTA else [doubled]


@functools.lru_cache(maxsize=4096)
def cost_of(mechanisms: tuple[Mechanism, ...], delta: float, accountant: Accountant, effort: Effort) -> Figure:
    """The figure on grids of a given fineness. Reported figures use FULL; a calibration searches with coarser ones."""
    released = [m for m in mechanisms if m.count > 0]
    if accountant not in ("pld", "rdp"):
        raise ArgumentError("accountant", accountant, "choose 'pld' or 'rdp'")
    if not released:
        return 0.0, accountant
    every = (with_overflow(mine, delta) for mine in by_split(released))
    return max(min(_plain_cost(some, left, accountant, effort) for some, left in bounds) for bounds in every)


def _plain_cost(released: Sequence[Mechanism], delta: float, accountant: Accountant, effort: Effort) -> Figure:
    # a rate this close to 1 is rounded up to 1, which costs no less: the PLD grids are unreliable there
    released = [replace(m, sample_rate=1.0) if m.sample_rate > 1.0 - 1e-12 else m for m in released]
    if any(m.noise_multiplier == 0 for m in released):
        return math.inf, accountant
    if any(m.search is not None for m in released):
        left = trusted(released, delta) if accountant == "pld" else ("rdp", delta)
        return figure_with_searches(released, delta, left[1] if left[0] == "pld" else None, effort)
    if accountant == "pld":
        accountant, delta = trusted(released, delta)
    if accountant == "rdp":
        epsilon = renyi_epsilon(released, delta, effort)
        if epsilon > 0.0:
            return epsilon, "rdp"
        return gaussian_epsilon(one_gaussian(released, unsampled=True), delta), "gaussian"  # no less than with sampling
    if all(m.sample_rate == 1.0 for m in released):
        return gaussian_epsilon(one_gaussian(released), delta), "gaussian"
    return float(composed(released, effort).get_epsilon_for_delta(delta)), "pld"


def accountant_version() -> str:
    """Name and version of the library that did the accounting."""
    from importlib.metadata import version

    return f"dp-accounting {version('dp-accounting')}"
