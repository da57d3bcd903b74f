"""Convolutions in one, two and three dimensions, and their transposes, by unfolding the images into patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.modules.shares import Built, Positions, Share
from dpmac.modules.taps import Watch

Sizes = int | Sequence[int]


def conv(
    watch: Watch,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution is a linear layer that serves every patch; of several groups, each has its own."""
    dims = weight.dim() - 2
    if not watch.knows(weight, bias) or input.dim() != dims + 2:
        result: Tensor = func(input, weight, bias, stride, padding, dilation, groups)
        return result
    kernel = tuple(weight.shape[2:])
    steps, gaps = several(stride, dims), several(dilation, dims)

    def shares(gradient: Tensor) -> dict[str, Share]:
        padded = pad(input.detach(), padding, kernel, gaps)
        slopes = by_row(gradient, watch.rows).flatten(3)  # (rows, k, d_out, positions)
        found: dict[str, Share] = {"bias": Built(slopes.sum(dim=(1, 3)))}
        if watch.knows(weight):
            found["weight"] = _weight_share(slopes, by_row(unfold(padded, kernel, steps, gaps), watch.rows), groups)
        return found

    parameters = {"weight": weight, "bias": bias}
    return watch.run(
        f"conv{dims}d",
        parameters,
        lambda w, b: func(input, w, b, stride, padding, dilation, groups),
        shares,
        input,
    )


def conv_transpose(
    watch: Watch,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transpose of a convolution: inputs and gradients change places, the gradient is what is unfolded."""
    dims = weight.dim() - 2
    arguments = (stride, padding, output_padding, groups, dilation)
    if not watch.knows(weight, bias) or input.dim() != dims + 2:
        result: Tensor = func(input, weight, bias, *arguments)
        return result
    kernel = tuple(weight.shape[2:])
    steps, gaps = several(stride, dims), several(dilation, dims)

    def shares(gradient: Tensor) -> dict[str, Share]:
        slopes = by_row(gradient, watch.rows).flatten(3)
        found: dict[str, Share] = {"bias": Built(slopes.sum(dim=(1, 3)))}
        if watch.knows(weight):
            wide = unfold(pad(gradient, padding, kernel, gaps), kernel, steps, gaps, tuple(input.shape[2:]))
            inputs = by_row(input.detach(), watch.rows).flatten(3)
            found["weight"] = _weight_share(inputs, by_row(wide, watch.rows), groups)
        return found

    return watch.run(
        f"conv_transpose{dims}d",
        {"weight": weight, "bias": bias},
        lambda w, b: func(input, w, b, *arguments),
        shares,
        input,
    )


def _weight_share(slopes: Tensor, patches: Tensor, groups: int) -> Share:
    """From (rows, k, d_out, positions) and (rows, k, channels x kernel, positions)."""
    rows, each, units, positions = slopes.shape
    if groups == 1:
        return Positions(_positions(slopes), _positions(patches))
    left = slopes.reshape(rows * each * groups, units // groups, positions)
    right = patches.reshape(rows * each * groups, -1, positions)
    values = torch.bmm(left, right.transpose(1, 2)).reshape(rows, each, -1)
    return Built(values.sum(dim=1))


def _positions(values: Tensor) -> Tensor:
    """(rows, k, d, positions) to (rows, k x positions, d), without a copy where k is 1."""
    if values.shape[1] == 1:
        return values.squeeze(1).transpose(1, 2)
    return values.transpose(2, 3).flatten(1, 2)


def several(value: Sizes, dims: int) -> tuple[int, ...]:
    """One whole number for each dimension."""
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) * (dims if len(value) == 1 else 1)


def pad(images: Tensor, padding: Sizes | str, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
    """Images with zeros around them, as the convolution saw them."""
    if padding == "valid":
        return images
    if isinstance(padding, str):  # "same": one more behind than before, where the sum is odd
        whole = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        sides = [(total // 2, total - total // 2) for total in whole]
    else:
        sides = [(size, size) for size in several(padding, len(kernel))]
    flat = [size for pair in reversed(sides) for size in pair]
    return F.pad(images, flat) if any(flat) else images


def unfold(
    images: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    sizes: tuple[int, ...] | None = None,
) -> Tensor:
    """Every patch as a column: (images, channels x kernel, positions). ``sizes`` are how many positions to keep."""
    if len(kernel) == 2 and sizes is None:
        return F.unfold(images, kernel, dilation=dilation, stride=stride)
    patches = images
    dims = len(kernel)
    for place in range(dims):
        reach = dilation[place] * (kernel[place] - 1) + 1
        patches = patches.unfold(2 + place, reach, stride[place])[..., :: dilation[place]]
        if sizes is not None:
            patches = patches.narrow(2 + place, 0, sizes[place])
    # (images, channels, positions..., kernel...)
    order = (0, 1, *range(2 + dims, 2 + 2 * dims), *range(2, 2 + dims))
    return patches.permute(order).reshape(images.shape[0], -1, _product(patches.shape[2 : 2 + dims]))


def by_row(values: Tensor, rows: int) -> Tensor:
    """(rows x k, ...) to (rows, k, ...)."""
    return values.reshape(rows, values.shape[0] // rows, *values.shape[1:])


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
