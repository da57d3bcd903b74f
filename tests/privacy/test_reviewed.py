"""What a reviewer of the core has found, kept as tests: each was accepted once."""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

import dpmac
from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACClassifier
from dpmac.extensions.persons import Persons
from dpmac.extensions.provenance import Origin, origin_of
from dpmac.mac import FixedPrediction
from dpmac.methods import DPPCA, ClosedForm, DPMean, NormHistogram
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import DensePart, Ledger, OuterPart, Partition, PerLayerClip, Plan, PrivateRows, Query, release
from dpmac.privacy.gaussian_release import BrokenPromiseError
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.tables import Number, Schema, TableEncoder
from dpmac.training import Trainer
from dpmac.training.step import ours

X = SeededNoise(1).normal((200, 6)).float()
Y = torch.eye(2)[(SeededNoise(2).uniform(200) * 2).long()]


@pytest.fixture(scope="module")
def feature_map_and_ledger():
    ledger = Ledger()
    return DPPCA(3, 0.3).fit(X, SystemNoise(), ledger).feature_map(), ledger


@pytest.mark.parametrize("person", [False, True])
def test_rows_behind_a_released_feature_map_remember_it(feature_map_and_ledger, person):
    feature_map, ledger = feature_map_and_ledger
    table = PrivateRows(X, groups=torch.arange(200) // 2 if person else None)
    for behind in (
        table.behind(feature_map),
        table.behind(functools.partial(feature_map)),
        table.behind(lambda rows: feature_map(rows)),
    ):
        for moved in (behind, behind.to(torch.device("cpu")), behind.without(0)):
            fresh = Ledger()
            with pytest.raises(ArgumentError, match="private rows have shaped it"):
                DPMean(5.0).fit(moved, SystemNoise(), fresh)
            assert len(fresh) == 0
    if not person:  # the ledger of the components is one of rows
        DPMean(5.0).fit(table.behind(feature_map), SystemNoise(), ledger)


def test_a_trainer_sees_what_its_table_is_behind(feature_map_and_ledger):
    feature_map, _ = feature_map_and_ledger
    network, ledger = DenseNetwork((3, 2), "relu", source=SeededNoise(1)), Ledger()
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        Trainer(network, loss("softmax"), Plan(200, 50, 5, 1.0, 1e-4)).fit(
            PrivateRows(X, Y).behind(feature_map), ledger=ledger
        )
    assert len(ledger) == 0


def test_an_origin_is_found_wherever_python_can_look(feature_map_and_ledger):
    feature_map, _ = feature_map_and_ledger

    class Own:
        def __init__(self) -> None:
            self.kept = {"here": [feature_map]}

        def method(self, x: Any) -> Any:
            return self.kept["here"][0](x)

    def default(x: Any, used: Any = feature_map) -> Any:
        return used(x)

    own = Own()
    own.itself = own  # type: ignore[attr-defined]
    for hidden in (
        own,
        own.method,
        default,
        lambda x: feature_map(x),
        functools.partial(Own.method, own),
        [(feature_map,)],
    ):
        assert origin_of(hidden) == feature_map.origin
    assert origin_of(lambda x: x, 3, "text", None, torch.ones(3), Ledger()) == Origin()


def test_an_encoder_that_gets_another_schema_gets_its_origin():
    table = {name: X[:, k].numpy() for k, name in enumerate("ab")}
    estimated = Schema.estimate(table, epsilon=50.0, delta=1e-5, ledger=Ledger())
    encoder = TableEncoder(Schema({"a": Number(-1, 1), "b": Number(-1, 1)}))
    encoder.set_params(schema=estimated)
    assert len(encoder.origin) == len(TableEncoder(estimated).origin) == 1


def test_thresholds_know_their_releases_when_an_estimator_comes_back(tmp_path):
    ledger, labels = Ledger(), Y.argmax(dim=1).numpy()
    found = NormHistogram(2.0).thresholds(
        PrivateRows(X, Y), lambda x, y: [OuterPart(y, x, True)], ["layer 1"], SystemNoise(), ledger
    )
    options = {"hidden_layer_sizes": (), "epsilon": 3.0, "epochs": 1, "calibrate": False, "bound": PerLayerClip(found)}
    model = DPMACClassifier(**options, feature_range=(-4, 4), classes=(0, 1), ledger=ledger)
    model.fit(X.numpy(), labels).save(tmp_path / "model")
    back = dpmac.load(tmp_path / "model")
    assert back.bound == model.bound
    assert origin_of(back.bound) == origin_of(model.bound)
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        back.set_params(ledger=None).fit(-X.numpy(), labels)  # other rows, or a warning comes first


def test_an_autoencoder_in_closed_form_knows_all_its_releases():
    ledger = Ledger()
    model = ClosedForm(code=2, features=8).fit(X, 2.0, SystemNoise(), ledger)
    assert len(origin_of(model)) == len(ledger) == 2


class Lax:
    """Clips at 10 and promises 1; ``in_place`` writes into what it was given."""

    def __init__(self, in_place: bool) -> None:
        self.in_place = in_place

    def promise(self, partitions):
        return tuple(p.promised(1.0) for p in partitions)

    def apply(self, parts):
        over = [p.norms().div_(10.0) if self.in_place else p.norms().div(10.0) for p in parts]
        return [p.scaled(0.99 / o.clamp(min=1.0)) for p, o in zip(parts, over, strict=True)]


KNOWN = pytest.mark.parametrize("reads", [None, ()], ids=["anyone's code", "code that is known"])


@KNOWN
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bound_that_writes_into_norms_does_not_blind_the_door(in_place, dtype, reads):
    bound, table = Lax(in_place), PrivateRows(X[:, :3].to(dtype), 100 * X.to(dtype))
    promised = bound.promise([Partition("p", (3, 7))])
    query = Query("q", promised, lambda a, b: bound.apply([OuterPart(a, b, True)]), reads)
    with pytest.raises(BrokenPromiseError):
        release(table.everything(), query, noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())


@KNOWN
def test_vectors_that_change_after_the_bound_are_measured_again(reads):
    bound, table = PerLayerClip(1.0), PrivateRows(X[:, :3], X)

    def parts(a, b):
        bounded = bound.apply([OuterPart(a, b, True)])
        a.mul_(50.0)
        return bounded

    query = Query("q", bound.promise([Partition("p", (3, 7))]), parts, reads)
    with pytest.raises(BrokenPromiseError):
        release(table.everything(), query, noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())


@pytest.mark.parametrize("how", ["hook", "forward"])
def test_a_network_with_a_hook_is_tried_though_its_kind_has_passed(how):
    def train(mixing: bool) -> None:
        network = DenseNetwork((6, 2), "relu", source=SeededNoise(1))
        layer: Any = network.weight_layers[0]
        if mixing and how == "hook":
            layer.register_forward_hook(lambda module, given, out: out - out.mean(0, keepdim=True))
        if mixing and how == "forward":
            inner = layer.forward
            layer.forward = lambda x: inner(x) - inner(x).mean(0, keepdim=True)
        assert ours(network) is not mixing
        Trainer(network, loss("softmax"), Plan(200, 50, 1, 1.0, 1e-4), zstep=FixedPrediction()).fit(X, Y)

    train(False)
    with pytest.raises(ArgumentError, match="influence each other"):
        train(True)


@pytest.mark.parametrize(
    "gone", [Decimal("NaN"), np.datetime64("NaT"), complex("nan"), (1, float("nan")), float("nan"), "  ", ""]
)
def test_an_id_that_is_no_value_is_missing(gone):
    with pytest.raises(ArgumentError, match="has no id"):
        Persons.of(["a", gone, "a"])


@KNOWN
@pytest.mark.parametrize("how", ["in place", "data", "numpy", "measured"])
def test_the_release_measures_whatever_a_part_says_of_its_lengths(how, reads):
    """Also of a query that can be recorded: saying so once switched this off, and rows of length 1,732 went out under a
    promise of 1."""
    bound, table = PerLayerClip(1.0), PrivateRows(X[:, :3].clone(), X.clone())

    def parts(a, b):
        (part,) = bound.apply([OuterPart(a, b, True)])
        if how == "in place":
            part.left.mul_(50.0)
        elif how == "data":
            part.left.data.mul_(50.0)
        elif how == "numpy":
            part.left.numpy()[:] *= 50.0
        else:
            longer = OuterPart(50.0 * part.left, part.right, True, part.factors)
            longer.__dict__["_lengths"] = part._lengths  # what was measured of other vectors
            return [longer]
        return [part]

    query = Query("q", bound.promise([Partition("p", (3, 7))]), parts, reads)
    with pytest.raises(BrokenPromiseError):
        release(table.everything(), query, noise_multiplier=1.0, source=SystemNoise(), ledger=Ledger())


@KNOWN
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("attached", ["norms", "scaled", "total", "doubled", "single"])
def test_nothing_that_was_attached_to_a_part_reaches_the_release(attached, single, reads):
    """A method or a flag of one instance: ``scaled`` once gave a part that said of rows of length 141 that they had
    length 0, and they went out."""
    long = torch.full((64, 2), 100.0, dtype=torch.float32 if single else torch.float64)
    table = PrivateRows(long)

    class Lying(DensePart):
        def norms(self):
            return torch.zeros(self.rows, dtype=torch.float64)

    def parts(x):
        true = OuterPart(x, torch.ones_like(x[:, :1])) if single else DensePart(x.reshape(-1, 2, 1))
        lying = Lying(x.double().reshape(-1, 2, 1))
        replaced = {
            "norms": lying.norms,
            "scaled": lambda factors: lying,
            "total": lambda spots_per_place=1: 1e3 * torch.ones(2, 1, dtype=torch.float64),
            "doubled": lambda: lying,
            "single": lambda: True,
        }
        if attached == "single" and single:
            pytest.skip("a property, which no attribute hides")
        object.__setattr__(true, attached, replaced[attached])
        return [true]

    query, ledger = Query("q", (Partition("p", (2, 1), 1.0),), parts, reads), Ledger()
    with pytest.raises(BrokenPromiseError, match="exceeds the bound"):
        release(table.everything(), query, noise_multiplier=1.0, source=SystemNoise(), ledger=ledger)
    assert len(ledger) == 0


def test_a_sum_that_was_attached_to_a_part_is_not_the_one_that_is_released():
    def parts(x):
        part = DensePart(x)
        object.__setattr__(part, "total", lambda spots_per_place=1: torch.full((1,), 1e6, dtype=torch.float64))
        object.__setattr__(part, "scaled", lambda factors: part)
        return [part]

    query = Query("q", (Partition("p", (1,), 1.0),), parts)
    table = PrivateRows(torch.zeros(8, 1, dtype=torch.float64))
    answer = release(table.everything(), query, noise_multiplier=0.0, source=SystemNoise(), ledger=Ledger())
    assert float(answer["p"]) == 0.0
