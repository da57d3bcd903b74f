"""Shared by all tests: one thread (the suite runs two processes on two cores), and small networks with data."""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

from dpmac.kernels import chacha, streams
from dpmac.nets import AvgPool2d, Conv2d, Dense, DenseNetwork, Flatten, Loss, MaxPool2d, Network, Unflatten, loss
from dpmac.randomness import SeededNoise

torch.set_num_threads(1)
gc.set_threshold(20_000, 20, 20)  # libraries and tests are 700,000 objects: at the usual 700, a twentieth of the time
# The suite draws the same examples every time, as many as mutants are judged by (mutants/machine/profile.py), so that
# no change fails by chance. HYPOTHESIS_PROFILE=explore draws others: ``make fuzz`` does.
_SLOW = [HealthCheck.too_slow]
settings.register_profile("suite", deadline=None, max_examples=25, derandomize=True, suppress_health_check=_SLOW)
settings.register_profile("explore", deadline=None, max_examples=200, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

RAM_DISK = Path("/dev/shm")


def pytest_configure() -> None:
    """Compiled code is kept, interrupts reach the tests, and ``tmp_path`` lies in memory where there is room.

    Without compiled code every process compiles the package anew, and each of the two that run the tests all of them
    too, which doubles what a collection costs; the Makefile says the same. A shell ignores Ctrl-C for what it starts in
    the background, and children inherit that: a test of an interrupt would wait for ever. Ledgers wait for the disk
    after every release, and so did the suite, for a quarter of its time; nothing here takes the power away, so no test
    can tell the difference.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of xdist's processes, which begin after this, and all others
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if RAM_DISK.is_dir() and os.access(RAM_DISK, os.W_OK) and shutil.disk_usage(RAM_DISK).free > 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM_DISK))  # pytest's own name for where tmp_path is made


@dataclass
class Problem:
    """A network in double precision with rows to train on."""

    network: Network
    loss: Loss
    x: Tensor
    y: Tensor


def make_problem(
    sizes: tuple[int, ...] = (5, 7, 6, 4),
    hidden: str = "tanh",
    loss_name: str = "softmax",
    rows: int = 12,
    seed: int = 0,
) -> Problem:
    draw = SeededNoise(seed, "/test")
    return _problem(DenseNetwork(sizes, hidden, source=draw), loss_name, rows, draw)


def make_images(hidden: str = "tanh", loss_name: str = "softmax", rows: int = 12, seed: int = 0) -> Problem:
    """A small convolutional network with every kind of layer: stride, padding, both poolings, in and out of images."""
    draw = SeededNoise(seed, "/test")
    stack = [
        Unflatten((2, 7, 6)),
        Conv2d(2, 3, 3, padding=1),
        hidden,
        MaxPool2d(2, stride=(2, 1)),
        Conv2d(3, 4, (2, 3), stride=(1, 2), padding=(0, 1)),
        hidden,
        AvgPool2d((1, 2), stride=1),
        Flatten(),
        Dense(16, 5),
        hidden,
        Dense(5, 3),
    ]
    return _problem(Network(stack, input_shape=(84,), source=draw), loss_name, rows, draw)


def _problem(network: Network, loss_name: str, rows: int, draw: SeededNoise) -> Problem:
    """Rows for a network, whose biases are made to matter."""
    network.double()
    with torch.no_grad():
        for layer in network.weight_layers:
            layer.bias.copy_(0.3 * draw.normal(layer.bias.shape))
    x = draw.normal((rows, *network.input_shape))
    (outputs,) = network.output_shape
    if loss_name == "squared":
        y = draw.normal((rows, outputs))
    else:
        y = torch.eye(outputs, dtype=torch.float64)[(draw.uniform(rows) * outputs).long()]
    return Problem(network, loss(loss_name), x, y)


@pytest.fixture(scope="session", autouse=True)
def what_is_loaded_is_never_garbage() -> None:
    """Libraries and tests are looked through no more: a whole collection took half a second, wherever it fell."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_table_was_fitted_before() -> None:
    """Tests share a process and rows: none is warned of what another has fitted, or handed out."""
    for name in ("dpmac.estimators.warning", "dpmac.extensions.outputs"):  # not imported here: most tests need neither
        if name in sys.modules:
            sys.modules[name].forget()


@pytest.fixture
def repeatable_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of a law: keys that follow from the test's name in place of the operating system's.

    Code and law are the same, and the test ends the same way every time. Tests of the keys themselves do without.
    """
    count = itertools.count()

    def key() -> bytes:
        return hashlib.shake_256(f"{request.node.nodeid} {next(count)}".encode()).digest(32)

    monkeypatch.setattr(streams, "fresh_key", key)
    monkeypatch.setattr(chacha, "fresh_key", key)


@pytest.fixture
def problem() -> Problem:
    return make_problem()
