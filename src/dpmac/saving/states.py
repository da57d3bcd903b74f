"""What a fitted estimator keeps, and how it comes back: one entry for each class in :data:`KEPT`.

A fit leaves released and public numbers only: weights, a feature map, the plan, the ledger, the history. Plain values
go into the manifest under "fitted", by the attribute's name; the rest has files of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACPCA, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Privacy, PrivateEstimator
from dpmac.estimators import DPMACImageClassifier as ImageClassifier
from dpmac.estimators import DPMACModuleClassifier as ModuleClassifier
from dpmac.estimators import DPMACModuleRegressor as ModuleRegressor
from dpmac.estimators.labelled import Labelled
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.rows import OnRows, raw_width
from dpmac.extensions.entries import mechanism_from
from dpmac.limits import NUMBERS, STEPS
from dpmac.methods.pca import ReleasedPCA
from dpmac.modules.files import save_weights
from dpmac.nets import Activation, Network
from dpmac.nets.feature_maps import FeatureMap, save_feature_map
from dpmac.privacy import Ledger, Origin, Plan
from dpmac.saving import module_model
from dpmac.saving.agreement import additive_agrees, code_agrees, labels_agree, pictures_agree, range_agrees
from dpmac.saving.arguments import arguments_from
from dpmac.saving.closed_form import load_closed_form, moved, moved_pca, save_closed_form
from dpmac.saving.manifest import reading
from dpmac.saving.mapping import FEATURE_MAP, frozen_modules, hand_back, loaded_feature_map
from dpmac.saving.plain import OwnObjectError, packed, unpacked
from dpmac.training import Run
from dpmac.training.run import Record

MODEL = "model.safetensors"
EVERYWHERE = ("n_features_in_", "feature_names_in_", "table_columns_", "term_noise_", "edits_")
"""What some fits leave: the second where columns have names, the last two of an additive model."""


@dataclass(frozen=True)
class Kept:
    """Plain attributes of a class, and what must be true of them and the model for the two to belong together."""

    attributes: tuple[str, ...]
    agrees: Callable[[Any], bool]


def _width_agrees(model: Any) -> bool:
    """Whether its width is its feature map's and its model's: a manifest alone must not size what is allocated."""
    width, feature_map = model.n_features_in_, model.feature_map_
    if type(width) is not int or not 1 <= width <= NUMBERS:
        return False
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(names) != width:
        return False
    shape = (width,)
    if feature_map is not None:
        shape = feature_map.shape_after((raw_width(model),))
    if isinstance(model, DPMACPCA):
        return bool(shape == tuple(model.pca_.components.shape[1:]))
    closed = getattr(model, "autoencoder_", None)
    if closed is None:
        return bool(math.prod(shape) == model.network_.sizes[0])
    return bool(shape == tuple(closed.pca.components.shape[1:]))


KEPT: dict[type[OnRows], Kept] = {
    DPMACClassifier: Kept(("classes_", "_indicator", "calibration_"), labels_agree),
    DPMACRegressor: Kept(("target_range_", "residual_std_"), range_agrees),
    DPMACAutoencoder: Kept(("code_size_", "method_"), code_agrees),
    DPMACPCA: Kept(
        ("n_components_", "explained_variance_", "explained_variance_ratio_"),
        lambda m: m.n_components_ == len(m.pca_.components),
    ),
    ImageClassifier: Kept(("classes_", "_indicator", "calibration_", "image_shape_"), pictures_agree),
    ModuleClassifier: Kept(("classes_", "_indicator", "calibration_", "inputs_"), module_model.labels_agree),
    ModuleRegressor: Kept(("target_range_", "residual_std_", "inputs_"), module_model.range_agrees),
}


def kind_named(name: Any) -> type[OnRows]:
    """The estimator of that name, among those that can be saved."""
    return {kind.__name__: kind for kind in KEPT}[name]


# --- out --------------------------------------------------------------------------------------------------------------


def check_whole(estimator: Any) -> None:
    """Raise unless ``estimator`` is one of ours, fitted to the end."""
    if type(estimator) not in KEPT:
        fix = f"give a fitted {', '.join(kind.__name__ for kind in KEPT)}: of a class of your own no file has the code"
        raise ArgumentError("estimator", type(estimator).__name__, fix)
    needed = ("privacy_", *KEPT[type(estimator)].attributes)
    missing = [name for name in needed if not hasattr(estimator, name)]
    if missing:
        raise NotFittedError(f"this {type(estimator).__name__} has no {missing[0]}: fit it first, to the end")


def plain_state(estimator: OnRows) -> dict[str, Any]:
    """The manifest's "fitted": plain attributes, and delta and notes of the guarantee."""
    names = [name for name in (*EVERYWHERE, *KEPT[type(estimator)].attributes) if hasattr(estimator, name)]
    found: dict[str, Any] = {}
    for name in names:
        value = getattr(estimator, name)
        if isinstance(value, np.dtype):
            value = {"dtype": value.str}
        try:
            found[name] = packed(value)
        except OwnObjectError as error:
            fix = "labels must be numbers, texts or bools to be kept in a file"
            raise ArgumentError(name, str(error), fix) from None
    return {**found, "delta": estimator.privacy_.delta, "notes": list(estimator.privacy_.notes)}


