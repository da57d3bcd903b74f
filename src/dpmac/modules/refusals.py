"""Modules that cannot be trained privately, refused before anything is spent: by name, and with what to do instead."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from dpmac.checks import ArgumentError

PRECISIONS = (torch.float32, torch.float64)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def check_module(module: nn.Module) -> None:
    """Raise :class:`ArgumentError` for the first layer or parameter that cannot be; it says which, and the fix."""
    check_layers(module)
    _check_parameters(module)


def check_layers(module: nn.Module) -> None:
    """The same, whatever is trained of it."""
    _check_initialised(module)
    for name, layer in module.named_modules():
        _check_layer(name or type(layer).__name__, layer)


def _check_layer(name: str, layer: nn.Module) -> None:
    kind = type(layer).__name__
    if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
        fix = (
            "it normalises by the other rows of the batch, so no row's gradient is its own: use GroupNorm(groups, "
            "channels) or InstanceNorm without track_running_stats, or eval() if its statistics are public"
        )
        raise ArgumentError(name, kind, fix)
    if isinstance(layer, _InstanceNorm) and layer.training and layer.track_running_stats:
        fix = "it keeps statistics of the rows, which would leave without noise: use track_running_stats=False"
        raise ArgumentError(name, kind, fix)
    _check_draws(name, layer)
    for hooks in HOOKS:
        if getattr(layer, hooks, None):
            fix = (
                "there is a hook on it, and code that sees rows must be part of the module: remove the hook (weight "
                "norm and spectral norm: use torch.nn.utils.parametrizations in place of hooks)"
            )
            raise ArgumentError(name, f"{kind} with {hooks}", fix)
    if _global_forward_hooks or _global_forward_pre_hooks:
        raise ArgumentError("module", "global hooks", "there are hooks on all modules of the process: remove them")


def _check_draws(name: str, layer: nn.Module) -> None:
    """Layers that draw by themselves: a run could not be resumed, and a seed would not fix it."""
    p = 0.0
    if isinstance(layer, _DropoutNd):
        p = float(layer.p)
    if isinstance(layer, nn.MultiheadAttention):
        p = float(layer.dropout)
    if isinstance(layer, nn.RNNBase) and layer.num_layers > 1:
        p = float(layer.dropout)
    if layer.training and p > 0:
        fix = f"dropout of {p:g} draws by itself: set it to 0, or put the layer into eval()"
        raise ArgumentError(name, type(layer).__name__, fix)


def _check_initialised(module: nn.Module) -> None:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
            fix = "its shape is not known yet: give the module some rows of public shape first, module(example)"
            raise ArgumentError(name, type(tensor).__name__, fix)


def _check_parameters(module: nn.Module) -> None:
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trained:
        raise ArgumentError("module", type(module).__name__, "it has no parameter to train: requires_grad_(True)")
    for name, parameter in trained.items():
        if parameter.dtype not in PRECISIONS:
            raise ArgumentError(name, parameter.dtype, "train in single or double precision: module.float()")
        if getattr(parameter, "_backward_hooks", None) or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise ArgumentError(name, "a parameter with a hook", "remove the hook")
    kinds = {(p.dtype, p.device) for p in trained.values()}
    if len(kinds) > 1:
        fix = "all trained parameters must have one precision and one device: module.to(device, dtype)"
        raise ArgumentError("module", sorted(map(str, kinds)), fix)


def check_state(module: nn.Module) -> None:
    """Raise unless a file can keep all of a module's state: tensors under their names."""
    for name, tensor in module.state_dict().items():
        if not isinstance(tensor, Tensor):
            fix = f"{name!r} of its state is no tensor, and a model's file keeps tensors: leave get_extra_state out"
            raise ArgumentError("module", type(module).__name__, fix)
