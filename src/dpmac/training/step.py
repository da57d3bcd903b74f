"""One training step as a query: everything that happens to a row before the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from dpmac.mac import Expansion, FirstOrder, Polynomial, ZStep
from dpmac.methods import Gradients
from dpmac.nets import ACTIVATIONS, Activation, Loss, Network
from dpmac.nets.feature_maps import FeatureMap
from dpmac.planning.plan import STEP
from dpmac.privacy import Bound, Part, Query

_EVERYWHERE = (_global_forward_hooks, _global_forward_pre_hooks)  # of all modules of the process
_PLAIN = (bool, int, float, str, type(None), Tensor)


@dataclass(frozen=True)
class Step:
    """rows -> feature map -> coordinates (Z-step) -> expansion -> bound, for the network as it is now.

    ``feature_map`` is None if the rows are already mapped. For a table without targets, the network learns to reproduce
    its own inputs. With ``cuda_graphs`` steps made of our own pieces are recorded on a GPU.
    """

    network: Network
    loss: Loss
    zstep: ZStep
    expansion: Expansion
    bound: Bound
    feature_map: FeatureMap | None = None
    cuda_graphs: bool = True
    _last_query: list[Query] = field(default_factory=list, init=False, repr=False, compare=False)  # one or none

    def unbounded(self, x: Tensor, *targets: Tensor) -> list[Part]:
        """Each row's parts before the bound; those of row n depend on row n only."""
        inputs = x
        if self.feature_map is not None:
            inputs = self.feature_map(x)
        inputs = inputs.to(self.network.dtype)
        y = inputs
        if targets:
            y = targets[0].to(self.network.dtype)
        coordinates = self.zstep.solve(self.network, self.loss, inputs, y)
        return self.expansion.parts(self.network, self.loss, coordinates)

    def bounded(self, *rows: Tensor) -> list[Part]:
        """Each row's parts after the bound, as in the query."""
        return self.bound.apply(self.unbounded(*rows))

    @property
    def only_slopes(self) -> bool:
        """Whether the query consists of slopes only, for an optimiser in the network's own precision."""
        return type(self.expansion) in (FirstOrder, Gradients)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the answer."""
        if self.only_slopes:
            return self.network.dtype
        return torch.float64

    def query(self) -> Query:
        """The query of a training step: the same object as before, as long as the scales are the same."""
        if self._last_query and self._last_query[0].reads is not None and self.only_slopes:
            return self._last_query[0]  # our own bounds are frozen, and shapes do not change
        promised = self.bound.promise(self.expansion.partitions(self.network, self.loss))
        if not self._last_query or self._last_query[0].partitions != promised:
            self._last_query[:] = [Query(STEP, promised, self.bounded, self._reads())]
        return self._last_query[0]

    def _reads(self) -> tuple[Tensor, ...] | None:
        """Weights and buffers, if all pieces are ours; other code might change a number in Python between calls."""
        if not self.cuda_graphs or not all(
            map(ours, (self.network, self.loss, self.zstep, self.expansion, self.bound, self.feature_map))
        ):
            return None
        modules = [module for module in (self.network, self.feature_map) if isinstance(module, nn.Module)]
        return tuple(tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))

    def polynomials(self, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        """The answer as polynomials, layer by layer."""
        return self.expansion.polynomials(self.network, self.loss, answer)


def ours(piece: Any) -> bool:
    """Whether a piece, and everything in it, is code of this package or of torch."""
    if isinstance(piece, _PLAIN):
        return True
    if isinstance(piece, Activation):
        return piece == ACTIVATIONS.get(piece.name)  # by value, because a trainer's network is a copy
    if isinstance(piece, tuple | list):
        return all(map(ours, piece))
    if isinstance(piece, Mapping):
        return all(map(ours, piece.values()))
    home = type(piece)
    if isinstance(piece, type):
        home = piece
    if home.__module__.partition(".")[0] not in ("dpmac", "torch"):
        return False
    if isinstance(piece, type):
        return True
    if isinstance(piece, Network) and not all(ours(stage.activation) for stage in piece.stages):
        return False
    if isinstance(piece, nn.Module):
        return not _hooked(piece) and all(ours(child) for child in piece.children())
    return all(map(ours, vars(piece).values()))


def _hooked(module: nn.Module) -> bool:
    """Whether other code runs with the module's: a hook, or a method that was replaced on the instance."""
    hooks = [value for name, value in vars(module).items() if name.endswith("_hooks") and name.startswith("_")]
    replaced = [name for name, value in vars(module).items() if callable(value) and hasattr(type(module), name)]
    return any(hooks) or bool(replaced) or any(_EVERYWHERE)


def inputs_of(feature_map: FeatureMap, network: Network, rows: Tensor) -> Tensor:
    """The network's inputs for raw rows, in the network's precision."""
    inputs: Tensor = feature_map(rows)
    return inputs.to(network.dtype)