def write_model(estimator: Any, folder: Path) -> None:
    """The weights, and the feature map if there is one."""
    if isinstance(estimator, DPMACPCA):
        estimator.pca_.save(folder / MODEL)
    elif getattr(estimator, "autoencoder_", None) is not None:
        save_closed_form(estimator.autoencoder_, folder / MODEL)
    elif isinstance(estimator, ModuleEstimator):
        save_weights(estimator.module_, folder / MODEL)
    else:
        estimator.network_.save(folder / MODEL)
    if estimator.feature_map_ is not None:
        save_feature_map(estimator.feature_map_, folder / FEATURE_MAP)


def run_of(estimator: Any) -> Run | None:
    """The training that the model came from; None of one in closed form."""
    if isinstance(estimator, DPMACPCA) or getattr(estimator, "autoencoder_", None) is not None:
        return None
    run: Run = estimator.run_
    return run


def history_of(run: Run) -> list[dict[str, Any]]:
    """Records in plain JSON."""
    return [record.plain() for record in run.history]


# --- back -------------------------------------------------------------------------------------------------------------


def history_from(raw: list[dict[str, Any]]) -> list[Record]:
    return [
        Record(
            int(one["step"]),
            float(one["epoch"]),
            float(one["lr"]),
            [float(norm) for norm in one["released_norms"]],
            {name: float(value) for name, value in one["metrics"].items()},
        )
        for one in raw
    ]


def plan_from(raw: Mapping[str, Any]) -> Plan:
    before = tuple(mechanism_from(one) for one in raw["before"])
    names = ("n", "batch_size", "steps", "noise_multiplier", "delta")
    if raw["steps"] > STEPS:
        raise ValueError(f"{raw['steps']:,} steps, and {STEPS:,} are the most")
    return Plan(**{name: raw[name] for name in names}, before=before)


def restored(
    manifest: Mapping[str, Any],
    folder: Path,
    ledger: Ledger,
    plan: Plan | None,
    history: list[Record],
    activations: Sequence[Activation],
    module: Any = None,
) -> OnRows:
    """The fitted estimator; without its model where that needs a torch ``module`` and none is handed in.

    Errors in the manifest are raised as they come; those in files name them.
    """
    kind, fitted = kind_named(manifest["estimator"]), manifest["fitted"]
    estimator: Any = kind(**arguments_from(kind, manifest["arguments"], ledger, activations))
    for name in (*EVERYWHERE, *KEPT[kind].attributes):
        if name in fitted or name not in EVERYWHERE:
            setattr(estimator, name, unpacked(fitted[name]))
    if isinstance(estimator, Labelled) and estimator._indicator is not None:
        estimator._indicator = np.dtype(estimator._indicator["dtype"])
    estimator.privacy_ = Privacy(ledger, float(fitted["delta"]), tuple(fitted["notes"]))
    if isinstance(estimator, ModuleEstimator):
        return _with_module(estimator, folder / MODEL, plan, history, module)
    feature_map = loaded_feature_map(folder, manifest["files"], module)
    with reading(folder / MODEL):
        _put_in(estimator, folder / MODEL, feature_map, plan, history, activations)
    lacking = feature_map is None and bool(frozen_modules(folder, manifest["files"]))
    if not (KEPT[kind].agrees(estimator) and (lacking or _width_agrees(estimator)) and additive_agrees(estimator)):
        raise ValueError("what was fitted and the model do not belong together")
    if lacking:
        del estimator.run_  # nothing may be predicted without the feature map
    hand_back(estimator)
    return estimator  # type: ignore[no-any-return]


