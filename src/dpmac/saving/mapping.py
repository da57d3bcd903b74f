"""The feature map of a folder: its numbers are in a file. The code of a frozen torch module in it is handed in by
whoever loads it, as that of a module's estimator is (:mod:`dpmac.saving.module_model`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from dpmac.checks import ArgumentError
from dpmac.estimators.mapped import Mapped, own_part
from dpmac.nets.feature_maps import FeatureMap, load_feature_map, modules_in
from dpmac.saving.manifest import reading

FEATURE_MAP = "front.safetensors"


def frozen_modules(folder: Path, files: Any) -> list[str]:
    """The classes of the frozen torch modules in a folder's feature map, in their order."""
    if FEATURE_MAP not in files:
        return []
    with reading(folder / FEATURE_MAP):
        return modules_in(folder / FEATURE_MAP)


def check_frozen(needed: Sequence[str], module: Any) -> None:
    """Raise unless ``module`` has an instance for each frozen module that was saved."""
    given = [type(one).__name__ for one in _modules(module)]
    if given != list(needed):
        made = ", ".join(f"{name}(...)" for name in needed)
        if len(needed) > 1:
            made = f"[{made}]"
        fix = (
            f"the feature map in this folder has the weights of {', '.join(needed)}, and code is in no file: hand in "
            f"such a module, whose numbers are replaced: dpmac.load(folder, module={made})"
        )
        raise ArgumentError("module", ", ".join(given) or None, fix)


def loaded_feature_map(folder: Path, files: Any, module: Any) -> FeatureMap | None:
    """The feature map of a folder, if there is one and its frozen modules were handed in."""
    needed = frozen_modules(folder, files)
    if FEATURE_MAP not in files or (needed and module is None):
        return None
    with reading(folder / FEATURE_MAP):
        return load_feature_map(folder / FEATURE_MAP, _modules(module))


def hand_back(estimator: Any) -> None:
    """Give a loaded estimator its argument ``feature_map`` again, of which the manifest has the name alone."""
    if isinstance(estimator, Mapped) and estimator.feature_map is not None and estimator.feature_map_ is not None:
        estimator.feature_map = own_part(estimator, estimator.feature_map_)


def _modules(module: Any) -> Sequence[nn.Module]:
    if module is None:
        return ()
    if isinstance(module, list | tuple):
        return module
    return (module,)
