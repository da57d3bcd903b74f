"""Objectives that can be trained: queried repeatedly, evaluated between steps, and resumed after a crash.

The trainer, its checkpoints, several processes and audits know nothing else about a model. A stack of layers trained by
MAC (:class:`StepObjective` with a :class:`~dpmac.training.step.Step`) is one such objective; DP-SGD is the same with
another expansion; any torch module is one with a :class:`~dpmac.modules.step.ModuleStep`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dpmac.mac.polynomial import Polynomial
from dpmac.mac.wsteps.base import WeightUpdater
from dpmac.methods.objective import Objective
from dpmac.modules.step import TrainedModule
from dpmac.privacy import Answer, Bound, Query


class TrainingObjective(Objective, Protocol):
    """An objective that a :class:`~dpmac.training.Trainer` can drive step by step."""

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the answer."""

    @property
    def lr(self) -> float:
        """The learning rate of the next step, for the history."""

    @property
    def model(self) -> nn.Module:
        """The model to evaluate and to keep."""

    def released_norms(self) -> list[float]:
        """The norms of the last release, layer by layer, for the history."""

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, as plain values and tensors."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from where :meth:`state` was taken."""

    def skip(self, steps: int) -> None:
        """Skip ``steps`` steps, whose answers were lost."""


class AnyStep(Protocol):
    """A step as an objective needs it: what is asked, under which bound, and what the answer means. A dataclass."""

    @property
    def bound(self) -> Bound: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def query(self) -> Query: ...

    def polynomials(self, answer: Answer) -> list[Polynomial]: ...


class StepObjective:
    """A step (of a stack of layers, or of any module) and the W-step on its answer.

    A bound that learns is replaced by the learned one after every answer.
    """

    def __init__(self, step: AnyStep, updater: WeightUpdater) -> None:
        self._step, self._updater, self._first = step, updater, step.bound
        self._released: list[Tensor] = []

    def query(self) -> Query:
        return self._step.query()

    def apply(self, answer: Answer) -> None:
        polynomials = self._step.polynomials(answer)
        self._updater.apply(polynomials)
        self._released = [polynomial.slope for polynomial in polynomials]
        self._bounded_by(self._step.bound.learned(answer))

    @property
    def dtype(self) -> torch.dtype:
        return self._step.dtype

    @property
    def lr(self) -> float:
        return self._updater.lr

    @property
    def model(self) -> nn.Module:
        model: nn.Module = self._updater.model
        return model.module if isinstance(model, TrainedModule) else model

    def released_norms(self) -> list[float]:
        return [float(torch.linalg.vector_norm(slope)) for slope in self._released]

    def state(self) -> dict[str, Any]:
        return {"updater": self._updater.state(), "threshold": self._learned()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._updater.restore(state["updater"])
        if state["threshold"] is not None:
            self._bounded_by(replace(self._step.bound, threshold=state["threshold"]))  # type: ignore[type-var]

    def skip(self, steps: int) -> None:
        self._updater.skip(steps)

    def _bounded_by(self, bound: Bound) -> None:
        if bound is not self._step.bound:
            self._step = replace(self._step, bound=bound)  # type: ignore[type-var]

    def _learned(self) -> Any:
        """The thresholds that the bound has learned; None if it is unchanged."""
        bound = self._step.bound
        if bound is self._first:
            return None
        if not hasattr(bound, "threshold"):
            raise TypeError(f"a {type(bound).__name__} learns something that a checkpoint cannot keep")
        return bound.threshold
