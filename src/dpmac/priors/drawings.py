"""Pictures drawn by a public program: shapes, textures and pen strokes, which show nobody and nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpmac.checks import integer, number
from dpmac.pictures.drawing import Canvas, pictures
from dpmac.pictures.numbers import Repeatable
from dpmac.priors.base import MOST_ROWS, Prior
from dpmac.priors.draws import Draws

BLOCK = 256  # pictures that are drawn at once


class PicturePrior(Prior):
    """Rows of pixels as :class:`dpmac.pictures.Scattering` takes them: pictures of 16 to 64 pixels a side, by ``seed``.

    A row is a picture (height, width, channels), flat, from 0 to ``white``; channels are 1 (grey) or 3 (colour).
    ``style`` is "shapes", "textures", "strokes" or "mixed" (:mod:`dpmac.pictures.drawing`). More rows are the same
    ones and some more.
    """

    kind = "pictures"

    def __init__(
        self,
        height: int = 28,
        width: int = 28,
        channels: int = 1,
        style: str = "mixed",
        white: float = 255.0,
        seed: int = 0,
    ) -> None:
        self.canvas = Canvas(height, width, channels, style)
        self.white = number("white", white, "give the value of a white pixel, such as 255", low=1e-6, high=1e9)
        self.seed = Draws(seed, self.kind).seed

    def drawn(self, rows: int) -> Tensor:
        integer("rows", rows, f"give a number of rows from 1 to {MOST_ROWS:,}", high=MOST_ROWS)
        blocks = torch.cat([self._block(number) for number in range(-(-rows // BLOCK))])
        return blocks[:rows]

    def described(self) -> str:
        what = f"of pictures ({self.canvas.style}) of {self.canvas.height} x {self.canvas.width} pixels"
        return f"{what}, drawn by the program dpmac.priors.PicturePrior, seed {self.seed}"

    def arguments(self) -> dict[str, Any]:
        size = {"height": self.canvas.height, "width": self.canvas.width, "channels": self.canvas.channels}
        return {**size, "style": self.canvas.style, "white": self.white, "seed": self.seed}

    @classmethod
    def sample(cls) -> PicturePrior:
        return cls(16, 17, 3, "textures", white=1.0, seed=2)

    def _block(self, number: int) -> Tensor:
        size = f"{self.canvas.height} x {self.canvas.width} x {self.canvas.channels}"
        draws = Draws(self.seed, f"{self.kind} {size} {self.canvas.style}, block {number}")
        drawn = pictures(Repeatable(draws), BLOCK, self.canvas)
        greys = torch.round(drawn * 255.0).double() * (self.white / 255.0)
        return greys.permute(0, 2, 3, 1).flatten(1).float()
