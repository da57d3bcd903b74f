"""Estimators take the arguments of their bases and their own, as scikit-learn has it, and describe all of them."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from dpmac import DPMACPCA, ArgumentError, DPMACAutoencoder, DPMACClassifier, Machine
from dpmac.estimators import ESTIMATORS
from dpmac.estimators.arguments import Arguments, TrainingArguments, estimator

FIRST = {
    "DPMACClassifier": "hidden_layer_sizes",
    "DPMACImageClassifier": "hidden_layer_sizes",
    "DPMACRegressor": "hidden_layer_sizes",
    "DPMACAutoencoder": "code_size",
    "DPMACPCA": "n_components",
    "DPMACModuleClassifier": "module",
    "DPMACModuleRegressor": "module",
}


def parameters(kind):
    return inspect.signature(kind).parameters


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_one_argument_can_be_given_by_position(kind):
    first = FIRST[kind.__name__]
    assert next(iter(parameters(kind))) == first
    assert getattr(kind((3,)), first) == (3,)
    with pytest.raises(TypeError, match="positional"):
        kind((3,), 2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sigma'"):
        kind(sigma=1.0)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_shared_arguments_have_the_same_default_everywhere(kind):
    base = TrainingArguments if issubclass(kind, TrainingArguments) else Arguments
    for name, shared in parameters(base).items():
        assert parameters(kind)[name].default == shared.default


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_docstring_describes_every_argument(kind):
    described = re.findall(r"^([\w, ]+) :", kind.__doc__, flags=re.MULTILINE)
    names = {name.strip() for line in described for name in line.split(",")}
    assert set(parameters(kind)) - names <= {"total_epsilon"}  # with the ledger
    assert "total_epsilon" in kind.__doc__


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_machine_goes_with_every_copy(kind):
    model = kind(machine=Machine(threads=2, checkpoint="kept"))
    for twin in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.get_params() == model.get_params()
    assert repr(model) == f"{kind.__name__}(machine=Machine(threads=2, checkpoint='kept'))"


def test_the_machine_is_set_as_a_whole_and_piece_by_piece():
    model = DPMACPCA()
    assert "machine__threads" not in model.get_params()
    assert model.set_params(machine__threads=2).machine == Machine(threads=2)
    before = model.machine
    model.set_params(machine__progress=False, epsilon=3.0)
    assert (model.machine, model.epsilon, before) == (Machine(threads=2, progress=False), 3.0, Machine(threads=2))
    assert model.get_params()["machine__threads"] == 2
    assert "machine__threads" not in model.get_params(deep=False)
    assert DPMACPCA().set_params(**model.get_params()).get_params() == model.get_params()
    assert model.set_params(machine=None, machine__threads=3).machine == Machine(threads=3)
    pipeline = make_pipeline(model).set_params(dpmacpca__machine__threads=4)
    assert pipeline[-1].machine == Machine(threads=4)


def test_what_a_machine_has_not_is_refused():
    with pytest.raises(ArgumentError, match=r"machine__gpu='cuda': a Machine has no such argument, but device, "):
        DPMACPCA().set_params(machine__gpu="cuda")
    with pytest.raises(ArgumentError, match="threads=0"):
        DPMACPCA().set_params(machine__threads=0)
    with pytest.raises(ValueError, match="Invalid parameter 'sigma'"):
        DPMACPCA().set_params(sigma=1.0)


def test_a_search_goes_over_arguments_and_over_the_machine():
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    grid = {"n_components": [1, 2], "machine__threads": [1, None]}
    found = GridSearchCV(DPMACPCA(epsilon=math.inf, machine=Machine(progress=False)), grid, cv=2).fit(rows)
    assert found.best_estimator_.n_components_ == 2
    assert found.best_estimator_.machine.progress is False
    assert len(found.cv_results_["params"]) == 4


def test_a_class_of_ones_own_may_have_other_arguments():
    class Own(DPMACClassifier):
        def __init__(self, epsilon=1.0, *, depth=2):
            super().__init__((8,) * depth, epsilon=epsilon)
            self.depth = depth

    assert clone(Own(depth=3)).get_params() == {"depth": 3, "epsilon": 1.0}
    assert Own(depth=3).hidden_layer_sizes == (8, 8, 8)
    assert DPMACAutoencoder(2, hidden_layer_sizes=(4,)).hidden_layer_sizes == (4,)


def test_an_estimator_is_a_class_whose_objects_are_themselves_and_take_the_old_names():
    """Scikit-learn keeps estimators in sets, and two of the same arguments may be fitted to other rows."""

    @estimator
    class Own(Arguments):
        """Its own."""

        width: int = 3

    assert Own.__doc__.startswith("Its own.")
    assert "epsilon : the budget" in Own.__doc__
    one, other = Own(width=2), Own(width=2)
    assert one.width == other.width == 2
    assert len({one, other}) == 2
    assert one != other
    with pytest.warns(DeprecationWarning, match="machine"):
        assert Own(threads=5).machine.threads == 5
