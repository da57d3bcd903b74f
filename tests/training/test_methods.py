"""The whole method through one trainer: order 2, solvers, learned thresholds, plain MAC."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.mac import (
    AdamCoordinates,
    ConjugateGradient,
    ErrorCoordinates,
    FixedPrediction,
    GaussNewton,
    OptimizerStep,
    Projected,
    RidgeSolve,
    SecondOrder,
    cosine,
)
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import (
    Analytic,
    EqualShares,
    JointClip,
    LeastEnergy,
    Ledger,
    Normalise,
    PerLayerClip,
    Plan,
    SeededNoise,
    Unbounded,
)
from dpmac.privacy.bound import Block
from dpmac.privacy.thresholds import AdaptiveQuantile, NormHistogram
from dpmac.training import Trainer
from dpmac.training.learned import costs_before, fit_with_learned_thresholds


def mean_loss(problem, network):
    with torch.no_grad():
        return float(problem.loss.weight * problem.loss.value(network(problem.x), problem.y).mean())


def trainer_for(problem, *, steps=3, sigma=0.0, bound=None, batch=None, **more):
    n = len(problem.x)
    plan = Plan(n, batch or n, steps, sigma, 1e-5)
    bound = bound or (Normalise() if sigma else Unbounded())
    return Trainer(problem.network, problem.loss, plan, FixedPrediction(), bound, source=SeededNoise(0), **more)


def test_a_linear_squared_error_layer_is_solved_by_one_exact_release():
    """Order 2 is exact there: one release and one solve give the least-squares solution, for either curvature."""
    problem = make_problem((5, 3), loss_name="squared", rows=60)
    x = torch.cat([problem.x, torch.ones(60, 1, dtype=torch.float64)], dim=1)
    exact = torch.linalg.lstsq(x, problem.y).solution
    best = float(0.5 * (x @ exact - problem.y).square().sum(dim=1).mean())
    for shared in (False, True):
        for wstep in (RidgeSolve(1e-10), ConjugateGradient(20, 0.0)):
            trainer = trainer_for(problem, steps=1, expansion=SecondOrder(shared=shared), wstep=wstep)
            assert mean_loss(problem, trainer.fit(problem.x, problem.y).model) == pytest.approx(best, rel=1e-6)


def taught(sizes, loss_name, rows):
    """A problem with something to learn: the targets are a smaller network's."""
    problem = make_problem(sizes, "tanh", loss_name, rows=rows)
    teacher = make_problem((sizes[0], 3, sizes[-1]), "tanh", loss_name, seed=9).network
    with torch.no_grad():
        u = teacher(problem.x)
    problem.y = u if loss_name == "squared" else torch.eye(sizes[-1], dtype=torch.float64)[u.argmax(dim=1)]
    return problem


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("wstep", [RidgeSolve(0.1, rate=0.5), ConjugateGradient(15, 0.1, 0.5), OptimizerStep(0.02)])
def test_order_two_trains_a_network_without_noise(shared, wstep):
    problem = taught((5, 12, 3), "softmax", 80)
    run = trainer_for(problem, steps=60, expansion=SecondOrder(shared=shared), wstep=wstep).fit(problem.x, problem.y)
    assert mean_loss(problem, run.model) < 0.2 * mean_loss(problem, problem.network)


@pytest.mark.parametrize(
    "bound",
    [PerLayerClip(1.0), PerLayerClip((1.0, 2.0, 0.5, 1.0)), JointClip(2.0), Normalise(), AdaptiveQuantile(1.0),
     PerLayerClip(1.0, LeastEnergy())],
)  # fmt: skip
def test_order_two_with_noise_goes_through_the_same_door(bound):
    problem = make_problem((5, 6, 3), rows=200)
    trainer = trainer_for(
        problem, steps=5, sigma=2.0, batch=50, bound=bound, expansion=SecondOrder(), wstep=RidgeSolve(0.5, 0.3)
    )
    run = trainer.fit(problem.x, problem.y)
    assert run.ledger.mechanisms() == trainer.plan.mechanisms()
    names = set(run.ledger.entries[0].scales)
    assert {"layer 1 slope", "layer 1 curvature", "layer 2 slope", "layer 2 curvature"} <= names
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


