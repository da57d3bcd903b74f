"""Which device a draw is made on, without having one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from dpmac.kernels import chacha


@pytest.mark.parametrize(("asked", "given"), [("cuda", "cuda:3"), ("cuda:1", "cuda:1"), ("cpu", "cpu")])
def test_noise_is_made_on_the_device_that_was_asked_for_or_else_the_current_one(asked, given, monkeypatch):
    """A kernel has shown that it is right on one device, by its number: no other may be taken for it."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(chacha, "kernel_for", lambda device: f"the kernel of {device}")
    kernel = f"the kernel of {given}" if asked != "cpu" else None
    assert chacha._maker(torch.device(asked)) == (torch.device(given), kernel)


def test_without_a_kernel_steps_are_those_of_plain_torch(monkeypatch):
    key, device = bytes(range(32)), torch.device("cpu")
    monkeypatch.setattr(chacha, "fresh_key", lambda: key)
    assert torch.equal(chacha.steps_on(device, 99, 20), chacha.steps(key, 99, 20, device))


def test_a_block_is_that_of_the_published_cipher():
    """The first test vector of RFC 8439 (A.1): a key, a nonce and a counter of zeros."""
    published = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert chacha.block_of(bytes(32), 0).hex() == published


def test_where_there_is_a_kernel_it_draws(monkeypatch):
    """By a fresh key, on the device that it was checked on."""
    drawn = []
    kernel = SimpleNamespace(drawn=lambda *given: drawn.append(given) or "its draws")
    monkeypatch.setattr(chacha, "_maker", lambda device: ("here", kernel))
    monkeypatch.setattr(chacha, "fresh_key", lambda: b"fresh")
    assert chacha.gaussians_on(torch.device("cuda"), 9) == "its draws"
    assert drawn == [(b"fresh", 9, "here")]
