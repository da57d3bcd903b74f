"""What was saved comes back: every estimator answers as it did, bit for bit, here and in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from saved_models import GRADIENT, MAKERS, OBJECTS, PRIVATE, all_same, answers, made, rows, same
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpmac
from dpmac import ArgumentError, DPMACClassifier, DPMACModuleClassifier, DPMACModuleRegressor, Ledger
from dpmac.estimators import ESTIMATORS
from dpmac.nets.activations import TANH, Activation
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import JointClip
from dpmac.saving import open_folder
from dpmac.saving.states import KEPT

each_model = pytest.mark.parametrize("name", MAKERS)


def params_of(model):
    """The arguments, such that == compares them: arrays by their bits, sequences with their type."""

    def comparable(value):
        if isinstance(value, np.ndarray):
            return value.dtype, value.shape, value.tobytes()
        if isinstance(value, FeatureMap):
            return type(value), value.arguments()
        return (type(value), [*map(comparable, value)]) if isinstance(value, list | tuple) else (type(value), value)

    return {name: comparable(value) for name, value in model.get_params().items()}


def test_every_estimator_is_kept():
    assert set(KEPT) == set(ESTIMATORS)
    of_modules = {DPMACModuleClassifier, DPMACModuleRegressor}  # test_saved_modules
    assert {type(made(name)[0]) for name in MAKERS} == set(ESTIMATORS) - of_modules


@each_model
def test_it_answers_and_tells_of_itself_as_before(name, tmp_path):
    model, x = made(name)
    folder = model.save(tmp_path / "run")
    again = dpmac.load(folder)
    assert type(again) is type(model)
    assert all_same(answers(again, x), answers(model, x))
    assert params_of(again) == params_of(model)
    public = {key for key in vars(model) if key.endswith("_") and not key.startswith("__")}
    assert public == {key for key in vars(again) if key.endswith("_") and not key.startswith("__")}
    assert again.privacy_.statement() == model.privacy_.statement()
    assert again.privacy_.ledger.entries == model.privacy_.ledger.entries
    for key in ("plan_", "history_", "calibration_", "residual_std_", "target_range_", "code_size_", "n_features_in_"):
        assert getattr(again, key, None) == getattr(model, key, None), key
    for key in ("classes_", "feature_names_in_", "components_", "mean_", "explained_variance_"):
        assert same(getattr(again, key, None), getattr(model, key, None)), key
    if hasattr(model, "run_"):
        assert again.run_.plan == model.run_.plan
        assert again.run_.notes == model.run_.notes
        assert torch.equal(again.run_.outputs(again._raw(x)), model.run_.outputs(model._raw(x)))


ELSEWHERE = """
import json, sys
import numpy as np
import dpmac
dpmac.load
def refuse(event, arguments):
    if event in ("pickle.find_class", "os.system", "subprocess.Popen", "socket.connect"):
        raise RuntimeError(f"a file made this happen: {event} {arguments}")
sys.addaudithook(refuse)
folder = sys.argv[1]
asked = json.load(open(f"{folder}/rows.json"))
models = [dpmac.load(f"{folder}/{place}") for place in range(len(asked))]
from saved_models import answers  # it imports all sorts of things, so it comes last
for place, (model, rows) in enumerate(zip(models, asked)):
    found = answers(model, rows if isinstance(rows, dict) else np.array(rows, dtype=np.float32))
    np.savez(f"{folder}/{place}.npz", **{k: v.astype(str) if v.dtype == object else v for k, v in found.items()})
