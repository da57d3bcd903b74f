"""A public feature map of the user's own between the encoded rows and the network."""

from __future__ import annotations

from torch import nn

from dpmac.checks import ArgumentError
from dpmac.estimators.arguments import Arguments, estimator
from dpmac.estimators.rows import OnRows
from dpmac.nets.feature_maps import Chain, FeatureMap


@estimator
class FeatureMapArguments(Arguments):
    """Arguments of every estimator that takes a feature map of the user's own.

    Parameters
    ----------
    feature_map : a public :class:`dpmac.nets.feature_maps.FeatureMap` that rows pass behind ``feature_range`` or the
        schema's encoding, such as :class:`dpmac.modules.FrozenModule`, an encoder that was trained on public data.
    """

    feature_map: FeatureMap | None = None


class Mapped(FeatureMapArguments, OnRows):
    """An estimator whose rows pass a feature map of the user's own, behind the one that their range or schema gives."""

    def _feature_map(self, width: int) -> FeatureMap | None:
        first = super()._feature_map(width)
        if self.feature_map is None:
            return first
        if not isinstance(self.feature_map, FeatureMap):
            given = self.feature_map
            if isinstance(given, nn.Module):
                given = type(given).__name__
            fix = "give a dpmac.nets.feature_maps.FeatureMap, such as dpmac.modules.FrozenModule(encoder, ...), or None"
            raise ArgumentError("feature_map", given, fix)
        if first is None:
            return self.feature_map
        return Chain((first, self.feature_map))


def own_part(estimator: Mapped, whole: FeatureMap) -> FeatureMap:
    """The user's own feature map in the one that a fit made of it; ValueError if there is none in it."""
    if estimator.schema is None and estimator.feature_range is None:
        return whole
    if not isinstance(whole, Chain):
        raise ValueError("the arguments have a feature map of the user's own, and the model has none")
    last = whole.feature_maps[1]
    assert isinstance(last, FeatureMap)
    return last