def test_a_line_search_is_paid_for():
    problem = make_problem((5, 6, 3), rows=50)
    search = ConjugateGradient(10, 0.1, line_search=True)
    with pytest.raises(ArgumentError, match="constant=True"):
        trainer_for(problem, expansion=SecondOrder(), wstep=search).fit(problem.x, problem.y)
    paid = trainer_for(problem, sigma=1.0, expansion=SecondOrder(constant=True), wstep=search)
    assert "layer 2 constant" in paid.fit(problem.x, problem.y).ledger.entries[0].scales


def test_brute_force_neighbours_of_an_order_two_release():
    """Drop each row: the scaled concatenation of slopes and curvatures moves by at most 1."""
    problem = make_problem((4, 5, 3), rows=10)
    expansion = SecondOrder(constant=True)
    blocks = expansion.blocks(problem.network, problem.loss)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, 5 * problem.x, problem.y)
    parts = expansion.parts(problem.network, problem.loss, coordinates)
    for bound in (PerLayerClip(0.5), JointClip(0.7), Normalise(), PerLayerClip(0.3, LeastEnergy())):
        scales = [p.scale for p in bound.promise(blocks)]
        bounded = bound.apply(parts)

        def total(keep, bounded=bounded, scales=scales):
            sums = [p.scaled(keep.double()).total().flatten() / s for p, s in zip(bounded, scales, strict=True)]
            return torch.cat(sums)

        everyone = torch.ones(10, dtype=torch.bool)
        moves = []
        for row in range(10):
            others = everyone.clone()
            others[row] = False
            moves.append(float((total(everyone) - total(others)).norm()))
        assert max(moves) <= 1.0
        assert max(moves) > 0.3


def test_least_energy_is_the_optimum_and_equal_shares_is_the_papers():
    """Against a search: no other split of the same privacy has less weighted noise energy."""
    blocks = [Block("a", (10, 20)), Block("b", (3,)), Block("c", (50, 2))]
    sensitivities = [0.5, 2.0, 1.0]
    sizes = [200.0, 3.0, 100.0]
    best = LeastEnergy()(sensitivities, blocks)
    paper = EqualShares()(sensitivities, blocks)
    assert paper == pytest.approx([math.sqrt(3) * d for d in sensitivities])

    def energy(scales):
        return sum(c * s * s for c, s in zip(sizes, scales, strict=True))

    def budget(scales):
        return sum((d / s) ** 2 for d, s in zip(sensitivities, scales, strict=True))

    assert budget(best) == pytest.approx(1.0)
    assert budget(paper) == pytest.approx(1.0)
    assert energy(best) < energy(paper)
    draw = SeededNoise(0)
    for _ in range(300):
        other = [s * math.exp(0.1 * float(e)) for s, e in zip(best, draw.normal((3,)), strict=True)]
        root = math.sqrt(budget(other))
        assert energy([s * root for s in other]) >= energy(best) * (1 - 1e-9)
    with pytest.raises(ArgumentError, match="costs"):
        LeastEnergy((1.0,))(sensitivities, blocks)


def test_an_allocation_that_promises_too_much_is_refused_in_public():
    """Found in review: only a row that used the whole bound would have shown it."""
    for bound in (PerLayerClip(1.0, lambda s, _b: list(s)), Normalise(allocation=lambda s, _b: list(s))):
        with pytest.raises(ArgumentError, match="must be at most 1"):
            bound.promise([Block("a", (2,)), Block("b", (3,))])


# --- Algorithm 2 ----------------------------------------------------------------------------------------------------


def test_algorithm_two_end_to_end_in_one_ledger():
    problem = make_problem((5, 8, 3), rows=400)
    pretraining = Plan(400, 50, 10, 4.0, 1e-5)
    histogram = NormHistogram(noise_multiplier=10.0, quantile=0.5)
    before = costs_before(pretraining, histogram)
    plan = Plan.for_budget(epsilon=3.0, delta=1e-5, n=400, batch_size=50, steps=20, before=before)
    trainer = Trainer(
        problem.network, problem.loss, plan, FixedPrediction(), PerLayerClip(1.0), OptimizerStep(0.01), SeededNoise(0)
    )
    run = fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x, problem.y)
    assert [e.label for e in run.ledger.entries] == ["training step"] * 10 + ["norm histogram"] + ["training step"] * 20
    assert run.ledger.epsilon(1e-5) == plan.epsilon() <= 3.0
    learned = run.ledger.entries[-1].scales
    assert learned != run.ledger.entries[0].scales
    assert len(run.ledger) == 31


