"""The old name of :mod:`dpmac.nets.feature_maps`, for one more release."""

from dpmac.nets import feature_maps
from dpmac.old_names import old_module

NAMES = {
    "Front": "FeatureMap",
    "FRONTS": "FEATURE_MAPS",
    "load_front": "load_feature_map",
    "save_front": "save_feature_map",
}

__getattr__ = old_module("dpmac.nets.fronts", "dpmac.nets.feature_maps", NAMES, feature_maps)
