"""Two private estimators in a row: rows that another one has made, and whose releases this ledger may lack.

A classifier that is fitted on the codes of a private PCA tells of all that was spent only if both wrote into one
ledger. Outputs of this process are recognised (:mod:`dpmac.extensions.outputs`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from dpmac.checks import PrivacyWarning
from dpmac.estimators.warning import outside
from dpmac.extensions.outputs import maker_of
from dpmac.extensions.provenance import PUBLIC
from dpmac.kernels.moments import merged
from dpmac.privacy import Ledger, Mechanism, Origin
from dpmac.privacy.accounting import epsilon_of
from dpmac.privacy.statement import round_up


@dataclass(frozen=True)
class Stage:
    """What has made the rows of a fit: an ``origin``, and ``notes`` on it for the statement."""

    origin: Origin = PUBLIC
    notes: tuple[str, ...] = ()


def stage_before(
    inputs: Iterable[Tensor], ledger: Ledger, own: Iterable[Mechanism], delta: float, leads: bool = True
) -> Stage:
    """What has made any of the ``inputs``; a warning, before anything is spent, if ``ledger`` lacks releases of it.

    ``own`` is what this fit will release. Only the process that ``leads`` warns.
    """
    origin = Origin.merged(*(maker_of(rows.detach().flatten(1).cpu().numpy()) for rows in inputs))
    lacking = origin.missing_in(ledger)  # other splits, or another ledger altogether
    if not lacking:
        return Stage(origin, origin.notes())
    planned = tuple(own)
    mine = epsilon_of(merged((*ledger.mechanisms(), *planned)), delta)
    before = epsilon_of(lacking.mechanisms(), delta)
    both = epsilon_of(merged((*lacking.mechanisms(), *ledger.mechanisms(), *planned)), delta)
    if leads and all(m.noise_multiplier > 0 for m in planned):
        text = (
            "X was made by another private estimator of this process, and what both spend adds up, while the statement "
            f"of this fit tells of its own ledger only: epsilon {round_up(mine)}. The {len(lacking)} releases of the "
            f"other one, epsilon {round_up(before)}, are not in it; together that is epsilon {round_up(both)} at delta "
            f"{delta:g}. Give both the same ledger (ledger = dpmac.Ledger(); or its path), and the statement has it all"
        )
        warnings.warn(text, PrivacyWarning, stacklevel=outside())
    note = (
        f"how the rows were made: another private estimator gave them, by {len(lacking)} releases (epsilon "
        f"{round_up(before)} at delta {delta:g}) that this ledger does not hold; unless those were of other people, "
        f"epsilon is {round_up(both)} in all;"
    )
    return Stage(origin, (note, *origin.notes()))
