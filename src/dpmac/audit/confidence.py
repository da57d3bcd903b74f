"""What so many successes in so many draws prove, whatever the law of the statistic is: Clopper and Pearson's bounds.

An attacker says "the row is there" if a statistic exceeds a threshold. Of ``draws`` releases from the table without the
row it is wrong in some, of as many from the table with the row it is right in some. Each count is binomial, and
nothing else is assumed: no Gaussian, no variance that is known, no limit of large numbers. The number of draws and the
threshold are fixed before these draws are made.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import betaincinv

from dpmac.checks import integer, number


@dataclass(frozen=True)
class Corner:
    """The corner of a confidence box that is kindest to the claim: false positives at most, true ones at least."""

    false_positives: float
    true_positives: float


@dataclass(frozen=True)
class Counts:
    """How often the attacker said "there": of ``draws`` releases each from the table without the row, and with it."""

    said_without: int
    said_with: int
    draws: int

    def corner(self, miss: float) -> Corner:
        """The truth is outside, on the side that would accuse a correct build, with a chance of ``miss`` at most."""
        return Corner(
            upper(self.said_without, self.draws, miss / 2),
            lower(self.said_with, self.draws, miss / 2),
        )


def lower(successes: float, draws: int, miss: float) -> float:
    """The true probability lies below this with a chance of ``miss`` at most. (An expected count may be a fraction.)"""
    number("miss", miss, "give the chance of being wrong, above 0 and below 1", low=0.0, high=1.0, strict=True)
    integer("draws", draws, "give the number of draws, at least 1")
    if successes > 0:
        return float(betaincinv(successes, draws - successes + 1, miss))
    return 0.0


def upper(successes: float, draws: int, miss: float) -> float:
    """The true probability lies above this with a chance of ``miss`` at most."""
    return 1.0 - lower(draws - successes, draws, miss)


def share_of(confidence: float, looks: int) -> float:
    """The chance of being wrong that one of ``looks`` may have, so that all of them are right with ``confidence``.

    Bonferroni's correction: chances add up at most. With 10,000 draws and no correction, two of our first fourteen
    looks at a correct build had exceeded its claim, by chance.
    """
    fix = "give the chance that all bounds hold, above 0 and below 1, such as 0.99"
    level = number("confidence", confidence, fix, low=0.0, high=1.0, strict=True)
    return (1.0 - level) / integer("looks", looks, "give the number of looks, at least 1")
