"""What the base of all estimators hands on, and refuses before anything is spent; no fit here trains for long."""

from __future__ import annotations

import inspect
import math
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dpmac import ArgumentError, DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Machine
from dpmac.estimators import base
from dpmac.estimators.base import PrivateEstimator, WideNetwork
from dpmac.extensions.world import WorldError
from dpmac.mac import GaussNewton, cosine
from dpmac.methods import Gradients
from dpmac.nets import LOSSES, DenseNetwork
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import Entry, JointClip, Ledger, Mechanism, Origin, Unbounded
from dpmac.privacy.accounting import epsilon_of
from dpmac.randomness import SeededNoise
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.defaults import schedule_for
from talking import Talking, talk

N = 40
X = np.random.RandomState(0).uniform(-1, 1, (N, 3))
AFTER = (Mechanism(20.0, 1.0, 1, "residuals"),)


class Model(PrivateEstimator):
    """Sums of rows, by regression."""

    _before_end = ()

    def _after_at(self, n, epsilon):
        return self._before_end

    def fit(self, X, groups=None, after=(), **more):
        self._before_end = after or self._before_end
        rows, y = self._checked(X, X[:, 0], groups)
        self._train(rows, torch.as_tensor(y, dtype=torch.float32).reshape(-1, 1), LOSSES["squared"], **more)
        return self


def model(after=(), **more):
    usual = {"epochs": 1, "batch_size": N, "feature_range": (-1, 1), "random_state": 0}
    made = Model((4,), **{**usual, **more})
    made._before_end = after
    return made


class Stop(Exception):  # noqa: N818 - the end of a test
    """Instead of a training."""


@pytest.fixture
def handed(monkeypatch):
    """What the trainer is handed, which does not train."""
    seen = []

    class Trainer:
        def __init__(self, network, loss, plan, **more):
            seen.append({"network": network, "loss": loss, "plan": plan, **more})

        def fit(self, table, **more):
            seen[-1].update(table=table, **more)
            raise Stop

    monkeypatch.setattr(base, "Trainer", Trainer)
    return seen


def test_every_argument_is_kept_as_it_was_given():
    names = [name for name in inspect.signature(PrivateEstimator.__init__).parameters if name != "self"]
    given = {name: object() for name in names}
    assert PrivateEstimator(**given).get_params(deep=False) == given


@pytest.mark.parametrize("kind", [DPMACClassifier, DPMACRegressor, DPMACAutoencoder])
def test_an_estimator_of_somebodys_own_has_the_defaults_of_ours(kind):
    shared = PrivateEstimator().get_params(deep=False)
    given = kind().get_params(deep=False)
    assert {name: given[name] for name in shared} == shared


def test_what_was_asked_for_reaches_the_trainer(handed):
    ledger, evaluate, zstep = Ledger(), object(), GaussNewton(0.5)
    ledger.append(Entry("mean", 8.0, 1.0))
    asked = {"learning_rate": 0.25, "z_step": zstep, "bound": JointClip(0.5), "machine": Machine(micro_batch_size=7)}
    with pytest.raises(Stop):
        model(ledger=ledger, activation="tanh", **asked).fit(X, evaluate=lambda _: evaluate, notes=("a note",))
    (seen,) = handed
    assert (seen["zstep"], seen["bound"], seen["evaluate"]) == (zstep, JointClip(0.5), evaluate)
    assert (seen["micro_batch"], seen["notes"][0], tuple(seen["network"].sizes)) == (7, "a note", (3, 4, 1))
    assert (seen["wstep"].wstep.lr, seen["wstep"].wstep.schedule) == (0.25, cosine)
    assert type(seen["expansion"]) is Gradients  # thresholds mean what they mean in DP-SGD
    assert seen["source"].seeded
    assert seen["ledger"] is ledger
    assert seen["checkpoints"] is None
    assert seen["plan"].before == ledger.mechanisms()
    assert seen["table"].n == seen["plan"].n == N


def test_a_fit_starts_near_nothing_known(handed):
    """All layers are drawn as ever, and the last begins at a tenth."""
    with pytest.raises(Stop):
        model(activation="tanh", epsilon=math.inf).fit(X)
    (seen,) = handed
    drawn = DenseNetwork((3, 4, 1), "tanh", source=SeededNoise(0).spawn("weights"))
    (first, last), (once, tenth) = drawn.weight_layers, seen["network"].weight_layers
    assert torch.equal(first.weight, once.weight)
    torch.testing.assert_close(tenth.weight, last.weight / 10)


