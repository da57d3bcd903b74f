"""Fitted estimators as plain torch modules: raw rows in, predictions out, feature map and all; nothing of dpmac is
needed.

The same operations in the same order as the estimators', so that the answers are the same; tests hold the two against
each other. A table's rows go in as codes (``TableEncoder.codes``): text has no place in a module.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor
from dpmac.estimators.rows import OnRows
from dpmac.methods import ClosedFormAutoencoder
from dpmac.modules import FrozenModule
from dpmac.nets.feature_maps import FEATURE_MAPS, Affine, Chain, ToRange
from dpmac.tables import TableEncoder


class Table(nn.Module):
    """:class:`TableEncoder` on codes: every column's inputs, side by side."""

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        self.inputs = encoder.inputs

    def forward(self, rows: Tensor) -> Tensor:
        return self.inputs(rows)


class Range(nn.Module):
    """:class:`ToRange`."""

    low: Tensor
    high: Tensor

    def __init__(self, feature_map: ToRange) -> None:
        super().__init__()
        self.register_buffer("low", feature_map.low.cpu().clone())
        self.register_buffer("high", feature_map.high.cpu().clone())

    def forward(self, rows: Tensor) -> Tensor:
        return torch.clamp(2 * (rows.double() - self.low) / (self.high - self.low) - 1, -1, 1)

    def back(self, inputs: Tensor) -> Tensor:
        return (inputs.double().clamp(-1, 1) + 1) / 2 * (self.high - self.low) + self.low


class Frozen(nn.Module):
    """:class:`FrozenModule`. A token that is not in an embedding is an error here, as it is in torch."""

    def __init__(self, feature_map: FrozenModule) -> None:
        super().__init__()
        self.module, self.dtype = copy.deepcopy(feature_map.module).cpu(), feature_map.dtype
        if feature_map.tokens:
            self.dtype = torch.long

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.module(rows.to(self.dtype))
        return found.double()


class Linear(nn.Module):
    """(rows - centre) * scale @ components^T, and back: a linear code, with random features of it for what is left."""

    centre: Tensor
    components: Tensor
    spread: Tensor
    frequency: Tensor
    phase: Tensor
    decoder: Tensor

    def __init__(self, components: Tensor, centre: Tensor, model: ClosedFormAutoencoder | None = None) -> None:
        super().__init__()
        self.register_buffer("components", components.cpu().clone())
        self.register_buffer("centre", centre.cpu().clone())
        self.features = 0
        if model is not None and model.decoder is not None:
            self.features = model.choices.features
            for name in ("frequency", "phase", "decoder"):
                self.register_buffer(name, getattr(model, name).cpu().clone())
            self.register_buffer("spread", model.spread().cpu())

    def encode(self, inputs: Tensor) -> Tensor:
        return (inputs - self.centre) @ self.components.transpose(0, 1)

    def decode(self, codes: Tensor) -> Tensor:
        out = codes @ self.components
        if self.features:
            waves = torch.cos((codes / self.spread) @ self.frequency + self.phase) * math.sqrt(2.0 / self.features)
            out = out + waves @ self.decoder.transpose(0, 1)
        return out + self.centre


class Halves(nn.Module):
    """A network cut at its code."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def encode(self, inputs: Tensor) -> Tensor:
        codes: Tensor = self.first(inputs)
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        inputs: Tensor = self.second(codes)
        return inputs


class Predictor(nn.Module):
    """Rows to the probabilities of classes ("softmax", "sigmoid") or to a number within a range."""

    def __init__(
        self,
        feature_map: nn.Module | None,
        network: nn.Module,
        ending: str,
        limits: tuple[float, float],
        inputs: torch.dtype,
    ) -> None:
        super().__init__()
        self.feature_map, self.network, self.ending, self.limits = feature_map, network, ending, limits
        self.inputs = inputs

    def forward(self, rows: Tensor) -> Tensor:
        dtype = next(self.network.parameters()).dtype
        if self.feature_map is not None:
            rows = self.feature_map(rows).to(self.inputs)  # as the network has them
        u: Tensor = self.network(rows.to(dtype))
        if self.ending == "softmax":
            return torch.softmax(u, dim=1)
        if self.ending == "sigmoid":
            return torch.sigmoid(u)
        low, high = self.limits
        return torch.clamp((u[:, 0] + 1) / 2, 0, 1) * (high - low) + low


class Coding(nn.Module):
    """Rows to their codes, and to what the codes give back."""

    def __init__(self, feature_map: nn.Module | None, model: Linear | Halves) -> None:
        super().__init__()
        self.feature_map, self.model = feature_map, model

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        dtype = next(iter(self.model.state_dict().values())).dtype
        if self.feature_map is not None:
            rows = self.feature_map(rows)
        codes = self.model.encode(rows.to(dtype))
        again = self.model.decode(codes)
        if isinstance(self.feature_map, Range):
            again = self.feature_map.back(again)
        return codes, again


def plain_module(estimator: OnRows, *, single: bool = False) -> nn.Module:
    """The whole estimator as a torch module; after the feature map in double precision, or in ``single``."""
    feature_map = None
    if estimator.feature_map_ is not None:
        feature_map = _plain_feature_map(estimator.feature_map_)
    made: nn.Module
    if isinstance(estimator, DPMACClassifier):
        ending = "softmax"  # whichever the loss of one label a row
        if estimator._indicator is not None:
            ending = "sigmoid"
        made = Predictor(feature_map, _network(estimator), ending, (0.0, 1.0), estimator.network_.dtype)
    elif isinstance(estimator, DPMACRegressor):
        made = Predictor(feature_map, _network(estimator), "number", estimator.target_range_, estimator.network_.dtype)
    elif isinstance(estimator, DPMACPCA):
        made = Coding(feature_map, Linear(estimator.pca_.components, estimator.pca_.centre))
    else:
        assert isinstance(estimator, DPMACAutoencoder)
        if estimator.autoencoder_ is None:
            made = Coding(feature_map, Halves(*(h.cpu() for h in estimator._halves())))
        else:
            made = Coding(feature_map, _linear(estimator.autoencoder_))
    if single:
        for name, part in made.named_children():
            if name != "feature_map":
                part.float()
    return made.eval().requires_grad_(False)


def _network(estimator: Any) -> nn.Module:
    module: nn.Module = estimator.network_.plain().cpu().double()
    return module


def _linear(model: ClosedFormAutoencoder) -> Linear:
    feature_map = model.choices.feature_map
    if not isinstance(feature_map, Affine) or not bool((feature_map.scale == 1).all()):
        raise ArgumentError(
            "estimator", feature_map, "this autoencoder has a feature map of your own: export its parts yourself"
        )
    return Linear(model.pca.components, feature_map.centre, model)


def _plain_feature_map(feature_map: nn.Module) -> nn.Module:
    if isinstance(feature_map, TableEncoder):
        return Table(feature_map)
    if isinstance(feature_map, ToRange):
        return Range(feature_map)
    if isinstance(feature_map, FrozenModule):
        return Frozen(feature_map)
    if isinstance(feature_map, Chain):
        return nn.Sequential(*[_plain_feature_map(one) for one in feature_map.feature_maps])
    if type(feature_map) in FEATURE_MAPS.values():
        return copy.deepcopy(feature_map).cpu()  # torch's own operators on its buffers
    fix = "this feature map is of your own: export its parts yourself"
    raise ArgumentError("estimator", type(feature_map).__name__, fix)
