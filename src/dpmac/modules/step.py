"""One training step of a module as a query, and what the answer means to its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from dpmac.mac.polynomial import Polynomial
from dpmac.modules.gradients import RowGradients
from dpmac.modules.shares import shape_of
from dpmac.planning.plan import STEP
from dpmac.privacy import Bound, Part, Partition, Query


@dataclass(frozen=True)
class ModuleStep:
    """rows -> every row's gradients -> bound, for the module as it is now: one partition for each trained parameter."""

    gradients: RowGradients
    bound: Bound
    _asked: list[Query] = field(default_factory=list, init=False, repr=False, compare=False)  # the last, or none

    def bounded(self, *rows: Tensor) -> list[Part]:
        """Each row's parts, bounded: what a query gives."""
        return self.bound.apply(self.gradients.parts(*rows))

    def query(self) -> Query:
        """What a training step asks: the same query as before, as long as the scales are the same."""
        parameters = self.gradients.task.parameters
        promised = self.bound.promise([Partition(name, shape_of(p)) for name, p in parameters.items()])
        if not self._asked or self._asked[0].partitions != promised:
            self._asked[:] = [Query(STEP, promised, self.bounded)]
        return self._asked[0]

    def polynomials(self, answer: Mapping[str, Tensor]) -> list[Polynomial]:
        """The released gradient of each parameter, as a polynomial of order 1."""
        parameters = self.gradients.task.parameters
        return [Polynomial(partial(_centre, p), answer[name]) for name, p in parameters.items()]

    @property
    def dtype(self) -> torch.dtype:
        """The precision in which the answer is wanted."""
        return self.gradients.task.dtype


def _centre(parameter: nn.Parameter) -> Tensor:
    return parameter.detach().double().reshape(shape_of(parameter))


class TrainedModule(nn.Module):
    """A module as W-steps see a network: its trained parameters, each as a layer of its own."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    @property
    def weight_layers(self) -> list[ParameterLayer]:
        return [ParameterLayer(parameter) for parameter in self.parameters()]

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Those that are trained: frozen ones are none of an optimiser's business."""
        return (parameter for parameter in super().parameters(recurse) if parameter.requires_grad)


@dataclass(frozen=True, eq=False)
class ParameterLayer:
    """One trained parameter."""

    parameter: nn.Parameter

    def matrix(self) -> Tensor:
        return _centre(self.parameter)

    def write_gradient(self, gradient: Tensor) -> None:
        """Set the gradient, for a torch optimiser."""
        self.parameter.grad = gradient.reshape(self.parameter.shape).to(self.parameter.dtype).clone()
