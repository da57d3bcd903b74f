"""A released thing is found wherever Python can keep it; what cannot be looked into is named, and nothing else is."""

from __future__ import annotations

import dataclasses
import io
import logging
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hiding import BOOK, PLACES, RELEASED, Bare, Evasive, run_in, weakly
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from conftest import make_problem
from dpmac.checks import ArgumentError
from dpmac.estimators import DPMACClassifier
from dpmac.mac import FixedPrediction
from dpmac.nets import ACTIVATIONS, DenseNetwork
from dpmac.nets.fronts import Affine
from dpmac.privacy import Entry, Ledger, Plan, contents, origin_of
from dpmac.privacy import origin as origins
from dpmac.privacy.origin import PUBLIC, Origin
from dpmac.randomness import SeededNoise
from dpmac.tables import Number, Schema
from dpmac.training import Trainer


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


class LoadingStep(FixedPrediction):
    """Loads its helper when it is first used."""

    def solve(self, *given: Any) -> Any:
        object.__setattr__(self, "helper", LOADED[0])
        return super().solve(*given)


LOADED: list[Any] = []


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
    ledger, front = Ledger(), Affine(1.0)
    ledger.append(Entry("mean", 1.0, 1.0))
    front.origin = Origin.of(ledger)
    run = fitted(problem, HelpedStep(front), ledger)
    assert [m.label for m in run.statement().mechanisms] == ["mean", "training step"]
    assert len(run.model.origin) == 3


def test_a_step_that_loads_a_released_network_when_it_is_tried_is_refused_before_anything_is_spent(problem):
    ledger = Ledger()
    LOADED[:] = [RELEASED]
    plan, step = Plan(40, 20, 2, 2.0, 1e-5), LoadingStep()
    trainer = Trainer(problem.network, problem.loss, plan, step)
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


def test_the_search_takes_little_time():
    network = DenseNetwork((10, *[20] * 20, 2), "relu", source=SeededNoise(0))
    origin_of(network)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        origin_of(network)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.02  # 1.5 ms on a quiet core
