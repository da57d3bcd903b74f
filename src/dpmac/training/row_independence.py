"""Before a training accesses a row: check that every piece of it treats rows separately.

See :mod:`dpmac.extensions.row_independence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.extensions.row_independence import FIX, ROWS, Trial, blamed, fault_of, trials
from dpmac.modules.kept import KEEPS, check_keeps_nothing
from dpmac.modules.trying import changed_buffers
from dpmac.nets import Activation, Network
from dpmac.nets.stages import Stage
from dpmac.privacy import PrivateRows
from dpmac.training.step import Step, inputs_of, ours

MAX_CACHED = 1000  # kinds of steps that are cached
_PASSED: set[tuple[Any, ...]] = set()
Suspect = tuple[str, Any, Callable[..., Any], list[Trial]]


def check_step(step: Step, table: PrivateRows) -> None:
    """Raise :class:`ArgumentError` if rows affect each other's parts; the error names the piece that is responsible.

    Synthetic rows of the table's shapes go through the whole step a few times; for steps that consist only of our own
    pieces, once for each kind. Only if something is wrong are the pieces checked one by one, in the order of the data
    flow.
    """
    blank = table.blank(ROWS)
    kind = _kind(step, blank)
    if kind is not None and kind in _PASSED:
        return
    own = [stage.activation for stage in step.network.stages if not ours(stage.activation)]
    if own:
        _check_plain(step.network, own[0])
    classes = not getattr(step.loss, "free_targets", True)
    made = trials(blank, classes)
    fault = fault_of(step.bounded, made)
    if fault is None:
        for module in (step.network, step.feature_map):
            check_forgets(module, step.bounded, made)
        if kind is not None and len(_PASSED) < MAX_CACHED:
            _PASSED.add(kind)
        return
    for name, piece, function, some in _suspects(step, made, classes):
        found = fault_of(function, some)
        if found is not None:
            raise blamed(name, piece, found)
    raise blamed("bound", step.bound, fault)


def check_forgets(module: nn.Module | None, function: Callable[..., Any], made: list[Trial]) -> None:
    """Raise :class:`ArgumentError` if code of the user's own in ``module``, which is published, keeps something of its
    rows: in an attribute, or in a buffer. ``function`` is what runs it on a block of rows."""
    if module is None or ours(module):
        return
    before = {name: tensor.clone() for name, tensor in module.named_buffers()}
    try:
        check_keeps_nothing(module, function, made[0].rows, made[1].rows)
    except ArgumentError:
        raise
    except Exception:  # for rows that were made up: fault_of warns of that
        return
    changed = changed_buffers(module, before)
    if changed:
        raise ArgumentError(changed[0], f"a buffer of {type(module).__name__}", KEEPS)


def _check_plain(network: Network, own: Activation) -> None:
    """Raise unless the plain copy of a network with an activation of the user's own treats every row by itself.

    The trained network predicts and is calibrated by it: what is wrong with it must not be found out when the training
    is paid for.
    """
    made = trials((torch.zeros(ROWS, *network.input_shape, dtype=torch.float64, device=network.device),))
    plain = network.plain().double()
    try:
        plain(*made[0].rows)
    except Exception as error:
        fix = f"its module raised {type(error).__name__} for made-up numbers: {error}"
        raise ArgumentError("activation", own, fix) from error
    found = fault_of(plain, made)
    if found is not None:
        raise ArgumentError("activation", own, f"its module {found}: {FIX}")


def _kind(step: Step, blank: tuple[Tensor, ...]) -> tuple[Any, ...] | None:
    """A key for steps that compute the same, if all pieces are ours; None if any is not."""
    pieces = (step.network, step.loss, step.zstep, step.expansion, step.bound, step.feature_map)
    if not all(map(ours, pieces)):
        return None
    stages = [(repr(s.carriers), repr(s.layer), s.layer.matrix_shape, s.activation.name) for s in step.network.stages]
    rows = [(tuple(column.shape), column.dtype, column.device) for column in blank]
    return (
        *map(repr, pieces[1:4]),
        type(step.bound),
        type(step.feature_map),
        repr(stages),
        repr(rows),
        step.network.dtype,
    )


def _suspects(step: Step, made: list[Trial], classes: bool) -> Iterator[Suspect]:
    """Every piece under its name in a Trainer, with what it computes from rows."""
    network, loss = step.network, step.loss
    if step.feature_map is not None:
        yield "feature_map", step.feature_map, lambda x, *_: _inputs(step, x), made
    for stage in network.stages:
        blank = network.weight_layers[0].weight.new_zeros(ROWS, *stage.shape)
        numbers = trials((blank, blank))
        yield "activation", stage.activation, lambda u, s, stage=stage: _derivatives(stage, u, s), numbers
    yield "network", network, lambda x, *_: network(_inputs(step, x)), made
    blank = network.weight_layers[0].weight.new_zeros(ROWS, *network.output_shape)
    at = trials((blank, blank), classes)
    yield "loss", loss, lambda u, y: [loss.value(u, y), loss.slope(u, y)], at
    yield "loss", loss, lambda u, y: [loss.curvature(u, y), loss.hessian_root(u, y)], at
    yield "zstep", step.zstep, lambda *rows: step.zstep.solve(network, loss, *_targets(step, rows)), made
    yield "expansion", step.expansion, step.unbounded, made


def _derivatives(stage: Stage, u: Tensor, slopes: Tensor) -> list[Tensor]:
    act = stage.activation
    return [act.f(u), act.df(u), act.d2f(u), act.back(slopes, u)]


def _inputs(step: Step, x: Tensor) -> Tensor:
    if step.feature_map is None:
        return x.to(step.network.dtype)
    return inputs_of(step.feature_map, step.network, x)


def _targets(step: Step, rows: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    inputs = _inputs(step, rows[0])
    if len(rows) == 1:
        return inputs, inputs
    return inputs, rows[1].to(step.network.dtype)
