"""A module tried on made-up rows before a private one is read: what it does is settled, and found right or refused.

The rows are random numbers of the table's shapes (whole numbers are 0 or 1, which every table of tokens and every set
of classes has). Nothing is learned of anybody, and nothing is spent.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from dpmac.checks import ArgumentError
from dpmac.extensions.row_independence import FIX, MIXES, ROWS, fault_of, trials
from dpmac.kernels.gathering import Columns
from dpmac.kernels.precision import full_precision
from dpmac.modules.gradients import RowGradients, alike, noise_of
from dpmac.modules.kept import check_keeps_nothing, same
from dpmac.modules.outputs import RowOutputs
from dpmac.modules.refusals import check_module
from dpmac.modules.steadiness import settings_of
from dpmac.modules.task import Task, differentiating
from dpmac.modules.whole_rows import one_by_one
from dpmac.privacy.parts import Part
from dpmac.randomness import NoiseSource, SystemNoise

FEW, MORE = 5, 7  # rows of the two blocks by which calls are settled
LOOSE = 0.05  # of a gradient's length, in the module's own precision: what rounding may come to near ReLU's edges


def made_up(kinds: Columns, rows: int, source: NoiseSource) -> Columns:
    """``rows`` rows of the shapes, kinds and device of ``kinds``."""
    made = []
    for column in kinds:
        values = source.normal((rows, *column.shape[1:]))
        if not column.dtype.is_floating_point:
            values = (values > 0).double()
        made.append(values.to(column.dtype).to(column.device))
    return tuple(made)


def settled(task: Task, kinds: Columns, source: NoiseSource | None = None) -> RowGradients:
    """How every row's gradients are found; :class:`ArgumentError` for a module or a loss that cannot be used."""
    with plain_kernels():
        return _settled(task, kinds, source)


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Kernels that round alike for one row and for many, while numbers are compared: no TF32, no fused attention."""
    exact: AbstractContextManager[object] = nullcontext()
    try:
        torch.backends.cudnn.allow_tf32  # noqa: B018 - raises where torch's newer settings differ between kernels
        exact = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    except RuntimeError:
        pass
    with full_precision(), sdpa_kernel(SDPBackend.MATH), exact:
        yield


def _settled(task: Task, kinds: Columns, source: NoiseSource | None) -> RowGradients:
    check_module(task.module)
    draw = SystemNoise() if source is None else source
    few, more = (made_up(kinds, rows, draw) for rows in (FEW, MORE))
    before, settings = buffers_of(task.module), settings_of(task)
    own = replace(task, autocast=None)
    try:
        double = _in_double(own, few)
        found = _compared(double, *(_as(double.dtype, block) for block in (few, more)))
        _check_block(replace(found, task=own), more)
        first, second = (made_up(kinds, FEW, draw) for _ in range(2))
        check_keeps_nothing(task.module, lambda *columns: own.losses(columns), first, second)
        gradients = replace(found, task=task, steady=settings_of(task) == settings)
        if task.autocast is not None:
            gradients.parts(*more)  # raises where the module, or the loss, cannot be computed so
    except ArgumentError:
        raise
    except Exception as error:
        fix = (
            f"for made-up rows of the table's shapes it raised {type(error).__name__}: {error}. (Whole numbers are 0 "
            "or 1 in them, all others are drawn from a normal distribution)"
        )
        raise ArgumentError("module", type(task.module).__name__, fix) from error
    _check_buffers(task, before)
    return gradients


def _in_double(task: Task, columns: Columns) -> Task:
    """The same of a copy in double precision, where that can be computed.

    In single precision some unit of a large module is on one side of ReLU's edge for a row alone, and on the other
    among others, and its gradient with it: no wrong rule, but it could not be told from one.
    """
    if task.dtype == torch.float64:
        return task
    try:
        double = replace(task, module=copy.deepcopy(task.module).double())
        double.losses(columns)
    except Exception:  # such as numbers of single precision that the module or the loss makes itself
        return task
    return double


def _as(dtype: torch.dtype, columns: Columns) -> Columns:
    """Rows in a precision; a task that converts them would work on copies, and not on what it was given."""
    return tuple(column.to(dtype) if column.dtype.is_floating_point else column for column in columns)


def _compared(task: Task, few: Columns, more: Columns) -> RowGradients:
    """How the gradients are found, compared with those of every row alone."""
    before = buffers_of(task.module)
    _check_reached(task, few)
    _check_buffers(task, before)
    found = RowGradients.of(task, few, more)
    _check_sums(task, found, more)
    return found


def _check_block(gradients: RowGradients, columns: Columns) -> None:
    """In the module's own precision, too, the rows' gradients add up to autograd's of the block, but for rounding."""
    task = gradients.task
    whole = _block_gradients(task, columns)
    noise = noise_of(whole)
    for (name, expected), part in zip(whole.items(), gradients.parts(*columns), strict=True):
        mine: Tensor = part.explicit().sum(dim=0).reshape(expected.shape)
        off = torch.linalg.vector_norm(mine - expected.double())
        if off > LOOSE * torch.linalg.vector_norm(expected.double()) + noise * math.sqrt(expected.numel()):
            raise ArgumentError("module", type(task.module).__name__, f"at {name!r} it {MIXES}: {FIX}")


def _block_gradients(task: Task, columns: Columns) -> dict[str, Tensor]:
    """Autograd's gradients of the sum of all losses of a block."""
    parameters = task.parameters
    with differentiating():
        losses = task.losses(columns)
        found = torch.autograd.grad(losses, list(parameters.values()), torch.ones_like(losses))
    return {name: gradient.detach() for name, gradient in zip(parameters, found, strict=True)}


