"""What a list of mechanisms costs: dp-accounting, called in one place. No accountant of our own.

The figure we report is by privacy loss distributions (PLD), composed pessimistically: every discretisation is upwards,
so the epsilon is an upper bound, but for floating point: tails are differences of numbers near 1, and a composition can
miss up to 1e-15 of delta for every release. So a part of delta is set aside for that (:data:`ROUNDOFF`), and where it
would be a large part the figure is that of the moments accountant in its modern form (RDP), which works with
logarithms; see :func:`trusted`. RDP stands beside it in any case. How the distributions are kept small is in
:mod:`dpmac.kernels.loss_distributions`. dp-accounting is imported on first use, so that a command's ``--help`` need not
wait for it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpmac.checks import ArgumentError, integer, number
from dpmac.kernels.loss_distributions import FULL, ROUGH, Effort, composed, gaussian_epsilon, one_gaussian, quiet_absl

Accountant = Literal["pld", "rdp"]
MIN_MULTIPLIER = 0.01  # below it an epsilon is in the thousands and the accountants lose their footing
MIN_DELTA = 1e-12
ROUNDOFF = 1e-14  # of delta, set aside for every release: over ten times what PLDs were seen to miss by rounding
ROUGH_ORDERS = (1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 11, 16, 24, 32, 48, 63, 128, 256, 512, 1024)
UNIT = "one row, there or blank (the number of rows is public)"


@dataclass(frozen=True)
class Mechanism:
    """``count`` Gaussian releases of sensitivity 1, each on a Poisson sample of the rows.

    ``noise_multiplier`` is the noise's standard deviation over the sensitivity; 0 means no privacy. ``sample_rate`` 1
    means that all rows were used (the plain Gaussian mechanism). ``overflow`` is the chance, at most, that a sample
    finds no room; then it is cut to it, and the release has sensitivity 2 (:meth:`dpmac.privacy.sampling.Batch.spend`).
    """

    noise_multiplier: float
    sample_rate: float = 1.0
    count: int = 1
    label: str = "gaussian"
    overflow: float = 0.0

    def __post_init__(self) -> None:
        # kept as plain numbers: one of half precision would round, and overflow, wherever it is used
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        rate = number("sample_rate", self.sample_rate, "give a number above 0 and at most 1", low=5e-324, high=1.0)
        object.__setattr__(self, "sample_rate", rate)
        object.__setattr__(self, "count", integer("count", self.count, "give a whole number, at least 0", low=0))
        chance = number("overflow", self.overflow, "give a chance from 0 to below 1", low=0.0, high=1.0 - 2**-53)
        object.__setattr__(self, "overflow", chance)

    def describe(self, of: str = "rows") -> str:
        """One line in plain words; ``of`` is what samples are drawn of."""
        cut = f", too large for its room at most once in {1 / self.overflow:.2g}" if self.overflow else ""
        sample = f"a Poisson sample of the {of} (rate {self.sample_rate:.6g}{cut})"
        rows = f"all {of}" if self.sample_rate == 1.0 else sample
        times = "once" if self.count == 1 else f"{self.count:,} times"
        return f"{self.label}: Gaussian mechanism, noise multiplier {self.noise_multiplier:.6g}, on {rows}, {times}"


def check_multiplier(noise_multiplier: float) -> float:
    """``noise_multiplier`` as a float: 0, or a number that the accountants can work with."""
    fix = f"give a number from {MIN_MULTIPLIER:g} to 1e9, or 0 for no privacy at all"
    sigma = number("noise_multiplier", noise_multiplier, fix, low=0.0, high=1e9)
    return sigma if sigma == 0 else number("noise_multiplier", noise_multiplier, fix, low=MIN_MULTIPLIER)


def merged(mechanisms: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
    """Equal mechanisms counted together, in order of first appearance. Composition does not care about order."""
    counts: dict[Mechanism, int] = {}
    for m in mechanisms:
        key = replace(m, count=1)
        counts[key] = counts.get(key, 0) + m.count
    return tuple(replace(m, count=count) for m, count in counts.items())


def event_of(mechanisms: Iterable[Mechanism]) -> Any:
    """The dp-accounting event that composes ``mechanisms``."""
    import dp_accounting as dpa

    events = []
    for m in merged(mechanisms):
        if m.count == 0:
            continue
        one = dpa.GaussianDpEvent(m.noise_multiplier) if m.noise_multiplier else dpa.NonPrivateDpEvent()
        if m.sample_rate < 1.0 and m.noise_multiplier:
            one = dpa.PoissonSampledDpEvent(m.sample_rate, one)
        events.append(dpa.SelfComposedDpEvent(one, m.count))
    return dpa.ComposedDpEvent(events)


def epsilon_of(mechanisms: Sequence[Mechanism], delta: float, accountant: Accountant = "pld") -> float:
    """The epsilon at ``delta`` of all ``mechanisms`` together; infinity if any of them is without noise.

    An upper bound for either accountant; nothing released costs 0. "pld" stands for the figure that we report, which is
    RDP's where PLD's cannot be trusted (see :func:`trusted`).
    """
    delta = number("delta", delta, "give a number from 1e-12 to below 1", low=MIN_DELTA, high=1.0 - 2**-53)
    unlabelled = merged(replace(m, label="") for m in mechanisms)
    # so that order moves no last digit
    ordered = sorted(unlabelled, key=lambda m: (m.noise_multiplier, m.sample_rate, m.overflow))
    return _epsilon(tuple(ordered), delta, accountant)


def trusted(mechanisms: Sequence[Mechanism], delta: float) -> tuple[Accountant, float]:
    """The accountant whose figure holds at ``delta``, and the delta to ask it for, of mechanisms that have room.

    PLD, asked for what is left when ROUNDOFF was set aside for each release; RDP if that is more than a tenth.
    """
    spare = ROUNDOFF * (1 + sum(m.count for m in mechanisms))
    return ("pld", delta - spare) if delta > 10 * spare else ("rdp", delta)


def with_overflow(mechanisms: Sequence[Mechanism], delta: float) -> list[tuple[list[Mechanism], float]]:
    """What to account for in place of samples that may find no room, and at which delta: every one is an upper bound.

    Which *other* places a step draws has the same law for both of two neighbouring tables, and is independent of all
    else. Given these, whether a step has a spot for one row more follows from nothing else, or from the noisy count of
    :mod:`dpmac.kernels.padding`, which is among what counts as released: it is a set of outcomes. Where there is no
    spot in some step, an event that has a chance of P, the sum of all ``overflow``, at most for either table, outcomes
    add P at most to the divergence; all others have the laws of the plain mechanisms. A divergence of mixtures of one
    law is at most the mixture of the divergences, so delta(epsilon) is at most that of the plain mechanisms plus P.
    Where P would be more than a tenth of delta, there is another bound: each such release is one of sensitivity 2 at
    worst.
    """
    chance = math.fsum(m.count * m.overflow for m in mechanisms) * (1.0 + 1e-12)
    plain = ([replace(m, overflow=0.0) for m in mechanisms], delta - chance)
    if delta > 10 * chance:
        return [plain]

    def worst(m: Mechanism) -> Mechanism:
        if m.overflow == 0:
            return m
        half = m.noise_multiplier / 2
        return replace(m, noise_multiplier=half if half >= MIN_MULTIPLIER else 0.0, overflow=0.0)

    doubled = ([worst(m) for m in mechanisms], delta)
    return [plain, doubled] if delta - chance >= MIN_DELTA else [doubled]


@functools.lru_cache(maxsize=4096)
def _epsilon(mechanisms: tuple[Mechanism, ...], delta: float, accountant: Accountant) -> float:
    return cost_of(mechanisms, delta, accountant, FULL)


def cost_of(mechanisms: Sequence[Mechanism], delta: float, accountant: Accountant, effort: Effort) -> float:
    released = [m for m in mechanisms if m.count > 0]
    if accountant not in ("pld", "rdp"):
        raise ArgumentError("accountant", accountant, "choose 'pld' or 'rdp'")
    if not released:
        return 0.0
    return min(_plain_cost(some, left, accountant, effort) for some, left in with_overflow(released, delta))


def _plain_cost(released: Sequence[Mechanism], delta: float, accountant: Accountant, effort: Effort) -> float:
    # a rate so near 1 is taken for 1, which costs no less: the grids lose their footing there
    released = [replace(m, sample_rate=1.0) if m.sample_rate > 1.0 - 1e-12 else m for m in released]
    if any(m.noise_multiplier == 0 for m in released):
        return math.inf
    if accountant == "pld":
        accountant, delta = trusted(released, delta)
    if accountant == "rdp":
        return _moments(released, delta, effort) or gaussian_epsilon(one_gaussian(released, unsampled=True), delta)
    if all(m.sample_rate == 1.0 for m in released):
        return gaussian_epsilon(one_gaussian(released), delta)
    return float(composed(released, effort).get_epsilon_for_delta(delta))


def _moments(mechanisms: Sequence[Mechanism], delta: float, effort: Effort) -> float:
    """By RDP; 0 where it has nothing to say.

    Its moments of a tiny cost are lost in rounding, and it takes one that comes out negative for an epsilon of 0.
    """
    from dp_accounting import rdp

    with quiet_absl():
        fresh = rdp.RdpAccountant(ROUGH_ORDERS) if effort is ROUGH else rdp.RdpAccountant()
        fresh.compose(event_of(mechanisms))
        return float(fresh.get_epsilon(delta))


def accountant_version() -> str:
    """Name and version of the library that did the accounting."""
    from importlib.metadata import version

    return f"dp-accounting {version('dp-accounting')}"