def _with_module(
    estimator: ModuleEstimator, path: Path, plan: Plan | None, history: list[Record], module: Any
) -> ModuleEstimator:
    """That of a module, with its model if the ``module`` was handed in."""
    if not KEPT[type(estimator)].agrees(estimator) or plan is None:
        raise ValueError("what was fitted and the model do not belong together")
    estimator._input_names = tuple(name for name, _, _ in estimator.inputs_ if name is not None) or None
    estimator.feature_map_, estimator.plan_, estimator.history_ = None, plan, history
    if module is None:
        return estimator
    estimator.module, privacy = module, estimator.privacy_
    with reading(path):
        estimator.module_ = module_model.loaded_module(estimator, path, privacy.ledger).to(_device_of(estimator))
    estimator.run_ = Run(estimator.module_, history, privacy.ledger, plan, privacy.notes)
    return estimator


def _put_in(
    estimator: Any,
    path: Path,
    feature_map: FeatureMap | None,
    plan: Plan | None,
    history: list[Record],
    activations: Sequence[Activation],
) -> None:
    """The model from its file, on the device that the arguments name, or on the CPU where there is no such device.

    What was released knows the folder's ledger, also where version 0.2 wrote the file.
    """
    device, known = _device_of(estimator), Origin.of(estimator.privacy_.ledger)
    if isinstance(estimator, DPMACPCA):
        pca = moved_pca(ReleasedPCA.load(path), device)
        estimator.feature_map_ = _told(feature_map, known, pca.origin)
        pca = replace(pca, origin=Origin.merged(known, pca.origin))
        estimator.pca_, estimator.mean_ = pca, pca.centre.cpu().numpy()
        estimator.components_ = pca.components.cpu().numpy()
        return
    if plan is None:
        closed = moved(load_closed_form(path), device)
        whole = Origin.merged(known, closed.pca.origin)
        if isinstance(closed.choices.feature_map, FeatureMap):
            closed.choices.feature_map.origin = whole
        estimator.feature_map_ = _told(feature_map, known, closed.pca.origin)
        estimator.autoencoder_ = replace(closed, pca=replace(closed.pca, origin=whole))
        return
    if isinstance(estimator, DPMACAutoencoder):
        estimator.autoencoder_ = None
    assert isinstance(estimator, PrivateEstimator)
    network, privacy = Network.load(path, activations).to(device), estimator.privacy_
    feature_map = _told(feature_map, known, network.origin)
    network.origin = Origin.merged(known, network.origin)
    if feature_map is not None:
        feature_map = feature_map.to(device)
    run = Run(network, history, privacy.ledger, plan, privacy.notes, feature_map)
    estimator.run_, estimator.feature_map_, estimator.network_ = run, run.feature_map, network
    estimator.history_, estimator.plan_ = history, plan


def _told(feature_map: FeatureMap | None, known: Origin, said: Origin) -> FeatureMap | None:
    """The feature map, which knows the folder's ledger, too, where the model's file has ``said`` nothing of an origin.

    So version 0.2 wrote it: the feature map's ranges may have been estimated from private rows.
    """
    if feature_map is not None and not said:
        feature_map.origin = Origin.merged(known, feature_map.origin)
    return feature_map


def _device_of(estimator: Any) -> Any:
    try:
        return estimator._machine.available_device()
    except ArgumentError:
        return "cpu"
