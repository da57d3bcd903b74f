"""Gradients of parameters that no rule covers: the whole module is differentiated for each row by itself.

By ``vmap`` of ``grad`` where the module allows it, otherwise row after row. Only the parameters that need it are
differentiated; all others are constants here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from dpmac.kernels.gathering import Columns
from dpmac.modules.rules import RULES
from dpmac.modules.taps import Watch
from dpmac.modules.task import Task, differentiating


def by_vmap(task: Task, names: Sequence[str], columns: Columns) -> dict[str, Tensor]:
    """Every row's gradient of the named parameters, all rows at once."""
    wanted = {name: task.parameters[name].detach() for name in names}

    def loss_of_one(parameters: dict[str, Tensor], *row: Tensor) -> Tensor:
        with Watch(RULES, {}, 1):  # recurrent layers and attention taken apart: torch's own kernels have no vmap
            one = tuple(column.unsqueeze(0) for column in row)
            return task.losses(one, {**_constants(task), **parameters}).squeeze(0)

    with sdpa_kernel(SDPBackend.MATH):  # the only attention that vmap knows
        found: dict[str, Tensor] = vmap(grad(loss_of_one), in_dims=(None, *[0] * len(columns)))(wanted, *columns)
    return {name: gradient.detach() for name, gradient in found.items()}


def one_by_one(task: Task, names: Sequence[str], columns: Columns, total: bool = False) -> dict[str, Tensor]:
    """The same, row after row, by autograd.

    With ``total`` the module runs by the rules, as it does in a training: a token that no table has makes a row's
    numbers NaN, where torch would stop.
    """
    parameters = [task.parameters[name] for name in names]
    found: list[list[Tensor]] = []
    watch = Watch(RULES, {}, 1) if total else nullcontext()
    with differentiating(), watch:
        for n in range(columns[0].shape[0]):
            loss = task.losses(tuple(column[n : n + 1] for column in columns))
            gradients = torch.autograd.grad(loss, parameters, torch.ones_like(loss), allow_unused=True)
            pairs = zip(gradients, parameters, strict=True)
            found.append([torch.zeros_like(p) if g is None else g.detach() for g, p in pairs])
    stacked = [torch.stack(gradients) for gradients in zip(*found, strict=True)]
    return dict(zip(names, stacked, strict=True))


def _constants(task: Task) -> dict[str, Tensor]:
    """All tensors of the module without a graph."""
    tensors = (*task.module.named_parameters(), *task.module.named_buffers())
    return {name: tensor.detach() for name, tensor in tensors}
