"""No way of copying, saving or loading what private rows have shaped loses its origin: every part of it comes back."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

import dpmac
from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import PUBLIC
from dpmac.methods import DPPCA, ClosedForm, DPMean, NormHistogram, ResidualScale
from dpmac.methods.histogram import Thresholds
from dpmac.methods.pca import ReleasedPCA
from dpmac.nets import Dense, DenseNetwork, Network
from dpmac.nets.feature_maps import Affine, Chain, Projection, load_feature_map, save_feature_map
from dpmac.privacy import Entry, Ledger, Origin, OuterPart, PerLayerClip, Plan, PrivateRows, origin_of
from dpmac.randomness import SeededNoise
from dpmac.saving.closed_form import load_closed_form, save_closed_form
from dpmac.saving.plain import packed, unpacked
from dpmac.tables import Number, Schema, TableEncoder
from dpmac.training import Trainer
from dpmac.training.checkpoint import Checkpoints

NOISE = SeededNoise(0)
X = SeededNoise(1).normal((120, 4)).float()
Y = torch.eye(2)[(SeededNoise(2).uniform(120) * 2).long()]


def whole() -> Origin:
    """An origin with all that one can have."""
    ledger = Ledger()
    ledger.append(Entry("mean", 1.0, 1.0))
    ledger.append(Entry("training step", 2.0, 0.1, overflow=1e-9))
    return replace(Origin.of(ledger), declared=("rows of others", "last year's"), unseen=("their.Network",))


KNOWN = whole()


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


def by_torch(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


COPIES = [copy.copy, copy.deepcopy, pickled, by_torch]


def known(made):
    made.origin = KNOWN
    return made


def network():
    return known(DenseNetwork((4, 3, 2), source=NOISE))


def feature_maps():
    return [
        known(Affine(1.0)),
        Chain((Affine(1.0), known(Affine(2.0)))),
        known(Projection(torch.eye(4)[:2], X[0], 1.0)),
    ]


def closed_form():
    found = ClosedForm(code=2, features=8).fit(X, 2.0, NOISE, Ledger())
    return replace(found, pca=replace(found.pca, origin=KNOWN))


def schema():
    return Schema({"a": Number(0, 1), "b": Number(0, 1)}, origin=KNOWN)


def released_pca():
    return replace(DPPCA(2, 1.0).fit(X, NOISE, Ledger()), origin=KNOWN)


THINGS = {
    "a network": network,
    "a layer of it": lambda: network().weight_layers[0],
    "a feature map": lambda: feature_maps()[0],
    "a chain of feature maps": lambda: feature_maps()[1],
    "a schema": schema,
    "an encoder": lambda: TableEncoder(schema()),
    "thresholds": lambda: known(Thresholds((1.0, 2.0))),
    "a bound": lambda: PerLayerClip(known(Thresholds((1.0, 2.0)))),
    "a mean": lambda: replace(DPMean(1.0).fit(X, NOISE, Ledger()), origin=KNOWN),
    "components": released_pca,
    "a closed form": closed_form,
    "the origin": lambda: KNOWN,
}


@pytest.mark.parametrize("way", COPIES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("thing", THINGS)
def test_copies_and_pickles(thing, way):
    first = THINGS[thing]()
    assert origin_of(first) == KNOWN
    assert origin_of(way(first)) == KNOWN


def test_plain_values_of_an_origin():
    assert Origin.from_dict(KNOWN.to_dict()) == KNOWN
    without = {key: value for key, value in KNOWN.to_dict().items() if key != "unseen"}  # as version 1.0 wrote it
    assert Origin.from_dict(without) == replace(KNOWN, unseen=())


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_networks_file(tmp_path):
    network().save(tmp_path / "network")
    assert origin_of(Network.load(tmp_path / "network")) == KNOWN


def test_a_feature_maps_file(tmp_path):
    for number, feature_map in enumerate(feature_maps()):
        save_feature_map(feature_map, tmp_path / f"{number}")
        assert origin_of(load_feature_map(tmp_path / f"{number}")) == KNOWN


def test_the_files_of_components_and_of_a_closed_form(tmp_path):
    released_pca().save(tmp_path / "pca")
    assert ReleasedPCA.load(tmp_path / "pca").origin == KNOWN
    save_closed_form(closed_form(), tmp_path / "closed")
    assert load_closed_form(tmp_path / "closed").pca.origin == KNOWN


def test_a_schemas_file_and_dictionary(tmp_path):
    schema().save(tmp_path / "schema.json")
    for again in (Schema.load(tmp_path / "schema.json"), Schema.from_dict(schema().to_dict())):
        assert again.origin == KNOWN
        assert TableEncoder(again).origin == KNOWN
    save_feature_map(TableEncoder(schema()), tmp_path / "encoder")
    assert load_feature_map(tmp_path / "encoder").origin == KNOWN


def test_arguments_in_a_manifest():
    bound = PerLayerClip(known(Thresholds((1.0, 2.0))))
    for argument in (bound, bound.threshold, schema()):
        assert origin_of(unpacked(packed(argument))) == KNOWN


@pytest.mark.parametrize("part", ["whole", "a layer"])
def test_weights_by_state_dict(part):
    trained, fresh = network(), DenseNetwork((4, 3, 2), source=NOISE)
    if part == "whole":
        fresh.load_state_dict(trained.state_dict())
    else:
        fresh.weight_layers[0].load_state_dict(trained.weight_layers[0].state_dict())
    assert origin_of(fresh) == KNOWN
    assert origin_of(DenseNetwork((4, 3, 2), source=NOISE)) == PUBLIC


def test_a_layer_in_another_network_brings_its_origin_and_its_file_has_it(tmp_path):
    other = Network([network().weight_layers[0], "relu", Dense(3, 5)], input_shape=(4,), source=NOISE)
    assert origin_of(other) == KNOWN
    other.save(tmp_path / "other")
    assert Network.load(tmp_path / "other").origin == KNOWN
    assert origin_of(network().as_public("others").weight_layers[0]).runs == ()


# --- estimators -------------------------------------------------------------------------------------------------------

FEW = {"epochs": 1, "batch_size": 120}
ESTIMATORS = {
    "classifier": (lambda: dpmac.DPMACClassifier((), classes=(0, 1), **FEW), lambda m: m.network_),
    "regressor": (lambda: dpmac.DPMACRegressor((), target_range=(0, 1), **FEW), lambda m: m.network_),
    "pca": (lambda: dpmac.DPMACPCA(2), lambda m: m.pca_),
    "closed form": (lambda: dpmac.DPMACAutoencoder(2, method="closed-form"), lambda m: m.autoencoder_),
    "autoencoder": (lambda: dpmac.DPMACAutoencoder(2, method="gradient", **FEW), lambda m: m.network_),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimators_folder_and_copies(kind, tmp_path):
    """With an origin that the folder's ledger does not hold: of rows that another estimator had made."""
    make, released = ESTIMATORS[kind]
    codes = dpmac.DPMACPCA(3).fit(X.numpy()).transform(X.numpy())
    with pytest.warns(dpmac.PrivacyWarning, match="another private estimator"):
        model = make().fit(codes, Y[:, 1].numpy())
    first = origin_of(released(model))
    assert len(first) == len(model.privacy_.ledger) + 2
    model.save(tmp_path / "model")
    for again in (dpmac.load(tmp_path / "model"), pickled(model), copy.deepcopy(model)):
        assert origin_of(released(again)) == first
        assert again.privacy_.statement().not_covered() == model.privacy_.statement().not_covered()


