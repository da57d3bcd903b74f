"""Which device a draw is made on, without having one."""

from __future__ import annotations

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
