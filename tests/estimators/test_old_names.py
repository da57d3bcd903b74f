"""Arguments that moved to ``machine`` are taken for one more release: they do the same, and warn whoever gives them."""

from __future__ import annotations

import inspect
import warnings

import pytest
from sklearn.base import clone

from dpmac import DPMACPCA, ArgumentError, DPMACClassifier, Machine
from dpmac.estimators import ESTIMATORS
from dpmac.estimators.old_names import MOVED
from dpmac.extensions.world import SINGLE_PROCESS

VALUES = {
    "device": "cuda",
    "micro_batch_size": 7,
    "threads": 2,
    "progress": False,
    "checkpoint": "kept",
    "world": SINGLE_PROCESS,
}


def heard(work):
    """The result of ``work``, and its one warning, which must point at this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work()
    (one,) = caught
    assert one.category is DeprecationWarning
    assert one.filename == __file__
    return result, str(one.message)


def test_every_old_name_is_tried_here():
    assert set(VALUES) == set(MOVED)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", MOVED)
def test_an_old_argument_is_one_of_the_machine(kind, name):
    value = VALUES[name]
    model, text = heard(lambda: kind(epsilon=3.0, **{name: value}))
    assert f"give machine=dpmac.Machine({name}=...)" in text
    assert model.get_params() == kind(epsilon=3.0, machine=Machine(**{name: value})).get_params()
    assert clone(model).machine == model.machine
    assert name not in model.get_params()
    assert name not in inspect.signature(kind).parameters


@pytest.mark.parametrize("name", MOVED)
def test_an_old_parameter_can_be_set_and_leaves_the_others_alone(name):
    model = DPMACPCA(machine=Machine(memory=99))
    same, text = heard(lambda: model.set_params(**{name: VALUES[name]}, epsilon=3.0))
    assert same is model
    assert f"set_params(machine__{name}=...)" in text
    assert (model.machine, model.epsilon) == (Machine(memory=99, **{name: VALUES[name]}), 3.0)


@pytest.mark.parametrize("name", MOVED)
def test_an_old_attribute_is_read_and_written_where_the_value_is_now(name):
    model = DPMACClassifier(machine=Machine(memory=99))
    heard(lambda: setattr(model, name, VALUES[name]))
    assert model.machine == Machine(memory=99, **{name: VALUES[name]})
    assert heard(lambda: getattr(model, name))[0] == VALUES[name]
    assert heard(lambda: getattr(DPMACClassifier(), name))[0] == getattr(Machine(), name)


def test_a_pickle_from_before_has_its_machine():
    model = DPMACPCA(epsilon=3.0)
    before = {**model.__getstate__(), "device": "cuda", "world": None}
    del before["machine"]
    again = DPMACPCA.__new__(DPMACPCA)
    again.__setstate__(before)
    assert again.get_params() == DPMACPCA(epsilon=3.0, machine=Machine(device="cuda")).get_params()
    assert "device" not in vars(again)


def test_several_old_names_are_one_warning():
    model, text = heard(lambda: DPMACClassifier((3,), threads=2, progress=False))
    assert text.startswith(
        "threads, progress of DPMACClassifier: give machine=dpmac.Machine(threads=..., progress=...)"
    )
    assert (model.machine, model.hidden_layer_sizes) == (Machine(threads=2, progress=False), (3,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_bad_value_is_refused_by_its_own_name():
    with pytest.raises(ArgumentError, match="threads=0: give a number of threads"):
        DPMACClassifier(threads=0)
