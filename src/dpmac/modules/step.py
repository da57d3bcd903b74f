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
from dpmac.modules.steadiness import settings_of, tensors_of
from dpmac.planning.plan import STEP
from dpmac.privacy import Bound, JointClip, Normalise, Part, Partition, PerLayerClip, Query

Asked = tuple[Query, tuple[object, ...]]  # and the module's settings at that time


@dataclass(frozen=True)
class ModuleStep:
    """rows -> every row's gradients -> bound, for the module as it is now: one partition for each trained parameter.

    With ``cuda_graphs`` the steps of a module that does the same at every call are recorded on a GPU
    (:mod:`dpmac.modules.steadiness`).
    """

    gradients: RowGradients
    bound: Bound
    cuda_graphs: bool = True
    _asked: list[Asked] = field(default_factory=list, init=False, repr=False, compare=False)  # the last, or none

    def bounded(self, *rows: Tensor) -> list[Part]:
        """Each row's parts, bounded: what a query gives."""
        return self.bound.apply(self.gradients.parts(*rows))

    def query(self) -> Query:
        """What a training step asks: the same query as before, as long as scales and settings are the same."""
        task, settings = self.gradients.task, settings_of(self.gradients.task)
        promised = self.bound.promise([Partition(name, shape_of(p)) for name, p in task.parameters.items()])
        if not self._asked or (self._asked[0][0].partitions, self._asked[0][1]) != (promised, settings):
            self._asked[:] = [(Query(STEP, promised, self.bounded, self._reads()), settings)]
        return self._asked[0][0]

    def _reads(self) -> tuple[Tensor, ...] | None:
        """What a recorded step reads beside rows; None if it must not be recorded.

        A bound that learns its thresholds is another object after every answer, and would be recorded again and again.
        """
        fixed = type(self.bound) in (JointClip, PerLayerClip, Normalise)
        if not (self.cuda_graphs and self.gradients.steady and fixed):
            return None
        return tensors_of(self.gradients.task)

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
