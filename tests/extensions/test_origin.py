"""What private rows have shaped knows the releases that did it; and a ledger that lacks them is refused."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import replace

import pytest
import torch

import dpmac
from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.data import load_table
from dpmac.extensions.provenance import PUBLIC
from dpmac.mac import OptimizerStep
from dpmac.methods import DPPCA, Calibration, ClosedForm, DPMean, NormHistogram
from dpmac.methods.linear_path import follow_linear_path, linear_autoencoder
from dpmac.methods.ridge import linear_classifier
from dpmac.nets import DenseNetwork, Network
from dpmac.nets.feature_maps import Affine, Chain, load_feature_map, save_feature_map
from dpmac.privacy import Entry, Ledger, Origin, PerLayerClip, Plan, PrivateRows, origin_of
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer
from dpmac.training.step import Step

NOISE = SeededNoise(0)


@pytest.fixture(scope="module")
def problem():
    return make_problem(rows=40)


def trainer(problem, **fields):
    plan = fields.pop("plan", Plan(40, 20, 3, 2.0, 1e-5))
    return Trainer(fields.pop("network", problem.network), problem.loss, plan, source=SeededNoise(1), **fields)


@pytest.fixture(scope="module")
def run(problem):
    return trainer(problem).fit(problem.x, problem.y)


def test_a_trained_network_is_refused_without_its_ledger_and_nothing_is_spent(problem, run):
    empty = Ledger()
    said = (
        r"network=.*private rows have shaped it \(3 releases, epsilon .* at delta 1e-05\).*ledger=run.ledger.*as_public"
    )
    with pytest.raises(ArgumentError, match=said):
        trainer(problem, network=run.model).fit(problem.x, problem.y)
    other = trainer(problem).fit(problem.x, problem.y)  # the same releases by their numbers, but not the same ones
    for ledger in (empty, other.ledger):
        plan = replace(Plan(40, 20, 3, 2.0, 1e-5), before=ledger.mechanisms())
        spent = len(ledger)
        with pytest.raises(ArgumentError, match="network"):
            trainer(problem, network=run.model, plan=plan).fit(problem.x, problem.y, ledger=ledger)
        assert len(ledger) == spent


def test_with_its_ledger_it_composes(problem):
    first = trainer(problem).fit(problem.x, problem.y)
    alone = first.statement().epsilon
    plan = replace(Plan(40, 20, 3, 2.0, 1e-5), before=first.ledger.mechanisms())
    second = trainer(problem, network=first.model, plan=plan).fit(problem.x, problem.y, ledger=first.ledger)
    assert second.statement().epsilon > alone
    assert len(second.model.origin) == 6
    assert first.model.origin.within(second.ledger)


def state_kept(network):
    fresh = DenseNetwork(network.sizes, source=NOISE)
    fresh.load_state_dict(network.state_dict())
    return fresh


def state_from_disk(network):
    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer)
    buffer.seek(0)
    fresh = DenseNetwork(network.sizes, source=NOISE)
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    return fresh


@pytest.mark.parametrize(
    "way",
    [copy.deepcopy, copy.copy, lambda n: pickle.loads(pickle.dumps(n)), lambda n: n.to("cpu"), lambda n: n.double(),
     state_kept, state_from_disk],
)  # fmt: skip
def test_copies_keep_it(run, way):
    assert run.model.origin
    assert origin_of(way(copy.deepcopy(run.model))) == run.model.origin


def test_files_keep_it(run, tmp_path):
    run.model.save(tmp_path / "model")
    assert Network.load(tmp_path / "model").origin == run.model.origin
    DenseNetwork((2, 2), source=NOISE).save(tmp_path / "fresh")
    assert Network.load(tmp_path / "fresh").origin == PUBLIC
    feature_map = Affine(1.0)
    feature_map.origin = run.model.origin
    save_feature_map(Chain((Affine(2.0), feature_map)), tmp_path / "feature_map")
    assert origin_of(load_feature_map(tmp_path / "feature_map")) == run.model.origin


def test_a_ledger_on_disk_is_known_when_it_is_loaded_again_and_in_a_copy(problem, tmp_path):
    book = Ledger(tmp_path / "book")
    found = trainer(problem).fit(problem.x, problem.y, ledger=book).model.origin
    book.save(tmp_path / "copy")
    for ledger in (Ledger.load(tmp_path / "book"), Ledger.read(tmp_path / "copy")):
        assert found.within(ledger)
        assert not found.within(ledger.until(2))
    assert not found.within(Ledger())


def test_rows_of_other_people_are_public_on_the_users_word_and_the_statement_says_whose(problem, run):
    network = run.model.as_public("trained on rows of another hospital.")
    assert run.model.origin  # a copy was made
    again = trainer(problem, network=network).fit(problem.x, problem.y)
    said = "which the user called public: trained on rows of another hospital;"
    assert sum(said in line for line in again.statement().to_dict()["not_covered"]) == 1
    assert len(again.model.origin) == 3
    assert again.model.origin.declared == ("trained on rows of another hospital",)  # and whoever goes on says so too
    with pytest.raises(ArgumentError, match="why"):
        run.model.as_public(" ")


def test_what_dp_pca_and_a_mean_release_is_known_to_all_that_is_made_of_it(problem, tmp_path):
    ledger, x = Ledger(), problem.x
    pca = DPPCA(2, 1.0).fit(x, NOISE, ledger)
    pca.save(tmp_path / "pca")
    wide = DenseNetwork((x.shape[1], 6, x.shape[1]), source=NOISE)
    for made in (
        pca.feature_map(),
        type(pca).load(tmp_path / "pca").feature_map(2.0),
        linear_autoencoder(pca),
        follow_linear_path(wide, pca),
        Chain((Affine(), pca.feature_map())),
        DPMean(1.0).fit(x, NOISE, ledger).feature_map(),
        PerLayerClip(histogram(problem, ledger)),
    ):
        known = origin_of(made)
        assert known
        assert known.within(ledger)
        assert not known.within(Ledger())
    assert origin_of(wide) == PUBLIC


def histogram(problem, ledger):
    t = trainer(problem)
    step = Step(t.network, t.loss, t.zstep, t.expansion, t.bound)
    names = [p.name for p in t.expansion.partitions(t.network, t.loss)]
    return NormHistogram(2.0).thresholds(PrivateRows(problem.x, problem.y), step.unbounded, names, NOISE, ledger)


def test_thresholds_and_feature_maps_are_refused_as_networks_are(problem):
    found = histogram(problem, Ledger())
    with pytest.raises(ArgumentError, match=r"^bound="):
        trainer(problem, bound=PerLayerClip(found)).fit(problem.x, problem.y)
    feature_map = DPMean(1.0).fit(problem.x, NOISE, Ledger()).feature_map()
    with pytest.raises(ArgumentError, match=r"^feature_map="):
        trainer(problem, feature_map=feature_map).fit(problem.x, problem.y)
    with pytest.raises(ArgumentError, match=r"^feature_map="):
        linear_classifier(problem.x, problem.y, 1.0, 1.0, NOISE, Ledger(), feature_map)
    with pytest.raises(ArgumentError, match=r"^feature_map="):
        ClosedForm(feature_map, code=2).fit(problem.x, 1.0, NOISE, Ledger())
    trainer(problem, feature_map=feature_map.as_public("rows of others")).fit(problem.x, problem.y)


def test_methods_that_look_at_rows_with_a_trained_model_ask_for_its_ledger(problem, run):
    rows = PrivateRows(problem.x, problem.y)
    for logits in (run.model, run.outputs):
        with pytest.raises(ArgumentError, match=r"^logits="):
            Calibration(1.0, 1).fit(rows, logits, NOISE, Ledger())
    step = Step(run.model, problem.loss, trainer(problem).zstep, trainer(problem).expansion, PerLayerClip(1.0))
    with pytest.raises(ArgumentError, match=r"^parts_of="):
        NormHistogram(2.0).thresholds(rows, step.unbounded, ["a"], NOISE, Ledger())


def test_what_evaluate_is_shown_knows_it_too(problem):
    shown = []
    trainer(problem, evaluate=lambda network: shown.append(network.origin) or {}).fit(problem.x, problem.y)
    assert [len(origin) for origin in shown] == [0, 2, 3]  # first once before the first step: it must not fail later


def test_a_model_that_outlives_an_error_knows_what_shaped_it(problem):
    """Found in an attack: whoever kept the model of a training that an error had ended could use it as a public one."""
    kept = []

    class Keeping(OptimizerStep):
        def start(self, network, steps):
            kept.append(super().start(network, steps))
            return kept[-1]

    def stopping(done, _):
        if done == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trainer(problem, wstep=Keeping(), on_step=stopping).fit(problem.x, problem.y)
    assert len(kept[-1].model.origin) == 2


def test_an_estimators_network_knows_its_calibration_and_a_loaded_one_its_folder(tmp_path):
    people = load_table()
    model = dpmac.DPMACClassifier(epsilon=2.0, schema=people.schema, random_state=0, epochs=1)
    model.fit(people.train)
    assert len(model.network_.origin) == len(model.privacy_.ledger)
    model.save(tmp_path / "model")
    again = dpmac.load(tmp_path / "model")
    assert again.network_.origin == model.network_.origin
    assert again.network_.origin.within(model.privacy_.ledger)


def test_old_entries_without_a_run_are_told_apart_by_what_they_say():
    one, other = Ledger(), Ledger()
    for ledger in (one, other):
        ledger._run = ""  # as older versions wrote
    one.append(Entry("mean", 1.0, 1.0))
    other.append(Entry("mean", 2.0, 1.0))
    assert Origin.of(one).within(one)
    assert not Origin.of(one).within(other)
    assert Origin.from_dict(Origin.of(one).to_dict()) == Origin.of(one)
    assert Origin.from_dict(None) == PUBLIC


def test_a_schema_whose_ranges_were_estimated_asks_for_their_ledger(tmp_path):
    draw = SeededNoise(3)
    table = {"a": (100 * draw.uniform(300)).numpy(), "b": (3 * draw.uniform(300)).numpy()}
    ledger = Ledger()
    schema = dpmac.Schema.estimate(table, epsilon=3.0, delta=1e-4, ledger=ledger, source=draw)
    schema.save(tmp_path / "schema.json")
    again = dpmac.Schema.load(tmp_path / "schema.json")
    assert again.origin == pickle.loads(pickle.dumps(again)).origin == schema.origin
    assert len(schema.origin) == 1
    fits = {"epsilon": 1.0, "random_state": 0}
    for some in (again, again.to_dict()):
        with pytest.raises(ArgumentError, match=r"^schema=.*private rows have shaped it \(1 releases"):
            dpmac.DPMACPCA(1, schema=some, **fits).fit(table)
        with pytest.raises(ArgumentError, match=r"^schema="):
            dpmac.DPMACAutoencoder(1, method="gradient", schema=some, **fits).fit(table)
    together = dpmac.DPMACPCA(1, schema=again, ledger=ledger, **fits).fit(table)
    assert [m.label for m in together.privacy_.ledger.mechanisms()] == ["ranges", "mean", "DP-PCA"]
    other = again.as_public("estimated on last year's patients")
    told = dpmac.DPMACPCA(1, schema=other, ledger=Ledger(), **fits).fit(table)
    assert "last year's patients" in str(told.privacy_.statement())
    with pytest.raises(ArgumentError, match="origin"):
        dpmac.Schema.from_dict({**again.to_dict(), "origin": {"runs": 3}})
