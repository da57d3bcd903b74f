"""A whitening and the dense layer behind it as one dense layer: the same outputs, and far fewer numbers to keep.

A whitening of 11,000 features in 1,000 directions has eleven million numbers. Behind it a linear layer of ten units
sees (f - c) M, and W (f - c) M + b = (W M') f + (b - W M' c): ten sums of the features themselves. The directions have
done their work by then, which is to make the training's noise equal in all of them. Folding is post-processing: W and b
were released, c and M are public.
"""

from __future__ import annotations

import torch

from dpmac.extensions.provenance import Origin, origin_of
from dpmac.nets.feature_maps import Chain, FeatureMap, Whitening
from dpmac.nets.layers import Dense
from dpmac.nets.network import Network


@torch.no_grad()
def folded(network: Network, feature_map: FeatureMap | None) -> tuple[Network, FeatureMap] | None:
    """A network and the feature map before it that give the same outputs, without the whitening at the end of
    ``feature_map``; None where there is none, or where that would hold more numbers."""
    if not isinstance(feature_map, Chain) or not isinstance(feature_map.feature_maps[-1], Whitening):
        return None
    first, last = network._stack[0], feature_map.feature_maps[-1]
    features, directions = last.matrix.shape
    if type(first) is not Dense or first.out_features >= directions or len(feature_map.feature_maps) < 2:
        return None
    layer = Dense(features, first.out_features)
    matrix = last.matrix.to(first.weight.device) @ first.weight.double().T
    offset = last.centre.to(first.weight.device) @ matrix
    made = Network([layer, *network._stack[1:]], input_shape=(features,), source=None)
    made.to(first.weight)
    layer.weight.copy_(matrix.T)
    layer.bias.copy_(first.bias.double() - offset)
    made.origin = Origin.merged(network.origin, origin_of(last, name="feature_map"))
    return made, _before(feature_map)


def _before(chain: Chain) -> FeatureMap:
    """What comes before the last feature map of a chain."""
    kept = tuple(one for one in chain.feature_maps[:-1] if isinstance(one, FeatureMap))
    if len(kept) == 1:
        return kept[0]
    made = Chain(kept)
    made.origin = chain.origin
    return made
