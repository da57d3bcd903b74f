"""Normalisation within a row: a scale and a shift for each channel, of inputs that are normalised again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from dpmac.modules.shares import Built, Share
from dpmac.modules.taps import Watch, seen


def layer_norm(
    watch: Watch,
    func: Any,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Over the last dimensions."""
    size = math.prod(normalized_shape)

    def shares(gradient: Tensor) -> dict[str, Share]:
        normal = F.layer_norm(seen(input, gradient), list(normalized_shape), None, None, eps)
        return _last(gradient, normal, watch.rows, size)

    parameters = {"weight": weight, "bias": bias}
    return watch.run("layer_norm", parameters, lambda w, b: func(input, normalized_shape, w, b, eps), shares, input)


def rms_norm(
    watch: Watch,
    func: Any,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Over the last dimensions, without a mean."""
    size = math.prod(normalized_shape)

    def shares(gradient: Tensor) -> dict[str, Share]:
        normal = F.rms_norm(seen(input, gradient), list(normalized_shape), None, eps)
        return _last(gradient, normal, watch.rows, size)

    return watch.run("rms_norm", {"weight": weight}, lambda w: func(input, normalized_shape, w, eps), shares, input)


def group_norm(
    watch: Watch,
    func: Any,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Over groups of channels of one example."""

    def shares(gradient: Tensor) -> dict[str, Share]:
        return _channels(gradient, F.group_norm(seen(input, gradient), num_groups, None, None, eps), watch.rows)

    parameters = {"weight": weight, "bias": bias}
    return watch.run("group_norm", parameters, lambda w, b: func(input, num_groups, w, b, eps), shares, input)


def instance_norm(
    watch: Watch,
    func: Any,
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Over each channel of one example; with statistics that were kept, it runs as it is."""
    arguments = (use_input_stats, momentum, eps)
    if running_mean is not None or not use_input_stats or input.dim() < 3:
        result: Tensor = func(input, running_mean, running_var, weight, bias, *arguments)
        return result

    def shares(gradient: Tensor) -> dict[str, Share]:
        return _channels(gradient, F.instance_norm(seen(input, gradient), eps=eps), watch.rows)

    parameters = {"weight": weight, "bias": bias}
    return watch.run("instance_norm", parameters, lambda w, b: func(input, None, None, w, b, *arguments), shares, input)


def _last(gradient: Tensor, normal: Tensor, rows: int, size: int) -> dict[str, Share]:
    """Scale and shift of the last dimensions, ``size`` numbers."""
    slopes = gradient.reshape(rows, -1, size)
    scales = (slopes * normal.reshape(slopes.shape)).sum(dim=1)
    return {"weight": Built(scales), "bias": Built(slopes.sum(dim=1))}


def _channels(gradient: Tensor, normal: Tensor, rows: int) -> dict[str, Share]:
    """Scale and shift of the second dimension."""
    slopes = gradient.reshape(rows, gradient.shape[0] // rows, gradient.shape[1], -1)
    scales = (slopes * normal.reshape(slopes.shape)).sum(dim=(1, 3))
    return {"weight": Built(scales), "bias": Built(slopes.sum(dim=(1, 3)))}
