"""What a training is of: a stack of layers under MAC or DP-SGD, or any torch module. All that the trainer asks of it.

The trainer draws samples, releases, keeps books and checkpoints; a setup checks the rows, tries the pieces on made-up
rows, and makes the step.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from dpmac.checks import ArgumentError
from dpmac.extensions.row_independence import ROWS, trials
from dpmac.extensions.world import World
from dpmac.mac import AdamCoordinates, Averaged, FirstOrder, FixedPrediction, OptimizerStep
from dpmac.methods import Gradients
from dpmac.modules.refusals import check_module
from dpmac.modules.step import ModuleStep, TrainedModule
from dpmac.modules.task import Task, device_of
from dpmac.modules.trying import check_rows_alone, settled
from dpmac.nets import Network
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import PrivateRows
from dpmac.training.objective import AnyStep, StepObjective
from dpmac.training.row_independence import check_forgets, check_step
from dpmac.training.rows import module_rows, private_rows
from dpmac.training.step import Step, inputs_of

if TYPE_CHECKING:
    from dpmac.training.trainer import Trainer

Rows = Tensor | PrivateRows | tuple[Tensor, ...] | Mapping[str, Tensor]


class Setup(Protocol):
    """A training that is being prepared. ``model`` is the copy that will be trained."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def feature_map(self) -> FeatureMap | None:
        """The feature map that belongs to the model, on its device."""

    @property
    def device(self) -> torch.device: ...

    def check(self, rows: PrivateRows) -> None:
        """Raise unless every row is treated by itself; nothing private is looked at."""

    def begin(self, rows: PrivateRows) -> tuple[PrivateRows, StepObjective]:
        """The table to draw from, and the objective."""


def described(network: nn.Module) -> list[str]:
    """A model in plain words: what a checkpoint must be of to be resumed."""
    if isinstance(network, Network):
        return [f"{type(s.layer).__name__} {s.layer.matrix_shape} {s.activation.name}" for s in network.stages]
    if any(isinstance(p, UninitializedParameter) for p in network.parameters()):
        return [type(network).__name__]  # which is refused
    tensors = network.named_parameters()
    return [f"{type(network).__name__}: {name} {tuple(p.shape)} {p.dtype} {p.requires_grad}" for name, p in tensors]


def table_for(trainer: Trainer, x: Rows, y: Tensor | None) -> tuple[PrivateRows, tuple[str, ...] | None]:
    """``x`` and ``y`` as a table that the model can train on, and the names of its inputs, if they have any."""
    if isinstance(trainer.network, Network):
        if isinstance(x, tuple | Mapping):
            raise ArgumentError("x", type(x).__name__, "a dpmac network has one input: give one tensor")
        if trainer.autocast is not None:
            raise ArgumentError("autocast", trainer.autocast, "it is for torch modules: leave it out for a Network")
        rows = private_rows(x, y, trainer.network, trainer.loss, trainer.feature_map, trainer.world)
        return rows, None
    _check_method(trainer)
    check_module(trainer.network)  # itself: hooks on its tensors are lost in a copy
    rows, names = module_rows(x, y, trainer.world)
    if trainer.feature_map is not None:
        trainer.feature_map.shape_after(rows.shapes[0])  # raises if such rows do not fit
    return rows, names or trainer.input_names


def setup_for(trainer: Trainer, rows: PrivateRows, names: tuple[str, ...] | None, world: World) -> Setup:
    """The training of a copy of the trainer's network; its initial numbers are the leader's."""
    network = copy.deepcopy(trainer.network)
    for layer in network.modules():
        if isinstance(layer, nn.RNNBase):
            layer.flatten_parameters()  # a copy's weights are apart, of which torch warns on a GPU
    world.spread([*network.parameters(), *network.buffers()])
    feature_map = None
    if trainer.feature_map is not None:
        feature_map = copy.deepcopy(trainer.feature_map).to(device_of(network))
    if isinstance(network, Network):
        return StackSetup(trainer, network, feature_map)
    task = Task(network, trainer.loss, names, len(rows.shapes) > 1, trainer.autocast)
    return ModuleSetup(trainer, network, task, feature_map)


