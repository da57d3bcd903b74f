"""What the best of a random number of private runs costs: one search, as the accountant composes it.

K5: the computed cost is not below the true one. A run is one of several ``cases``, lists of mechanisms: those of the
candidate that is tried, and of the rows that it trains on or is scored on. Let delta(e) be the largest of the cases'
privacy curves, K the number of runs (:mod:`dpmac.kernels.tries`) with mean m, shape s and chance g, and A the search.
docs/proof.md ("A search") proves, for every e and every e2 >= 0,

    delta_A(e + c) <= m * delta(e),    c = (s + 1) * log(exp(e2) + (1 - g) / g * delta(e2)),

a bound of Koskela, Redberg and Wang (arXiv 2402.06701). c does not depend on e, so we take the smallest on a grid. What
follows from the right-hand side is a privacy loss distribution (:func:`distribution`), which composes with others.

By Renyi divergences the same is Theorem 2 of Papernot and Steinke (arXiv 2110.03620): :func:`moments`.

dp-accounting gives the curves of the cases, rounded upwards. What rounding may take from them (SPARE for each release),
and the chance of a full sample, are added before they are multiplied by m.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.kernels.loss_distributions import DEFAULT_INTERVAL, Effort, composed
from dpmac.kernels.moments import divergences
from dpmac.kernels.tries import Tries

if TYPE_CHECKING:
    from dpmac.privacy.accounting import Mechanism

Array = np.ndarray[Any, Any]
SPARE = 1e-14  # probability set aside for the rounding of each release: dpmac.privacy.accounting.ROUNDOFF
SHARES = (1e-3, 1e-2, 0.1, 0.5)  # of delta, set aside for samples that are full
FARTHEST = 200.0  # losses of a run beyond it are counted as infinite
POINTS = 4000  # at which e2 is tried
COARSER = 4  # times the interval for a search by itself: adds a millionth to the variance of its losses
_UP = 1.0 + 1e-12  # over the rounding of the few operations on a curve


@dataclass(frozen=True)
class Selection:
    """A search: the best of ``tries`` runs, each of which is one of ``cases``, whichever costs most."""

    cases: tuple[tuple[Mechanism, ...], ...]
    tries: Tries

    def __post_init__(self) -> None:
        if not self.cases or not all(self.cases):
            raise ArgumentError("cases", self.cases, "give what a run releases, at least one mechanism in each case")
        if any(m.search is not None for case in self.cases for m in case):
            raise ArgumentError("cases", "a search", "a search within a search has no bound here")

    @property
    def least_noise(self) -> float:
        """The smallest noise multiplier of any release of a run; 0 if one is without noise."""
        return min(m.noise_multiplier for case in self.cases for m in case)

    def describe(self, of: str) -> str:
        """A few words for the statement: the law, and what a run is."""
        runs = [" and ".join(m.describe(of) for m in case) for case in self.cases]
        each = f"each run: {runs[0]}"
        if len(runs) > 1:
            each = f"each run costs at most the largest of these: {'; or '.join(runs)}"
        return f"the best of a secret number of runs ({self.tries.described()}), by a private score; {each}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a ledger's line."""
        law = {"chance": self.tries.chance, "shape": self.tries.shape}
        return {"law": law, "cases": [[plain_of(m) for m in case] for case in self.cases]}


def plain_of(one: Mechanism) -> dict[str, Any]:
    """A mechanism as plain values; what it does not have, a split or a search, is left out."""
    names = ("noise_multiplier", "sample_rate", "count", "label", "overflow")
    plain = {name: getattr(one, name) for name in names}
    if one.split:
        plain["split"] = one.split
    if one.search is not None:
        plain["search"] = one.search.to_dict()
    return plain


def shown_of(one: Mechanism) -> dict[str, Any]:
    """A mechanism as a statement lists it. A search has no noise or rate of its own: those of its cases are listed."""
    plain = {"split": one.split, **plain_of(one)}
    if one.search is not None:
        plain = {name: value for name, value in plain.items() if name in ("label", "count", "split", "search")}
    return plain


