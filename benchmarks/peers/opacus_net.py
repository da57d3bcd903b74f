"""DP-SGD by Opacus: dpmac's default network for tables, trained by Adam on clipped and noised gradients.

Ghost clipping (two backward passes, no gradient per example in memory), which works here for both losses because each
example has one loss. The Poisson batches are drawn here, by mask: Opacus's own loader collates row by row in Python.
"""

from __future__ import annotations

import dp_accounting
import numpy as np
import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from .data import BINS, DELTA, Array, Table, encode
from .timing import started

HIDDEN, STEPS, Q, CLIP, LR = 64, 1000, 0.15, 1.0, 0.005


def noise_multiplier(epsilon: float) -> float:
    """By dp-accounting's privacy loss distributions: Opacus's own search stops up to 3 % of the noise above it."""

    def steps(sigma: float) -> dp_accounting.DpEvent:
        step = dp_accounting.PoissonSampledDpEvent(Q, dp_accounting.GaussianDpEvent(sigma))
        return dp_accounting.SelfComposedDpEvent(step, STEPS)

    return float(dp_accounting.calibrate_dp_mechanism(dp_accounting.pld.PLDAccountant, steps, epsilon, DELTA, tol=1e-3))


def fit_predict(table: Table, epsilon: float, seed: int) -> tuple[Array, float]:
    """Probabilities (or numbers) on the test rows and the seconds of the fit, the noise's calibration included."""
    torch.manual_seed(seed)
    rows = torch.tensor(encode(table.columns, table.train, BINS), dtype=torch.float32)
    clock = started()
    if table.is_class:
        target, outputs = torch.tensor(table.y_train, dtype=torch.long), 2
        last: nn.Module = nn.Identity()
        loss: nn.Module = nn.CrossEntropyLoss()
    else:
        target, outputs = torch.tensor(table.unit(table.y_train), dtype=torch.float32), 1
        last, loss = nn.Flatten(0), nn.MSELoss()
    net = nn.Sequential(nn.Linear(rows.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs), last)
    noise = noise_multiplier(epsilon)
    wrapped = GradSampleModuleFastGradientClipping(net, max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.Adam(wrapped.parameters(), lr=LR),
        noise_multiplier=noise,
        max_grad_norm=CLIP,
        expected_batch_size=Q * len(rows),
    )
    criterion = DPLossFastGradientClipping(wrapped, optimizer, loss, "mean")
    for _ in range(STEPS):
        chosen = torch.rand(len(rows)) < Q
        optimizer.zero_grad()
        criterion(wrapped(rows[chosen]), target[chosen]).backward()
        optimizer.step()
    seconds = clock()
    with torch.no_grad():
        answer = net(torch.tensor(encode(table.columns, table.test, BINS), dtype=torch.float32))
    if table.is_class:
        return answer.softmax(1)[:, 1].numpy().astype(np.float64), seconds
    return table.from_unit(answer.numpy().astype(np.float64)), seconds
