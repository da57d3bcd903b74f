"""Shapes as signed distances: how far each pixel lies from a shape's edge, below 0 inside.

Every function takes the pixels' places, x and y (shapes, height, width) around each shape's centre, and numbers of each
shape, (shapes, 1, 1). Units are half a picture's side. Only operations that every machine rounds alike are used: plus,
minus, times, divided by, square roots, comparisons.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dpmac.pictures.numbers import Numbers, between, turns

Distance = Callable[[Numbers, Tensor, Tensor, Tensor], Tensor]
_SEGMENTS = 7  # straight pieces of a bent stroke
_SMALL = 1e-6


def length(x: Tensor, y: Tensor) -> Tensor:
    return torch.sqrt(x * x + y * y)


def each(values: Tensor) -> Tensor:
    """One number of each shape, for all of its pixels."""
    return values[:, None, None]


def to_segment(x: Tensor, y: Tensor, start: tuple[Tensor, Tensor], end: tuple[Tensor, Tensor]) -> Tensor:
    """The squared distance to a straight piece; a piece of no length is a point."""
    along_x, along_y = end[0] - start[0], end[1] - start[1]
    from_x, from_y = x - start[0], y - start[1]
    whole = (along_x * along_x + along_y * along_y).clamp(min=_SMALL)
    part = ((from_x * along_x + from_y * along_y) / whole).clamp(0.0, 1.0)
    off_x, off_y = from_x - part * along_x, from_y - part * along_y
    return off_x * off_x + off_y * off_y


def ellipse(numbers: Numbers, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """Nearly the distance, which has no closed form: right at the edge and in sign."""
    wide, high = each(size), each(size * between(numbers, 0.3, 1.0, len(size)))
    scaled_x, scaled_y = x / wide, y / high
    far = length(scaled_x, scaled_y)
    steep = length(scaled_x / wide, scaled_y / high)
    return torch.where(far > 0.0, far * (far - 1.0) / steep.clamp(min=_SMALL), -high)


def box(numbers: Numbers, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """Up to a fifth of its size is rounding of its corners."""
    ratio, soft = between(numbers, 0.15, 1.0, len(size)), between(numbers, 0.0, 0.2, len(size))
    wide, high = each(size), each(size * ratio)
    round_off = each(size * ratio * soft)
    over_x, over_y = x.abs() - (wide - round_off), y.abs() - (high - round_off)
    outside = length(over_x.clamp(min=0.0), over_y.clamp(min=0.0))
    return outside + torch.maximum(over_x, over_y).clamp(max=0.0) - round_off


def ring(numbers: Numbers, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """An ellipse's edge, drawn with a pen."""
    width = each(size * between(numbers, 0.08, 0.35, len(size)))
    return ellipse(numbers, x, y, size).abs() - width


def arc(numbers: Numbers, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """Part of a circle's edge, of 30 to 165 degrees on either side of the x axis."""
    pen = each(size * between(numbers, 0.08, 0.3, len(size)))
    cosine, sine = (each(one) for one in turns(numbers, len(size), most=1.178))  # +-67.5 degrees around 97.5
    middle_cosine, middle_sine = -0.130526, 0.991445
    end_x = cosine * middle_cosine - sine * middle_sine
    end_y = sine * middle_cosine + cosine * middle_sine
    radius, above = each(size), y.abs()
    on_arc = (length(x, above) - radius).abs()
    to_end = length(x - radius * end_x, above - radius * end_y)
    beyond = end_y * x < end_x * above  # further round than the end
    return torch.where(beyond, to_end, on_arc) - pen


def bent_stroke(numbers: Numbers, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """A quadratic curve through the middle, as straight pieces, drawn with a pen."""
    pen = each(size * between(numbers, 0.06, 0.25, len(size)))
    bend, lean = (each(size * between(numbers, -1.2, 1.2, len(size))) for _ in range(2))
    reach = each(size)
    before, nearest = (-reach, torch.zeros_like(reach)), torch.full_like(x, 1e6)
    for piece in range(1, _SEGMENTS + 1):
        at = piece / _SEGMENTS
        push = 2.0 * at * (1.0 - at)
        after = (reach * (2.0 * at - 1.0) + lean * push, bend * push)
        nearest = torch.minimum(nearest, to_segment(x, y, before, after))
        before = after
    return torch.sqrt(nearest) - pen


def polygon(numbers: Numbers, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """What five half-planes have in common, two of which may lie far away: convex, with three to five sides."""
    farthest = torch.full_like(x, -1e6)
    for side in range(5):
        cosine, sine = turns(numbers, len(size), most=0.6)
        step_cosine, step_sine = _FIFTHS[side]
        out_x = each(cosine * step_cosine - sine * step_sine)
        out_y = each(sine * step_cosine + cosine * step_sine)
        off = each(size * between(numbers, 0.3, 1.0, len(size)))
        farthest = torch.maximum(farthest, x * out_x + y * out_y - off)
    return farthest


_FIFTHS = ((1.0, 0.0), (0.309017, 0.951057), (-0.809017, 0.587785), (-0.809017, -0.587785), (0.309017, -0.951057))

SHAPES: tuple[tuple[Distance, int], ...] = (
    (ellipse, 4),
    (box, 4),
    (bent_stroke, 4),
    (ring, 2),
    (arc, 2),
    (polygon, 2),
)
"""Every shape, and how many of eighteen shapes are of its kind."""
