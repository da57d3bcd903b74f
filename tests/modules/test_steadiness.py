"""Which modules' steps may be recorded on a GPU, and that a replay computes the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from zoo import CLASSES, CROSS_ENTROPY, fresh, numbers, whole

from dpmac.bounds.adaptive import AdaptiveQuantile
from dpmac.checks import ArgumentError
from dpmac.kernels.recording import Outside
from dpmac.mac import OptimizerStep
from dpmac.modules import ModuleStep, Task, settled
from dpmac.modules.trying import check_rows_alone
from dpmac.privacy import Bound, JointClip, Ledger, Normalise, PerLayerClip, Plan
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
KINDS = numbers(1, 1, 5), whole(1, 2, CLASSES)


class Scaled(nn.Module):
    """A layer, a number, and a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale, self.shift = nn.Linear(5, CLASSES), 0.5, torch.ones(CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x) * self.scale + self.shift.to(x.dtype)
        return found


class Counting(Scaled):
    """Counts its calls."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Listing(Scaled):
    """Keeps a list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(1)
        return super().forward(x)


def step_of(module: nn.Module, bound: Bound | None = None, cuda_graphs: bool = True) -> ModuleStep:
    return ModuleStep(settled(Task(module, CROSS_ENTROPY), KINDS), bound or JointClip(1.0), cuda_graphs)


def test_what_a_steady_module_reads_is_all_of_its_tensors() -> None:
    module = Scaled()
    module.register_buffer("constant", torch.ones(2))
    reads = step_of(module).query().reads
    assert reads is not None
    wanted = [module.layer.weight, module.layer.bias, module.constant, module.shift]
    assert {id(tensor) for tensor in reads} >= {id(tensor) for tensor in wanted}


@pytest.mark.parametrize("module", [Counting(), Listing()], ids=lambda module: type(module).__name__)
def test_a_module_that_changes_itself_is_not_recorded(module: nn.Module) -> None:
    assert step_of(module).query().reads is None


@pytest.mark.parametrize(
    ("bound", "recorded"),
    [(PerLayerClip(0.5), True), (Normalise(), True), (AdaptiveQuantile(0.5, 0.5), False)],
    ids=lambda value: type(value).__name__,
)
def test_a_bound_that_learns_is_not_recorded(bound: Bound, recorded: bool) -> None:
    assert (step_of(Scaled(), bound).query().reads is not None) == recorded


def test_recording_can_be_switched_off() -> None:
    assert step_of(Scaled(), cuda_graphs=False).query().reads is None


def test_a_setting_that_was_changed_from_outside_makes_another_query() -> None:
    module = Scaled()
    step = step_of(module)
    first = step.query()
    assert step.query() is first
    for change in (lambda: setattr(module, "scale", 0.25), lambda: setattr(module, "shift", torch.zeros(CLASSES))):
        change()
        second = step.query()
        assert second is not first, "the old recording would be replayed"
        assert second.recording is not first.recording
        first = second
    module.eval()
    assert step.query() is not first


def test_weights_that_learn_make_no_other_query() -> None:
    module = Scaled()
    step = step_of(module)
    first = step.query()
    with torch.no_grad():
        module.layer.weight.add_(1.0)
    assert step.query() is first


def test_all_memory_that_a_recorded_step_reads_is_kept_alive() -> None:
    """Declared or not; what the step itself made is not, so that its memory can be used again within it."""
    hidden, weight, x = torch.ones(3), torch.ones(3, 3, requires_grad=True), torch.ones(2, 3)
    with Outside() as outside, torch.enable_grad():
        made = torch.ones(2, 3)
        torch.relu(x @ weight.detach()[:2].T @ made + hidden).sum()
    kept = {tensor.untyped_storage().data_ptr() for tensor in outside.found}
    assert kept == {tensor.untyped_storage().data_ptr() for tensor in (hidden, weight, x)}


class SingleOnly(nn.Module):
    """A table of single precision that nobody converts: a copy in double precision cannot be computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.table = nn.Linear(5, CLASSES), numbers(5, 3, 5)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x @ self.table)
        return found


def test_a_module_of_single_precision_alone_is_tried_as_it_is() -> None:
    found = settled(Task(SingleOnly(), CROSS_ENTROPY), KINDS)
    assert len(found.parts(numbers(4, 5, 5), whole(4, 6, CLASSES))) == 2


class MixesInSingle(Scaled):
    """Lets rows influence each other, but not in double precision, where rules are compared."""

    def __init__(self, much: float) -> None:
        super().__init__()
        self.much = much

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            x = x + self.much * x.mean(dim=0)
        return super().forward(x)


@pytest.mark.parametrize("much", [0.9, 1e-3])
def test_rows_that_are_mixed_in_the_modules_own_precision_are_found(much: float) -> None:
    """Much of it by the sums of a block, little by rows that are changed."""
    task = Task(MixesInSingle(much), CROSS_ENTROPY)

    def tried() -> None:
        check_rows_alone(task, ModuleStep(settled(task, KINDS), JointClip(1.0)).bounded, KINDS)

    with pytest.raises(ArgumentError, match="rows influence each other"):
        tried()


@needs_cuda
@pytest.mark.parametrize(
    "name", ["residual", "LSTM", "transformer", "masked attention", "own parameters", "tied words"]
)
def test_a_recorded_training_is_the_same_as_a_plain_one(name: str) -> None:
    models = []
    for recorded in (True, False):
        sample = fresh(name)
        trainer = Trainer.dp_sgd(
            sample.module.to("cuda"),
            sample.loss,
            Plan(200, 50, 8, 1.0, 1e-3),
            JointClip(1.0),
            wstep=OptimizerStep(0.01),
            source=SeededNoise(2),
            cuda_graphs=recorded,
        )
        *inputs, targets = sample.rows(200, 4)
        x = tuple(inputs) if sample.names is None else dict(zip(sample.names, inputs, strict=True))
        ledger = Ledger()
        models.append(trainer.fit(x, targets, ledger).model)
        assert len(ledger) == 8
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(one, other, 1e-4, 1e-5)
