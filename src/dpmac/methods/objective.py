"""An objective: what is asked of the rows, and what is learned from the noisy answer.

Everything that learns from private rows is one: a training step, a closed form, a calibration. Whatever drives an
objective (the trainer, its checkpoints, several processes, the audit) needs nothing but :meth:`Objective.query` and
:meth:`Objective.apply`. A training asks for more, to judge and to resume: :mod:`dpmac.training.objective`.
"""

from __future__ import annotations

from typing import Protocol

from dpmac.privacy import Answer, Ledger, PrivateRows, Query, release
from dpmac.randomness import NoiseSource


class Objective(Protocol):
    """``query`` says what is asked of the rows now; ``apply`` learns from the answer, which is post-processing.

    Nothing may change between the two. The release measures what the query promises. That the query treats every row
    by itself is the objective's own duty (:mod:`dpmac.extensions.row_independence` tries it on made-up rows).
    """

    def query(self) -> Query: ...

    def apply(self, answer: Answer) -> None: ...


def learn_from_all_rows(
    objective: Objective,
    table: PrivateRows,
    *,
    noise_multiplier: float,
    source: NoiseSource,
    ledger: Ledger,
    micro_batch: int | None = None,
) -> None:
    """One release on all rows, without sampling: the ledger gets one Gaussian mechanism of ``noise_multiplier``."""
    answer = release(
        table.everything(),
        objective.query(),
        noise_multiplier=noise_multiplier,
        source=source,
        ledger=ledger,
        micro_batch=micro_batch,
    )
    objective.apply(answer)
