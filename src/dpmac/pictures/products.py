"""Fourier transforms as products with matrices of real numbers: slower, but any runtime can compute them.

ONNX has no complex numbers to speak of, so an exported scattering transform is made of these. A complex tensor is a
pair of real ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


def fourier(values: Pair, inverse: bool = False) -> Pair:
    """The transform over the last two dimensions, which are equal; as torch.fft.fft2 and ifft2."""
    once = _along_last(values, inverse)
    turned = _along_last((once[0].transpose(-1, -2), once[1].transpose(-1, -2)), inverse)
    return turned[0].transpose(-1, -2), turned[1].transpose(-1, -2)


def times(values: Pair, filters: Tensor) -> Pair:
    """Times real filters."""
    return values[0] * filters, values[1] * filters


def modulus(values: Pair) -> Tensor:
    return torch.sqrt(values[0] * values[0] + values[1] * values[1])


def _along_last(values: Pair, inverse: bool) -> Pair:
    real, imaginary = values
    side = real.shape[-1]
    places = torch.arange(side, device=real.device)
    angles = 2 * math.pi / side * (torch.outer(places, places) % side).double()
    cosine, sine = torch.cos(angles).to(real.dtype), torch.sin(angles).to(real.dtype)
    if inverse:
        cosine, sine = cosine / side, -sine / side
    return real @ cosine + imaginary @ sine, imaginary @ cosine - real @ sine
