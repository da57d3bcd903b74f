"""Names that changed in this release: the old ones work, and say what the new ones are."""

from __future__ import annotations

import importlib

import pytest
import torch

from dpmac import DenseNetwork, Plan, Run, Trainer
from dpmac.methods import ClosedForm
from dpmac.nets import feature_maps, loss
from dpmac.nets.feature_maps import Affine, Chain
from dpmac.nets.feature_maps.saving import packed_feature_map, unpacked_feature_map
from dpmac.privacy import Ledger, Persons
from dpmac.randomness import SeededNoise


def test_the_old_module_gives_what_the_new_one_has():
    fronts = importlib.import_module("dpmac.nets.fronts")
    for old, new in {"Front": "FeatureMap", "FRONTS": "FEATURE_MAPS", "load_front": "load_feature_map"}.items():
        with pytest.warns(DeprecationWarning, match=f"fronts.{old} is now called dpmac.nets.feature_maps.{new}"):
            assert getattr(fronts, old) is getattr(feature_maps, new)
    with pytest.warns(DeprecationWarning, match="Affine"):
        assert fronts.Affine is Affine
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fronts.nothing


def test_arguments_and_attributes_under_their_old_names():
    scaling, plan = Affine(0.5, 2.0), Plan(10, 5, 1, 1.0, 1e-3)
    network = DenseNetwork([2, 1], source=SeededNoise(0))
    with pytest.warns(DeprecationWarning, match="front= of Trainer is now called feature_map="):
        trainer = Trainer(network, loss("squared"), plan, front=scaling)
    assert trainer.feature_map is scaling
    with pytest.warns(DeprecationWarning, match=r"Trainer.front is now called feature_map"):
        assert trainer.front is scaling
    with pytest.warns(DeprecationWarning, match="front= of ClosedForm"):
        assert ClosedForm(code=2, front=scaling).feature_map is scaling
    run = Run(network, [], Ledger(), plan, feature_map=scaling)
    with pytest.warns(DeprecationWarning, match=r"Run.front is now called feature_map"):
        assert run.front is scaling


def test_the_lock_of_a_ledger_under_its_old_name():
    with pytest.warns(DeprecationWarning, match=r"Ledger.alone is now called exclusive"), Ledger().alone():
        pass


def test_the_spots_of_a_person_under_their_old_name():
    with pytest.warns(DeprecationWarning, match=r"Persons.together is now called spots_per_place"):
        assert Persons.of([1, 1, 2], 3).together == 4


def test_a_chain_in_a_file_of_version_0_2_has_the_old_argument():
    chain, tensors = Chain((Affine(0.5, 2.0), Affine(1.0, 3.0))), {}
    packed = packed_feature_map(chain, "front", tensors)
    packed["arguments"]["fronts"] = packed["arguments"].pop("feature_maps")
    rows = torch.tensor([[1.0, -2.0]])
    assert torch.equal(
        unpacked_feature_map(packed, tensors, "x", [])(rows), Chain((Affine(0.5, 2.0), Affine(1.0, 3.0)))(rows)
    )
