"""Pen strokes, scaled like a digit in a box: one to three a picture, white on black.

A stroke is a cubic curve, a loop or a line; half of the time it starts where the last one ended. All strokes of a
picture are slanted together and scaled so that they fill the height, or the width where they are wider than high. Pens
are 0.08 to 0.26 of the side wide, with soft edges.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmac.pictures.numbers import Numbers, between, chosen_with, cosine_and_sine, places
from dpmac.pictures.shapes import to_segment

MOST = 3  # strokes of a picture
_PIECES = 12  # straight pieces of a stroke
_LOOPS = 0.35  # of the strokes
_LINES = 0.25


def strokes(numbers: Numbers, count: int, height: int, width: int) -> Tensor:
    """``count`` pictures (count, 1, height, width) in [0, 1]."""
    x, y, there = _paths(numbers, count)
    pen = between(numbers, 0.08, 0.26, count)
    x, y = _in_a_box(numbers, x, y, there, pen)
    down, across = (places(size, numbers.device) for size in (height, width))
    grid_x, grid_y = across[None, None, :], down[None, :, None]
    nearest = torch.full((count, height, width), 1e6, device=numbers.device)
    for stroke in range(MOST):
        for piece in range(_PIECES):
            ends = [(x[:, stroke, at, None, None], y[:, stroke, at, None, None]) for at in (piece, piece + 1)]
            off = to_segment(grid_x, grid_y, *ends)
            nearest = torch.where(there[:, stroke, None, None], torch.minimum(nearest, off), nearest)
    edge = 2.0 / min(height, width) * between(numbers, 1.0, 2.4, count)[:, None, None]
    inked = (0.5 - (torch.sqrt(nearest) - pen[:, None, None]) / edge).clamp(0.0, 1.0)
    return (inked * between(numbers, 0.85, 1.0, count)[:, None, None])[:, None]


def _paths(numbers: Numbers, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Points along the strokes, (count, MOST, points), and which strokes are there, (count, MOST)."""
    curves = [_curve(numbers, count) for _ in range(MOST)]
    x, y = (torch.stack([curve[axis] for curve in curves], dim=1) for axis in (0, 1))
    for stroke in range(1, MOST):  # half of them go on where the last one ended
        joined = chosen_with(numbers, 0.5, count)
        for axis in (x, y):
            jump = torch.where(joined, axis[:, stroke - 1, -1] - axis[:, stroke, 0], 0.0)
            axis[:, stroke] += jump[:, None]
    many = numbers.uniform(count)
    there = torch.stack([torch.ones_like(many) > 0, many > 0.35, many > 0.75], dim=1)
    return x, y, there


def _curve(numbers: Numbers, count: int) -> tuple[Tensor, Tensor]:
    """Points of one stroke a picture, (count, points): a cubic curve, a line or a loop."""
    ends_x, ends_y = (between(numbers, -1.0, 1.0, count, 4) for _ in range(2))
    kind = numbers.uniform(count)[:, None]
    at = torch.arange(_PIECES + 1, device=numbers.device).float() / _PIECES
    at = at[None, :]
    back = 1.0 - at
    weights = (back * back * back, 3.0 * back * back * at, 3.0 * back * at * at, at * at * at)
    found = []
    for ends in (ends_x, ends_y):
        cubic = torch.zeros(count, _PIECES + 1, device=numbers.device)
        for end in range(4):
            cubic = cubic + ends[:, end : end + 1] * weights[end]
        line = ends[:, :1] * back + ends[:, 3:] * at
        found.append(torch.where(kind < _LINES, line, cubic))
    loop_x, loop_y = _loop(numbers, count, at)
    looping = kind > 1.0 - _LOOPS
    return torch.where(looping, loop_x, found[0]), torch.where(looping, loop_y, found[1])


def _loop(numbers: Numbers, count: int, at: Tensor) -> tuple[Tensor, Tensor]:
    """Most of an ellipse, or all of it."""
    begin, sweep = (between(numbers, *ends, count)[:, None] for ends in ((-3.1416, 3.1416), (3.5, 6.6)))
    cosine, sine = cosine_and_sine((begin + sweep * at).double())
    wide, high = (between(numbers, 0.25, 0.7, count)[:, None] for _ in range(2))
    middle_x, middle_y = (between(numbers, -0.4, 0.4, count)[:, None] for _ in range(2))
    return middle_x + wide * cosine, middle_y + high * sine


def _in_a_box(numbers: Numbers, x: Tensor, y: Tensor, there: Tensor, pen: Tensor) -> tuple[Tensor, Tensor]:
    """Slanted, then moved and scaled so that the strokes with their pen fill the picture's height or width."""
    x = x + between(numbers, -0.45, 0.45, len(x))[:, None, None] * y
    seen = there[:, :, None]
    low_x, low_y = (torch.where(seen, axis, 9.0).amin(dim=(1, 2)) for axis in (x, y))
    high_x, high_y = (torch.where(seen, axis, -9.0).amax(dim=(1, 2)) for axis in (x, y))
    room = 0.98 - pen
    scale = room / (torch.maximum(high_y - low_y, 0.8 * (high_x - low_x)) / 2.0).clamp(min=0.15)
    scale_x = torch.minimum(scale, room / ((high_x - low_x) / 2.0).clamp(min=0.15))
    moved = []
    for axis, low, high, factor in ((x, low_x, high_x, scale_x), (y, low_y, high_y, scale)):
        middle = (low + high) / 2.0
        moved.append((axis - middle[:, None, None]) * factor[:, None, None])
    return moved[0], moved[1]
