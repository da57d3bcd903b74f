"""A digest of everything that numbers computed from drawn rows follow from."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from torch import Tensor

from dpmac.extensions.provenance import Origin
from dpmac.nets.feature_maps import FeatureMap
from dpmac.nets.feature_maps.saving import packed_feature_map
from dpmac.priors.base import Prior


def digest_of(feature_map: FeatureMap | None, prior: Prior, known: Origin, *more: Any) -> str:
    """A digest of a feature map, a prior, what has shaped either, and of ``more`` plain values."""
    tensors: dict[str, Tensor] = {}
    packed: Any = None
    if feature_map is not None:
        packed = packed_feature_map(feature_map, "map", tensors)
    plain: list[Any] = [packed, prior.kind, *more, known.to_dict()]
    for name, value in prior.arguments().items():
        if isinstance(value, Tensor):
            tensors[f"prior.{name}"] = value
        else:
            plain.append([name, value])
    found = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
