"""What an auditor or a registry asks of a model beside epsilon, each in one line, from ledger, plan and estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpmac.disclosure.audited import audit_line
from dpmac.disclosure.settings import chosen_defaults
from dpmac.disclosure.spent import Spent, own_entries
from dpmac.privacy import Ledger, Plan
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import noun

FLOATING = (
    "the shares of a block are summed in a margin that is set aside for rounding, the sum is rounded to a public grid "
    "of fixed step, and whole numbers of grid steps with exactly the law of a rounded Gaussian are added, so that a "
    "release has no digits below the grid (docs/kernels.md proves what rounding can cost, and what is left for it)"
)
RANDOM = (
    "ciphers that the operating system keys anew for every draw (256 bits from its generator): AES-256 in counter mode "
    "on a CPU, ChaCha20 on a CUDA device; the claim holds against everyone who cannot tell these from true randomness"
)
SEEDED_RANDOM = "A SEED: whoever knows or guesses it can draw the noise again and subtract it"


@dataclass(frozen=True)
class Detail:
    """One line: ``key`` for a machine, ``title`` and ``text`` for people."""

    key: str
    title: str
    text: str


def details_of(
    estimator: Any, ledger: Ledger, plan: Plan | None, spent: Spent, version: str, digest: str | None
) -> list[Detail]:
    """All lines for a fitted estimator, whose ledger is as it was at the end of the fit.

    ``version`` and ``digest`` are of the code that made it; the digest is not known of older folders.
    """
    found = [
        Detail("budget", "Budget", spent.sentence()),
        Detail("variant", "Privacy variant", _variant(ledger)),
        Detail("neighbours", "Neighbouring tables", neighbours(ledger.unit)),
        Detail("clipping", "Clipping", _clipping(estimator, ledger, plan)),
        *_on_samples(ledger.unit, plan),
        Detail("floating_point", "Floating point", FLOATING + "."),
        Detail("randomness", "Randomness", _randomness(ledger)),
        Detail("audit", "Audit", audit_line(version)),
        Detail("code", "Code", _code(version, digest)),
    ]
    if ledger.unit != ROW:
        found.insert(5, Detail("contributions", "Rows of a person", _contributions(estimator.max_rows)))
    return found


def neighbours(unit: str) -> str:
    """The neighbour relation in our words and in the field's."""
    holds = "a row"
    if unit != ROW:
        holds = "one person, with all their rows,"
    one = noun(unit)
    return (
        f"two tables are neighbours if they have the same number n of places, one for each {one}, and agree in all but "
        f"one, which holds {holds} in one of them and is blank in the other. In the literature this is zero-out "
        f"(null-record) adjacency; n is public, and the pair of distributions is that of add/remove adjacency of one "
        f"{one} at the same sampling rate. Replacing one {one} by another is two such steps."
    )


def _variant(ledger: Ledger) -> str:
    text = (
        "approximate differential privacy, (epsilon, delta), from the composition of Gaussian mechanisms; the pair "
        "that is stated is one point of the curve delta(epsilon), all of which holds"
    )
    if any(entry.noise_multiplier == 0 for entry in ledger.entries):
        return "none: a release was made without noise."
    return f"{text} (dpmac statement RUN shows the curve)."


def _clipping(estimator: Any, ledger: Ledger, plan: Plan | None) -> str:
    own, one = own_entries(ledger, plan), noun(ledger.unit)
    if plan is not None and not plan.noise_multiplier:
        return "none: the model was trained without privacy."
    if plan is None or own is None:
        return (
            f"each {one} adds at most the scale of each released part, whose proof is at the top of its method's file."
        )
    text = f"what one {one} adds to a step is bounded in norm, before any sum"
    rule = chosen_defaults(estimator, plan)
    if estimator.bound is None and rule is not None:
        text = f"the whole gradient of each row is clipped to a norm of {rule.threshold:g} before it is summed"
        if one != ROW:
            text += ", and the rows of a person are averaged, so that a person adds no more"
    elif estimator.bound is not None:
        text += f" (bound: {str(estimator.bound)[:120]})"
    scales = dict(own[0].scales) if own else {}
    if scales:
        text += f"; scales of the noise by part: {', '.join(f'{name} {scale:.4g}' for name, scale in scales.items())}"
    return f"{text}."


def _on_samples(unit: str, plan: Plan | None) -> list[Detail]:
    one = noun(unit)
    if plan is None:
        return [Detail("sampling", "Sampling", f"none: every release was made from all {one}s.")]
    rate = (
        f"each of the {plan.n:,} {one}s enters a step with probability {plan.sample_rate:.6g}, independently of all "
        f"others (Poisson sampling), in {plan.steps:,} steps; who was drawn is never published."
    )
    if plan.sample_rate == 1:
        rate = f"none: every one of the {plan.steps:,} steps was made from all {plan.n:,} {one}s."
    divisor = (
        f"noisy sums are divided by {plan.batch_size:g}, the expected number of {one}s in a step: a public constant, "
        "not the number that was drawn."
    )
    return [Detail("divisor", "Divisor", divisor), Detail("sampling", "Sampling", rate)]


def _contributions(most: int) -> str:
    return (
        f"at most {most} rows of a person, drawn anew for every release, take part in it, and are averaged: the bound "
        "is on the person, however many rows they have."
    )


def _randomness(ledger: Ledger) -> str:
    if ledger.seeded:
        return f"{SEEDED_RANDOM}."
    return f"{RANDOM}."


def _code(version: str, digest: str | None) -> str:
    if digest is None:
        return f"dpmac {version}."
    return f"dpmac {version}, SHA-256 of its sources {digest} (dpmac version prints that of the code at hand)."
