"""One fit of a module at one epsilon, by dpmac or by Opacus, with the same plan; and its AUROC on other rows."""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.mac import OptimizerStep, cosine
from dpmac.privacy import JointClip, Plan
from dpmac.randomness import SystemNoise
from dpmac.training import Trainer

from .data import Texts
from .modules import made

DELTA = 1e-6


@dataclass(frozen=True)
class Setting:
    """What is chosen on held-out training rows."""

    rate: float  # the share of the rows in a batch
    steps: int
    clip: float
    lr: float
    hidden: int = 1

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@functools.cache
def plan_for(n: int, epsilon: float, rate: float, steps: int) -> Plan:
    return Plan.for_budget(epsilon=epsilon, delta=DELTA, n=n, batch_size=rate * n, steps=steps)


def row_losses(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")


def by_dpmac(module: nn.Module, plan: Plan, setting: Setting, x: Tensor, y: Tensor) -> nn.Module:
    wstep = OptimizerStep(setting.lr, schedule=cosine)
    run = Trainer.dp_sgd(module, row_losses, plan, JointClip(setting.clip), wstep=wstep, source=SystemNoise()).fit(x, y)
    trained: nn.Module = run.model
    return trained


def by_opacus(module: nn.Module, plan: Plan, setting: Setting, x: Tensor, y: Tensor) -> nn.Module:
    """The plan's noise multiplier, rate and steps, Adam with the same schedule, and Opacus's own ghost clipping."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    clip = {"max_grad_norm": setting.clip}
    wrapped = GradSampleModuleFastGradientClipping(module, use_ghost_clipping=True, **clip)
    inner = torch.optim.Adam([p for p in wrapped.parameters() if p.requires_grad], lr=setting.lr)
    optimizer = DPOptimizerFastGradientClipping(
        inner, noise_multiplier=plan.noise_multiplier, expected_batch_size=plan.batch_size, **clip
    )
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.BCEWithLogitsLoss(), "mean")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(inner, plan.steps)
    for _ in range(plan.steps):
        chosen = torch.rand(len(x)) < setting.rate
        optimizer.zero_grad()
        criterion(wrapped(x[chosen]), y[chosen]).backward()
        optimizer.step()
        schedule.step()
    return module


WAYS = {"dpmac": by_dpmac, "opacus": by_opacus}


def fitted(
    texts: Texts, name: str, way: str, epsilon: float, setting: Setting, rows: tuple[Tensor, Tensor], seed: int
) -> dict[str, float]:
    """Fit on the first rows, judge on the second: AUROC, seconds, epsilon's noise multiplier."""
    fit, other = rows
    torch.manual_seed(seed)
    module = made(name, texts.vectors, setting.hidden)
    plan = plan_for(len(fit), epsilon, setting.rate, setting.steps)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = WAYS[way](module, plan, setting, texts.tokens[fit], texts.labels[fit])
    seconds = time.perf_counter() - started
    with torch.no_grad():
        scores = module.eval()(texts.tokens[other])
    auroc = float(roc_auc_score(texts.labels[other].numpy(), scores.numpy()))
    return {"auroc": auroc, "seconds": seconds, "noise_multiplier": plan.noise_multiplier}
