"""The paper's Algorithm 2, end to end: pre-train, release a histogram of norms, train with the thresholds it gives."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.privacy.accounting import Mechanism, merged
from dpmac.privacy.bound import PerLayerClip
from dpmac.privacy.ledger import Ledger
from dpmac.privacy.parts import Part
from dpmac.privacy.plan import Plan
from dpmac.privacy.sampling import PrivateRows
from dpmac.privacy.thresholds import NormHistogram
from dpmac.training.inputs import check_rows
from dpmac.training.run import Run
from dpmac.training.trainer import Trainer


def costs_before(pretraining: Plan, histogram: NormHistogram) -> tuple[Mechanism, ...]:
    """What Algorithm 2 releases before its last training: give it to ``Plan.for_budget(before=...)``."""
    return merged((*pretraining.mechanisms(), histogram.mechanism()))


def fit_with_learned_thresholds(
    trainer: Trainer, pretraining: Plan, histogram: NormHistogram, x: Tensor, y: Tensor, ledger: Ledger | None = None
) -> Run:
    """Algorithm 2: all three parts in one ledger, all three paid from one budget.

    ``trainer.plan`` must list the first two parts in ``before`` (see :func:`costs_before`); ``trainer.bound`` is used
    in the pre-training, and its thresholds are then replaced by the learned ones. The three parts draw from sources of
    their own: noise is never used twice, not even by a seeded run.
    """
    check_rows(x, y, trainer.network, trainer.loss)
    if set(trainer.plan.before) != set(costs_before(pretraining, histogram)):
        fix = "it must be costs_before(pretraining, histogram), so that one budget covers all three parts"
        raise ArgumentError("trainer.plan.before", trainer.plan.before, fix)
    if not len(x) == trainer.plan.n == pretraining.n:
        raise ArgumentError("x", f"{len(x)} rows", f"the plans are for {pretraining.n} and {trainer.plan.n} rows")
    book = Ledger() if ledger is None else ledger
    first = replace(trainer, plan=pretraining, source=trainer.source.spawn("pre-training")).fit(x, y, book)
    network = first.model

    def parts_of(*rows: Tensor) -> list[Part]:
        coordinates = trainer.zstep.solve(network, trainer.loss, rows[0], rows[1])
        return trainer.expansion.parts(network, trainer.loss, coordinates)

    names = [block.name for block in trainer.expansion.blocks(network, trainer.loss)]
    rows = PrivateRows(x.to(network.device), y.to(network.device))
    source = trainer.source.spawn("histogram")
    found = histogram.thresholds(rows, parts_of, names, source, book, trainer.micro_batch)
    bound = PerLayerClip(found)
    return replace(trainer, network=network, bound=bound, source=trainer.source.spawn("training")).fit(x, y, book)
