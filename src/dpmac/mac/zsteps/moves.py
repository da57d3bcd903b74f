"""Steps of an elementwise torch optimiser on one flat buffer of coordinates.

All layers' coordinates lie in one buffer, so that a step is one call and one pass over them. Adam is called by its
functional form: the same kernel without what ``torch.optim.Adam`` does around it (groups of parameters, hooks, state in
dictionaries), which for small networks would take as long as the kernel.

Rows are not cut into pieces that fit a core's own cache. It was tried, with 128 to 2,048 rows: with one pass a step it
gained nothing where the processor has a large shared cache, and every call more costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

from dpmac.mac.optimizers import optimizer_for
from dpmac.nets.layers import Shape

Optimizer = type[torch.optim.Optimizer]
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch.optim.Adam's own


def views(flat: Tensor, rows: int, shapes: Sequence[Shape]) -> list[Tensor]:
    """A flat buffer as one (rows, *shape) for each shape, one behind the other."""
    cut = torch.split(flat, [rows * math.prod(shape) for shape in shapes])
    return [piece.view(rows, *shape) for piece, shape in zip(cut, shapes, strict=True)]


def moves(kind: Optimizer, numbers: Tensor, gradient: Tensor, lr: float, steps: int) -> Iterator[Callable[[], object]]:
    """``steps`` times the step of a fresh optimiser of ``numbers``, that reads the buffer ``gradient`` when called.

    Each number moves by its own gradients alone, for the optimisers of :data:`~dpmac.mac.zsteps.base.ELEMENTWISE`.
    """
    if numbers.numel() == 0:
        return
    if kind is torch.optim.Adam and numbers.device.type in ("cpu", "cuda"):
        step = _adam(numbers, gradient, lr)
    else:
        numbers.grad = gradient
        step = optimizer_for(kind, [numbers], lr=lr).step
    for _ in range(steps):
        yield step
    numbers.grad = None


def _adam(numbers: Tensor, gradient: Tensor, lr: float) -> Callable[[], object]:
    first, second = torch.zeros_like(numbers), torch.zeros_like(numbers)
    taken = torch.zeros((), dtype=torch.float32, device=numbers.device)  # steps, where the kernel wants them

    def step() -> None:
        adam(
            [numbers], [gradient], [first], [second], [], [taken],
            fused=True, amsgrad=False, maximize=False,
            lr=lr, beta1=BETA1, beta2=BETA2, eps=EPSILON, weight_decay=0.0,
        )  # fmt: skip

    return step
