"""Convolutions in one, two and three dimensions, and their transposes, by unfolding the images into patches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.kernels.patches import patches
from dpmac.modules.shares import Built, Positions, Share
from dpmac.modules.taps import Watch, seen

Sizes = int | Sequence[int]
FEW = 32  # rows whose patches are made at a time on a CPU, whose cache can hold them
PATCHES = 1 << 28  # bytes of patches that are made at a time on a GPU, where few and large kernels are quick


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
        slopes = by_row(gradient, watch.rows).flatten(3)  # (rows, k, d_out, positions)
        found: dict[str, Share] = {"bias": Built(slopes.sum(dim=(1, 3)))}
        if watch.knows(weight):
            cut = partial(patches, kernel=kernel, stride=steps, dilation=gaps)
            padded = pad(seen(input, gradient), padding, kernel, gaps)
            found["weight"] = _weight_share(watch, slopes, padded, cut, groups)
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
            cut = partial(patches, kernel=kernel, stride=steps, dilation=gaps, keep=tuple(input.shape[2:]))
            inputs = by_row(seen(input, gradient), watch.rows).flatten(3)
            found["weight"] = _weight_share(watch, inputs, pad(gradient, padding, kernel, gaps), cut, groups)
        return found

    return watch.run(
        f"conv_transpose{dims}d",
        {"weight": weight, "bias": bias},
        lambda w, b: func(input, w, b, *arguments),
        shares,
        input,
    )


def _weight_share(watch: Watch, slopes: Tensor, images: Tensor, cut: Callable[[Tensor], Tensor], groups: int) -> Share:
    """From slopes (rows, k, d_out, positions) and the images whose patches ``cut`` gives: (..., d_in, positions).

    Patches take far more memory than images. Where every row's gradient is built anyway, they are made for a few rows
    at a time.
    """
    rows, each, units, positions = slopes.shape
    width = cut(images[:1]).shape[1] // groups
    if groups == 1 and not (slopes.dtype == torch.float32 and watch.taken(slopes[..., 0].numel() * width)):
        return Positions(_positions(slopes), _positions(by_row(cut(images), rows)))
    values = slopes.new_empty(rows * each * groups, units // groups, width)
    few = _at_a_time(slopes, width * groups) * each
    for start in range(0, rows * each, few):
        left = slopes.flatten(0, 1)[start : start + few].reshape(-1, units // groups, positions)
        right = cut(images[start : start + few]).reshape(-1, width, positions)
        torch.bmm(left, right.transpose(1, 2), out=values[start * groups : (start + few) * groups])
    by_rows = values.reshape(rows, each, units * width)
    return Built(by_rows.squeeze(1) if each == 1 else by_rows.sum(dim=1))


def _at_a_time(slopes: Tensor, width: int) -> int:
    """The number of rows whose patches, ``width`` numbers at every position, are made at a time."""
    if slopes.device.type == "cpu":
        return FEW
    return max(1, PATCHES // (4 * slopes.shape[1] * slopes.shape[3] * width))


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


def by_row(values: Tensor, rows: int) -> Tensor:
    """(rows x k, ...) to (rows, k, ...)."""
    return values.reshape(rows, values.shape[0] // rows, *values.shape[1:])