@dataclass(eq=False)
class StackSetup:
    """A stack of layers."""

    trainer: Trainer
    model: Network
    feature_map: FeatureMap | None

    @property
    def device(self) -> torch.device:
        return self.model.device

    def check(self, rows: PrivateRows) -> None:
        check_step(self._step(self.feature_map), rows)

    def begin(self, rows: PrivateRows) -> tuple[PrivateRows, StepObjective]:
        """An expensive feature map is applied once; a cheap one in every step."""
        feature_map, table = self.feature_map, rows
        if feature_map is not None and feature_map.expensive:
            table, feature_map = rows.behind(partial(inputs_of, feature_map, self.model)), None
        updater = self.trainer.wstep.start(self.model, self.trainer.plan.steps)
        return table, StepObjective(self._step(feature_map), updater)

    def _step(self, feature_map: FeatureMap | None) -> Step:
        t = self.trainer
        return Step(self.model, t.loss, t.zstep, t.expansion, t.bound, feature_map, t.cuda_graphs)


@dataclass(eq=False)
class ModuleSetup:
    """Any torch module, by DP-SGD. A feature map is for its first input, and always applied beforehand."""

    trainer: Trainer
    model: nn.Module
    task: Task
    feature_map: FeatureMap | None = None
    _step: AnyStep | None = None

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    def check(self, rows: PrivateRows) -> None:
        """What the module does is settled here, on made-up rows."""
        kinds = rows.blank(1)
        if self.feature_map is not None:
            check_forgets(self.feature_map, self.feature_map, trials(rows.blank(ROWS)[:1], tokens=True))
            kinds = (self._features(kinds[0]), *kinds[1:])
        step = ModuleStep(settled(self.task, kinds), self.trainer.bound, self.trainer.cuda_graphs)
        check_rows_alone(self.task, step.bounded, kinds)
        self._step = step

    def begin(self, rows: PrivateRows) -> tuple[PrivateRows, StepObjective]:
        assert self._step is not None  # checked before it begins
        trained: Any = TrainedModule(self.model)
        table = rows
        if self.feature_map is not None:
            table = rows.behind(self._features)
        return table, StepObjective(self._step, self.trainer.wstep.start(trained, self.trainer.plan.steps))

    def _features(self, rows: Tensor) -> Tensor:
        """The module's first input for raw rows, in its precision."""
        assert self.feature_map is not None
        features: Tensor = self.feature_map(rows)
        return features.to(self.task.dtype)


def _check_method(trainer: Trainer) -> None:
    """Raise unless the pieces are those by which a module can be trained."""
    fix = "a torch module is trained by its gradients: use Trainer.dp_sgd(module, loss, plan, bound)"
    if trainer.autocast not in (None, torch.bfloat16):
        raise ArgumentError("autocast", trainer.autocast, "give torch.bfloat16, or None for the module's own precision")
    if not callable(trainer.loss):
        what = "give a function of outputs and targets with one number a row, such as partial(F.cross_entropy, "
        raise ArgumentError("loss", trainer.loss, f"{what}reduction='none')")
    if trainer.zstep not in (FixedPrediction(), AdamCoordinates()):
        raise ArgumentError("zstep", trainer.zstep, fix)
    if type(trainer.expansion) not in (Gradients, FirstOrder):
        raise ArgumentError("expansion", trainer.expansion, fix)
    inner: Any = trainer.wstep
    while isinstance(inner, Averaged):
        inner = inner.wstep
    if not isinstance(inner, OptimizerStep):
        raise ArgumentError("wstep", trainer.wstep, "use OptimizerStep(...), or Averaged(OptimizerStep(...))")
