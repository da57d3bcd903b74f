"""When processes are one world, what is started for them, and that it always ends (with a stand-in for torch)."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.training import distributed


class Started:
    """Stands for torch.distributed, and writes down what is asked of it."""

    def __init__(self, available=True, initialized=False):
        self.available, self.initialized, self.asked = available, initialized, []

    def is_available(self):
        return self.available

    def is_initialized(self):
        assert self.available
        return self.initialized

    def init_process_group(self, kind, timeout):
        self.asked.append(("init", kind, timeout))

    def new_group(self, backend, timeout):
        self.asked.append(("words", backend, timeout))
        return "words"

    def destroy_process_group(self):
        self.asked.append(("destroy",))


class World:
    """What stands for Together."""

    made: list[World] = []  # noqa: RUF012

    def __init__(self, *groups):
        self.groups, self.left = groups, False
        self.made.append(self)

    def leave(self):
        self.left = True


@pytest.fixture
def started(monkeypatch):
    """Stand in for torch.distributed in a process with these variables."""

    def start(size=None, local=None, **fields):
        talk = Started(**fields)
        for name, value in (("WORLD_SIZE", size), ("LOCAL_RANK", local)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(distributed, "distributed", talk)
        monkeypatch.setattr(distributed, "ProcessGroup", World)
        return talk

    return start


@pytest.mark.parametrize(("size", "available"), [(None, True), (1, True), (2, False), (None, False)])
def test_one_process_is_alone_and_nothing_is_started(started, size, available):
    talk = started(size, available=available)
    with distributed.together() as world:
        assert world is SINGLE_PROCESS
    assert talk.asked == []


@pytest.mark.parametrize("ends", [True, False])
def test_what_is_started_here_ends_here_however_the_work_ends(started, ends):
    talk, wait = started(2), timedelta(seconds=7)
    try:
        with distributed.together(patience=7.0) as world:
            assert world.groups == (None, "words")
            assert not world.left
            if not ends:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert not ends
    assert world.left
    assert talk.asked == [("init", "gloo", wait), ("words", "gloo", wait), ("destroy",)]


@pytest.mark.parametrize("size", [None, 1, 2])
def test_a_group_that_was_started_elsewhere_is_used_and_left_open(started, size):
    talk = started(size, initialized=True)
    with distributed.together() as world:
        assert isinstance(world, World)
    assert world.left
    assert [asked[0] for asked in talk.asked] == ["words"]


@pytest.mark.parametrize(("local", "takes"), [(None, 0), (1, 1)])
def test_every_process_takes_the_gpu_of_its_local_rank(started, monkeypatch, local, takes):
    talk, taken = started(2, local), []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    with distributed.together("cuda"):
        pass
    assert taken == [takes]
    assert [asked[:2] for asked in talk.asked] == [("init", "nccl"), ("words", "gloo"), ("destroy",)]


def test_more_processes_than_gpus_are_refused_before_anything_is_started(started, monkeypatch):
    talk = started(3, 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ArgumentError, match=r"^LOCAL_RANK=2.*2 GPUs"), distributed.together("cuda:0"):
        pass
    assert talk.asked == []