def test_algorithm_two_refuses_a_plan_that_does_not_pay_for_it():
    problem = make_problem((5, 8, 3), rows=400)
    trainer = trainer_for(problem, sigma=1.0)
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="costs_before"):
        fit_with_learned_thresholds(
            trainer, Plan(400, 50, 2, 4.0, 1e-5), NormHistogram(5.0), problem.x, problem.y, ledger
        )
    assert len(ledger) == 0


def test_no_part_of_algorithm_two_uses_the_same_noise_again(monkeypatch):
    problem = make_problem((5, 8, 3), rows=60)
    drawn = []
    original = SeededNoise.normal

    def listening(self, shape, device="cpu"):
        drawn.append(original(self, shape, device))
        return drawn[-1]

    monkeypatch.setattr(SeededNoise, "normal", listening)
    pretraining, histogram = Plan(60, 30, 3, 4.0, 1e-5), NormHistogram(5.0)
    plan = Plan(60, 30, 3, 4.0, 1e-5, costs_before(pretraining, histogram))
    trainer = Trainer(problem.network, problem.loss, plan, FixedPrediction(), PerLayerClip(1.0), source=SeededNoise(0))
    fit_with_learned_thresholds(trainer, pretraining, histogram, problem.x, problem.y)
    first = [round(float(d.flatten()[0]), 12) for d in drawn]
    assert len(first) == len(set(first)) == 3 * 2 + 2 + 3 * 2


# --- without privacy it is plain MAC --------------------------------------------------------------------------------


def test_full_batch_mac_reaches_back_propagations_loss():
    """The same small regression by MAC, its penalty solved well, and by torch's own back-propagation."""
    problem = taught((4, 8, 2), "squared", 60)
    twin = copy.deepcopy(problem.network)
    adam = torch.optim.Adam(twin.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: cosine(step / 400))
    for _ in range(400):
        adam.zero_grad()
        (0.5 * problem.loss.value(twin(problem.x), problem.y).mean()).backward()
        adam.step()
        schedule.step()
    zstep = AdamCoordinates(steps=30, lr=0.008, mu=100.0, optimizer=torch.optim.SGD)
    step = OptimizerStep(0.02, schedule=cosine)
    plan = Plan(60, 60, 400, 0.0, 1e-5)
    trainer = Trainer(problem.network, problem.loss, plan, zstep, Unbounded(), step, SeededNoise(0))
    run = trainer.fit(problem.x, problem.y)
    reached, wanted = mean_loss(problem, run.model), mean_loss(problem, twin)
    assert wanted < 0.01 * mean_loss(problem, problem.network)
    assert reached < 1.05 * wanted
    assert "NOT PRIVATE" in str(run.statement())


def test_fixed_prediction_gives_back_propagations_direction_per_layer():
    problem = make_problem((5, 9, 8, 7, 4), "elu", "softmax", rows=40)
    from dpmac.mac import first_order

    coordinates = FixedPrediction(0.37).solve(problem.network, problem.loss, problem.x, problem.y)
    parts = first_order(problem.network, problem.loss, coordinates)
    problem.loss.value(problem.network(problem.x), problem.y).sum().backward()
    for linear, part in zip(problem.network.linears, parts, strict=True):
        ours = part.total().flatten()
        theirs = torch.cat([linear.weight.grad, linear.bias.grad[:, None]], dim=1).flatten()
        assert float(torch.cosine_similarity(ours, theirs, dim=0)) > 0.999


def test_wide_layers_are_refused_politely_before_anything_is_spent():
    network = DenseNetwork([600, 800, 10], "relu", source=SeededNoise(0))
    x, y = torch.rand(20, 600), torch.eye(10)[torch.arange(20) % 10]
    ledger = Ledger()
    trainer = Trainer(
        network, loss("softmax"), Plan(20, 10, 2, 1.0, 1e-5), FixedPrediction(), Normalise(), expansion=SecondOrder()
    )
    with pytest.raises(ArgumentError, match=r"layer 1='600 -> 800'.*MiB"):
        trainer.fit(x, y, ledger)
    assert len(ledger) == 0


