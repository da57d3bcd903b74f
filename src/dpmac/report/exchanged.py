"""Predictions for rows that differ from a reference row in one column, at the cost of that column and not of the row.

Up to its first layer a network is linear in its inputs, and a column has inputs of its own. So what one column's value
changes in the first layer's sums is the product of that column's block of weights with the change of its inputs; a
whitening before the layer is a part of the weights (as in :mod:`dpmac.nets.folding`). The sums of the reference row are
computed once, and of everything behind the first layer a row costs the same however many columns there are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpmac.estimators.base import PrivateEstimator
from dpmac.nets import Network
from dpmac.nets.feature_maps import Chain, FeatureMap, ToRange, Whitening
from dpmac.nets.layers import Beside, Dense, ReLUBeyond
from dpmac.report.synthetic import Array, Cells, Maker
from dpmac.showing import Tell
from dpmac.tables import TableEncoder
from dpmac.tables.frames import cells

BLOCK = 4096  # rows that are behind the first layer at a time
Predict = Callable[[Any, Any], Array]  # of an estimator and what it reads


@dataclass(frozen=True)
class _Model:
    """An estimator's network as sums that are linear in its columns' inputs, matrix @ inputs + offset, and the rest."""

    estimator: Any
    matrix: Tensor  # (sums, inputs)
    offset: Tensor  # (sums,)
    rest: Callable[[Tensor], Tensor]


@torch.no_grad()
def exchanged(
    estimator: Any,
    copies: Sequence[Any],
    maker: Maker,
    base: Mapping[str, Any],
    tried: Mapping[str, Cells],
    predict: Predict,
    tell: Tell,
) -> Array | None:
    """Predictions (1 + copies, 1 + values, outputs) of an estimator and of copies with other weights: for the row
    ``base``, then with each value of each column. None of a kind of model whose first sums are not linear in columns.
    """
    first = _columns_map(estimator)
    if first is None:
        return None
    models = [_model(one) for one in (estimator, *copies)]
    known = [one for one in models if one is not None]
    if len(known) < len(models):
        return None
    blocks = list(_blocks(estimator, first, maker, base, tried))
    if sum(block.shape[1] for block in blocks) != known[0].matrix.shape[1]:
        return None
    usual = torch.cat([block[0] for block in blocks])
    sums = [one.matrix @ usual + one.offset for one in known]
    found, waiting, start, done = list[Array](), [[at[None]] for at in sums], 0, 0
    for block in blocks:
        change, stop = block[1:] - block[0], start + block.shape[1]
        for rows, one, at in zip(waiting, known, sums, strict=True):
            rows.append(at + change @ one.matrix[:, start:stop].T)
        start, done = stop, done + 1
        if sum(len(rows) for rows in waiting[0]) >= BLOCK or done == len(blocks):
            found.append(np.stack([_predicted(one, rows, predict) for one, rows in zip(known, waiting, strict=True)]))
            waiting = [[] for _ in known]
            tell(done, len(blocks))
    return np.concatenate(found, axis=1)


def _predicted(one: _Model, rows: Sequence[Tensor], predict: Predict) -> Array:
    """Predictions from the first sums of rows."""
    reader = copy.copy(one.estimator)
    reader._outputs = lambda outputs: outputs
    return predict(reader, one.rest(torch.cat(list(rows))))


# --- columns to inputs ------------------------------------------------------------------------------------------------


def _steps(feature_map: FeatureMap) -> list[FeatureMap]:
    """The feature maps of a chain, and of chains in it, in order."""
    if not isinstance(feature_map, Chain):
        return [feature_map]
    return [step for one in feature_map.feature_maps if isinstance(one, FeatureMap) for step in _steps(one)]


def _columns_map(estimator: Any) -> TableEncoder | ToRange | None:
    """The map that gives every column inputs of its own; None where there is no such map, or more than a whitening
    stands between it and the network."""
    feature_map = getattr(estimator, "feature_map_", None)
    if not isinstance(estimator, PrivateEstimator) or type(estimator)._outputs is not PrivateEstimator._outputs:
        return None
    if not isinstance(feature_map, FeatureMap):
        return None
    first, *rest = _steps(feature_map)
    if type(first) not in (TableEncoder, ToRange) or any(type(one) is not Whitening for one in rest):
        return None
    assert isinstance(first, TableEncoder | ToRange)
    return first


def _blocks(
    estimator: Any,
    first: TableEncoder | ToRange,
    maker: Maker,
    base: Mapping[str, Any],
    tried: Mapping[str, Cells],
) -> Iterator[Tensor]:
    """Of each column its inputs, float64 (1 + values, width): of the reference row's cell, and of each value."""
    if isinstance(first, TableEncoder):
        for name, column in first.schema.features.items():
            made = cells({name: _cells(maker, name, base, tried[name])}, [name])
            codes = torch.from_numpy(column.coded(name, first.schema.cells.read(column, made[name])))
            inputs = column.inputs(codes.reshape(len(codes), -1), first.bins)
            yield _rounded(inputs, estimator)
        return
    longest = max(len(one.values) for one in tried.values())  # arrays have numbers alone: all have as many
    table = {name: np.resize(_cells(maker, name, base, one), 1 + longest) for name, one in tried.items()}
    inputs = first(estimator._raw(maker.shaped(table)))
    for place, one in enumerate(tried.values()):
        yield _rounded(inputs[: 1 + len(one.values), place : place + 1], estimator)


def _cells(maker: Maker, name: str, base: Mapping[str, Any], one: Cells) -> Array:
    made = np.empty(1 + len(one.values), dtype=maker.columns[name].dtype)
    made[0] = base[name]
    for place, value in enumerate(one.values):
        made[1 + place] = value
    return made


def _rounded(inputs: Tensor, estimator: Any) -> Tensor:
    """Inputs in the precision in which the network sees them."""
    return inputs.to(estimator.network_.dtype).double()


# --- the network ------------------------------------------------------------------------------------------------------


def _model(estimator: Any) -> _Model | None:
    """An estimator by its first sums; None if its network begins with anything but dense sums of its inputs."""
    network = getattr(estimator, "network_", None)
    if not isinstance(network, Network):
        return None
    layers = list(copy.deepcopy(network).cpu().double().children())
    cut = _cut(layers)
    if cut is None:
        return None
    matrix, offset, rest = cut
    for one in reversed(_steps(estimator.feature_map_)[1:]):
        assert isinstance(one, Whitening)
        offset = offset - matrix @ one.matrix.cpu().T @ one.centre.cpu()
        matrix = matrix @ one.matrix.cpu().T
    return _Model(estimator, matrix, offset, rest)


def _cut(layers: Sequence[nn.Module]) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]] | None:
    first = layers[0]
    if type(first) is Dense:
        return first.weight, first.bias, nn.Sequential(*layers[1:])
    if [type(one) for one in layers] != [Beside, ReLUBeyond, Dense]:
        return None
    assert isinstance(first, Beside)
    last = layers[2]
    assert isinstance(last, Dense)
    units, straight, hidden = len(first.weight), last.weight[:, : first.inputs], last.weight[:, first.inputs :]

    def rest(sums: Tensor) -> Tensor:  # the outputs are sums of the inputs, too: what the linear path says
        return sums[:, units:] + torch.relu(sums[:, :units]) @ hidden.T

    return torch.cat([first.weight, straight]), torch.cat([first.bias, last.bias]), rest
