"""Patches of images, in any number of dimensions: what a convolution sees at every position, as a column.

K3: a patch holds numbers of its own image and of nothing else. It is a copy of a strided view, one row of positions at
a time, which on a CPU is three to eight times as fast as ``torch.nn.functional.unfold``.
"""

from __future__ import annotations

import math

from torch import Tensor

Sizes = tuple[int, ...]


def patches(
    images: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, keep: Sizes | None = None, one: bool = False
) -> Tensor:
    """(images, channels, sizes...) to (images, channels x kernel, positions), without padding.

    ``keep`` is how many positions to keep in each dimension, where there may be more than are wanted. With ``one``
    every column has a 1 below its last number: the constant that a bias multiplies.
    """
    dims, found = len(kernel), images
    for place in range(dims):
        reach = dilation[place] * (kernel[place] - 1) + 1
        found = found.unfold(2 + place, reach, stride[place])[..., :: dilation[place]]
        if keep is not None:
            found = found.narrow(2 + place, 0, keep[place])
    # (images, channels, positions..., kernel...)
    order = (0, 1, *range(2 + dims, 2 + 2 * dims), *range(2, 2 + dims))
    ordered, columns = found.permute(order), images.shape[1] * math.prod(kernel)
    whole = images.new_empty(images.shape[0], columns + one, math.prod(found.shape[2 : 2 + dims]))
    whole[:, columns:] = 1.0
    whole[:, :columns].view(ordered.shape).copy_(ordered)
    return whole