def test_a_clone_has_its_arguments_origins():
    bound = PerLayerClip(known(Thresholds((1.0,))))
    for again in (clone(dpmac.DPMACClassifier(bound=bound)), clone(dpmac.DPMACClassifier(schema=schema()))):
        assert origin_of(again) == KNOWN


def test_a_runs_folder(tmp_path):
    problem, ledger = make_problem(rows=40), Ledger()
    feature_map = DPMean(1.0).fit(problem.x, NOISE, ledger).feature_map()
    plan = Plan(40, 20, 2, 2.0, 1e-5, before=ledger.mechanisms())
    run = Trainer(problem.network, problem.loss, plan, feature_map=feature_map).fit(problem.x, problem.y, ledger=ledger)
    run.save(tmp_path / "run")
    assert Network.load(tmp_path / "run" / "model.safetensors").origin == run.model.origin == Origin.of(ledger)
    assert load_feature_map(tmp_path / "run" / "front.safetensors").origin == feature_map.origin


class KilledError(Exception):
    pass


def test_a_training_that_goes_on_from_a_checkpoint(tmp_path):
    problem, ledger = make_problem(rows=40), Ledger(tmp_path / "ledger")
    feature_map = DPMean(1.0).fit(problem.x, NOISE, ledger).feature_map()
    feature_map.origin = replace(feature_map.origin, declared=("by a word",))

    def stop(done, _):
        if done == 1:
            raise KilledError

    fields = {
        "plan": Plan(40, 20, 3, 2.0, 1e-5, before=ledger.mechanisms()),
        "feature_map": feature_map,
        "source": SeededNoise(4),
    }
    first = Trainer(problem.network, problem.loss, on_step=stop, **fields)
    with pytest.raises(KilledError):
        first.fit(problem.x, problem.y, ledger, Checkpoints(tmp_path / "kept", 0.0))
    again = Ledger.load(tmp_path / "ledger")
    run = Trainer(problem.network, problem.loss, **fields).fit(
        problem.x, problem.y, again, Checkpoints(tmp_path / "kept")
    )
    assert run.model.origin == replace(Origin.of(again), declared=("by a word",))
    assert len(run.model.origin) == 4
    assert any("by a word" in line for line in run.statement().not_covered())


# --- what is made of what ---------------------------------------------------------------------------------------------


def test_words_given_for_a_feature_map_go_with_all_that_is_released_behind_it():
    """Releases are in the ledger; a user's word is nowhere but in the origin."""
    feature_map, ledger = known(Affine(1.0)).as_public("rows of nobody here"), Ledger()
    said = feature_map.origin.declared
    table = PrivateRows(X, Y).behind(feature_map)

    def parts_of(x, y):
        return [OuterPart(y, x, True)]

    for made in (
        DPMean(1.0).fit(PrivateRows(X).behind(feature_map), NOISE, ledger),
        DPPCA(2, 1.0).fit(PrivateRows(X).behind(feature_map), NOISE, ledger),
        ClosedForm(code=2, features=8).fit(PrivateRows(X).behind(feature_map), 2.0, NOISE, ledger),
        NormHistogram(2.0).thresholds(table, parts_of, ["a"], NOISE, ledger),
    ):
        assert origin_of(made).declared == said
        assert origin_of(made).within(ledger)


def test_residuals_by_a_trained_network_ask_for_its_ledger():
    trained = known(DenseNetwork((4, 2), source=NOISE))
    ledger = Ledger()
    with pytest.raises(ArgumentError, match=r"^outputs=.*private rows have shaped it"):
        ResidualScale(1.0).fit(PrivateRows(X, Y), trained, NOISE, ledger)
    assert len(ledger) == 0
    assert np.isfinite(ResidualScale(1.0).fit(PrivateRows(X, Y), trained.as_public("others"), NOISE, ledger))
