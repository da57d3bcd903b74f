"""Feature maps of pictures: scattering, and an encoder that saw only drawings. They are public: nobody is in them.

A raw row is a picture's pixels, flat, as an array (height, width, channels) has them. Pictures of any size are brought
to squares of 28 pixels a side (32 in colour), for which the features were made. Both maps compute in single precision,
a few pictures at a time, which is what a processor's caches like.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import PUBLIC
from dpmac.nets.feature_maps.base import FeatureMap, Shape
from dpmac.nets.files import rebuilding
from dpmac.pictures.encoder import Encoder, check_layout, features, load_encoder, size_of, stages_of
from dpmac.pictures.resizing import SIDES, Squares
from dpmac.pictures.scattering import CHANNELS, Wavelets
from dpmac.pictures.shipped import CHECKSUMS, channels_of, shipped_encoder
from dpmac.randomness import SeededNoise

SMALLEST = 8  # pixels of a side that is scattered
GROUPS = 27  # of a channel's 81 scattering channels: each has mean 0 and variance 1


class PictureMap(FeatureMap):
    """What both have in common: rows of pixels to squares, a few at a time."""

    expensive = True
    few = 512
    at_once = 16  # pictures: more do not fit into caches

    def __init__(
        self, height: int, width: int, channels: int, white: float, side: int | None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        if channels not in SIDES:
            raise ArgumentError("channels", channels, "give 1 for grey pictures or 3 for colours")
        self.given_side = side
        if side is None:
            side = SIDES[channels]
        self.squares = Squares(height, width, channels, white, side, dtype)

    def forward(self, rows: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # an exported program takes any number of rows at once
            return self.mapped(self.squares(rows)).double()
        return torch.cat([self.mapped(self.squares(few)).double() for few in torch.split(rows, self.at_once)])

    def mapped(self, squares: Tensor) -> Tensor:
        """Flat features of pictures (rows, channels, side, side)."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """How many features a picture has."""
        raise NotImplementedError

    def shape_after(self, shape: Shape) -> Shape:
        wide = self.squares.height * self.squares.width * self.squares.channels
        if shape != (wide,):
            fix = f"the feature map {self.kind!r} needs rows of shape ({wide},): the pixels of a picture"
            raise ArgumentError("x", f"rows of shape {shape}", fix)
        return (self.width,)

    def arguments(self) -> dict[str, Any]:
        size = {"height": self.squares.height, "width": self.squares.width, "channels": self.squares.channels}
        return {**size, "white": self.squares.white, "side": self.given_side}


class Scattering(PictureMap):
    """The scattering transform with two scales and eight angles (:mod:`dpmac.pictures.scattering`).

    81 numbers for each channel and each fourth pixel, in groups of three channels with mean 0 and variance 1.
    ``double`` computes in double precision.
    """

    kind = "scattering"

    def __init__(
        self,
        height: int,
        width: int,
        channels: int = 1,
        white: float = 255.0,
        side: int | None = None,
        double: bool = False,
    ) -> None:
        dtype = torch.float32
        if double:
            dtype = torch.float64
        super().__init__(height, width, channels, white, side, dtype)
        self.at_once = 12 // channels
        self.double_precision = bool(double)
        if self.squares.side < SMALLEST:
            raise ArgumentError("side", side, f"give at least {SMALLEST} pixels")
        self.wavelets = Wavelets(self.squares.side, dtype)

    def mapped(self, squares: Tensor) -> Tensor:
        found = self.wavelets(squares.flatten(0, 1))
        found = found.reshape(-1, self.squares.channels * CHANNELS, *found.shape[2:])
        return F.group_norm(found, self.squares.channels * GROUPS).flatten(1)

    @property
    def width(self) -> int:
        places = self.squares.side // 4
        return self.squares.channels * CHANNELS * places * places

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "double": self.double_precision}

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        return cls(8, 9, white=1.0, side=8, double=True), (72,)


class DrawnEncoder(PictureMap):
    """An encoder that saw only drawings (:mod:`dpmac.pictures.encoder`), with its ``weights`` in one flat tensor.

    ``trained_on`` says what they come from and stands in the statement. Get one by :meth:`shipped`, which has the
    encoder that comes with the package, or by :meth:`read` from a file that ``python -m dpmac.pictures.train`` wrote.
    It computes in single precision, or in double precision if the weights have that. Instead of the weights of an
    encoder of the package the SHA-256 of its file will do; so it is saved.
    """

    kind = "drawn-encoder"
    weights: Tensor

    def __init__(
        self,
        weights: Tensor | str,
        widths: Sequence[int],
        trained_on: str,
        height: int,
        width: int,
        channels: int = 1,
        white: float = 255.0,
        side: int | None = None,
    ) -> None:
        self.checksum: str | None = None
        if isinstance(weights, str):
            self.checksum = weights
            weights = _flat(load_encoder(shipped_encoder(channels_of(weights)))[0])
        dtype = torch.float32
        if isinstance(weights, Tensor) and weights.dtype == torch.float64:
            dtype = torch.float64
        super().__init__(height, width, channels, white, side, dtype)
        _, self.widths = check_layout(channels, widths)
        self.layout = layout_of(channels, self.widths)
        if not isinstance(trained_on, str) or not trained_on.strip():
            raise ArgumentError("trained_on", trained_on, "say what the weights come from")
        self.trained_on = trained_on
        self.register_buffer("weights", _checked(weights, sum(shape.numel() for shape in self.layout.values())))

    @classmethod
    def shipped(cls, height: int, width: int, channels: int = 1, white: float = 255.0) -> DrawnEncoder:
        """The encoder for grey or coloured pictures that comes with the package; its checksum is compared."""
        found = cls._of(shipped_encoder(channels), height, width, white)
        found.checksum = CHECKSUMS[channels]
        return found

    @classmethod
    def read(cls, path: str | Path, height: int, width: int, white: float = 255.0) -> DrawnEncoder:
        """An encoder that was trained by ``python -m dpmac.pictures.train``: on the caller's word."""
        found = cls._of(Path(path), height, width, white)
        found.origin = PUBLIC.called_public(f"an encoder of pictures whose file says that it saw {found.trained_on}")
        return found

    @classmethod
    def _of(cls, path: Path, height: int, width: int, white: float) -> DrawnEncoder:
        encoder, about = load_encoder(path)
        weights = _flat(encoder)
        with rebuilding(path, "picture encoder"):
            recipe = about["recipe"]
            drawn = f"{about['trained on']} (style {recipe['style']})"
            said = f"{drawn} by the program {about['program']}, seed {recipe['seed']}"
        return cls(weights, encoder.widths, said, height, width, encoder.channels, white)

    def mapped(self, squares: Tensor) -> Tensor:
        pictures = squares.contiguous(memory_format=torch.channels_last)
        return features(stages_of(pictures, self._by_name()))

    @property
    def width(self) -> int:
        return size_of(self.widths)

    def arguments(self) -> dict[str, Any]:
        weights: Tensor | str = self.weights
        if self.checksum is not None and self._is_shipped(self.checksum):
            weights = self.checksum
        known = {"weights": weights, "widths": list(self.widths), "trained_on": self.trained_on}
        return {**known, **super().arguments()}

    def notes(self) -> tuple[str, ...]:
        return (f"an encoder of pictures, which has seen nobody's: it was trained on {self.trained_on};",)

    @classmethod
    def sample(cls) -> tuple[FeatureMap, Shape]:
        widths = (8, 8, 8, 8, 8)
        count = sum(shape.numel() for shape in layout_of(3, widths).values())
        draw = SeededNoise(1)
        weights = 0.2 * draw.normal((count,))
        return cls(weights, widths, "nothing: drawn numbers", 8, 9, channels=3, white=1.0, side=8), (216,)

    def _is_shipped(self, checksum: str) -> bool:
        """Whether the weights are still those of the package: whoever has them may write to them."""
        there = _flat(load_encoder(shipped_encoder(channels_of(checksum)))[0])
        return self.weights.dtype == there.dtype and torch.equal(self.weights.cpu(), there)

    def _by_name(self) -> dict[str, Tensor]:
        """The weights in the precision of the computation, convolutions as a processor likes them."""
        found, done = dict[str, Tensor](), 0
        whole = self.weights.to(self.squares.dtype)
        for name, shape in self.layout.items():
            weight = whole[done : done + shape.numel()].reshape(shape)
            done += shape.numel()
            if weight.dim() == 4:
                weight = weight.contiguous(memory_format=torch.channels_last)
            found[name] = weight
        return found


def _flat(encoder: Encoder) -> Tensor:
    """All weights in one tensor, in half precision, as files have them."""
    return torch.cat([tensor.half().flatten() for tensor in encoder.state_dict().values()])


def layout_of(channels: int, widths: Sequence[int]) -> dict[str, torch.Size]:
    """Names and shapes of an encoder's weights, in the order of the flat tensor."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in Encoder(channels, widths).state_dict().items()}


def _checked(weights: Tensor, count: int) -> Tensor:
    fix = f"give one flat tensor of {count:,} finite weights: of an encoder with these widths"
    if not isinstance(weights, Tensor) or not weights.dtype.is_floating_point or weights.shape != (count,):
        raise ArgumentError("weights", tuple(getattr(weights, "shape", ())), fix)
    if not bool(torch.isfinite(weights).all()):
        raise ArgumentError("weights", "numbers that are not finite", fix)
    return weights.detach().clone()
