"""Pictures that show nobody and nothing: shapes, strokes and textures, drawn by a public program.

"shapes" are one to eight ellipses, boxes, bent strokes, rings, arcs and polygons a picture, laid over each other back
to front, mostly flat, on black or grey: what an encoder for simple pictures learns from. "textures" are the same with
striped, checked, graded and clouded fills and grounds. "strokes" are one to three pen strokes, scaled like a digit in a
box (:mod:`dpmac.pictures.strokes`). "mixed" is half of it shapes, a quarter textures and a quarter strokes.

All pictures of a block are drawn at once, as distances on a grid of pixels. With
:class:`~dpmac.pictures.numbers.Repeatable` numbers they are the same on every machine: whole greys from 0 to 255, made
by operations that all machines round alike. With :class:`~dpmac.pictures.numbers.Quick` ones, on an accelerator, they
follow from the seed on machines of one kind only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, integer
from dpmac.pictures.fills import fill
from dpmac.pictures.numbers import Numbers, between, chosen_with, places, turns
from dpmac.pictures.shapes import SHAPES, Distance, each
from dpmac.pictures.strokes import strokes

MOST = 8  # shapes of a picture
SIDES = (16, 64)
STYLES = ("shapes", "textures", "strokes", "mixed")


@dataclass(frozen=True)
class Canvas:
    """The size of pictures, their channels (1: grey, 3: colour), and the style."""

    height: int = 28
    width: int = 28
    channels: int = 1
    style: str = "shapes"

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            fix = f"give pixels, from {SIDES[0]} to {SIDES[1]}"
            integer(name, getattr(self, name), fix, low=SIDES[0], high=SIDES[1])
        if self.channels not in (1, 3):
            raise ArgumentError("channels", self.channels, "give 1 for grey pictures or 3 for colours")
        if self.style not in STYLES:
            raise ArgumentError("style", self.style, f"choose one of {', '.join(STYLES)}")


@torch.no_grad()
def pictures(numbers: Numbers, count: int, canvas: Canvas) -> Tensor:
    """``count`` pictures (count, channels, height, width) in single precision: whole numbers / 255."""
    if canvas.style == "mixed":
        return _mixed(numbers, count, canvas)
    if canvas.style == "strokes":
        drawn = strokes(numbers, count, canvas.height, canvas.width)
        drawn = drawn.expand(-1, canvas.channels, -1, -1)
    else:
        drawn = _layered(numbers, count, canvas)
    return torch.round(drawn * 255.0) / 255.0


def _mixed(numbers: Numbers, count: int, canvas: Canvas) -> Tensor:
    quarter = count // 4
    shares = {"shapes": count - 2 * quarter, "textures": quarter, "strokes": quarter}
    made = [
        pictures(numbers, share, Canvas(canvas.height, canvas.width, canvas.channels, style))
        for style, share in shares.items()
        if share
    ]
    return torch.cat(made)[numbers.order(count)]


def _layered(numbers: Numbers, count: int, canvas: Canvas) -> Tensor:
    """Shapes over a ground: one to eight a picture, equally often, the more the later; then in a random order."""
    x, y = _grid(canvas, numbers.device)
    plain = 0.75
    if canvas.style == "textures":
        plain = 0.25
    there = [count + -layer * count // MOST for layer in range(MOST)]  # pictures that have each layer: the last ones
    total = sum(there)
    covers, textures = (one[numbers.order(total)] for one in _shapes(numbers, total, x, y, canvas, plain))
    greys = _greys(numbers, total, canvas)
    found = _ground(numbers, count, x, y, canvas)
    done = 0
    for many in there:
        now = slice(done, done + many)
        colour = greys[0][now] + textures[now, None] * (greys[1][now] - greys[0][now])
        under = found[count - many :]
        found[count - many :] = under + covers[now, None] * (colour - under)
        done += many
    return found[numbers.order(count)]


def _shapes(numbers: Numbers, total: int, x: Tensor, y: Tensor, canvas: Canvas, plain: float) -> tuple[Tensor, Tensor]:
    """How far each shape covers each pixel, and its fill, both (total, height, width) in [0, 1]; sorted by kind."""
    weights = [weight for _, weight in SHAPES]
    ends = [total * sum(weights[: k + 1]) // sum(weights) for k in range(len(weights))]
    covers, textures, begin = [], [], 0
    for (distance, _), end in zip(SHAPES, ends, strict=True):
        covers.append(_cover(numbers, end - begin, distance, x, y, canvas))
        textures.append(fill(numbers, *_copies(end - begin, x, y), plain))
        begin = end
    return torch.cat(covers), torch.cat(textures)


def _cover(numbers: Numbers, count: int, distance: Distance, x: Tensor, y: Tensor, canvas: Canvas) -> Tensor:
    """Shapes of one kind at places, in sizes and directions of their own, with soft edges."""
    middle_x, middle_y = (each(between(numbers, -0.9, 0.9, count)) for _ in range(2))
    cosine, sine = (each(one) for one in turns(numbers, count))
    off_x, off_y = x - middle_x, y - middle_y
    size = between(numbers, 0.12, 0.85, count)
    far = distance(numbers, off_x * cosine + off_y * sine, off_y * cosine - off_x * sine, size)
    edge = each(2.0 / min(canvas.height, canvas.width) * between(numbers, 0.8, 2.2, count))
    return (0.5 - far / edge).clamp(0.0, 1.0)


def _ground(numbers: Numbers, count: int, x: Tensor, y: Tensor, canvas: Canvas) -> Tensor:
    """What lies behind all shapes: black in half of the pictures, else grey; textured where the style has textures."""
    first, second = _greys(numbers, count, canvas)
    first = torch.where(chosen_with(numbers, 0.5, count)[:, None, None, None], 0.0, first)
    if canvas.style == "textures":
        texture = fill(numbers, *_copies(count, x, y), 0.4)[:, None]
        return first + texture * (second - first)
    return first.expand(-1, -1, canvas.height, canvas.width).clone()


def _greys(numbers: Numbers, count: int, canvas: Canvas) -> tuple[Tensor, Tensor]:
    """Two greys or colours each, (count, channels, 1, 1). A colour is a grey, more or less on its way to any colour."""
    found = []
    for _ in range(2):
        value = numbers.uniform(count, 1)
        if canvas.channels == 3:
            value = value + numbers.uniform(count, 1) * (numbers.uniform(count, 3) - value)
        found.append(value[:, :, None, None])
    return found[0], found[1]


def _grid(canvas: Canvas, device: torch.device) -> tuple[Tensor, Tensor]:
    """Each pixel's place, x and y of shape (1, height, width), from -1 to 1."""
    across, down = (places(size, device) for size in (canvas.width, canvas.height))
    shape = (1, canvas.height, canvas.width)
    return across[None, None, :].expand(shape), down[None, :, None].expand(shape)


def _copies(count: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.expand(count, -1, -1), y.expand(count, -1, -1)