def check_rows_alone(task: Task, parts: Callable[..., list[Part]], kinds: Columns) -> None:
    """Raise if rows influence each other's parts: the whole query is tried, with outrageous rows as well."""
    blank = tuple(column.new_zeros(ROWS, *column.shape[1:]) for column in kinds)
    with plain_kernels():
        fault = fault_of(parts, trials(blank, tokens=True))
    if fault is not None:
        raise ArgumentError("module", type(task.module).__name__, f"it, or the loss, {fault}: {FIX}")


def check_outputs(outputs: RowOutputs, kinds: Columns, source: NoiseSource | None = None) -> None:
    """Raise unless a module can be used as it is after its training, in evaluation mode: to predict, and to be
    calibrated, which is a release. It must give numbers for made-up rows, for each by itself, and keep nothing. What
    it cannot do in training mode either is left to :func:`settled`."""
    module = copy.deepcopy(outputs.module).eval()
    tried, name = replace(outputs, module=module), type(module).__name__
    mode = "in evaluation mode, in which it predicts and is calibrated, it"
    before = {name: tensor.clone() for name, tensor in module.named_buffers()}
    draw = SystemNoise() if source is None else source
    first, second = (made_up(kinds, FEW, draw) for _ in range(2))
    try:
        tried(*first)
    except Exception as error:
        if _raises(replace(outputs, module=copy.deepcopy(outputs.module)), first):
            return
        fix = f"{mode} raised {type(error).__name__} for made-up rows: {error}"
        raise ArgumentError("module", name, fix) from error
    blank = tuple(column.new_zeros(ROWS, *column.shape[1:]) for column in kinds)
    fault = fault_of(tried, trials(blank, tokens=True))
    if fault is not None:
        raise ArgumentError("module", name, f"{mode} {fault}: {FIX}")
    check_keeps_nothing(module, tried, first, second)
    _check_constant(module, before)


def _raises(outputs: RowOutputs, columns: Columns) -> bool:
    try:
        outputs(*columns)
    except Exception:
        return True
    return False


def _check_reached(task: Task, columns: Columns) -> None:
    """Every trained parameter must have a gradient: noise on one that has none would only move it about."""
    parameters = task.parameters
    given = [column.clone() for column in columns]
    with differentiating():
        losses = task.losses(columns)
        if not all(map(same, columns, given)):
            fix = "it changes its inputs in place, which are read more than once: let it make new tensors"
            raise ArgumentError("module", type(task.module).__name__, fix)
        if not losses.requires_grad:
            fix = "it does not depend on any trained parameter: is there a detach() or a no_grad() on the way?"
            raise ArgumentError("loss", task.loss, fix)
        found = torch.autograd.grad(losses, list(parameters.values()), torch.ones_like(losses), allow_unused=True)
    for name, gradient in zip(parameters, found, strict=True):
        if gradient is None:
            fix = "the loss does not depend on it: freeze it, requires_grad_(False), or take it out"
            raise ArgumentError(name, f"a parameter of shape {tuple(parameters[name].shape)}", fix)


def _check_sums(task: Task, gradients: RowGradients, columns: Columns) -> None:
    """The rows' gradients must add up to autograd's of the whole block, and be those of each row alone."""
    parameters, whole = task.parameters, _block_gradients(task, columns)
    _check_losses(task, columns)
    alone = one_by_one(task, list(parameters), columns)
    parts = dict(zip(parameters, gradients.parts(*columns), strict=True))
    noise = noise_of(whole)
    for name in parameters:
        mine = parts[name].explicit()
        together: Tensor = mine.sum(dim=0).reshape(whole[name].shape)
        finite = bool(torch.isfinite(mine).all())
        if finite and not alike(together, whole[name], noise):
            raise ArgumentError("module", type(task.module).__name__, f"at {name!r} it {MIXES}: {FIX}")
        if not alike(mine, alone[name].reshape(mine.shape), noise_of(alone)):
            fix = "its rows' gradients are not those of each row alone: please report this module"
            raise ArgumentError(name, f"a parameter of {type(task.module).__name__}", fix)


def _check_losses(task: Task, columns: Columns) -> None:
    """The loss of a row must be the same whether other rows are there or not."""
    with torch.no_grad():
        together = task.losses(columns)
        found = [task.losses(tuple(c[n : n + 1] for c in columns)) for n in range(len(together))]
    if not alike(together, torch.cat(found), noise_of({"losses": together})):
        raise ArgumentError("module", type(task.module).__name__, f"it, or the loss, {MIXES}: {FIX}")


def _check_buffers(task: Task, before: dict[str, Tensor]) -> None:
    """No forward pass may change a buffer: what it keeps of private rows would leave without noise."""
    _check_constant(task.module, before)


def _check_constant(module: nn.Module, before: dict[str, Tensor]) -> None:
    changed = changed_buffers(module, before)
    if changed:
        fix = "a forward pass changes it, so it would keep something of private rows: make it a constant, or eval()"
        raise ArgumentError(changed[0], "a buffer", fix)


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """A copy of every buffer, by its name."""
    return {name: tensor.clone() for name, tensor in module.named_buffers()}


def changed_buffers(module: nn.Module, before: dict[str, Tensor]) -> list[str]:
    """The names of buffers that are not as ``before``; each is put back."""
    changed = []
    for name, tensor in module.named_buffers():
        if name not in before or not same(tensor, before[name]):
            changed.append(name)
            if name in before:
                tensor.copy_(before[name])
    return changed
