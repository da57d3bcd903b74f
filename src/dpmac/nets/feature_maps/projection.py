"""Feature maps that project rows on public directions: released components, low frequencies of an image."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dpmac.bounds.clipping import clip_factors
from dpmac.checks import ArgumentError, integer, number
from dpmac.kernels.norms import row_norms
from dpmac.nets.feature_maps.base import FLOOR, FeatureMap, Shape, check_width
from dpmac.privacy.parts import SLACK

SIDE = 512  # pixels
BASIS = 2**25  # numbers: a file that names a side and a count must not fill the memory


def put_on_sphere(rows: Tensor, length: float = 1.0) -> Tensor:
    """Every row scaled to ``length`` by itself; a row shorter than FLOOR, or not finite, gives zeros.

    Without the floor a row that is zero but for rounding would be blown up to full length: pure rounding would decide
    what it says.
    """
    norms = row_norms(rows)
    usable = torch.isfinite(norms) & (norms >= FLOOR)
    factors = torch.where(usable, length / torch.where(usable, norms, 1.0), 0.0)
    return torch.where(usable[:, None], rows * factors[:, None], 0.0)


class Ball(FeatureMap):
    """Rows into the unit ball: (rows - centre) / radius, clipped to norm 1, or with ``normalise`` put on the sphere.

    A hair of SLACK is taken off, so that the square of the norm keeps a release's promise after rounding.
    """

    kind = "ball"
    centre: Tensor

    def __init__(self, centre: Tensor, radius: float, normalise: bool = False) -> None:
        super().__init__()
        self.constant("centre", centre)
        if self.centre.dim() != 1:
            raise ArgumentError("centre", f"shape {tuple(self.centre.shape)}", "give one number for each feature")
        self.radius = number("radius", radius, "give a public number above 0", low=1e-30, high=1e30)
        self.normalise = bool(normalise)

    def forward(self, rows: Tensor) -> Tensor:
        moved = (rows.double() - self.centre) / self.radius
        if self.normalise:
            return put_on_sphere(moved, 1.0 - SLACK)
        factors = clip_factors(row_norms(moved), 1.0)[:, None]
        return torch.where(factors == 0, 0.0, moved * factors)  # 0 * inf would be NaN

    def shape_after(self, shape: Shape) -> Shape:
        check_width(self, self.centre, shape)
        return shape

    def arguments(self) -> dict[str, Any]:
        return {"centre": self.centre, "radius": self.radius, "normalise": self.normalise}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls(torch.tensor([0.5, 0.0, 1.0]), 0.7, normalise=True), (3,)


class Projection(FeatureMap):
    """Rows -> unit ball -> codes on orthonormal ``components`` (k, d), each code scaled to ``length`` if it is given.

    The feature map of a released PCA (:meth:`dpmac.methods.ReleasedPCA.feature_map`). Components must be public or
    released.
    """

    kind = "projection"
    expensive = True
    components: Tensor

    def __init__(
        self,
        components: Tensor,
        centre: Tensor,
        radius: float,
        normalise: bool = False,
        length: float | None = None,
    ) -> None:
        super().__init__()
        self.constant("components", components)
        self.ball = Ball(centre, radius, normalise)
        width = len(self.ball.centre)
        if self.components.dim() != 2 or self.components.shape[1] != width:
            fix = f"give a matrix (k, {width}): as wide as the centre"
            raise ArgumentError("components", f"shape {tuple(self.components.shape)}", fix)
        fix = "give a public number above 0, or None to leave codes as they are"
        if length is not None:
            length = number("length", length, fix, low=1e-30, high=1e30)
        self.length = length

    def forward(self, rows: Tensor) -> Tensor:
        codes: Tensor = self.ball(rows) @ self.components.transpose(0, 1)
        if self.length is None:
            return codes
        return put_on_sphere(codes, self.length)

    def shape_after(self, shape: Shape) -> Shape:
        check_width(self, self.components[0], shape)
        return (len(self.components),)

    def arguments(self) -> dict[str, Any]:
        ball = self.ball.arguments()
        return {"components": self.components, **ball, "length": self.length}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        components = torch.tensor([[0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        return cls(components, torch.zeros(4), 2.0, normalise=True, length=3.0), (4,)


class LowFrequencies(FeatureMap):
    """Square images, less ``centre``, in their ``count`` lowest two-dimensional cosines: a public orthonormal basis."""

    kind = "low-frequencies"
    expensive = True
    basis: Tensor
    centre: Tensor

    def __init__(self, side: int, count: int, centre: float | Tensor = 0.0) -> None:
        super().__init__()
        self.side = integer("side", side, f"give the side of the images in pixels, from 1 to {SIDE}", high=SIDE)
        most = min(self.side**2, BASIS // self.side**2)
        self.count = integer("count", count, f"give the number of frequencies, from 1 to {most}", high=most)
        self.constant("centre", centre)
        self.register_buffer("basis", lowest_cosines(self.side, self.count), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        return (rows.double() - self.centre) @ self.basis.transpose(0, 1)

    def inverse(self, inputs: Tensor) -> Tensor:
        """Images (flat, in pixels) from their low frequencies."""
        return inputs @ self.basis + self.centre

    def shape_after(self, shape: Shape) -> Shape:
        check_width(self, self.basis[0], shape)
        return (self.count,)

    def arguments(self) -> dict[str, Any]:
        return {"side": self.side, "count": self.count, "centre": self.centre}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls(3, 4, 0.25), (9,)


def lowest_cosines(side: int, count: int) -> Tensor:
    """The ``count`` lowest cosines on a ``side`` x ``side`` image as orthonormal rows."""
    place = torch.arange(side, dtype=torch.float64)
    wave = torch.cos(math.pi * (2 * place + 1) * place[:, None] / (2 * side)) * math.sqrt(2 / side)
    wave[0] /= math.sqrt(2)
    pairs = sorted(((u, v) for u in range(side) for v in range(side)), key=lambda p: (p[0] ** 2 + p[1] ** 2, p))
    return torch.stack([torch.outer(wave[u], wave[v]).flatten() for u, v in pairs[:count]])
