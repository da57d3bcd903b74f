"""The fixed-prediction sweep of a network with units beside its inputs, without what no weight asks for.

As every stack, the network passes its inputs on: from the first layer to the carrier, and from there to the layer above
(:mod:`dpmac.nets.layers.beside`). In a step they are most of the numbers. So here they are copied once, not twice, and
slopes go back to the units alone. Whoever asks for the coordinates gets them nonetheless: they are made when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.mac.coordinates import Carried, Coordinates
from dpmac.nets.activations import IDENTITY
from dpmac.nets.layers import Beside, Dense, ReLUBeyond
from dpmac.nets.losses import Loss
from dpmac.nets.network import Network


def is_wide(network: Network) -> bool:
    """Whether the stack is that of :class:`dpmac.nets.WideNetwork`."""
    stages = network.stages
    if len(stages) != 2:
        return False
    below, above = stages
    layers = [*below.carriers, below.layer, *above.carriers, above.layer]
    return [type(layer) for layer in layers] == [Beside, ReLUBeyond, Dense] and below.activation == IDENTITY


@dataclass(frozen=True)
class Later(Sequence[Tensor]):
    """Tensors, or what makes them when they are asked for."""

    items: tuple[Tensor | Callable[[], Tensor], ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Later(self.items[place])
        item = self.items[place]
        if callable(item):
            return item()
        return item


@torch.no_grad()
def solved_beside(network: Network, loss: Loss, x: Tensor, y: Tensor, gamma: float) -> Coordinates:
    """What :class:`~dpmac.mac.FixedPrediction` finds; of the first layer's slopes those in the units alone."""
    below, above = network.stages
    assert isinstance(below.layer, Beside)
    first = below.layer
    inputs = first.rectified(x)
    u = above.layer(inputs)
    top = loss.weight * loss.slope(u, y)
    units = (top @ above.layer.weight[:, first.inputs :]) * (inputs[:, first.inputs :] > 0).to(top.dtype)
    weights = first.weight._version, above.layer.weight._version

    @torch.no_grad()
    def coordinates() -> Tensor:
        if (first.weight._version, above.layer.weight._version) != weights:
            raise RuntimeError("the weights have moved since: ask for the coordinates before they do")
        found: Tensor = first(x)
        return found

    @torch.no_grad()
    def target() -> Tensor:
        z = coordinates()
        return torch.sub(z, above.back(top, z), alpha=gamma)

    slopes = units if gamma == 1 else gamma * units
    given = Later((x, coordinates))
    carried = Carried(given, (x, inputs))
    return Coordinates(given, Later((target, y)), Later((coordinates, u)), (slopes, top), carried)
