"""Maximum pooling has no parameters, but took a quarter of a small convolutional network's step: a rule to shorten it.

torch's kernel for a CPU compares the channels of a pixel all at once if they lie side by side in memory, and one number
after the other if they do not. To copy the images first, pool, and copy back takes about half as long, there and back.
Values and gradients are the same numbers either way, also among equal ones and beside NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.modules.taps import Watch

Sizes = int | Sequence[int]
FEWEST = 4  # channels; fewer are not worth the copies


class SideBySide(torch.autograd.Function):
    """``F.max_pool2d`` of a copy with channels side by side. What comes out, and the gradient, lie as without it."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, *sizes: Any) -> Tensor:
        copy = input.contiguous(memory_format=torch.channels_last)
        values, places = F.max_pool2d_with_indices(copy, *sizes)
        ctx.sizes = sizes
        ctx.save_for_backward(input, places.contiguous())
        return values.contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        input, places = ctx.saved_tensors
        back = torch.ops.aten.max_pool2d_with_indices_backward
        return back(gradient.contiguous(), input, *ctx.sizes, places), *(None for _ in ctx.sizes)


def max_pool2d(
    watch: Watch,  # noqa: ARG001
    func: Any,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``func(input, ...)``, by :class:`SideBySide` where that is quicker."""
    sizes = (kernel_size, stride or kernel_size, padding, dilation, ceil_mode)
    usual = input.device.type == "cpu" and input.dim() == 4 and input.is_contiguous()
    if return_indices:
        return func(input, *sizes, return_indices)
    if not usual or input.shape[1] < FEWEST:
        return func(input, *sizes)
    return SideBySide.apply(input, *sizes)  # type: ignore[no-untyped-call]
