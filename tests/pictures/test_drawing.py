"""Drawings: the same on every machine, whole greys, of any size; and shapes that are what they are called."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.pictures import STYLES, Canvas, pictures
from dpmac.pictures import shapes as shapes_module
from dpmac.pictures.fills import waves
from dpmac.pictures.numbers import Quick, Repeatable, between, chosen_with, cosine_and_sine, places
from dpmac.pictures.shapes import SHAPES, arc, box, ellipse, polygon, ring, to_segment
from dpmac.priors.draws import Draws
from dpmac.randomness import SeededNoise


def drawn(style: str, channels: int = 1, height: int = 20, width: int = 24, count: int = 40, seed: int = 0):
    return pictures(Repeatable(Draws(seed, "test")), count, Canvas(height, width, channels, style))


DIGESTS = {
    ("shapes", 1): "e54b575361734b4f",
    ("shapes", 3): "d9f21bf065cc697c",
    ("textures", 1): "76a30c3fdaa2ba38",
    ("textures", 3): "c09ea8285f0d3fe5",
    ("strokes", 1): "20eb8d461d2774e3",
    ("strokes", 3): "8d7995fd862571a2",
    ("mixed", 1): "c7c149e86203d2de",
    ("mixed", 3): "107440519e4ab851",
}


@pytest.mark.parametrize(("style", "channels"), DIGESTS)
def test_the_pictures_are_these_on_every_machine(style, channels):
    """The digests were computed once. A machine that draws others would whiten by others, and train other models."""
    greys = torch.round(drawn(style, channels) * 255.0).numpy().astype(np.uint8)
    assert hashlib.sha256(greys.tobytes()).hexdigest()[:16] == DIGESTS[style, channels]


@pytest.mark.parametrize("style", STYLES)
def test_pictures_are_whole_greys_of_the_size_that_was_asked_for(style):
    for channels, height, width in ((1, 16, 16), (3, 17, 64)):
        found = drawn(style, channels, height, width, count=9)
        assert found.shape == (9, channels, height, width)
        assert found.dtype == torch.float32
        assert float((found * 255.0 - torch.round(found * 255.0)).abs().max()) < 1e-4
        assert 0.0 <= float(found.min()) < float(found.max()) <= 1.0


@pytest.mark.parametrize("style", STYLES)
def test_no_two_pictures_are_alike_and_other_seeds_draw_others(style):
    found = drawn(style).flatten(1)
    assert len(torch.unique(found, dim=0)) == len(found)
    assert not torch.equal(found, drawn(style, seed=1).flatten(1))


def test_one_to_eight_shapes_a_picture_equally_often(monkeypatch):
    """With shapes that cover everything, only the last one is seen: so the greys tell nothing, and counts must."""
    counted = []
    plain = shapes_module.SHAPES[0][0]
    monkeypatch.setattr("dpmac.pictures.drawing.SHAPES", ((plain, 1),))
    monkeypatch.setattr("dpmac.pictures.drawing._cover", lambda n, count, d, x, y, c: _note(counted, count, x))
    for count in (1, 7, 8, 80):
        assert drawn("shapes", count=count).shape[0] == count
    assert counted == [1, sum(1 + 8 * k // 7 for k in range(7)), 36, 360]


def _note(counted, count, x):
    counted.append(count)
    return torch.zeros(count, *x.shape[1:])


def test_strokes_are_white_on_black_and_fill_the_box():
    found = drawn("strokes", height=28, width=28, count=200)[:, 0] > 0.3
    high, wide = found.any(dim=2).sum(dim=1), found.any(dim=1).sum(dim=1)
    assert float((torch.maximum(high, wide) >= 22).float().mean()) > 0.97  # a short straight line may stay short
    assert float((high >= 22).float().mean()) > 0.6
    assert 0.05 < float(found.float().mean()) < 0.4
    assert torch.equal(drawn("strokes", 3)[:, :1], drawn("strokes", 3)[:, 2:])  # white has no colour


def test_colours_are_colours_and_greys_are_grey():
    found = drawn("shapes", 3)
    assert float((found[:, 0] - found[:, 2]).abs().mean()) > 0.05


def test_a_device_draws_for_itself_from_a_seed():
    one, again, other = (pictures(Quick(SeededNoise(seed)), 10, Canvas(16, 16, 3, "mixed")) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("given", "name"),
    [({"height": 15}, "height"), ({"width": 65}, "width"), ({"channels": 2}, "channels"), ({"style": "cats"}, "style")],
)
def test_bad_arguments_are_named(given, name):
    with pytest.raises(ArgumentError, match=name):
        Canvas(**given)


# --- shapes and fills -------------------------------------------------------------------------------------------------


class Fixed:
    """Numbers that are all the same."""

    device = torch.device("cpu")

    def __init__(self, value: float) -> None:
        self.value = value

    def uniform(self, *shape: int) -> torch.Tensor:
        return torch.full(shape, self.value)

    def order(self, count: int) -> torch.Tensor:
        return torch.arange(count)


def grid(side: int = 81) -> tuple[torch.Tensor, torch.Tensor]:
    line = places(side, torch.device("cpu"))
    return line[None, None, :].expand(1, side, side), line[None, :, None].expand(1, side, side)


def test_distances_have_their_signs_and_sizes():
    x, y = grid()
    size = torch.tensor([0.5])
    far = torch.sqrt(x * x + y * y)
    round_one = ellipse(Fixed(1.0), x, y, size)  # both half axes are 0.5
    assert torch.allclose(round_one, far - 0.5, atol=1e-5)
    assert float(round_one[0, 40, 40]) == -0.5
    pen = 0.08 + 0.27 * 0.5
    hollow = ring(Fixed(0.5), x, y, size)
    assert torch.equal(hollow < 0, ellipse(Fixed(0.5), x, y, size).abs() < 0.5 * pen)
    square = box(Fixed(0.0), x, y, size)  # 0.5 by 0.075, with sharp corners
    assert torch.equal(square < 0, (x.abs() < 0.5) & (y.abs() < 0.075))
    assert float(square[0, 0, 0]) == pytest.approx(
        float(((x.abs() - 0.5) ** 2 + (y.abs() - 0.075) ** 2)[0, 0, 0]) ** 0.5
    )


@pytest.mark.parametrize("value", [0.0, 0.4, 0.99])
def test_an_arc_is_as_far_as_its_nearest_point(value):
    x, y = grid(31)
    size, pen = torch.tensor([0.6]), 0.6 * (0.08 + 0.22 * value)
    reach = np.radians(97.5) + (2 * value - 1) * 1.178
    angles = torch.linspace(-reach, reach, 2_001)
    near = torch.sqrt((x[..., None] - 0.6 * torch.cos(angles)) ** 2 + (y[..., None] - 0.6 * torch.sin(angles)) ** 2)
    assert torch.allclose(arc(Fixed(value), x, y, size) + pen, near.amin(dim=-1), atol=2e-3)


def test_polygons_are_convex_and_around_their_middle():
    x, y = grid()
    inside = (
        polygon(Repeatable(Draws(0, "polygon")), x.expand(50, -1, -1), y.expand(50, -1, -1), torch.full((50,), 0.7)) < 0
    )
    assert bool(inside[:, 40, 40].all())
    for row in inside.flatten(0, 1):  # in every line of pixels, inside is one piece
        assert int((row[1:] & ~row[:-1]).sum() + row[0]) <= 1


def test_distance_to_a_piece():
    zero, one = torch.tensor(0.0), torch.tensor(1.0)
    points = torch.tensor([[-1.0, 0.0], [0.5, 2.0], [3.0, 0.0]])
    found = to_segment(points[:, 0], points[:, 1], (zero, zero), (one, zero))
    assert found.tolist() == [1.0, 4.0, 4.0]
    assert to_segment(one, one, (zero, zero), (zero, zero)).item() == 2.0


def test_every_kind_of_shape_covers_something_and_not_everything():
    x, y = grid(32)
    for distance, _ in SHAPES:
        draws = Repeatable(Draws(0, "cover"))
        inside = distance(draws, x.expand(60, -1, -1), y.expand(60, -1, -1), between(draws, 0.2, 0.8, 60)) < 0
        covered = inside.float().mean(dim=(1, 2))
        assert bool((covered > 0).all()), distance.__name__
        assert bool((covered < 0.95).all()), distance.__name__


def test_waves_go_up_and_down_once_a_unit():
    found = waves(torch.tensor([0.0, 0.25, 0.5, 1.0, 7.5]), torch.tensor(1.0))
    assert found.tolist() == [1.0, 0.5, 0.0, 1.0, 0.0]


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [Repeatable(Draws(0, "law")), Quick(SeededNoise(0))], ids=["repeatable", "quick"])
def test_numbers_have_their_laws(numbers):
    found = numbers.uniform(200, 500)
    assert found.dtype == torch.float32
    assert 0.0 <= float(found.min()) < float(found.max()) < 1.0
    assert float(found.mean()) == pytest.approx(0.5, abs=0.005)
    assert float((found < 0.1).float().mean()) == pytest.approx(0.1, abs=0.005)
    assert sorted(numbers.order(9).tolist()) == list(range(9))
    assert float(chosen_with(numbers, 0.3, 50_000).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(between(numbers, 2.0, 3.0, 100).min()) >= 2.0


def test_sines_lie_on_a_grid():
    cosine, sine = cosine_and_sine(torch.linspace(-4, 4, 1_001).double())
    for found in (cosine, sine):
        steps = found.double() * 2.0**20
        assert torch.equal(steps, torch.round(steps))
    assert torch.allclose(cosine**2 + sine**2, torch.ones(1_001), atol=1e-5)
