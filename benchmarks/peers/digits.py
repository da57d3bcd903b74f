"""Whole private fits on images: dpmac's default and its recipe for MNIST, Opacus, and DP-EBM.

Each gets the training rows (pixels in [0, 1], public), labels 0 to 9 and the budget, and returns probabilities of the
test rows, the seconds of the fit, and what it did: network, batch, steps, and the epsilon its own accountant says.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from dpmac.data import Dataset

from .data import Array
from .timing import Seconds, started

DELTA, CLASSES = 1e-5, 10
Fit = tuple[Array, Seconds, dict[str, Any]]


def dpmac(data: Dataset, epsilon: float, seed: int) -> Fit:  # noqa: ARG001
    """The estimator with its defaults, told the pixels' range and the classes: system randomness, hence no seed."""
    from dpmac import DPMACClassifier, Machine

    x, y, test = data.x_train.numpy(), data.y_train.numpy(), data.x_test.numpy()
    clock = started()
    model = DPMACClassifier(
        epsilon=epsilon,
        delta=DELTA,
        feature_range=(0, 1),
        classes=range(CLASSES),
        machine=Machine(threads=torch.get_num_threads(), progress=False),
    ).fit(x, y)
    seconds, plan = clock(), model.plan_
    facts = {"network": "-".join(map(str, model.network_.sizes)), "batch": plan.batch_size, "steps": plan.steps}
    return np.asarray(model.predict_proba(test), np.float64), seconds, facts | {"said": model.privacy_.epsilon}


def recipe(data: Dataset, epsilon: float, seed: int) -> Fit:  # noqa: ARG001
    """DP-MAC as in ``reproduction``: 60 components by DP-PCA, then 300 units by settings that were searched for.

    They were searched on held-out training rows, whose privacy no budget pays for. Its outputs are ten sigmoids, not
    calibrated: as probabilities they are made to sum to 1.
    """
    from dpmac.methods import DPPCA
    from dpmac.privacy import Ledger
    from dpmac.randomness import SystemNoise
    from reproduction.settings import TIGHT
    from reproduction.tasks import COMPONENTS

    chosen, source, ledger = TIGHT["mnist", "DP-MAC", epsilon], SystemNoise(), Ledger()
    assert chosen.pca_noise is not None
    clock = started()
    feature_map = DPPCA(COMPONENTS, chosen.pca_noise, normalise=True).fit(data.x_train, source, ledger)
    scaled = feature_map.feature_map(length=chosen.input_scale)
    trainer = chosen.trainer(COMPONENTS, CLASSES, len(data.x_train), DELTA, source, feature_map=scaled)
    run = trainer.fit(data.x_train, torch.eye(CLASSES)[data.y_train], ledger)
    seconds = clock()
    with torch.no_grad():
        each = run.outputs(data.x_test).double().sigmoid()
    facts = {"network": "-".join(map(str, (COMPONENTS, *chosen.hidden, CLASSES))), "batch": chosen.batch_size}
    facts |= {"steps": run.plan.steps, "said": ledger.epsilon(DELTA)}
    return (each / each.sum(dim=1, keepdim=True)).numpy(), seconds, facts


def opacus(data: Dataset, epsilon: float, seed: int) -> Fit:
    """Opacus as its tutorial has it: PrivacyEngine, PRV accountant, its Poisson loader, ghost clipping.

    The network, expected batch, steps, threshold, rate and its cosine are those of dpmac's default for these rows.
    """
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    from dpmac.privacy import Plan
    from dpmac.training.defaults import defaults_for, schedule_for

    torch.manual_seed(seed)
    n = len(data.x_train)
    schedule = schedule_for(n)
    batch, steps = int(schedule.batch_size), schedule.steps
    plan = Plan.for_budget(epsilon=epsilon, delta=DELTA, n=n, batch_size=batch, steps=steps)
    usual = defaults_for(plan, regression=False)  # asked before the clock starts: dpmac's rule is not Opacus's work
    sizes = (data.x_train.shape[1], *usual.hidden, CLASSES)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())][:-1]
    rows = TensorDataset(2 * data.x_train - 1, data.y_train)  # the range to [-1, 1], as dpmac's feature map does
    clock = started()
    net, engine = nn.Sequential(*layers), PrivacyEngine(accountant="prv")
    module, optimizer, criterion, loader = engine.make_private_with_epsilon(
        module=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=usual.learning_rate),
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(rows, batch_size=batch),
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=math.ceil(steps * batch / n),
        max_grad_norm=usual.threshold,
        grad_sample_mode="ghost",
    )
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    done = 0
    while done < steps:
        for x, y in loader:
            optimizer.zero_grad()
            criterion(module(x), y).backward()
            optimizer.step()
            decay.step()
            done += 1
    seconds = clock()
    with torch.no_grad():
        answer = net(2 * data.x_test - 1).double().softmax(dim=1).numpy()
    facts = {"network": "-".join(map(str, sizes)), "batch": batch, "steps": done, "threshold": usual.threshold}
    return answer, seconds, facts | {"said": float(engine.get_epsilon(DELTA))}


def dp_ebm(data: Dataset, epsilon: float, seed: int) -> Fit:  # noqa: ARG001
    """interpret's DP-EBM takes two classes only: ten models, a digit against the rest, that share the budget.

    A model spends a share on its bins and the rest on its boosting, each a Gaussian mechanism of some mu; of ten such
    models each gets mu / sqrt(10) of both, by which they compose to what one model with all of it would spend.
    """
    from interpret.privacy import DPExplainableBoostingClassifier

    columns = data.x_train.shape[1]
    bins = gaussian_share(0.1 * epsilon, DELTA / 2, CLASSES)  # its default: a tenth of epsilon, half of delta
    boosting = gaussian_share(0.9 * epsilon, DELTA / 2, CLASSES)
    settings = {
        "feature_names": [str(k) for k in range(columns)],
        "feature_types": ["continuous"] * columns,
        "privacy_bounds": {str(k): (0.0, 1.0) for k in range(columns)},
        "epsilon": bins + boosting,
        "delta": DELTA,
        "bin_budget_frac": bins / (bins + boosting),
        "n_jobs": 1,
    }
    x, y, test = data.x_train.numpy(), data.y_train.numpy(), data.x_test.numpy()
    clock, models = started(), []
    for digit in range(CLASSES):
        models.append(DPExplainableBoostingClassifier(**settings).fit(x, (y == digit).astype(int)))
        print(f"{digit + 1} of {CLASSES} models after {clock():.0f} s", file=sys.stderr, flush=True)
    seconds = clock()
    each = np.stack([model.predict_proba(test)[:, 1] for model in models], axis=1)
    return each / each.sum(axis=1, keepdims=True), seconds, {"network": "10 x DP-EBM", "said": epsilon}


def gaussian_share(epsilon: float, delta: float, parts: int) -> float:
    """The epsilon, at the same delta, of each of ``parts`` Gaussian mechanisms that together give ``epsilon``."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def excess(e: float, mu: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)) - delta

    mu = brentq(lambda one: excess(epsilon, one), 1e-3, 50) / math.sqrt(parts)
    return float(brentq(lambda e: excess(e, mu), 1e-9, epsilon))


METHODS: dict[str, Callable[[Dataset, float, int], Fit]] = {
    "dpmac": dpmac,
    "dpmac-recipe": recipe,
    "opacus": opacus,
    "dp-ebm": dp_ebm,
}