def with_searches(mechanisms: Sequence[Mechanism], effort: Effort) -> Any:
    """:func:`composed`, of mechanisms some of which are searches."""
    from dp_accounting.pld import privacy_loss_distribution as library

    effort = replace(effort, quick=False)  # the grid is read off dp-accounting's own distributions
    searches = [m for m in mechanisms if m.search is not None and m.count]
    rest = [m for m in mechanisms if m.search is None and m.count]
    reach = math.fsum(2 * m.count * _curve(m.search, effort).reach for m in searches if m.search)
    h = max(DEFAULT_INTERVAL, COARSER * reach / effort.composed)
    whole = library.identity(value_discretization_interval=h)
    if rest:  # many small steps need a finer grid than the large losses of a search
        whole = composed(rest, effort, max(DEFAULT_INTERVAL, reach / effort.composed))
        h = whole._pmf_remove._discretization
    for m in searches:
        assert m.search is not None
        one = distribution(m.search, h, effort)
        if one._pmf_remove._infinity_mass == 1.0:  # and so is every composition with it, which the library cannot make
            return one
        whole = whole.compose(one if m.count == 1 else one.self_compose(m.count))
    return whole


def distribution(selection: Selection, h: float, effort: Effort) -> Any:
    """dp-accounting's privacy loss distribution of a search, on a grid of interval ``h``.

    The bound B(e) = min(1, m delta(e - c)) holds in both directions. So does the convex hull, as a function of exp(e),
    of B for e > 0 and 1 - exp(e) (1 - B(-e)) for e < 0, because the true curve is convex and below both. The hull is B
    beyond some t, and a chord between -t and t: the t at which the chord is lowest.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    curve = _curve(selection, effort)
    steps = math.ceil(curve.reach / h)
    losses = h * np.arange(steps + 1)
    bound = curve.bound(losses)
    half = np.tanh(losses / 2)
    t = int(np.argmin(half + bound * (1 - half)))
    below = 1 - np.exp(-losses) * (1 - bound)
    whole = np.concatenate([below[:0:-1], bound])
    inner = np.arange(steps - t, steps + t + 1)
    if t:
        at = np.exp(h * (inner - steps))
        whole[inner] = below[t] + (bound[t] - below[t]) * ((at - at[0]) / (at[-1] - at[0]))
    whole = np.minimum.accumulate(np.clip(whole, 0.0, 1.0))
    made = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(h, -steps, steps, whole).to_dense_pmf()
    return privacy_loss_distribution.PrivacyLossDistribution(made)


@dataclass(frozen=True, eq=False)
class _Curve:
    """m * delta(e - shift), and how far the losses of a search reach to either side of 0."""

    delta: Callable[[Array], Array]
    mean: float
    shift: float
    reach: float

    def bound(self, losses: Array) -> Array:
        """An upper bound on the search's delta at these losses, which ascend."""
        found: Array = np.minimum(1.0, _UP * self.mean * self.delta(losses - self.shift))
        return found


@functools.lru_cache(maxsize=16)
def _curve(selection: Selection, effort: Effort) -> _Curve:
    plain = [[replace(m, overflow=0.0) for m in case] for case in selection.cases]
    effort = replace(effort, quick=False)
    runs = [
        (_hockey_stick(composed(ideal, effort)), _lost(case))
        for ideal, case in zip(plain, selection.cases, strict=True)
    ]

    def delta(losses: Array) -> Array:
        worst: Array = np.clip(np.max([run(losses) + lost for run, lost in runs], axis=0), 0.0, 1.0)
        return worst

    far, least = 1.0, max(lost for _, lost in runs) + 1e-15
    while far < FARTHEST and delta(np.array([far]))[0] > 1.01 * least:
        far *= 1.25
    tries = selection.tries
    grid = np.linspace(0.0, far, POINTS)
    shift = _UP * float(np.min((tries.shape + 1) * np.logaddexp(grid, np.log(tries.odds * delta(grid)))))
    return _Curve(delta, tries.mean, shift, far + shift)


