"""Fronts: public per-row maps that belong to the model and are applied to raw rows inside the release."""

from dpmac.nets.fronts.base import FLOOR, Front
from dpmac.nets.fronts.chain import Chain
from dpmac.nets.fronts.projection import Ball, LowFrequencies, Projection, put_on_sphere
from dpmac.nets.fronts.saving import load_front, save_front
from dpmac.nets.fronts.scaling import Affine, ToRange

FRONTS: dict[str, type[Front]] = {
    kind.kind: kind
    for kind in (
        Affine,
        ToRange,
        Ball,
        Projection,
        LowFrequencies,
        Chain,
    )
}
"""Every kind of front under its name in files. A new one is a file and a line here."""

__all__ = [
    "FLOOR",
    "FRONTS",
    "Affine",
    "Ball",
    "Chain",
    "Front",
    "LowFrequencies",
    "Projection",
    "ToRange",
    "load_front",
    "put_on_sphere",
    "save_front",
]
