"""Checks of the rows, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.methods.tables import check_finite, check_floating
from dpmac.nets.feature_maps import FeatureMap
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network
from dpmac.privacy import PrivateRows


def private_rows(
    x: Tensor | PrivateRows,
    y: Tensor | None,
    network: Network,
    loss: Loss,
    feature_map: FeatureMap | None,
    world: World = SINGLE_PROCESS,
) -> PrivateRows:
    """``x`` and ``y`` as a private table that the model can train on; raises :class:`ArgumentError` otherwise.

    ``x`` may be a table already, with targets or (for an autoencoder) without; its values are then not checked, and
    rows that are not finite will contribute nothing.
    """
    if isinstance(x, PrivateRows):
        if y is not None:
            raise ArgumentError("y", "a tensor", "a private table holds its targets already: leave y out")
        shapes = x.shapes
        table = x
    else:
        columns = [column for column in (x, y) if column is not None]
        world.everywhere(lambda: _check(x, y, network, loss, feature_map))
        shapes = [tuple(column.shape[1:]) for column in columns]
        table = PrivateRows(*columns, world=world)
    inputs, what = shapes[0], f"shape {(table.n, *shapes[0])}"
    if feature_map is not None:
        inputs = feature_map.shape_after(shapes[0])
        what = f"inputs of shape {inputs} from the feature map"
    if inputs != network.input_shape:
        raise ArgumentError("x", what, f"the network needs shape {_needed(network.input_shape)}")
    targets = inputs  # of an autoencoder
    if len(shapes) > 1:
        targets = shapes[1]
    if targets != network.output_shape:
        fix = f"the network needs shape {_needed(network.output_shape)}"
        if len(shapes) == 1:
            fix = f"an autoencoder must give back its inputs, of shape {inputs}: give targets, or such a network"
        raise ArgumentError("y", f"shape {(table.n, *targets)}", fix)
    return table


def module_rows(
    x: Tensor | PrivateRows | Sequence[Tensor] | Mapping[str, Tensor], y: Tensor | None, world: World = SINGLE_PROCESS
) -> tuple[PrivateRows, tuple[str, ...] | None]:
    """Inputs and targets of any module as a private table, and the inputs' names where ``x`` is a dictionary.

    Of a table the last column is the target, if there are several. Values are taken as they are: a row for which the
    module's loss or gradient is not finite contributes nothing.
    """
    if isinstance(x, PrivateRows):
        if y is not None:
            raise ArgumentError("y", "a tensor", "a private table holds its targets already: leave y out")
        return x, None
    names = tuple(map(str, x)) if isinstance(x, Mapping) else None
    inputs = list(x.values()) if isinstance(x, Mapping) else [x] if isinstance(x, Tensor) else list(x)
    if not inputs or not all(isinstance(column, Tensor) and column.dim() for column in inputs):
        fix = "give a tensor with a row per example, several in a tuple, or a dictionary of them by the inputs' names"
        raise ArgumentError("x", type(x).__name__, fix)
    if y is None and len(inputs) > 1:
        raise ArgumentError("y", None, "several inputs need targets: give them")
    if y is not None and (not isinstance(y, Tensor) or not y.dim()):
        raise ArgumentError("y", type(y).__name__, "give a tensor with a row per example")
    columns = [*inputs, *([] if y is None else [y])]
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ArgumentError("x", f"columns of {lengths} rows", "give as many rows of every input and of the targets")
    return PrivateRows(*columns, world=world), names


def _needed(shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(str(size) for size in shape)})"


def _check(x: Tensor, y: Tensor | None, network: Network, loss: Loss, feature_map: FeatureMap | None) -> None:
    _check_inputs(x, network, feature_map)
    if y is not None:
        _check_targets(x, y, network, loss)


def _check_inputs(x: Tensor, network: Network, feature_map: FeatureMap | None) -> None:
    if feature_map is None or not feature_map.tokens:
        check_floating("x", x)
    if x.dim() < 2:
        raise ArgumentError("x", f"shape {tuple(x.shape)}", f"the network needs shape {_needed(network.input_shape)}")
    if feature_map is None and x.dtype != network.dtype:
        raise ArgumentError("x", x.dtype, f"the weights are {network.dtype}: convert the rows")
    check_finite("x", x)


def _check_targets(x: Tensor, y: Tensor, network: Network, loss: Loss) -> None:
    check_floating("y", y)
    if y.dim() != 2 or tuple(y.shape[1:]) != network.output_shape:
        raise ArgumentError("y", f"shape {tuple(y.shape)}", f"the network needs shape {_needed(network.output_shape)}")
    if y.dtype != network.dtype:
        raise ArgumentError("y", y.dtype, f"the weights are {network.dtype}: convert the rows")
    check_finite("y", y)
    if len(x) != len(y):
        raise ArgumentError("y", f"{len(y)} rows", f"x has {len(x)}: give one target per example")
    loss.check_targets(y)