def _hockey_stick(run: Any) -> Callable[[Array], Array]:
    """``run.get_delta_for_epsilon``, by the same sums from the largest loss down, without a loop over the losses."""
    ways = [_one_way(pmf) for pmf in (run._pmf_remove, run._pmf_add)]
    return lambda epsilons: np.maximum(*(way(epsilons) for way in ways))


def _one_way(pmf: Any) -> Callable[[Array], Array]:
    pmf = pmf.to_dense_pmf()
    losses = (pmf._lower_loss + np.arange(pmf.size)) * pmf._discretization
    upper = np.append(np.cumsum(pmf._probs[::-1])[::-1], 0.0)
    lower = np.append(np.cumsum((pmf._probs * np.exp(-losses))[::-1])[::-1], 0.0)

    def deltas(epsilons: Array) -> Array:
        first = np.searchsorted(losses, epsilons, side="right")
        found: Array = np.maximum(upper[first] - np.exp(epsilons) * lower[first], 0.0) + pmf._infinity_mass
        return found

    return deltas


def _lost(case: Sequence[Mechanism]) -> float:
    """What is added to the curve of a run: for rounding, and for samples that are full."""
    return math.fsum([SPARE, *(m.count * (SPARE + m.overflow) for m in case)])


# --- by Renyi divergences ---------------------------------------------------------------------------------------------

Figure = tuple[float, Literal["pld", "rdp", "gaussian"]]  # as the account has it


def figure_with_searches(mechanisms: Sequence[Mechanism], delta: float, left: float | None, effort: Effort) -> Figure:
    """The epsilon at ``delta`` by both accounts, each of which holds: the smaller one, and which it is.

    ``left`` is the delta for loss distributions, None where they are not asked.
    """
    found: Figure = renyi_epsilon(mechanisms, delta, effort), "rdp"
    if left is None:
        return found
    return min(found, (float(composed(mechanisms, effort).get_epsilon_for_delta(left)), "pld"))


def renyi_epsilon(mechanisms: Sequence[Mechanism], delta: float, effort: Effort) -> float:
    """The epsilon at ``delta`` by Renyi divergences; 0 for a tiny cost whose moments are lost to rounding.

    A search whose runs' samples are full with a chance of P at most is as far from one without such samples: so delta
    grows by (1 + exp(epsilon)) P.
    """
    from dp_accounting import rdp

    orders, total = divergences([m for m in mechanisms if m.search is None], effort)
    full = 0.0
    for m in mechanisms:
        if m.search is not None:
            runs = [divergences(case, effort)[1] for case in m.search.cases]
            total = total + m.count * moments(runs, orders, m.search.tries)
            chances = [math.fsum(one.count * one.overflow for one in case) for case in m.search.cases]
            full += m.count * m.search.tries.mean * max(chances) * _UP
    for share in (0.0, *SHARES):
        epsilon = float(rdp.compute_epsilon(orders, total, delta * (1 - share))[0])
        if (1 + math.exp(min(epsilon, 700.0))) * full <= share * delta:
            return max(0.0, epsilon)
    return math.inf


def moments(runs: Sequence[Array], orders: Array, tries: Tries) -> Array:
    """The Renyi divergences of a search at all ``orders``, from those of its runs, of which the largest counts."""
    orders, worst = np.asarray(orders), np.max(runs, axis=0)
    constant = (1 + tries.shape) * np.min((1 - 1 / orders) * worst - math.log(tries.chance) / orders)
    made = np.where(orders > 1, worst + math.log(tries.mean) / np.maximum(orders - 1, 1e-9) + constant, np.inf)
    lowest: Array = np.minimum.accumulate(made[::-1])[::-1]  # divergences grow with the order
    return _UP * lowest
