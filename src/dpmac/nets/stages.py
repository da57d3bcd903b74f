"""A stage of a network, as MAC sees it: one weight layer, what leads to it, and the activation behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from dpmac.nets.activations import Activation
from dpmac.nets.layers import Layer, Shape, WeightLayer


@dataclass(frozen=True)
class Stage:
    """One weight layer with what leads to it: coordinates z -> ``carriers`` -> ``layer`` -> u -> ``activation``.

    ``shape`` is that of one example's pre-activation u.
    """

    name: str
    carriers: tuple[Layer, ...]
    layer: WeightLayer
    activation: Activation
    shape: Shape

    @property
    def units(self) -> int:
        return math.prod(self.shape)

    def carried(self, z: Tensor) -> tuple[Tensor, ...]:
        """The coordinates before the stage, and what every carrier makes of them; the weight layer gets the last."""
        values = [z]
        for carrier in self.carriers:
            values.append(carrier(values[-1]))
        return tuple(values)

    def inputs(self, z: Tensor) -> Tensor:
        """What the weight layer gets of the coordinates before it."""
        return self.carried(z)[-1]

    def pre_activation(self, z: Tensor) -> Tensor:
        u: Tensor = self.layer(self.inputs(z))
        return u

    def back(self, slopes: Tensor, z: Tensor, values: Sequence[Tensor] | None = None) -> Tensor:
        """Slopes in the pre-activation, carried back to the coordinates z: row by row.

        ``values`` are what :meth:`carried` gives for z, if that is known.
        """
        if values is None:
            values = self.carried(z)
        slopes = self.layer.back(slopes, values[-1])
        for carrier, value in zip(reversed(self.carriers), reversed(values[:-1]), strict=True):
            slopes = carrier.back(slopes, value)
        return slopes
