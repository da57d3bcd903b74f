"""What shapes and grounds are filled with: a number in [0, 1] at each pixel, which mixes two greys or two colours."""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.pictures.numbers import Numbers, between, turns
from dpmac.pictures.shapes import each

KINDS = 5  # flat, stripes, checks, a gradient, clouds
_CELLS = 7  # of clouds, in either direction


def fill(numbers: Numbers, x: Tensor, y: Tensor, plain: float) -> Tensor:
    """A fill for each shape: flat with probability ``plain``, otherwise one of the textures. x and y in [-1, 1]."""
    count = len(x)
    kind = each(numbers.uniform(count))
    cosine, sine = (each(one) for one in turns(numbers, count))
    along, across = x * cosine + y * sine, y * cosine - x * sine
    often, phase = each(between(numbers, 1.5, 6.0, count)), each(numbers.uniform(count))
    hard = each(between(numbers, 1.0, 6.0, count))
    first, second = waves(along * often + phase, hard), waves(across * often + phase, hard)
    found = torch.zeros_like(x)
    step = (1.0 - plain) / (KINDS - 1)
    found = torch.where(kind >= plain, first, found)
    found = torch.where(kind >= plain + 1.6 * step, 1.0 - (first - second).abs(), found)
    found = torch.where(kind >= plain + 2.3 * step, (0.5 + 0.6 * along).clamp(0.0, 1.0), found)
    return torch.where(kind >= plain + 3.2 * step, clouds(numbers, x, y, hard), found)


def waves(place: Tensor, hard: Tensor) -> Tensor:
    """Stripes: up and down once a unit, with edges that are the sharper the larger ``hard``."""
    triangle = 4.0 * (place - torch.floor(place) - 0.5).abs() - 1.0
    return (0.5 + 0.5 * hard * triangle).clamp(0.0, 1.0)


def clouds(numbers: Numbers, x: Tensor, y: Tensor, hard: Tensor) -> Tensor:
    """Random numbers at the corners of a coarse grid, and in between them mixtures."""
    count, height, width = x.shape
    corners = numbers.uniform(count, (_CELLS + 1) * (_CELLS + 1))
    scale = 0.499 * each(between(numbers, 0.35, 1.0, count)) * _CELLS
    right, down = (x.clamp(-1.0, 1.0) + 1.0) * scale, (y.clamp(-1.0, 1.0) + 1.0) * scale
    left, top = torch.floor(right), torch.floor(down)
    right, down = right - left, down - top
    at = (top * (_CELLS + 1) + left).long().flatten(1)
    found = [
        torch.gather(corners, 1, at + step).reshape(count, height, width) for step in (0, 1, _CELLS + 1, _CELLS + 2)
    ]
    above = found[0] + right * (found[1] - found[0])
    below = found[2] + right * (found[3] - found[2])
    mixed = above + down * (below - above)
    return (0.5 + hard * (mixed - 0.5)).clamp(0.0, 1.0)