@pytest.mark.parametrize("progress", [True, False])
def test_steps_are_shown_by_the_leading_process_if_it_is_asked_to(progress, handed, monkeypatch):
    shown = []

    @contextmanager
    def bar(what, show):
        shown.append((what, show))
        yield "on each step"

    monkeypatch.setattr(base, "progress_bar", bar)
    with pytest.raises(Stop):
        model(machine=Machine(progress=progress)).fit(X)
    assert shown == [("training", progress)]
    assert handed[0]["on_step"] == "on each step"

    def following(world):
        world.leads = False  # of one process, so nobody else has to speak
        model(machine=Machine(progress=True, world=world)).fit(X)

    monkeypatch.setattr(Talking, "everywhere", lambda _, work: work(), raising=False)
    (ended,) = talk(1, following)
    assert isinstance(ended.error, Stop)
    assert shown[1:] == [("training", False)]


def test_rows_of_wild_scales_are_warned_of_where_nothing_brings_them_into_a_range(handed):
    with pytest.warns(UserWarning, match="feature_range"), pytest.raises(Stop):
        model(feature_range=None).fit(1000 * X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Stop):
            model(feature_range=(-1000, 1000)).fit(1000 * X)
    assert len(handed) == 2


def test_a_feature_map_that_private_rows_have_shaped_needs_their_ledger_before_anything_begins(handed, monkeypatch):
    """The trainer would refuse it as well, and call it its feature map: the user gave a schema."""
    ledger, feature_map = Ledger(), Affine(1.0)
    ledger.append(Entry("ranges", 8.0, 1.0))
    feature_map.origin = Origin.of(ledger)
    monkeypatch.setattr(Model, "_feature_map", lambda *_: feature_map)
    with pytest.raises(ArgumentError, match=r"^schema=.*the ledger does not hold that"):
        model(ledger=Ledger()).fit(X)
    assert handed == []
    with pytest.raises(Stop):
        model(ledger=ledger).fit(X)


def test_rows_are_bounded_unless_there_is_no_noise_to_hide_them(handed):
    for epsilon in (2.0, math.inf):
        with pytest.raises(Stop):
            model(epsilon=epsilon, bound="joint").fit(X)
    private, exact = handed
    assert isinstance(private["bound"], JointClip)
    assert isinstance(exact["bound"], Unbounded)
    assert (private["plan"].noise_multiplier > 0, exact["plan"].noise_multiplier) == (True, 0.0)


@pytest.mark.parametrize("argument", [{"bound": 3}, {"z_step": 3}, {"activation": 3}])
def test_what_is_no_such_thing_is_refused(argument, handed):
    with pytest.raises(ArgumentError, match=f"{next(iter(argument))}=3"):
        model(**argument).fit(X)
    assert handed == []


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [(), AFTER])
@pytest.mark.parametrize("length", [{"epochs": 3}, {"epochs": None}])
def test_the_plan_and_what_follows_it_cost_the_budget_together(after, length):
    own = model(after, epsilon=3.0, **length)._plan(N, schedule_for(N), Ledger())
    assert own.steps == (3 if length["epochs"] else schedule_for(N).steps)
    assert own.batch_size == N
    assert {one.label for one in own.mechanisms()} == {"training step", *(one.label for one in after)}
    assert 2.99 < epsilon_of(own.mechanisms(), own.delta) <= 3.0
    assert model(batch_size=None)._plan(N, schedule_for(N), Ledger()).batch_size == schedule_for(N).batch_size


def test_a_total_is_asked_with_all_of_the_plan_and_all_of_the_ledger():
    ledger = Ledger()
    ledger.append(Entry("mean", 8.0, 1.0))
    own = model(AFTER, epsilon=3.0)._plan(N, schedule_for(N), ledger)
    whole = epsilon_of([*ledger.mechanisms(), *own.mechanisms()], own.delta)
    model(AFTER, epsilon=3.0, total_epsilon=whole)._plan(N, schedule_for(N), ledger)
    with pytest.raises(ArgumentError, match="total_epsilon="):
        model(AFTER, epsilon=3.0, total_epsilon=whole - 1e-6)._plan(N, schedule_for(N), ledger)


def test_a_ledger_of_persons_is_not_gone_on_with_for_rows(handed):
    ledger = Ledger()
    ledger.append(Entry("mean", 8.0, 1.0, unit="person"))
    with pytest.raises(ArgumentError, match="unit of privacy"):
        model(ledger=ledger).fit(X)
    assert handed == []


