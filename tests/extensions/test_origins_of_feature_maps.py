"""What a release has shaped is known as a feature map from a file, a whitening, a prior or a plain torch module."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from dpmac.checks import ArgumentError
from dpmac.extensions.outputs import forget, remember
from dpmac.extensions.provenance import mark
from dpmac.modules import FrozenModule
from dpmac.nets import Conv2d, Dense, DenseNetwork, Network, WideNetwork
from dpmac.nets.feature_maps import Affine, Chain, load_feature_map, save_feature_map
from dpmac.nets.layers.beside import Beside
from dpmac.priors import Prior, PublicRows, RangePrior, SchemaPrior, WhiteningOptions, whitened
from dpmac.privacy import Entry, Ledger, Origin, origin_of
from dpmac.randomness import SeededNoise
from dpmac.tables import Number, Schema

FEW = WhiteningOptions(rows=200)
SCHEMA = Schema({"a": Number(-9.0, 9.0), "b": Number(-9.0, 9.0)})
LEDGER = Ledger()
LEDGER.append(Entry("training step", 2.0, 0.1))
KNOWN = Origin.of(LEDGER)


def encoder():
    """A layer that a release has shaped."""
    made = nn.Linear(3, 2)
    mark(made, KNOWN)
    return made


class Drawn(Prior):
    """A prior of the user's own: a generator."""

    kind = "drawn"

    def __init__(self, network):
        self.network = network

    @torch.no_grad()
    def drawn(self, rows):
        return self.network(torch.linspace(-1, 1, 3 * rows).reshape(rows, 3)).double()

    def described(self):
        return "made by a generator"

    def arguments(self):
        return {"network": "mine"}

    @classmethod
    def sample(cls):
        return cls(nn.Linear(3, 2))


MAPS = {
    "frozen": lambda: FrozenModule(encoder(), "our reviews"),
    "in a chain": lambda: Chain((Affine(0.0, 2.0), FrozenModule(encoder(), "our reviews"))),
    "whitened": lambda: whitened(FrozenModule(encoder(), "our reviews"), RangePrior(-1.0, 1.0, 3), FEW),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_frozen_module_is_saved_with_what_has_shaped_it(name, tmp_path):
    save_feature_map(MAPS[name](), tmp_path / "map")
    back = load_feature_map(tmp_path / "map", [nn.Linear(3, 2)])
    frozen = next(module for module in back.modules() if isinstance(module, FrozenModule))
    for thing in (back, frozen, frozen.module):
        assert origin_of(thing).runs == KNOWN.runs


def test_a_feature_map_is_saved_with_what_has_shaped_anything_in_it(tmp_path):
    made = Affine(0.0, 2.0)
    made.learned = encoder()
    save_feature_map(made, tmp_path / "map")
    assert origin_of(load_feature_map(tmp_path / "map")) == KNOWN


def test_a_public_frozen_module_comes_back_public(tmp_path):
    save_feature_map(FrozenModule(nn.Linear(3, 2), "ImageNet"), tmp_path / "map")
    assert not origin_of(load_feature_map(tmp_path / "map", [nn.Linear(3, 2)]))


def test_a_whitening_knows_what_has_shaped_the_features_that_it_was_computed_from(tmp_path):
    chain = MAPS["whitened"]()
    save_feature_map(chain, tmp_path / "map")
    for one in (chain, load_feature_map(tmp_path / "map", [nn.Linear(3, 2)])):
        assert origin_of(one.feature_maps[-1]).runs == KNOWN.runs


def test_equal_numbers_of_another_origin_are_another_whitening():
    """A whitening is computed once for the same content: what has shaped it is part of that."""
    shaped, fresh = encoder(), nn.Linear(3, 2)
    fresh.load_state_dict(shaped.state_dict())
    prior = RangePrior(-1.0, 1.0, 3)
    found = [whitened(FrozenModule(one, "x"), prior, FEW).feature_maps[-1] for one in (fresh, shaped, fresh)]
    assert [bool(origin_of(one)) for one in found] == [False, True, False]
    assert torch.equal(found[0].matrix, found[1].matrix)


def test_a_whitening_knows_what_was_said_of_its_prior():
    shaped = Schema(SCHEMA.columns, origin=KNOWN).as_public("rows of other people")
    last = whitened(Affine(), SchemaPrior(shaped), FEW).feature_maps[-1]
    assert origin_of(last).declared == ("rows of other people",)


def test_a_prior_of_ones_own_that_a_release_has_shaped_is_refused():
    with pytest.raises(ArgumentError, match=r"prior='Drawn': private rows have shaped it"):
        whitened(Affine(), Drawn(encoder()), FEW)
    assert whitened(Affine(), Drawn(nn.Linear(3, 2)), FEW).shape_after((2,)) == (2,)


def test_outputs_of_a_private_model_in_a_table_are_no_public_rows():
    codes = np.random.default_rng(0).normal(size=(300, 2))
    table = pd.DataFrame(codes, columns=["a", "b"])
    assert len(PublicRows(table, "rows", schema=SCHEMA).rows) == 300
    remember(codes, KNOWN)
    try:
        with pytest.raises(ArgumentError, match="no private row has shaped"):
            PublicRows(table, "rows", schema=SCHEMA)
    finally:
        forget()


NETWORKS = [DenseNetwork((4, 3, 2), source=SeededNoise(0)), WideNetwork(4, 3, 2, source=SeededNoise(0))]


@pytest.mark.parametrize("made", NETWORKS, ids=lambda made: type(made).__name__)
def test_a_plain_copy_of_a_network_knows_what_has_shaped_it(made):
    assert not origin_of(made.plain())
    made.origin = KNOWN
    plain = made.plain()
    for thing in (plain, plain[0], pickle.loads(pickle.dumps(plain))):
        assert origin_of(thing) == KNOWN


@pytest.mark.parametrize("layer", [Dense(3, 2), Beside(3, 2), Conv2d(1, 2, 2)], ids=lambda layer: layer.kind)
def test_a_plain_copy_of_a_layer_knows_it_too(layer):
    layer.origin = KNOWN
    assert origin_of(layer.plain()) == KNOWN


class OwnLayer(Dense):
    """A layer of the user's own, whose plain copy is made by hand."""

    def plain(self):
        made = nn.Linear(self.in_features, self.out_features)
        made.load_state_dict(self.state_dict())
        return made


def test_a_plain_copy_of_a_network_of_own_layers_knows_it_as_well():
    made = Network([OwnLayer(3, 2)], input_shape=[3], source=SeededNoise(0))
    made.origin = KNOWN
    for thing in (made.plain(), made.plain()[0]):
        assert origin_of(thing) == KNOWN
