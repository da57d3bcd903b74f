"""The torch module of a folder: its weights are in a file, its code is not, and is handed in by whoever loads it.

The module's name, and the names, shapes and types of all its tensors, are compared with the file before anything is
put into it. Nothing in a folder is executed.
"""

from __future__ import annotations

import copy
import itertools
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from dpmac.checks import ArgumentError
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.module_columns import Kind
from dpmac.extensions.provenance import Origin, mark, origin_of
from dpmac.limits import NUMBERS
from dpmac.modules.files import FORMAT
from dpmac.nets.files import read_tensors, rebuilding
from dpmac.privacy import Ledger
from dpmac.randomness import SystemNoise, torch_draws_from

_EACH, _FEW = 100, 1_000  # layers and parameters for every tensor of a file, and besides
_KINDS = ("float", "bool", "uint8", "int8", "int16", "int32", "int64")


def name_of(module: Any) -> str:
    """The class of a module as a folder names it."""
    kind = module
    if isinstance(module, nn.Module):
        kind = type(module)
    return f"{getattr(kind, '__module__', '?')}.{getattr(kind, '__qualname__', kind)}"


def check_handed_in(saved: Any, module: Any) -> None:
    """Raise unless a class or an instance was given for the module that was ``saved``."""
    if module is None:
        fix = (
            f"the model in this folder is a torch module, {saved}, and a module is code, which is in no file: give its "
            "class, or an instance: dpmac.load(folder, module=...)"
        )
        raise ArgumentError("module", None, fix)
    if not (isinstance(module, nn.Module) or callable(module)):
        raise ArgumentError("module", module, f"give the class of {saved}, or an instance")


def loaded_module(estimator: ModuleEstimator, path: Path, ledger: Ledger) -> nn.Module:
    """The estimator's module with the weights of ``path`` and the origin that they have, in eval mode."""
    header, weights = read_tensors(path, FORMAT, "the weights of a module")
    _check_claims(estimator, weights, path)
    module = _made(estimator, path)
    kind = str(header.get("module"))
    if type(module).__name__ != kind:
        raise ArgumentError("module", type(module).__name__, f"{path} holds the weights of a {kind}: give that")
    _check_same(module, weights, path)
    with rebuilding(path, "module"):
        module.load_state_dict(weights)
        said = Origin.from_dict(header.get("origin"))
    mark(module, Origin.merged(Origin.of(ledger), said, origin_of(module, name="module")))
    return module.eval()


def _made(estimator: ModuleEstimator, path: Path) -> nn.Module:
    """A copy of the instance that was handed in, or an instance of the class, built as it was for the fit."""
    if isinstance(estimator.module, nn.Module):
        return copy.deepcopy(estimator.module)
    try:
        with torch_draws_from(SystemNoise()):
            made = estimator.module(**estimator._of_module)
    except Exception as error:
        fix = f"for {path} it raised {type(error).__name__}: {error}. Hand in an instance, built as it was for the fit"
        raise ArgumentError("module", name_of(estimator.module), fix) from error
    if not isinstance(made, nn.Module):
        raise ArgumentError("module", type(made).__name__, f"for {path} give a class of torch modules, or an instance")
    return made


def _check_claims(estimator: ModuleEstimator, weights: dict[str, Tensor], path: Path) -> None:
    """Raise unless the arguments in the folder make a module as large as the file says, before memory is spent on it.

    The class is called once on the device "meta", which has shapes and no memory. Arguments of the folder may ask for
    any width and any number of layers. Without any there is nothing that a folder could claim.
    """
    if isinstance(estimator.module, nn.Module) or not estimator._of_module:
        return
    fix = f"with the arguments beside {path} it cannot be made without memory"
    try:
        with torch.device("meta"), _at_most(_EACH * len(weights) + _FEW):
            claimed = estimator.module(**estimator._of_module)
    except Exception as error:
        said = f"{fix} ({type(error).__name__}: {error}). Hand in an instance, built as it was for the fit"
        raise ArgumentError("module", name_of(estimator.module), said) from error
    if isinstance(claimed, nn.Module):
        _check_same(claimed, weights, path)


@contextmanager
def _at_most(most: int) -> Iterator[None]:
    """Inside, this thread puts at most so many layers and parameters into modules."""
    count, thread = itertools.count(1), threading.get_ident()

    def counted(*_: Any) -> None:
        if threading.get_ident() == thread and next(count) > most:
            raise ValueError(f"it has more than {most:,} layers and parameters, far more than the file")

    hooks = (register_module_module_registration_hook(counted), register_module_parameter_registration_hook(counted))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _check_same(module: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    mine = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in module.state_dict().items()}
    theirs = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in weights.items()}
    for name in sorted({*theirs, *mine}):
        if mine.get(name) != theirs.get(name):
            fix = (
                f"its {name} is {_words(mine.get(name))}, and in {path} it is {_words(theirs.get(name))}: hand in the "
                "module with the arguments that it was fitted with"
            )
            raise ArgumentError("module", type(module).__name__, fix)


def _words(found: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    if found is None:
        return "missing"
    shape, dtype = found
    return f"{shape} of {dtype}"


def labels_agree(model: Any) -> bool:
    """Whether what a manifest says of a module's classifier can be."""
    several, classes = model._indicator, model.classes_
    known = several is None or several.kind in "biuf"
    return known and classes.ndim == 1 and len(classes) > (several is None) and inputs_agree(model.inputs_)


def range_agrees(model: Any) -> bool:
    """The same of a regressor."""
    low, high = model.target_range_
    return bool(low < high) and isinstance(model.residual_std_, float | None) and inputs_agree(model.inputs_)


def inputs_agree(inputs: Any) -> bool:
    """Whether a manifest's inputs are what an estimator writes: it alone must not size what is allocated."""
    return isinstance(inputs, tuple) and bool(inputs) and all(_is_kind(one) for one in inputs)


def _is_kind(one: Kind) -> bool:
    name, shape, dtype = one
    whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    return isinstance(name, str | None) and whole and math.prod(shape) <= NUMBERS and dtype in _KINDS
