"""What a folder keeps of an estimator, and what must agree in it, one piece after the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.preprocessing import FunctionTransformer

import dpmac
from dpmac import DPMACPCA, DPMACAutoencoder, DPMACClassifier, Machine
from dpmac.checks import ArgumentError
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.limits import NUMBERS, STEPS
from dpmac.privacy import Ledger, Mechanism, Origin, Plan, origin_of
from dpmac.saving import states
from dpmac.saving.arguments import arguments_from, arguments_of
from dpmac.saving.states import plain_state, plan_from

OLD = Path(__file__).parent / "written_by_0_2"


@pytest.mark.parametrize("name", ["classifier", "regressor", "components"])
def test_what_an_older_version_wrote_knows_the_folders_releases(name):
    """Its files say nothing of an origin: whoever goes on with it needs its ledger all the same."""
    model = dpmac.load(OLD / name)
    known = Origin.of(model.privacy_.ledger)
    assert known
    assert origin_of(model.pca_ if name == "components" else model.network_) == known
    assert not known.within(Ledger())
    assert model.feature_map_.origin == known  # ranges may have been estimated from the rows


def test_of_a_folder_that_names_its_origins_a_public_feature_map_stays_public_and_one_of_a_closed_form_does_not(
    tmp_path,
):
    """What was released in closed form has a feature map within it, which may be taken out and used elsewhere."""
    public = {"epsilon": 2.0, "feature_range": (-1, 1)}
    for seed, kind in enumerate((DPMACPCA(1, **public), DPMACAutoencoder(method="closed-form", **public))):
        kind.fit(np.random.RandomState(seed).uniform(-1, 1, (20, 2))).save(tmp_path / str(seed))
        again = dpmac.load(tmp_path / str(seed))
        assert Origin.of(again.privacy_.ledger)
        assert again.feature_map_.origin == Origin()
    assert again.autoencoder_.pca.origin == again.autoencoder_.choices.feature_map.origin
    assert again.autoencoder_.choices.feature_map.origin == Origin.of(again.privacy_.ledger)


def ranged(low, high):
    return SimpleNamespace(target_range_=(low, high), network_=SimpleNamespace(output_shape=(1,)), residual_std_=None)


def test_a_range_has_a_length():
    agrees = states.KEPT[dpmac.DPMACRegressor].agrees
    assert agrees(ranged(0.0, 1.0))
    assert not agrees(ranged(1.0, 1.0))
    assert not agrees(ranged(2.0, 1.0))


def wide(width, **more):
    network = SimpleNamespace(sizes=(3 if isinstance(width, str) else width, 2))
    return SimpleNamespace(n_features_in_=width, feature_map_=None, network_=network, **more)


def test_a_width_is_a_whole_number_that_names_and_model_share():
    for width in (1, 3, NUMBERS):
        assert states._width_agrees(wide(width))
    for odd in (0, -1, True, 3.0, "3", None, NUMBERS + 1):
        assert not states._width_agrees(wide(odd))
    assert states._width_agrees(wide(2, feature_names_in_=["a", "b"]))
    assert not states._width_agrees(wide(2, feature_names_in_=["a"]))
    other = wide(2)
    other.network_.sizes = (3, 2)
    assert not states._width_agrees(other)


def test_a_plan_comes_back_with_what_was_paid_before_it():
    plan = Plan(100, 10, 5, 2.0, 1e-5, before=(Mechanism(3.0, 1.0, 2, "mean"),))
    raw = {name: getattr(plan, name) for name in ("n", "batch_size", "steps", "noise_multiplier", "delta")}
    before = [vars(one) for one in plan.before]
    assert plan_from({**raw, "before": before}) == plan
    assert plan_from({**raw, "steps": STEPS, "before": []}).steps == STEPS
    with pytest.raises(ValueError, match="are the most"):
        plan_from({**raw, "steps": STEPS + 1, "before": []})


def test_arguments_are_the_constructors_own_and_places_are_names_alone(tmp_path):
    machine = Machine(device=torch.device("cpu"), checkpoint=tmp_path / "kept", scratch=tmp_path, world=SINGLE_PROCESS)
    model = DPMACClassifier(loss=FunctionTransformer(), machine=machine, ledger=str(tmp_path / "book"))
    found = arguments_of(model)
    kept = {"device", "micro_batch_size", "threads", "memory", "progress"}
    assert set(found) == set(model.get_params(deep=False)) - {"machine"} | kept
    assert found["device"] == "cpu"
    assert found["ledger"] == {"ledger": None, "name": "book"}
    assert str(tmp_path) not in repr(found)
    with pytest.raises(ValueError, match="has no argument 'sigma'"):
        arguments_from(DPMACClassifier, {"sigma": 1.0}, Ledger(), ())


def test_labels_that_no_file_can_keep_are_refused_by_name():
    model = DPMACClassifier()
    model.n_features_in_, model._indicator, model.calibration_ = 1, None, None
    model.classes_ = [object()]
    model.privacy_ = SimpleNamespace(delta=1e-5, notes=())
    with pytest.raises(ArgumentError, match=r"^classes_=.*labels must be"):
        plain_state(model)
    model.classes_ = np.array(["a", "b"])
    assert plain_state(model)["delta"] == 1e-5