# --- the analytic route ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["softplus", "tanh", "relu", "gelu"])
@pytest.mark.parametrize("loss_name", ["squared", "sigmoid", "softmax"])
def test_the_analytic_route_keeps_its_promise_through_training(hidden, loss_name):
    """No clipping at all: were a proven sensitivity too small, the release would refuse. Outrageous rows included."""
    problem = make_problem((4, 5, 3), hidden, loss_name, rows=60)
    problem.x[0] *= 1e6
    problem.x[1] = 0.0
    trainer = trainer_for(
        problem, steps=6, sigma=3.0, batch=30, bound=Analytic(), expansion=Projected(1.0, constant=True),
        wstep=ConjugateGradient(5, 1.0, 0.3, line_search=True),
    )  # fmt: skip
    run = trainer.fit(problem.x, problem.y)
    assert run.ledger.mechanisms() == trainer.plan.mechanisms()
    first, last = run.ledger.entries[0].scales, run.ledger.entries[-1].scales
    assert {"layer 1 a", "layer 1 b", "layer 1 C", "layer 2 b"} <= set(first)
    assert (first != last) or (hidden == "relu" and loss_name == "squared")  # only there do they not follow the weights


def test_projected_coefficients_equal_the_unprojected_ones_inside_the_ball():
    problem = make_problem((4, 5, 3), "softplus", "squared", rows=9)
    coordinates = FixedPrediction().solve(problem.network, problem.loss, problem.x, problem.y)
    wide, raw = Projected(1e6, constant=True), SecondOrder(constant=True)
    ours, theirs = ([p.total() for p in e.parts(problem.network, problem.loss, coordinates)] for e in (wide, raw))
    a = wide.polynomials(problem.network, problem.loss, ours)
    b = raw.polynomials(problem.network, problem.loss, theirs)
    for p, q in zip(a, b, strict=True):
        assert torch.allclose(p.slope, q.slope, atol=1e-9)
        assert torch.allclose(p.curvature, q.curvature, atol=1e-9)
        assert torch.allclose(p.constant, q.constant, atol=1e-9)
    norms = Projected(0.5).project(torch.cat([problem.x, 1e200 * problem.x])).norm(dim=1)
    assert norms.max() <= 0.5 + 1e-12


def test_brute_force_neighbours_of_an_analytic_release():
    problem = make_problem((3, 4, 2), "tanh", "squared", rows=8)
    expansion = Projected(0.8, constant=True)
    coordinates = AdamCoordinates(steps=5, lr=0.1).solve(problem.network, problem.loss, 9 * problem.x, 9 * problem.y)
    parts = expansion.parts(problem.network, problem.loss, coordinates)
    scales = [p.scale for p in Analytic().promise(expansion.blocks(problem.network, problem.loss))]
    for row in range(8):
        only = torch.zeros(8, dtype=torch.float64)
        only[row] = 1.0
        share = [p.scaled(only).total().flatten() / s for p, s in zip(parts, scales, strict=True)]
        assert torch.cat(share).norm() <= 1.0


def test_an_analytic_bound_needs_an_expansion_that_states_sensitivities():
    problem = make_problem(rows=40)
    with pytest.raises(ArgumentError, match=r"use Projected\(radius\)"):
        trainer_for(problem, sigma=1.0, bound=Analytic()).fit(problem.x, problem.y)
    with pytest.raises(ArgumentError, match="radius"):
        Projected(0.0)


@pytest.mark.parametrize("zstep", [ErrorCoordinates(), GaussNewton()])
def test_every_z_step_trains_privately(zstep):
    problem = taught((5, 12, 3), "softmax", 300)
    plan = Plan(300, 100, 30, 0.5, 1e-5)
    trainer = Trainer(problem.network, problem.loss, plan, zstep, Normalise(), OptimizerStep(0.03), SeededNoise(0))
    run = trainer.fit(problem.x, problem.y)
    assert mean_loss(problem, run.model) < 0.8 * mean_loss(problem, problem.network)
    assert run.ledger.mechanisms() == plan.mechanisms()
