"""One training step as a query: the whole way of a row to the door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from dpmac.mac import Expansion, Polynomial, ZStep
from dpmac.nets import Loss, Network
from dpmac.nets.fronts import Front
from dpmac.privacy import Bound, Part, Query
from dpmac.privacy.plan import STEP


@dataclass(frozen=True)
class Step:
    """rows -> front -> coordinates (Z-step) -> expansion -> bound, for the network as it is now.

    ``front`` is None where the rows have been through it already. A table without targets asks the network to give
    back its own inputs.
    """

    network: Network
    loss: Loss
    zstep: ZStep
    expansion: Expansion
    bound: Bound
    front: Front | None = None

    def unbounded(self, x: Tensor, *targets: Tensor) -> list[Part]:
        """Each row's parts before the bound; row n depends on row n alone."""
        inputs = x.to(self.network.dtype) if self.front is None else inputs_of(self.front, self.network, x)
        y = targets[0].to(self.network.dtype) if targets else inputs
        coordinates = self.zstep.solve(self.network, self.loss, inputs, y)
        return self.expansion.parts(self.network, self.loss, coordinates)

    def query(self) -> Query:
        """What a training step asks."""
        promised = self.bound.promise(self.expansion.partitions(self.network, self.loss))
        return Query(STEP, promised, lambda *rows: self.bound.apply(self.unbounded(*rows)))

    def polynomials(self, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        """What the answer means, layer by layer."""
        return self.expansion.polynomials(self.network, self.loss, answer)


def inputs_of(front: Front, network: Network, rows: Tensor) -> Tensor:
    """The network's inputs for raw rows, in the network's precision."""
    inputs: Tensor = front(rows)
    return inputs.to(network.dtype)
