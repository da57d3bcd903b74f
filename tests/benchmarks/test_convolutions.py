"""The convolutional networks of ``benchmarks/convolutions.py``: their views, and that a row with views is one row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from dpmac.data import Dataset
from dpmac.modules import Task, settled
from dpmac.modules.step import ModuleStep
from dpmac.privacy import JointClip
from dpmac.privacy.parts import SLACK
from dpmac.randomness import SeededNoise


@pytest.fixture
def convolutions(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import convolutions

    return convolutions


def rows(n=5, side=12):
    draw = SeededNoise(1)
    return draw.uniform(n * side**2).view(n, -1).float(), (draw.uniform(n) * 10).long()


def test_views_are_the_picture_shifted_and_a_row_s_stand_together(convolutions):
    network = convolutions.ConvNet(views=4, side=12)
    pictures = rows()[0].view(-1, 1, 12, 12)
    views = network.shifted(pictures, convolutions.SHIFTS).unflatten(0, (5, 4))
    assert torch.equal(views[:, 0], pictures)
    assert torch.equal(views[:, 1, :, 1:, 1:], pictures[:, :, :-1, :-1])  # down and right
    assert torch.equal(views[:, 2, :, :-1, :-1], pictures[:, :, 1:, 1:])
    assert torch.equal(views[:, 3, :, 1:, :-1], pictures[:, :, :-1, 1:])
    assert not views[:, 1, :, 0].any()


def test_a_row_with_views_has_one_gradient_the_mean_over_them_and_is_clipped_once(convolutions):
    torch.manual_seed(0)
    network = convolutions.ConvNet(standardised=True, views=4, side=12)
    x, y = rows()
    found = settled(Task(network, convolutions.mean_over_views, None), (x[:1], y[:1]), SeededNoise(3))
    with torch.no_grad():
        parts = found.parts(x, y)
    for n in range(len(x)):
        views = network.shifted(x[n : n + 1].view(-1, 1, 12, 12), convolutions.SHIFTS).flatten(1)
        alone = convolutions.ConvNet(standardised=True, views=1, side=12)  # sees a view as if it were a row
        alone.load_state_dict(network.state_dict())
        losses = [convolutions.mean_over_views(alone(view[None]), y[n : n + 1]) for view in views]
        expected = torch.autograd.grad(torch.cat(losses).mean(), list(alone.parameters()))
        for part, gradient in zip(parts, expected, strict=True):
            torch.testing.assert_close(
                part.explicit()[n].flatten(), gradient.flatten().double(), rtol=1e-4, atol=1e-6, check_dtype=False
            )
    with torch.no_grad():
        clipped = ModuleStep(found, JointClip(0.01)).bounded(x, y)
    norms = torch.stack([part.norms() for part in clipped]).square().sum(dim=0).sqrt()
    assert norms.shape == (5,)  # rows, not views
    assert 0.0098 <= float(norms.min()) <= float(norms.max()) <= 0.01 * (1 - SLACK / 2)


def test_filters_have_mean_zero_and_length_one(convolutions):
    conv = convolutions.StandardisedConv2d(3, 4, 5, padding=4)
    spikes = torch.zeros(3, 3, 5, 5)
    spikes[range(3), range(3), 2, 2] = 1.0  # the answer to a spike is a channel of the filter
    with torch.no_grad():
        filters = (conv(spikes) - conv.bias[:, None, None]).transpose(0, 1).flatten(1)
    assert filters.sum(dim=1).abs().max().item() < 1e-5
    torch.testing.assert_close(filters.square().sum(dim=1), torch.ones(4), atol=1e-3, rtol=0)


def test_the_program_fits_once_and_prints_what_it_kept(convolutions, monkeypatch, capsys, tmp_path):
    x, y = rows(n=60, side=28)
    data = Dataset("mnist", x, y, x[:20], y[:20], (28, 28), "here")
    monkeypatch.setattr(convolutions, "load", lambda name, path: data)
    given = ["convolutions", "--out", str(tmp_path), "--epochs", "2", "--batch-size", "20", "--version", "group norm"]
    monkeypatch.setattr(sys, "argv", given)
    threads = torch.get_num_threads()
    try:
        convolutions.main()
        shown = capsys.readouterr().out
        assert shown.startswith("group norm, epsilon 2 (stated ")
        (kept,) = [json.loads(line) for line in (tmp_path / "mnist.jsonl").read_text().splitlines()]
        assert 1.9 < kept["stated"] <= 2.0
        monkeypatch.setattr(convolutions, "fit", None)
        convolutions.main()
        assert capsys.readouterr().out == shown
    finally:
        torch.set_num_threads(threads)
