"""A released thing is found wherever Python can keep it; what cannot be looked into is named, and nothing else is."""

from __future__ import annotations

import builtins
import collections
import contextvars
import dataclasses
import functools
import io
import itertools
import logging
import operator
import pickle
import sqlite3
import sys
import threading
import time
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import FunctionTransformer
from torch import nn

import hiding
from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACClassifier
from dpmac.extensions import contents
from dpmac.extensions import provenance as origins
from dpmac.extensions.provenance import PUBLIC, Origin
from dpmac.mac import FixedPrediction
from dpmac.nets import ACTIVATIONS, DenseNetwork
from dpmac.nets.feature_maps import Affine, load_feature_map, save_feature_map
from dpmac.privacy import Entry, Ledger, Plan, origin_of
from dpmac.randomness import SeededNoise
from dpmac.tables import Number, Schema
from dpmac.training import Trainer
from hiding import BOOK, RELEASED, Bare, Evasive, run_in, weakly

PLACES = {
    "a list in a dictionary": lambda t: {"a": [t]},
    "a dictionary's key": lambda t: {t: 1},
    "a set": lambda t: {1, t},
    "a frozen set": lambda t: frozenset([t]),
    "a deque": lambda t: collections.deque([0, t]),
    "a default dictionary": lambda t: collections.defaultdict(lambda: t),
    "an ordered dictionary": lambda t: collections.OrderedDict(a=t),
    "a chain of maps": lambda t: collections.ChainMap({}, {"a": t}),
    "a mapping proxy": lambda t: types.MappingProxyType({"a": t}),
    "a view of values": lambda t: {"a": t}.values(),
    "a named tuple": lambda t: hiding.Pair(1, t),
    "a name space": lambda t: types.SimpleNamespace(a=t),
    "slots": hiding.Slotted,
    "slots of a base": lambda t: hiding.SlottedBelow(t),
    "an attribute of the class": hiding.of_a_class,
    "an attribute of a base": hiding.of_a_base,
    "an attribute of the metaclass": hiding.of_a_metaclass,
    "a property": hiding.of_a_property,
    "a default of a data class": hiding.of_a_dataclass,
    "an enumeration": hiding.of_an_enum,
    "a cached property": hiding.cached,
    "a cached call": hiding.remembered,
    "an object that answers everything": lambda t: hiding.Evasive(a=t),
    "an object that can fetch": lambda t: hiding.Fetching(a=t),
    "a bound method": lambda t: hiding.Bare(a=t).method,
    "a method of C code": lambda t: {"a": t}.get,
    "a slot's method of C code": lambda t: [t].__getitem__,
    "a partial's argument": lambda t: functools.partial(print, t),
    "a partial's keyword": lambda t: functools.partial(print, end=t),
    "a partial's function": lambda t: functools.partial(lambda: t),
    "a partial method": lambda t: type("Own", (), {"kept": functools.partialmethod(print, t)})(),
    "an object that calls a method": lambda t: operator.methodcaller("run", t),
    "a closure": lambda t: lambda: t,
    "a closure of a closure": hiding.nested,
    "a default": lambda t: lambda x=t: x,
    "a default by keyword": lambda t: lambda *, x=t: x,
    "a function's attribute": hiding.with_attribute,
    "a global that a function names": hiding.by_global,
    "a global that a function within names": hiding.by_global_within,
    "a global of a function that it calls": hiding.by_another_function,
    "a variable of another module": hiding.of_another_module,
    "a variable imported in the function": hiding.imported_within,
    "a module": hiding.module_with,
    "a static method": lambda t: type("Own", (), {"kept": staticmethod(lambda: t)})(),
    "a generator": hiding.started,
    "a generator not begun": lambda t: (one for one in [t]),
    "an asynchronous generator": hiding.not_awaited,
    "an iterator": lambda t: iter([t]),
    "itertools": lambda t: itertools.cycle(itertools.chain([1], itertools.repeat(t))),
    "a map": lambda t: map(functools.partial(print, t), [1]),
    "a weak reference": hiding.weakly(weakref.ref),
    "a weak proxy": hiding.weakly(weakref.proxy),
    "a weak method": hiding.weakly(lambda t: weakref.WeakMethod(t.forward)),
    "weak values": hiding.weakly(hiding.in_weak_values),
    "a weak set": hiding.weakly(lambda t: weakref.WeakSet([t])),
    "a thread's own": hiding.of_a_thread,
    "a context variable": hiding.in_context,
    "a context variable's default": lambda t: contextvars.ContextVar("kept", default=t),
    "an array of objects": lambda t: np.array([None, t], dtype=object),
    "an array with a column of objects": hiding.structured,
    "a cell of such an array": lambda t: hiding.structured(t)[0],
    "an array's attribute": hiding.on_an_array,
    "a frame": lambda t: pd.DataFrame({"a": [1, t]}, dtype=object),
    "a series": lambda t: pd.Series([1, t], dtype=object),
    "an index": lambda t: pd.Index([1, t], dtype=object),
    "what a frame says of itself": hiding.later,
    "a tensor's attribute": hiding.on_a_tensor,
    "a hook": hiding.hooked,
    "a hook of a parameter": hiding.hooked_backward,
    "an attribute that torch does not know": hiding.unregistered,
    "a parametrization": hiding.parametrized,
    "an optimiser": lambda t: torch.optim.SGD([{"params": [torch.ones(1)], "made_by": t}], lr=1.0),
    "a transformer of scikit-learn": lambda t: FunctionTransformer(lambda x: t(x)),
    "a state_dict": lambda t: t.state_dict(),
    "a pickled state_dict": lambda t: pickle.loads(pickle.dumps([t.state_dict()])),
    "an exception": lambda t: ValueError(t),
    "a memory view": lambda t: memoryview(hiding.on_an_array(t)),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_released_thing_is_found_in(place):
    assert origin_of(Bare(piece=PLACES[place](RELEASED))) == RELEASED.origin


@pytest.mark.parametrize("place", [place for place in PLACES if "global" not in place])
def test_a_public_thing_is_not_found_in(place):
    assert origin_of(Bare(piece=PLACES[place](Affine(1.0)))) == PUBLIC


def test_a_global_that_code_does_not_read_is_nothing_to_it():
    """Neither an attribute nor a local variable of that name is the variable of the module."""
    for source in ("def function(x):\n    return x.network", "def function(network):\n    return network"):
        assert origin_of(run_in(source, network=RELEASED)) == PUBLIC
    assert origin_of(run_in("def function(x):\n    return network(x)", network=RELEASED)) == RELEASED.origin


def test_a_hook_of_all_modules_counts_for_each():
    handle = nn.modules.module.register_module_forward_hook(lambda *_: RELEASED)
    try:
        assert origin_of(nn.Linear(1, 1)) == RELEASED.origin
    finally:
        handle.remove()
    assert origin_of(nn.Linear(1, 1)) == PUBLIC


def test_no_code_of_the_object_runs_and_no_iterator_is_used_up():
    numbers = iter([1, 2, 3])
    assert origin_of(Evasive(kept=numbers), weakref.proxy(weakly(lambda t: t)(Evasive(a=1)))) == PUBLIC
    assert list(numbers) == [1, 2, 3]


# --- fits -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class HelpedStep:
    """A Z-step of somebody's own with a network to help it."""

    helper: Any

    def solve(self, network: Any, loss: Any, inputs: Any, targets: Any) -> Any:
        return FixedPrediction().solve(network, loss, inputs, targets)


@dataclasses.dataclass
class LoadingStep:
    """Loads its helper from a file when it is first used."""

    path: Path

    def solve(self, *given: Any) -> Any:
        self.helper = load_feature_map(self.path)
        return FixedPrediction().solve(*given)


@pytest.fixture(scope="module")
def problem():
    return make_problem(rows=40)


def fitted(problem, zstep, ledger=None, **fields):
    plan = Plan(40, 20, 2, 2.0, 1e-5, before=() if ledger is None else ledger.mechanisms())
    book = Ledger() if ledger is None else ledger
    return Trainer(problem.network, problem.loss, plan, zstep, **fields).fit(problem.x, problem.y, ledger=book)


def test_a_slotted_step_with_a_released_network_is_refused_and_with_its_ledger_composes(problem):
    with pytest.raises(ArgumentError, match=r"^zstep=.*private rows have shaped it .*in it\.as_public"):
        fitted(problem, HelpedStep(RELEASED))
    ledger, feature_map = Ledger(), Affine(1.0)
    ledger.append(Entry("mean", 1.0, 1.0))
    feature_map.origin = Origin.of(ledger)
    run = fitted(problem, HelpedStep(feature_map), ledger)
    assert [m.label for m in run.statement().mechanisms] == ["mean", "training step"]
    assert len(run.model.origin) == 3


def test_a_step_that_loads_a_released_network_when_it_is_tried_is_refused_before_anything_is_spent(problem, tmp_path):
    ledger = Ledger()
    save_feature_map(RELEASED, tmp_path / "feature_map")
    trainer = Trainer(problem.network, problem.loss, Plan(40, 20, 2, 2.0, 1e-5), LoadingStep(tmp_path / "feature_map"))
    with pytest.raises(ArgumentError, match=r"^zstep=.*private rows have shaped it"):
        trainer.fit(problem.x, problem.y, ledger=ledger)
    assert len(ledger) == 0


def test_more_objects_than_can_be_looked_through_are_refused_by_name(problem, monkeypatch):
    many = HelpedStep([[number] for number in range(1000)] + [RELEASED])
    monkeypatch.setattr(origins, "_MOST", 500)
    with pytest.raises(ArgumentError, match=r"^zstep='<HelpedStep>'.*more than 500 objects.*tensors or arrays"):
        fitted(problem, HelpedStep([RELEASED] + [[number] for number in range(1000)]))
    monkeypatch.setattr(origins, "_MOST", 2000)
    assert origin_of(many) == RELEASED.origin
    assert origin_of(many, many, list(range(5000)), name="x") == RELEASED.origin  # numbers are not counted


def test_what_cannot_be_looked_into_is_named_in_the_statement_and_in_the_file(problem, tmp_path):
    opaque = torch.jit.script(nn.Linear(1, 1))
    run = fitted(problem, HelpedStep(opaque))
    said = [line for line in run.statement().not_covered() if "could not be looked into" in line]
    assert any("ScriptModule" in line for line in said)
    run.model.save(tmp_path / "model")
    again = DenseNetwork.load(tmp_path / "model")
    assert again.origin.unseen == run.model.origin.unseen
    assert Origin.from_dict(again.origin.to_dict()) == again.origin


def test_an_object_of_unknown_c_code_is_opaque():
    hidden = type("Capsule", (), {})
    assert not contents.is_opaque(hidden)
    capsule = np.random.PCG64().capsule
    assert origin_of([capsule]).unseen == ("builtins.PyCapsule",)
    assert not origin_of([capsule])


def test_what_a_table_is_behind_is_said_of_the_training(problem):
    from dpmac.privacy import PrivateRows

    public = RELEASED.as_public("rows of another hospital")
    table = PrivateRows(problem.x, problem.y).behind(public)
    run = Trainer(problem.network, problem.loss, Plan(40, 20, 2, 2.0, 1e-5)).fit(table)
    assert any("another hospital" in line for line in run.statement().not_covered())


def hidden_in_c():
    """Objects of C code that keep a released network where no collector sees it."""
    array = np.empty(1, dtype=object)
    array[0] = released_network()
    table = pd._libs.hashtable.PyObjectHashTable()
    table.set_item(array[0], 1)
    future = torch.futures.Future()
    future.set_result(array[0])
    connection = sqlite3.connect(":memory:")
    connection.create_function("f", 0, lambda network=array[0]: network)
    return {
        "numpy.flatiter": array.flat,
        "numpy.nditer": np.nditer(array, flags=["refs_ok"]),
        "numpy.broadcast": np.broadcast(array, array),
        "numpy.ndenumerate": np.ndenumerate(array),
        "pandas' table of objects": table,
        "torch.futures.Future": future,
        "sqlite3.Connection": connection,
    }


def released_network():
    return nn.Linear(1, 1)


@pytest.mark.parametrize("name", hidden_in_c())
def test_c_objects_that_may_keep_something_unseen_are_named(name):
    """Found in an attack: whole packages counted as numbers, and their iterators and futures hid a network."""
    assert origin_of([hidden_in_c()[name]]).unseen


def test_a_variable_that_somebody_puts_among_the_builtins_is_found(problem, monkeypatch):
    run = Trainer(problem.network, problem.loss, Plan(len(problem.x), 20, 1, 2.0, 1e-5)).fit(problem.x, problem.y)
    monkeypatch.setattr(builtins, "HIDDEN", run.model, raising=False)

    def uses_it():
        return HIDDEN  # noqa: F821 - a builtin, for once

    assert origin_of(uses_it) == origin_of(run.model) != PUBLIC


# --- no false alarms --------------------------------------------------------------------------------------------------


def test_ordinary_things_are_public_and_nothing_of_them_is_unseen(problem):
    rows = np.random.RandomState(0).normal(size=(50, 3))
    for thing in (
        nn.Transformer(8, 2, batch_first=True),
        torch.compile(nn.Linear(1, 1)),
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        torch.optim.Adam([torch.ones(1, requires_grad=True)]),
        torch.Generator(), torch.float32, torch.device("cpu"), torch.Size([1]), torch.relu, torch.ops.aten.relu,
        nn.functional.gelu, torch.vmap(lambda x: x), torch.no_grad(), *ACTIVATIONS.values(),
        problem.network, problem.loss,
        RandomForestClassifier(3).fit(rows, rows[:, 0] > 0), pd.DataFrame(rows), pd.Timestamp("2020"),
        np.random.RandomState(0), np.random.default_rng(0), np.dtype("f4"), np.float32(1), np.add,
        logging.getLogger("own"), logging.StreamHandler(), threading.Lock(), threading.current_thread(), io.StringIO(),
        DPMACClassifier(), Schema({"a": Number(0, 1)}), SeededNoise(0), BOOK, sys, str, Bare,
    ):  # fmt: skip
        assert origin_of(thing) == PUBLIC, thing


def test_a_logger_of_the_users_own_module_leads_nowhere():
    own = run_in("def function(x):\n    log.info('a')\n    return np.sum(x)", log=logging.getLogger("own"), np=np)
    assert origin_of(own) == PUBLIC


def test_of_a_module_that_a_function_names_only_what_it_names():
    other = types.ModuleType("their_helpers")
    other.network, other.scale = RELEASED, 2.0  # type: ignore[attr-defined]
    assert origin_of(run_in("def function(x):\n    return x * helpers.scale", helpers=other)) == PUBLIC


def test_the_search_takes_little_time():
    network = DenseNetwork((10, *[20] * 20, 2), "relu", source=SeededNoise(0))
    origin_of(network)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        origin_of(network)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.02  # 1.5 ms on a quiet core
