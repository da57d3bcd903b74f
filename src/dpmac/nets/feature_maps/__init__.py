"""Feature maps: public per-row maps that belong to the model and are applied to raw rows inside the release."""

from dpmac.nets.feature_maps.base import FLOOR, FeatureMap
from dpmac.nets.feature_maps.chain import Chain, first_of
from dpmac.nets.feature_maps.joined import Joined
from dpmac.nets.feature_maps.projection import Ball, LowFrequencies, Projection, put_on_sphere
from dpmac.nets.feature_maps.saving import load_feature_map, modules_in, save_feature_map
from dpmac.nets.feature_maps.scaling import Affine, ToRange
from dpmac.nets.feature_maps.whitening import Whitening

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    kind.kind: kind
    for kind in (
        Affine,
        ToRange,
        Ball,
        Projection,
        LowFrequencies,
        Whitening,
        Chain,
        Joined,
    )
}
"""Every kind of feature map under its name in files. A new one is a file and a line here."""

__all__ = [
    "FEATURE_MAPS",
    "FLOOR",
    "Affine",
    "Ball",
    "Chain",
    "FeatureMap",
    "Joined",
    "LowFrequencies",
    "Projection",
    "ToRange",
    "Whitening",
    "first_of",
    "load_feature_map",
    "modules_in",
    "put_on_sphere",
    "save_feature_map",
]