a = np.linspace(0, 1, 400)
dpmac.DPMACClassifier(epsilon=2.0, random_state=0, epochs=1).fit(a[:, None], a > 0.5)
print(sorted(set(sys.modules) & {"torch._dynamo", "torch._inductor", "sympy", "functorch"}))
"""


def test_another_process_that_only_imports_dpmac_gives_the_same_bits(tmp_path):
    """Nor does it import a compiler, which takes as long as all the rest: not to load, to answer or to fit."""
    asked = [
        made(name)
        for name in ("strings", "objects", "labels", "pictures", "table", "number", "closed form", "components")
    ]
    by_code = {DPMACModuleClassifier, DPMACModuleRegressor}  # need the module's code: test_saved_modules.py
    assert {type(model) for model, _ in asked} == set(ESTIMATORS) - by_code
    for place, (model, _) in enumerate(asked):
        model.save(tmp_path / str(place))
    as_json = [x if isinstance(x, dict) else x.tolist() for _, x in asked]
    (tmp_path / "rows.json").write_text(json.dumps(as_json))
    here = Path(__file__).parent
    paths = f"import sys; sys.path.extend({[str(here), str(here.parent)]!r})"
    code = f"import torch; torch.set_num_threads(1)\n{paths}\n{ELSEWHERE}"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "[]\n"
    for place, (model, x) in enumerate(asked):
        expected = {k: v.astype(str) if v.dtype == object else v for k, v in answers(model, x).items()}
        with np.load(tmp_path / f"{place}.npz") as found:
            assert all_same(dict(found), expected)


@pytest.mark.parametrize("name", ["strings", "labels", "table", "number", "network code", "closed form", "components"])
def test_a_loaded_model_can_be_fitted_again_and_saved_again(name, tmp_path):
    model, x = made(name)
    again = dpmac.load(model.save(tmp_path / "first"))
    y = again.predict(x) if hasattr(again, "predict") else None
    if y is not None and y.ndim == 1 and hasattr(again, "classes_"):
        y = np.resize(again.classes_, len(y))  # predictions may all be of one class
    again.fit(x, y)
    assert len(again.privacy_.ledger) > 0
    third = dpmac.load(again.save(tmp_path / "second"))
    assert all_same(answers(third, x), answers(again, x))
    assert params_of(clone(third)) == params_of(model)


def test_a_device_that_is_not_here_is_none_to_predict_on(tmp_path):
    """A model of a machine with a GPU is of use on one without."""
    model, x = made("bools")
    for other in ("cuda:63", "nonsense"):
        moved = clone(model).set_params(machine__device=other)
        vars(moved).update({name: value for name, value in vars(model).items() if name not in model.get_params()})
        again = dpmac.load(moved.save(tmp_path / other.replace(":", "")))
        assert again.machine.device == other
        assert all_same(answers(again, x), answers(model, x))


def test_a_calibrated_model_is_saved_as_calibrated(tmp_path):
    x = rows(77, 500)
    model = DPMACClassifier((), **{**PRIVATE, "batch_size": 500}).fit(x, x[:, 0] > 0)
    assert model.calibration_ is not None
    again = dpmac.load(model.save(tmp_path / "run"))
    assert again.calibration_ == model.calibration_
    assert all_same(answers(again, x), answers(model, x))


# --- arguments that are objects ---------------------------------------------------------------------------------------


def test_objects_of_the_package_come_back_as_they_were(tmp_path):
    again = dpmac.load(made("objects")[0].save(tmp_path / "run"))
    for name, value in OBJECTS.items():
        assert getattr(again, name) == value
        assert type(getattr(again, name)) is type(value)
    assert again.activation is TANH


class OwnBound(JointClip):
    """A bound that no file can have."""


def test_an_object_of_the_users_own_is_kept_by_name_and_asked_for_by_fit(tmp_path):
    x = rows(5)
    model = DPMACClassifier((3,), bound=OwnBound(1.0), random_state=np.random.RandomState(0), **PRIVATE).fit(
        x, x[:, 0] > 0
    )
    again = dpmac.load(model.save(tmp_path / "run"))
    assert all_same(answers(again, x), answers(model, x))
    assert again.random_state is None
    assert again.bound.endswith("OwnBound")
    with pytest.raises(ArgumentError, match=r"bound='.*OwnBound'.*or give an object"):
        again.fit(x, x[:, 0] > 0)


def own_activation():
    return Activation("mine", torch.tanh, TANH.df, TANH.d2f, torch.nn.Tanh)


def test_an_activation_of_the_users_own_is_handed_in_again(tmp_path):
    x = rows(6)
    model = DPMACClassifier((3,), activation=own_activation(), **GRADIENT).fit(x, x[:, 0] > 0)
    folder = model.save(tmp_path / "run")
    with pytest.raises(ArgumentError, match=r"model\.safetensors has an activation of your own"):
        dpmac.load(folder)
    again = dpmac.load(folder, activations=[model.activation])
    assert again.activation is model.activation
    assert all_same(answers(again, x), answers(model, x))


def test_only_what_is_ours_and_fitted_is_saved(tmp_path):
    class Own(DPMACClassifier):
        pass

    with pytest.raises(ArgumentError, match="a class of your own"):
        Own(**GRADIENT).fit(rows(8), rows(8)[:, 0] > 0).save(tmp_path / "run")
    with pytest.raises(NotFittedError):
        DPMACClassifier().save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


# --- ledgers ----------------------------------------------------------------------------------------------------------


def test_a_folder_names_no_place_and_a_fit_asks_for_the_ledger(tmp_path):
    """Going on with a ledger of the same name in another folder would forget what was spent."""
    x, path = rows(9), tmp_path / "hospital.ledger"
    model = DPMACClassifier((3,), ledger=path, **PRIVATE).fit(x, x[:, 0] > 0)
    folder, before = model.save(tmp_path / "run"), path.read_bytes()
    assert json.loads((folder / "dpmac.json").read_text())["arguments"]["ledger"]["name"] == "hospital.ledger"
    again = dpmac.load(folder)
    with pytest.raises(RuntimeError, match="Give the path of a file as the ledger"):
        again.fit(x, x[:, 0] > 0)
    assert path.read_bytes() == before
    again.set_params(ledger=path).fit(x, x[:, 0] > 0)
    assert len(Ledger.load(path)) == len(again.privacy_.ledger) == 2 * len(model.privacy_.ledger)
    path.unlink()
    dpmac.load(folder)
    assert not path.exists()


def test_a_ledger_in_memory_comes_back_as_a_copy_that_refuses_to_go_on(tmp_path):
    x, ledger = rows(10), Ledger()
    model = DPMACClassifier((3,), ledger=ledger, **PRIVATE).fit(x, x[:, 0] > 0)
    again = dpmac.load(model.save(tmp_path / "run"))
    assert again.ledger.entries == ledger.entries
    with pytest.raises(RuntimeError, match="ledger"):
        again.fit(x, x[:, 0] > 0)
    given = DPMACClassifier((3,), ledger=Ledger(tmp_path / "l"), **PRIVATE).fit(rows(11), x[:, 0] > 0)
    other = dpmac.load(given.save(tmp_path / "other")).ledger
    assert (other.path, other.entries) == (None, given.privacy_.ledger.entries)


# --- a folder, piece by piece -----------------------------------------------------------------------------------------


def test_a_folder_gives_its_pieces(tmp_path):
    model, _ = made("table")
    folder = open_folder(model.save(tmp_path / "run", extra={"answer": 42}))
    assert folder.manifest["estimator"] == "DPMACClassifier"
    assert folder.manifest["name"] == "run"
    assert folder.plan() == model.plan_
    assert folder.history() == model.history_
    assert folder.ledger().entries == model.privacy_.ledger.entries
    said, plain = folder.statement(), model.privacy_.statement().to_dict()
    assert {key: said[key] for key in plain if key != "not_covered"} == {
        key: value for key, value in plain.items() if key != "not_covered"
    }
    assert said["not_covered"][-len(plain["not_covered"]) :] == plain["not_covered"]
    assert folder.schema() == model.schema
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == {"answer": 42}
    assert folder.evaluation() is None
    (tmp_path / "run" / "evaluation.json").write_text('{"rows": 3}')
    assert open_folder(tmp_path / "run").evaluation() == {"rows": 3}
    bare = open_folder(made("components")[0].save(tmp_path / "bare"))
    assert bare.plan() is None
    assert bare.history() == []
    assert bare.schema() is None
