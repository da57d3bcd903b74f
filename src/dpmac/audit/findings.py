"""What an audit is asked to do, and what it finds: both plain values, to be shown, written down and compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpmac.checks import integer

DELTA = 1e-5  # at which claims and bounds are put into words as epsilons
MIN_DRAWS = 40  # draws of a case
EXACT = 1.0 + 1e-9  # what is above the claim, and not by rounding


@dataclass(frozen=True)
class Effort:
    """How much is drawn, fixed before anything is: ``draws`` releases a case, half of them from either table.

    A part of them is for the attacker who learns, and is not judged. ``canaries`` are those of the run with many.
    """

    name: str
    draws: int
    canaries: int

    def __post_init__(self) -> None:
        integer("draws", self.draws, f"give the number of draws of a case, at least {MIN_DRAWS}", low=MIN_DRAWS)
        integer("canaries", self.canaries, "give the number of canaries of the one run, at least 10", low=10)

    @property
    def learned(self) -> int:
        """Draws a side to learn from: a tenth, or up to 200 where a tenth would be too few."""
        side = self.draws // 2
        return max(side // 10, min(200, side // 4))

    @property
    def judged(self) -> int:
        """Draws a side that count."""
        return self.draws // 2 - self.learned

    def less(self, share: float) -> Effort:
        """For a case whose draws take long."""
        return replace(self, draws=max(MIN_DRAWS, round(self.draws * share)))


QUICK = Effort("quick", 1_300, 1_000)
FULL = Effort("full", 50_000, 2_000)


@dataclass(frozen=True)
class Finding:
    """One look: what is claimed, and what one attacker has proved, with the confidence of the whole audit.

    ``ratio`` is the strength that was proved over the one that is claimed (:mod:`dpmac.audit.curves`), or, of many
    canaries in one run, epsilon over epsilon. Above 1, the claim is broken. ``reach`` is how far the canary moves the
    release, exactly, as a part of what the bound allows: no attacker can prove more than that of a correct build, and
    above 1 it is itself the proof that a bound is broken.
    """

    case: str
    attacker: str
    claim: str
    claimed_epsilon: float
    epsilon: float
    ratio: float
    reach: float
    draws: int
    delta: float = DELTA
    said_without: int = 0
    said_with: int = 0

    @property
    def exceeded(self) -> bool:
        return max(self.ratio, self.reach) > EXACT

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; what is infinite is null."""
        kept = asdict(self)
        infinite = [name for name, value in kept.items() if isinstance(value, float) and not math.isfinite(value)]
        return {**kept, **dict.fromkeys(infinite), "exceeded": self.exceeded}


@dataclass(frozen=True)
class Audit:
    """All findings of one audit. With a chance of ``confidence`` at least, none of its lower bounds is above the truth,
    so that a correct build is accused in 1 - ``confidence`` of all audits at most."""

    findings: tuple[Finding, ...]
    effort: Effort
    confidence: float
    seconds: float

    @property
    def exceeded(self) -> tuple[Finding, ...]:
        """Findings that prove a claim wrong."""
        return tuple(finding for finding in self.findings if finding.exceeded)

    def cases(self) -> dict[str, Finding]:
        """The finding of every case that proves most."""
        best: dict[str, Finding] = {}
        for finding in self.findings:
            if finding.case not in best or finding.ratio > best[finding.case].ratio:
                best[finding.case] = finding
        return best

    def to_dict(self) -> dict[str, Any]:
        from dpmac import __version__

        return {
            "dpmac": __version__,
            "effort": self.effort.name,
            "draws_per_case": self.effort.draws,
            "confidence": self.confidence,
            "looks": len(self.findings),
            "exceeded": [finding.case for finding in self.exceeded],
            "seconds": round(self.seconds, 1),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def looks_of(cases: Sequence[Any]) -> int:
    """How many findings cases will give: fixed beforehand, and what the confidence is divided by."""
    return sum(case.looks for case in cases)
