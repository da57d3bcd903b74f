"""What a private model sees of a picture by default: scattering and a drawn encoder, whitened by drawn pictures."""

from __future__ import annotations

from typing import Literal

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import Chain, FeatureMap, Joined
from dpmac.pictures import DrawnEncoder, Scattering
from dpmac.pictures.resizing import SIDES
from dpmac.priors.drawings import PicturePrior
from dpmac.priors.whitening import WhiteningOptions, whitened

Kind = Literal["scattering", "encoder", "both"]
KINDS = ("scattering", "encoder", "both")
WHITE = 255.0
LENGTH = 8.0  # of a drawn picture's features, on average


def picture_features(
    height: int,
    width: int,
    channels: int = 1,
    kind: Kind = "both",
    *,
    white: float = WHITE,
    directions: int = 1_000,
    drawings: int = 20_000,
    style: str = "mixed",
    seed: int = 0,
) -> Chain:
    """A public feature map for pictures of this size: rows of height * width * channels pixels from 0 to ``white``.

    ``kind`` is "scattering", "encoder" (the one that comes with the package) or "both". The features are whitened by so
    many ``drawings`` of this ``style``, of 28 x 28 pixels (32 x 32 in colour) whatever the size of the pictures, and
    the longest ``directions`` are kept. The drawings take about a minute of one processor, once in a process.
    """
    if kind not in KINDS:
        raise ArgumentError("kind", kind, f"choose one of {', '.join(KINDS)}")
    if channels not in SIDES:
        raise ArgumentError("channels", channels, "give 1 for grey pictures or 3 for colours")
    inner = maps_of(kind, height, width, channels, white)
    side = SIDES[channels]
    prior = PicturePrior(side, side, channels, style, WHITE, seed)
    options = WhiteningOptions(power=0.5, length=LENGTH, directions=directions, rows=drawings)
    last = whitened(maps_of(kind, side, side, channels, WHITE), prior, options).feature_maps[-1]
    assert isinstance(last, FeatureMap)
    return Chain((inner, last))


def maps_of(kind: Kind, height: int, width: int, channels: int, white: float) -> FeatureMap:
    """The feature maps as they are before they are whitened."""
    found: list[FeatureMap] = []
    if kind != "encoder":
        found.append(Scattering(height, width, channels, white))
    if kind != "scattering":
        found.append(DrawnEncoder.shipped(height, width, channels, white))
    if len(found) == 1:
        return found[0]
    return Joined(tuple(found))
