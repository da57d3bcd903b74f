"""Pictures of any size as squares of one size, and flat rows of pixels as pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import integer, number

LARGEST = 4_096  # pixels of a side
SIDES = {1: 28, 3: 32}  # of the squares that features are made of: grey, colour


class Squares(nn.Module):
    """Rows of height * width * channels pixels, as arrays have them, to (rows, channels, side, side) in [0, 1].

    ``white`` is the value of a white pixel; what lies outside of [0, white] is clipped. A picture that is larger than
    the square is averaged, a smaller one is interpolated; one that is not square is stretched. What is no number stays
    none.
    """

    across: Tensor
    down: Tensor

    def __init__(self, height: int, width: int, channels: int, white: float, side: int, dtype: torch.dtype) -> None:
        super().__init__()
        sizes = {"height": height, "width": width, "side": side}
        self.height, self.width, self.side = (
            integer(name, size, f"give pixels, from 4 to {LARGEST:,}", low=4, high=LARGEST)
            for name, size in sizes.items()
        )
        self.channels, self.dtype = integer("channels", channels, "give 1 or 3", high=3), dtype
        self.white = number("white", white, "give the value of a white pixel, such as 255", low=1e-6, high=1e9)
        self.register_buffer("across", weights_of(width, side).to(dtype), persistent=False)
        self.register_buffer("down", weights_of(height, side).to(dtype), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        pixels = rows.to(self.dtype).reshape(-1, self.height, self.width, self.channels).permute(0, 3, 1, 2)
        pixels = (pixels / self.white).clamp(0.0, 1.0)
        if self.width != self.side:
            pixels = pixels @ self.across
        if self.height != self.side:
            pixels = (pixels.transpose(2, 3) @ self.down).transpose(2, 3)
        return pixels


def weights_of(before: int, after: int) -> Tensor:
    """How much of each of ``before`` pixels goes into each of ``after``, (before, after): bilinear, and over as many
    pixels as become one."""
    each = torch.eye(before, dtype=torch.float64)[:, None, None, :]
    found = F.interpolate(each, size=(1, after), mode="bilinear", antialias=True, align_corners=False)
    return found[:, 0, 0, :]