@pytest.mark.parametrize(("most", "after", "refused"), [(N, AFTER, False), (N - 1, AFTER, True), (N - 1, (), False)])
def test_what_could_not_be_released_after_the_training_is_refused_before_it(most, after, refused, handed, monkeypatch):
    monkeypatch.setattr(base, "MAX_ROWS", most)
    with pytest.raises(ArgumentError if refused else Stop, match="takes 39 at most" if refused else None):
        model().fit(X, after=after)
    assert len(handed) == (not refused)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_needs_a_ledger_on_the_disk(tmp_path):
    there, nowhere = Ledger(tmp_path / "book"), Ledger()
    for ledger in (there, nowhere):
        assert model()._checkpoints(ledger) is None
    assert model(machine=Machine(checkpoint=tmp_path / "c"))._checkpoints(there).folder == tmp_path / "c"
    with pytest.raises(ArgumentError, match="needs a ledger on the disk"):
        model(machine=Machine(checkpoint=tmp_path / "c"))._checkpoints(nowhere)


def test_processes_of_which_only_some_have_a_checkpoint_are_refused(tmp_path):
    def work(world):
        where = tmp_path / "c" if world.leads else None
        model(machine=Machine(checkpoint=where, world=world))._checkpoints(Ledger(tmp_path / "book"))

    assert all(isinstance(one.error, WorldError) for one in talk(2, work))


def test_only_the_leader_writes_checkpoints(tmp_path):
    ended = talk(2, lambda world: model(machine=Machine(checkpoint=tmp_path / "c", world=world))._written_here())
    assert isinstance(ended[0].value, Checkpoints)
    assert ended[1].value is None
    assert model()._written_here() is None


@pytest.mark.parametrize("keep", [False, True])
def test_a_fit_that_has_ended_leaves_a_checkpoint_only_where_it_is_to_be_kept(keep, tmp_path):
    where = Checkpoints(tmp_path / "c", every=0.0, keep=keep)
    fitted = model(machine=Machine(checkpoint=where), ledger=tmp_path / "book", epsilon=math.inf).fit(X)
    fitted._fitted()
    assert where.path.exists() is keep
    assert len(Ledger.read(tmp_path / "book")) == fitted.plan_.steps == 1


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "units"),
    [("auto", None), ((), ()), ((64,), (64,)), ([8, 4], (8, 4)), (np.array([8, 4]), (8, 4)), (16, (16,))],
)
def test_layers_are_those_that_were_asked_for(sizes, units):
    assert Model(sizes)._hidden() == units


@pytest.mark.parametrize("sizes", ["many", "64", (0,), (8, -1), (2.5,), None])
def test_layers_that_are_none_are_refused(sizes):
    with pytest.raises(ArgumentError, match="hidden_layer_sizes="):
        Model(sizes)._hidden()


# --- what the rule's answer becomes -----------------------------------------------------------------------------------


def ruled(**more):
    return SimpleNamespace(
        **{"hidden": (4,), "activation": "relu", "wide": False, "penalty": 0.0, "average": 0.9} | more
    )


def test_the_rules_penalty_and_average_are_those_of_the_steps():
    step = DPMACClassifier()._wstep(0.25, ruled(penalty=0.125, average=0.75), None)
    assert (step.wstep.lr, step.wstep.penalty, step.decay) == (0.25, 0.125, 0.75)


@pytest.mark.parametrize(
    ("asked", "more", "kind"),
    [
        (None, {"wide": True}, WideNetwork),
        (None, {}, DenseNetwork),
        ("tanh", {"wide": True}, DenseNetwork),
        (None, {"wide": True, "activation": "tanh"}, DenseNetwork),
    ],
)
def test_units_are_beside_a_linear_model_where_the_rule_says_so_and_they_are_rectified(asked, more, kind):
    made = DPMACClassifier(activation=asked)._network(3, 2, ruled(**more), SeededNoise(0))
    assert type(made) is kind


@pytest.mark.parametrize("odd", [3, ("relu",), torch.relu])
def test_an_activation_is_a_name_or_a_whole_one(odd):
    with pytest.raises(ArgumentError, match=r"activation=.*: give the name of one, or an Activation"):
        DPMACClassifier(activation=odd)._network(3, 2, ruled(), SeededNoise(0))
