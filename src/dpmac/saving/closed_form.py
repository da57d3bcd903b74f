"""The closed form's autoencoder in one safetensors file: its public choices, and the tensors that were released."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dpmac.methods import ClosedForm, ClosedFormAutoencoder
from dpmac.methods.pca import ReleasedPCA
from dpmac.nets.feature_maps import Ball, FeatureMap
from dpmac.nets.feature_maps.saving import packed_feature_map, unpacked_feature_map
from dpmac.nets.files import read_tensors, rebuilding, write_tensors
from dpmac.privacy import Origin

FORMAT = "dpmac-closed-form-1"
_PCA = ("components", "eigenvalues", "moment")
_DECODER = ("frequency", "phase", "decoder")  # all of them, or none: a linear decoder has no features
_CHOICES = tuple(field.name for field in fields(ClosedForm) if field.name != "feature_map")


def save_closed_form(model: ClosedFormAutoencoder, path: Path) -> None:
    """Write all that encoding and decoding need; the feature map must be one of ours."""
    tensors: dict[str, Tensor] = {f"pca.{name}": getattr(model.pca, name) for name in _PCA}
    tensors |= {name: getattr(model, name) for name in _DECODER if getattr(model, name) is not None}
    feature_map = model.choices.feature_map
    header: dict[str, Any] = {
        "format": FORMAT,
        "choices": {name: getattr(model.choices, name) for name in _CHOICES},
        "ball": packed_feature_map(model.pca.ball, "pca.ball", tensors),
        "noise_multiplier": model.pca.noise_multiplier,
        "origin": model.pca.origin.to_dict(),
        "front": None,
    }
    if isinstance(feature_map, FeatureMap):
        header["front"] = packed_feature_map(feature_map, "front", tensors)
    write_tensors(path, header, tensors)


def load_closed_form(path: Path) -> ClosedFormAutoencoder:
    """Read what :func:`save_closed_form` wrote."""
    header, tensors = read_tensors(path, FORMAT, "a dpmac autoencoder in closed form")
    with rebuilding(path, "autoencoder in closed form"):
        ball = unpacked_feature_map(header["ball"], tensors, path, [])
        if not isinstance(ball, Ball):
            raise ValueError("its rows are not brought into a ball")
        components, eigenvalues, moment = (tensors[f"pca.{name}"] for name in _PCA)
        known = Origin.from_dict(header.get("origin"))  # files of version 1.0 have none
        pca = ReleasedPCA(components, eigenvalues, moment, ball, float(header["noise_multiplier"]), origin=known)
        choices = ClosedForm(**header["choices"])
        if header["front"] is not None:
            feature_map: Any = unpacked_feature_map(header["front"], tensors, path, [])
            choices = replace(choices, feature_map=feature_map)  # which looks whether it has an inverse
        model = ClosedFormAutoencoder(choices, pca, *(tensors.get(name) for name in _DECODER))
        _check(model)
    return model


def _check(model: ClosedFormAutoencoder) -> None:
    code, inputs = model.pca.components.shape
    features = model.choices.features
    shapes = {"frequency": (code, features), "phase": (features,), "decoder": (inputs, features)}
    found = {name: None if (kept := getattr(model, name)) is None else tuple(kept.shape) for name in _DECODER}
    if found not in (shapes, dict.fromkeys(_DECODER)):
        raise ValueError(f"its decoder has shapes {found}, and the code needs {shapes}")


def moved(model: ClosedFormAutoencoder, device: Any) -> ClosedFormAutoencoder:
    """The same on another device."""
    feature_map = model.choices.feature_map
    if isinstance(feature_map, FeatureMap):
        feature_map = feature_map.to(device)
    choices = replace(model.choices, feature_map=feature_map)
    kept = {name: None if (t := getattr(model, name)) is None else t.to(device) for name in _DECODER}
    return replace(model, choices=choices, pca=moved_pca(model.pca, device), **kept)


def moved_pca(pca: ReleasedPCA, device: Any) -> ReleasedPCA:
    """The same on another device."""
    kept = {name: getattr(pca, name).to(device) for name in _PCA}
    return replace(pca, ball=pca.ball.to(device), **kept)
