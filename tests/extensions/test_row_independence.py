"""Code that lets rows influence each other is found with made-up rows, and named, before anything is released."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.extensions.row_independence import MIXES, REMEMBERS, ROWS, fault_of, trials
from dpmac.mac import Z_STEPS, FirstOrder, FixedPrediction
from dpmac.methods import Calibration, ClosedForm, Gradients, ResidualScale
from dpmac.methods.ridge import linear_classifier
from dpmac.nets import Activation, DenseNetwork, SoftmaxCrossEntropy
from dpmac.nets.activations import TANH
from dpmac.nets.feature_maps import Affine, FeatureMap
from dpmac.privacy import BOUNDS, Ledger, Normalise, Plan, PrivateRows
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer, row_independence


@pytest.fixture(scope="module")
def problem():
    return make_problem(rows=40)


def trainer(problem, **pieces):
    network, loss = pieces.pop("network", problem.network), pieces.pop("loss", problem.loss)
    return Trainer(network, loss, Plan(40, 20, 2, 2.0, 1e-5), source=SeededNoise(1), **pieces)


def refused(problem, name, **pieces):
    """That a training is refused for the piece of that name, and that nothing was released."""
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=f"^{name}=.* (influence each other|no function of the rows).*by itself"):
        trainer(problem, **pieces).fit(problem.x, problem.y, ledger=ledger)
    assert len(ledger) == 0


class Centred(Affine):
    """Subtracts the block's mean."""

    def forward(self, rows):
        return rows - rows.mean(dim=0)


class Sometimes(Affine):
    """Divides by the largest entry, but only among large ones."""

    def forward(self, rows):
        largest = rows.abs().amax()
        return (rows / largest if 20 < largest < 1e6 else rows).double()


