"""Threads: one for small steps, idle cores for large ones, what the user says, and nothing left behind."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from dpmac import DPMACClassifier, Machine
from dpmac.checks import ArgumentError
from dpmac.training import threads
from dpmac.training.threads import SMALL, step_work, threads_for, using


@pytest.mark.parametrize(
    ("cores", "busy", "wanted"), [(8, 0.2, 4), (8, 5.7, 2), (8, 30.0, 1), (2, 0.0, 2), (1, 0.0, 1)]
)
def test_large_steps_take_the_cores_without_work(cores, busy, wanted, monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    monkeypatch.setattr(threads, "_busy", lambda: busy)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert threads_for(10 * SMALL) == wanted
    assert threads_for(0.9 * SMALL) == 1


def test_where_the_system_does_not_say_all_cores_are_idle(monkeypatch):
    def unknown():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", unknown)
    assert threads._busy() == 0.0
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert threads._cores() == (os.cpu_count() or 1)


def test_work_is_three_products_a_layer():
    assert step_work((5, 4, 3), 10) == 3 * 2 * 10 * (5 * 4 + 4 * 3)


def test_the_setting_is_put_back_whatever_happens():
    before = torch.get_num_threads()
    inside = []

    def fail():
        with using(before + 1):
            inside.append(torch.get_num_threads())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert inside == [before + 1]
    assert torch.get_num_threads() == before


def test_a_fit_takes_what_it_is_told(monkeypatch):
    seen = []
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    x = np.linspace(-1, 1, 64).reshape(-1, 1)
    DPMACClassifier(machine=Machine(threads=3), epochs=1, random_state=0).fit(x, x[:, 0] > 0)
    assert seen[0] == 3
    assert seen[-1] == torch.get_num_threads()
    with pytest.raises(ArgumentError, match="threads=0: give a number of threads"):
        Machine(threads=0)
