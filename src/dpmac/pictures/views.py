"""Views: pictures turned, scaled, sheared, moved, made lighter or darker, noisy, and blanked in a square.

Two views of one drawing are what contrastive training holds to be alike; so this list says what an encoder is to
overlook.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.pictures.numbers import Numbers, between, chosen_with


@dataclass(frozen=True)
class Views:
    """How far views differ. Angles in degrees; ``shift`` and ``square`` in parts of the side."""

    turn: float = 20.0
    smallest: float = 0.75
    largest: float = 1.3
    shear: float = 0.2
    shift: float = 0.1
    gamma: float = 0.4  # of its logarithm
    noise: float = 0.08
    square: float = 0.35
    blanked: float = 0.5  # the chance of a square
    tint: float = 0.25  # of a colour's channels


@torch.no_grad()
def view(numbers: Numbers, pictures: Tensor, how: Views) -> Tensor:
    """One random view of each picture (rows, channels, height, width), in [0, 1]."""
    grid = F.affine_grid(_places(numbers, len(pictures), how), list(pictures.shape), align_corners=False)
    found = F.grid_sample(pictures, grid, mode="bilinear", padding_mode="border", align_corners=False)
    found = _lit(numbers, found, how)
    found = _blanked(numbers, found, how)
    amount = how.noise * numbers.uniform(len(found), 1, 1, 1)
    return (found + amount * 3.4641 * (numbers.uniform(*found.shape) - 0.5)).clamp(0.0, 1.0)


def _places(numbers: Numbers, count: int, how: Views) -> Tensor:
    """Matrices (count, 2, 3) from places in the view to places in the picture."""
    turn = between(numbers, -1.0, 1.0, count) * math.radians(how.turn)
    low, high = math.log(how.smallest), math.log(how.largest)
    scale = torch.exp(-between(numbers, low, high, count))
    stretch = torch.exp(between(numbers, -0.12, 0.12, count))
    shear = between(numbers, -how.shear, how.shear, count)
    cosine, sine = torch.cos(turn) * scale, torch.sin(turn) * scale
    across, down = (between(numbers, -2.0 * how.shift, 2.0 * how.shift, count) for _ in range(2))
    above = torch.stack([cosine * stretch, shear * cosine - sine, across], dim=1)
    below = torch.stack([sine * stretch, shear * sine + cosine, down], dim=1)
    return torch.stack([above, below], dim=1)


def _lit(numbers: Numbers, pictures: Tensor, how: Views) -> Tensor:
    """Another gamma, brightness and contrast; of colours also another mixture of the channels."""
    count = len(pictures)
    power = torch.exp(between(numbers, -how.gamma, how.gamma, count, 1, 1, 1))
    found = pictures.clamp(min=1e-4) ** power
    bright = between(numbers, 0.7, 1.15, count, 1, 1, 1)
    if pictures.shape[1] == 3:
        bright = bright * between(numbers, 1.0 - how.tint, 1.0 + how.tint, count, 3, 1, 1)
    return (found * bright + between(numbers, -0.08, 0.08, count, 1, 1, 1)).clamp(0.0, 1.0)


def _blanked(numbers: Numbers, pictures: Tensor, how: Views) -> Tensor:
    """Half of the pictures with a square of one grey."""
    count, _, height, width = pictures.shape
    side = between(numbers, 0.1, how.square, count, 1, 1)
    there = chosen_with(numbers, how.blanked, count, 1, 1)
    inside = there
    for pixels, shape in ((height, (1, height, 1)), (width, (1, 1, width))):
        place = (torch.arange(pixels, device=pictures.device).float().reshape(shape) + 0.5) / pixels
        inside = inside & ((place - numbers.uniform(count, 1, 1)).abs() < side / 2.0)
    grey = numbers.uniform(count, 1, 1, 1) * chosen_with(numbers, 0.5, count, 1, 1, 1)
    return torch.where(inside[:, None], grey, pictures)
