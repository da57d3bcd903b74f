"""One training step as a query: the whole way of a row to the door."""

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

    ``feature_map`` is None where the rows have been through it already. A table without targets asks the network to
    give back its own inputs.
    """

    network: Network
    loss: Loss
    zstep: ZStep
    expansion: Expansion
    bound: Bound
    feature_map: FeatureMap | None = None
    _asked: list[Query] = field(default_factory=list, init=False, repr=False, compare=False)  # the last, or none

    def unbounded(self, x: Tensor, *targets: Tensor) -> list[Part]:
        """Each row's parts before the bound; row n depends on row n alone."""
        inputs = x.to(self.network.dtype) if self.feature_map is None else inputs_of(self.feature_map, self.network, x)
        y = targets[0].to(self.network.dtype) if targets else inputs
        coordinates = self.zstep.solve(self.network, self.loss, inputs, y)
        return self.expansion.parts(self.network, self.loss, coordinates)

    def bounded(self, *rows: Tensor) -> list[Part]:
        """Each row's parts, bounded: what a query gives."""
        return self.bound.apply(self.unbounded(*rows))

    @property
    def slopes_alone(self) -> bool:
        """Whether all that is asked for are slopes, for an optimiser in the network's own precision."""
        return type(self.expansion) in (FirstOrder, Gradients)

    @property
    def dtype(self) -> torch.dtype:
        """The precision in which the answer is wanted."""
        return self.network.dtype if self.slopes_alone else torch.float64

    def query(self) -> Query:
        """What a training step asks: the same query as before, as long as the scales are the same."""
        if self._asked and self._asked[0].reads is not None and self.slopes_alone:
            return self._asked[0]  # of our own bounds, frozen as they are, and shapes, which stay
        promised = self.bound.promise(self.expansion.partitions(self.network, self.loss))
        if not self._asked or self._asked[0].partitions != promised:
            self._asked[:] = [Query(STEP, promised, self.bounded, self._reads())]
        return self._asked[0]

    def _reads(self) -> tuple[Tensor, ...] | None:
        """Weights and buffers, if all pieces are ours; somebody's own may change a number in Python as it likes."""
        if not all(map(ours, (self.network, self.loss, self.zstep, self.expansion, self.bound, self.feature_map))):
            return None
        modules = [self.network, *([self.feature_map] if isinstance(self.feature_map, nn.Module) else [])]
        return tuple(tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))

    def polynomials(self, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        """What the answer means, layer by layer."""
        return self.expansion.polynomials(self.network, self.loss, answer)


def ours(piece: Any) -> bool:
    """Whether a piece, and all that it is made of, is code of this package or of torch."""
    if isinstance(piece, _PLAIN):
        return True
    if isinstance(piece, Activation):
        return piece == ACTIVATIONS.get(piece.name)  # by value: a trainer's network is a copy
    if isinstance(piece, tuple | list):
        return all(map(ours, piece))
    if isinstance(piece, Mapping):
        return all(map(ours, piece.values()))
    home = piece if isinstance(piece, type) else type(piece)
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
    """Whether somebody's own code runs with the module's: a hook, or a method of its class that was put in place of."""
    hooks = [value for name, value in vars(module).items() if name.endswith("_hooks") and name.startswith("_")]
    replaced = [name for name, value in vars(module).items() if callable(value) and hasattr(type(module), name)]
    return any(hooks) or bool(replaced) or any(_EVERYWHERE)


def inputs_of(feature_map: FeatureMap, network: Network, rows: Tensor) -> Tensor:
    """The network's inputs for raw rows, in the network's precision."""
    inputs: Tensor = feature_map(rows)
    return inputs.to(network.dtype)