class Normed(Affine):
    """Batch normalisation, in training mode."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width).double()

    def forward(self, rows):
        return self.norm(rows.double())


class Running(Affine):
    """Remembers what it has seen."""

    seen = 0.0

    def forward(self, rows):
        self.seen += float(rows[3, 0])
        return rows.double() + self.seen


class OverTheLargest(SoftmaxCrossEntropy):
    def slope(self, u, target):
        slope = super().slope(u, target)
        return slope / slope.abs().amax()


@dataclass(frozen=True)
class Levelled(FixedPrediction):
    """Coordinates of unit spread over the batch."""

    def solve(self, network, loss, x, y):
        found = super().solve(network, loss, x, y)
        return replace(found, inputs=tuple(z / z.norm(dim=0) for z in found.inputs))


class Summed(FirstOrder):
    def parts(self, network, loss, coordinates):
        return [replace(part, left=part.left.cumsum(dim=0)) for part in super().parts(network, loss, coordinates)]


@dataclass(frozen=True)
class ByTheLongest(Normalise):
    def apply(self, parts):
        return [part.scaled(1.0 / (part.norms() + part.norms().nan_to_num(0.0).max() + 1.0)) for part in parts]


def running_sum(u):
    return torch.tanh(u.cumsum(dim=0))


@pytest.mark.parametrize("feature_map", [Centred(), Sometimes(), Normed(5), Running()], ids=lambda f: type(f).__name__)
def test_a_feature_map(problem, feature_map):
    assert problem.x.shape[1] == 5
    refused(problem, "feature_map", feature_map=feature_map)
    if type(feature_map) is not Centred:  # the same feature map not in a training
        return
    for ask in (
        lambda: linear_classifier(problem.x, problem.y, 1.0, 1.0, SeededNoise(0), Ledger(), feature_map),
        lambda: ClosedForm(feature_map, code=2).fit(problem.x, 1.0, SeededNoise(0), Ledger()),
    ):
        with pytest.raises(ArgumentError, match=r"^feature_map=.*each other"):
            ask()


def test_a_loss_a_z_step_an_expansion_and_a_bound(problem):
    refused(problem, "loss", loss=OverTheLargest())
    refused(problem, "zstep", zstep=Levelled())
    refused(problem, "expansion", expansion=Summed())
    refused(problem, "bound", bound=ByTheLongest())


def test_an_activation(problem):
    act = Activation("running sum", running_sum, TANH.df, TANH.d2f, nn.Tanh)
    network = DenseNetwork((5, 6, problem.network.sizes[-1]), act, source=SeededNoise(0)).double()
    refused(problem, "activation", network=network)
    trainer(problem).fit(problem.x, problem.y)  # a step of our own passes, and is remembered by its kind
    posing = Activation("tanh", running_sum, TANH.df, TANH.d2f, nn.Tanh)
    refused(problem, "activation", network=DenseNetwork(problem.network.sizes, posing, source=SeededNoise(0)).double())


def test_steps_of_our_own_are_tried_once_for_each_kind(problem, monkeypatch):
    tried = []
    monkeypatch.setattr(row_independence, "_PASSED", set())
    monkeypatch.setattr(row_independence, "fault_of", lambda *_: tried.append(1))
    for _ in range(3):
        trainer(problem).fit(problem.x, problem.y)
    assert len(tried) == 1
    trainer(problem, zstep=FixedPrediction()).fit(problem.x, problem.y)
    assert len(tried) == 2
    for _ in range(2):  # one that is not ours is tried whenever it is used
        trainer(problem, loss=OverTheLargest()).fit(problem.x, problem.y)
    assert len(tried) == 4


def test_logits_for_a_calibration_through_a_feature_map_of_ones_own(problem):
    table, ledger = PrivateRows(problem.x, problem.y), Ledger()
    with pytest.raises(ArgumentError, match=r"^logits=.*each other"):
        Calibration(1.0, 1).fit(table, lambda x: x[:, :3] - x[:, :3].mean(dim=0), SeededNoise(0), ledger)
    assert len(ledger) == 0


def test_outputs_for_residuals_by_code_of_ones_own(problem):
    table, ledger = PrivateRows(problem.x, problem.y), Ledger()
    for mixing in (lambda x: x[:, :4] - x[:, :4].mean(dim=0), lambda x: x[:, :4].cumsum(dim=0)):
        with pytest.raises(ArgumentError, match=r"^outputs=.*each other"):
            ResidualScale(1.0).fit(table, mixing, SeededNoise(0), ledger)
    assert len(ledger) == 0
    ResidualScale(1.0).fit(table, lambda x: x[:, :4], SeededNoise(0), ledger)
    assert len(ledger) == 1


@pytest.mark.parametrize("bound", [name for name in BOUNDS if name not in ("none", "analytic")])
@pytest.mark.parametrize("zstep", Z_STEPS)
def test_ours_pass(problem, zstep, bound):
    for expansion in (FirstOrder(), Gradients()):
        some = trainer(problem, zstep=Z_STEPS[zstep], bound=BOUNDS[bound], expansion=expansion)
        step = row_independence.Step(some.network, some.loss, some.zstep, some.expansion, some.bound)
        row_independence.check_step(step, PrivateRows(problem.x, problem.y))


def test_no_private_row_is_seen_and_no_generator_moves(problem):
    seen = []

    class Watching(Affine):
        def forward(self, rows):
            seen.append(rows.clone())
            return super().forward(rows)

    torch.manual_seed(5)
    before = torch.get_rng_state()
    some = trainer(problem, feature_map=Watching())
    row_independence.check_step(
        row_independence.Step(some.network, some.loss, some.zstep, some.expansion, some.bound, some.feature_map),
        PrivateRows(torch.full_like(problem.x, 123.0), problem.y),
    )
    assert seen
    assert not any(bool((rows == 123.0).any()) for rows in seen)
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_of_torchs_own_are_no_mixing_but_a_memory_is():
    blank = trials((torch.zeros(ROWS, 3),))
    assert fault_of(lambda x: x + torch.rand_like(x), blank) is None
    counter = iter(range(1000))
    assert fault_of(lambda x: x + next(counter), blank) == REMEMBERS
    assert fault_of(lambda x: x.sort(dim=0).values, blank) == MIXES
    assert fault_of(lambda x: x * 1e-8 + x.sum(dim=0) * 1e-9, blank) == MIXES


def test_what_takes_no_made_up_rows_is_said_not_to_have_been_tried():
    def picky(x):
        raise ValueError("only rows of Tuesdays")

    with pytest.warns(RuntimeWarning, match="could not be tried"):
        assert fault_of(picky, trials((torch.zeros(ROWS, 3),))) is None


def test_a_feature_map_that_takes_codes_only_is_tried_where_it_can_be():
    """An embedding of small whole numbers raises for the wild rows; the plain ones still find a mean."""

    class Codes(FeatureMap):
        kind = "codes"

        def forward(self, rows):
            table = torch.linspace(0, 1, 400, dtype=torch.float64)
            found = table[(rows.abs() * 2).long().flatten()].reshape(rows.shape)
            return found - found.mean(dim=0)

    blank = trials((torch.zeros(ROWS, 3),))
    assert fault_of(Codes(), blank) == MIXES
