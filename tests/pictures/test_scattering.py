"""Scattering: the numbers of another implementation, and what wavelets must do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from make_kymatio import SIDES, squares

from dpmac.pictures.scattering import CHANNELS, Wavelets, halved
from dpmac.pictures.wavelets import low_pass, wavelets

THEIRS = json.loads(Path(__file__).with_name("kymatio.json").read_text())


@pytest.mark.parametrize("side", SIDES)
def test_the_numbers_are_kymatios(side):
    """Kymatio 0.3 takes 3.1415 for pi: so all its filters but the average's sum are 3e-5 too large."""
    ours = Wavelets(side, torch.float64)(squares(side))
    assert ours.shape == (2, CHANNELS, side // 4, side // 4)
    if side != SIDES[0]:
        ours = ours[:, :, -1, 1]
    theirs = torch.tensor(THEIRS[str(side)], dtype=torch.float64)
    assert torch.allclose(ours.flatten(), theirs, rtol=1.2e-4, atol=1e-6)


def test_single_precision_is_near():
    rows = squares(28)
    exact, quick = (Wavelets(28, dtype)(rows) for dtype in (torch.float64, torch.float32))
    assert quick.dtype == torch.float32
    assert torch.allclose(quick.double(), exact, atol=1e-6)


def test_products_give_what_fft_gives():
    """What an exported program computes."""
    maps = Wavelets(16, torch.float64)
    padded = torch.nn.functional.pad(squares(16).double()[:, None], maps.padding, mode="reflect")
    for one, other in zip(maps._by_fft(padded), maps._by_products(padded), strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_a_plain_picture_has_its_grey_and_nothing_else():
    """Wavelets have sum 0; the average has sum 1, but for what the bell's copies leave out."""
    found = Wavelets(16, torch.float64)(torch.full((1, 16, 16), 0.6))[0]
    assert torch.allclose(found[0], torch.full((4, 4), 0.6, dtype=torch.float64), atol=2e-3)
    assert float(found[1:].abs().max()) < 1e-12
    assert all(abs(one).max() < 1e-12 for one in wavelets(16)[0][:, 0, 0])


def test_a_turned_picture_has_its_angles_turned():
    """A quarter turn moves the eight angles, which cover half a turn, by four."""
    rows = squares(28)[:1]
    plain = Wavelets(28, torch.float64)(rows)[0, 1:17].reshape(2, 8, -1).mean(dim=2)
    turned = Wavelets(28, torch.float64)(torch.rot90(rows, 1, (1, 2)))[0, 1:17].reshape(2, 8, -1).mean(dim=2)
    assert torch.allclose(turned, plain.roll(4, dims=1), rtol=0.08)  # the border is padded by one pixel less on a side
    assert not torch.allclose(turned, plain, rtol=0.08)


def test_every_second_pixel_in_fourier():
    picture = squares(8)
    assert torch.allclose(halved(torch.fft.fft2(picture)), torch.fft.fft2(picture[:, ::2, ::2]))


def test_the_average_is_kept_at_every_fourth_place():
    assert low_pass(36, 0).shape == (36 * 36, 49)
    assert low_pass(36, 1).shape == (18 * 18, 49)
    assert np.allclose(low_pass(36, 0).sum(axis=0), 1.0, atol=5e-3)
