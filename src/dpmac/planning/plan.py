"""The plan: everything public about a run, fixed before the first private row is touched.

The sampler's rate, the release's noise and the accountant's event all come from the same frozen fields, so they
cannot disagree. ``n`` is treated as public.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpmac.checks import ArgumentError, PrivacyWarning, integer, number
from dpmac.kernels.moments import merged
from dpmac.kernels.selection import plain_of
from dpmac.planning.calibration import calibrate
from dpmac.privacy.accounting import MIN_DELTA, Accountant, Mechanism, check_multiplier, epsilon_of
from dpmac.privacy.sampling import MIN_OVERFLOW, MIN_RATE, PoissonSampler
from dpmac.randomness import NoiseSource

STEP = "training step"
MAX_NOISE_RATIO = 10.0  # times the noise for an empty ledger: above it, a plan comes with a warning
OVERFLOW_SHARE = 5e-5  # fraction of delta for samples beyond their capacity: changes epsilon by less than 1e-5 of it


@dataclass(frozen=True)
class Plan:
    """``steps`` Poisson samples of expected size ``batch_size`` from ``n`` rows, each released with Gaussian noise.

    ``before`` lists what is released from the same rows before training (DP-PCA, a histogram of norms): it is part of
    the same budget. ``noise_multiplier`` 0 means training without privacy, and every statement will say so.
    """

    n: int
    batch_size: float
    steps: int
    noise_multiplier: float
    delta: float
    before: tuple[Mechanism, ...] = ()

    def __post_init__(self) -> None:
        whole = integer("n", self.n, "give the number of training examples, at least 2", low=2)
        object.__setattr__(self, "n", whole)
        fix = "give an expected batch size above 0"
        batch = number("batch_size", self.batch_size, fix, low=0.0, high=1e18, strict=True)
        if batch > self.n:
            raise ArgumentError("batch_size", self.batch_size, f"it cannot exceed n={self.n}: give at most {self.n}")
        object.__setattr__(self, "batch_size", batch)
        object.__setattr__(self, "steps", integer("steps", self.steps, "give the number of training steps, at least 1"))
        if self.sample_rate < MIN_RATE:
            raise ArgumentError("batch_size", self.batch_size, f"give at least {MIN_RATE:g} of the n={self.n} rows")
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        check_delta(self.delta, self.n)
        object.__setattr__(self, "delta", float(self.delta))

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: float,
        delta: float,
        n: int,
        batch_size: float,
        steps: int | None = None,
        epochs: float | None = None,
        before: Sequence[Mechanism] = (),
    ) -> Plan:
        """The plan with the least noise whose total cost, including ``before``, is at most (epsilon, delta) by PLD.

        Give ``steps`` or ``epochs``. ``epsilon=inf`` gives the plan without noise. There is a :class:`PrivacyWarning`
        if ``before`` leaves so little that the noise is more than MAX_NOISE_RATIO times that for the whole budget.
        """
        draft = cls(n, batch_size, steps_for(n, batch_size, steps, epochs), 1.0, delta, tuple(before))
        number("epsilon", epsilon, "give a number above 0 (0.5 to 8 is usual), or inf for no privacy", low=5e-324)
        if math.isinf(epsilon):
            return draft.with_noise(0.0)
        spent = epsilon_of(draft.before, delta)
        if spent >= epsilon:
            raise ArgumentError(
                "epsilon",
                epsilon,
                f"what is released before training costs {spent:.4g} already: raise epsilon or its noise",
            )
        found = draft.with_noise(_least_noise(draft, float(epsilon)))
        _warn_if_little_is_left(found, float(epsilon), spent)
        return found

    def with_noise(self, noise_multiplier: float) -> Plan:
        """The same plan at another noise multiplier."""
        return Plan(self.n, self.batch_size, self.steps, noise_multiplier, self.delta, self.before)

    @property
    def sample_rate(self) -> float:
        """q: the probability with which each row enters a batch."""
        return self.batch_size / self.n

    @property
    def private(self) -> bool:
        return self.noise_multiplier > 0 and all(m.noise_multiplier > 0 for m in self.before)

    @property
    def overflow(self) -> float:
        """The probability, a power of two, that a step's sample exceeds its capacity: 5e-5 of delta in total."""
        if self.sample_rate == 1.0:
            return 0.0
        return min(2.0 ** math.floor(math.log2(OVERFLOW_SHARE * self.delta / self.steps)), 2.0**-20)

    def step(self) -> Mechanism:
        """One training step, for the accountant."""
        return Mechanism(self.noise_multiplier, self.sample_rate, 1, STEP, self.overflow)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        """All releases of the run."""
        return merged((*self.before, replace(self.step(), count=self.steps)))

    def sampler(self, source: NoiseSource) -> PoissonSampler:
        """The Poisson sampler that the accounting assumes."""
        return PoissonSampler(self.n, self.sample_rate, source, self.overflow or MIN_OVERFLOW)

    def epsilon(self, accountant: Accountant = "pld") -> float:
        """The epsilon of the whole run at the plan's delta."""
        return epsilon_of(self.mechanisms(), self.delta, accountant)

    def to_dict(self) -> dict[str, Any]:
        before = [plain_of(m) for m in self.before]
        return {**asdict(replace(self, before=())), "before": before, "sample_rate": self.sample_rate}


@functools.lru_cache(maxsize=256)
def _least_noise(draft: Plan, epsilon: float) -> float:
    """The least noise at which ``draft`` meets ``epsilon``; it depends only on public numbers, so it can be cached."""
    return calibrate(lambda s: draft.with_noise(s).mechanisms(), epsilon, draft.delta)


def _warn_if_little_is_left(plan: Plan, epsilon: float, spent: float) -> None:
    """Warn if earlier releases have left too little budget for a useful training."""
    if spent < 0.9 * epsilon:  # then far more is left than would require ten times the noise
        return
    unspent = _least_noise(replace(plan, before=(), noise_multiplier=1.0), epsilon)
    if plan.noise_multiplier > MAX_NOISE_RATIO * unspent:
        warnings.warn(
            f"what was released before takes epsilon {spent:.8g} of {epsilon:g} at delta {plan.delta:g}: this training "
            f"gets what little is left, and a noise multiplier of {plan.noise_multiplier:.4g} where the whole budget "
            f"would need {unspent:.4g}. It will hardly learn anything: raise epsilon, or spend less before",
            PrivacyWarning,
            stacklevel=3,
        )


def check_delta(delta: float, n: int) -> None:
    """delta must lie in (0, 1/n): at 1/n, publishing one random row would count as private."""
    number("delta", delta, "give a number from 1e-12 to below 1/n, such as 1e-5", low=MIN_DELTA, high=1.0)
    if delta >= 1.0 / n:
        fix = f"it must be below 1/n = {1.0 / n:.3g}, or one whole row could be published: try {0.1 / n:.1g}"
        raise ArgumentError("delta", delta, fix)


def steps_for(n: int, batch_size: float, steps: int | None, epochs: float | None) -> int:
    """The number of steps: as given, or enough for ``epochs`` expected passes over the rows."""
    if (steps is None) == (epochs is None):
        raise ArgumentError("steps, epochs", (steps, epochs), "give one of the two")
    if steps is not None:
        return integer("steps", steps, "give the number of training steps, at least 1")
    integer("n", n, "give the number of training examples, at least 2", low=2)
    number("batch_size", batch_size, "give an expected batch size above 0", low=0.0, high=1e18, strict=True)
    passes = number("epochs", epochs, "give a number of passes above 0", low=0.0, high=1e9, strict=True)
    return max(1, math.ceil(passes * n / batch_size - 1e-9))
