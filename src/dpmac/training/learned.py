"""The paper's Algorithm 2, end to end: pre-train, release a histogram of norms, train with its thresholds."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.kernels.moments import merged
from dpmac.methods import NormHistogram
from dpmac.nets import Network
from dpmac.privacy import Ledger, Mechanism, PerLayerClip, Plan, PrivateRows
from dpmac.training.rows import private_rows
from dpmac.training.run import Run
from dpmac.training.step import Step
from dpmac.training.trainer import Trainer


def costs_before(pretraining: Plan, histogram: NormHistogram) -> tuple[Mechanism, ...]:
    """The releases of Algorithm 2 before its last training, for ``Plan.for_budget(before=...)``."""
    return merged((*pretraining.mechanisms(), histogram.mechanism()))


def fit_with_learned_thresholds(
    trainer: Trainer,
    pretraining: Plan,
    histogram: NormHistogram,
    x: Tensor | PrivateRows,
    y: Tensor | None = None,
    ledger: Ledger | None = None,
) -> Run:
    """Algorithm 2: all three parts use one ledger and one budget.

    ``trainer.plan`` must list the first two parts in ``before`` (see :func:`costs_before`); ``trainer.bound`` is used
    in the pre-training, and its thresholds are then replaced by the learned ones. The three parts have separate
    noise sources: noise is never used twice, not even by a seeded run.
    """
    if not isinstance(trainer.network, Network):
        raise ArgumentError("network", type(trainer.network).__name__, "Algorithm 2 trains dpmac networks: use one")
    rows = private_rows(x, y, trainer.network, trainer.loss, trainer.feature_map, trainer.world)
    if set(trainer.plan.before) != set(costs_before(pretraining, histogram)):
        fix = "it must be costs_before(pretraining, histogram), so that one budget covers all three parts"
        raise ArgumentError("trainer.plan.before", trainer.plan.before, fix)
    if not rows.n == trainer.plan.n == pretraining.n:
        raise ArgumentError("x", f"{rows.n} rows", f"the plans are for {pretraining.n} and {trainer.plan.n} rows")
    first = replace(trainer, plan=pretraining, source=trainer.source.spawn("pre-training")).fit(rows, ledger=ledger)
    network, book = first.model, first.ledger
    step = Step(network, trainer.loss, trainer.zstep, trainer.expansion, trainer.bound, first.feature_map)
    names = [p.name for p in trainer.expansion.partitions(network, trainer.loss)]
    source = trainer.source.spawn("histogram")
    table = rows.to(network.device)
    found = histogram.thresholds(table, step.unbounded, names, source, book, trainer.micro_batch)
    last = replace(trainer, network=network, bound=PerLayerClip(found), source=trainer.source.spawn("training"))
    return last.fit(rows, ledger=book)
