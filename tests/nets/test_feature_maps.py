"""Feature maps: public maps of raw rows, in double precision, that belong to the model and are saved with it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.fft import dctn

from contracts import loaded_feature_map
from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import (
    FEATURE_MAPS,
    FLOOR,
    Affine,
    Ball,
    Chain,
    LowFrequencies,
    Projection,
    ToRange,
    load_feature_map,
    save_feature_map,
)
from dpmac.randomness import SeededNoise

NESTED = Chain((Affine(0.5, 2.0), Chain((LowFrequencies(3, 4, 0.25), Ball(torch.zeros(4), 2.0)))))
FROZEN = FEATURE_MAPS["frozen"].sample()[0]
KINDS = {kind: cls.sample() for kind, cls in FEATURE_MAPS.items()} | {
    "nested": (NESTED, (9,)),
    "frozen between": (Chain((Affine(0.5, 2.0), FROZEN, Ball(torch.zeros(8), 2.0))), (9,)),
}


def rows_for(shape, seed=0, rows=7):
    return 2 * SeededNoise(seed).normal((rows, *shape))


# --- what they compute ------------------------------------------------------------------------------------------------


def test_to_range_maps_every_feature_to_its_range_and_clips():
    feature_map = ToRange(torch.tensor([0.0, -2.0]), torch.tensor([16.0, 2.0]))
    rows = torch.tensor([[0.0, -2.0], [16.0, 2.0], [8.0, 0.0], [-1e9, 1e9], [4.0, 1.0]])
    wanted = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-1.0, 1.0], [-0.5, 0.5]], dtype=torch.float64)
    assert torch.equal(feature_map(rows), wanted)


def test_affine_moves_and_stretches_and_finds_its_way_back():
    feature_map = Affine(torch.tensor([1.0, 2.0]), 3.0)
    rows = rows_for((2,))
    assert torch.equal(feature_map(rows), (rows - torch.tensor([1.0, 2.0])) * 3.0)
    assert torch.allclose(feature_map.inverse(feature_map(rows)), rows, atol=1e-12)
    images = torch.ones(2, 1, 3, 3)
    assert torch.equal(Affine(0.5, 2.0)(images), images.double())


def test_low_frequencies_are_the_lowest_cosines_and_find_their_way_back():
    images = rows_for((16,))
    theirs = torch.from_numpy(dctn((images - 0.25).reshape(-1, 4, 4).numpy(), axes=(1, 2), norm="ortho"))
    every = sorted(np.ndindex(4, 4), key=lambda p: (p[0] ** 2 + p[1] ** 2, p))
    feature_map = LowFrequencies(4, 6, 0.25)
    wanted = torch.stack([theirs[:, u, v] for u, v in every[:6]], dim=1)
    assert torch.allclose(feature_map(images), wanted, atol=1e-12)
    assert torch.allclose(LowFrequencies(4, 16, 0.25).inverse(LowFrequencies(4, 16, 0.25)(images)), images)
    inside = feature_map.inverse(feature_map(images))  # what it keeps it gives back, and no more
    assert torch.allclose(feature_map.inverse(feature_map(inside)), inside, atol=1e-12)
    assert not torch.allclose(inside, images, atol=0.1)


def test_a_projection_is_the_ball_and_then_the_codes():
    components = torch.tensor([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    rows, centre = rows_for((3,)), torch.tensor([1.0, 0.0, -1.0])
    inside = Ball(centre, 2.0)(rows)
    moved = (rows - centre) / 2.0
    norms = moved.norm(dim=1, keepdim=True)
    assert (norms > 1).any()
    assert (norms < 1).any()
    assert torch.allclose(inside, moved / norms.clamp(min=1.0), atol=2e-5)
    codes = Projection(components, centre, 2.0)(rows)
    assert torch.equal(codes, inside @ components.T)
    scaled = Projection(components, centre, 2.0, length=3.0)(rows)
    assert torch.allclose(scaled, 3.0 * codes / codes.norm(dim=1, keepdim=True), atol=1e-12)


def test_a_chain_is_one_after_the_other():
    first, second = NESTED.feature_maps
    rows = rows_for((9,))
    assert torch.equal(NESTED(rows), second(first(rows)))
    assert NESTED.shape_after((9,)) == (4,)
    assert NESTED.expensive  # low frequencies are
    assert Chain((Affine(), ToRange(0.0, 1.0))).expensive


@pytest.mark.parametrize(
    "feature_map", [Ball(torch.zeros(3), 0.5, normalise=True), Projection(torch.eye(3), torch.zeros(3), 0.5, True, 2.0)]
)
def test_rows_too_short_to_have_a_direction_give_zeros(feature_map):
    """Below FLOOR of the radius rounding would decide what a row says; above it the row counts in full."""
    row = torch.tensor([[0.48, -0.6, 0.64]], dtype=torch.float64)
    for short in (0.0, 1e-300, 0.99 * FLOOR * 0.5):
        assert not feature_map(short * row).any()
    full = feature_map(1.01 * FLOOR * 0.5 * row)
    assert torch.allclose(full / full.norm(), row)
    for bad in (math.inf, math.nan):
        assert not feature_map(bad * row).any()
    both = feature_map(torch.cat([row, math.nan * row]))
    assert both[0].any()
    assert not both[1].any()


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_rows_are_mapped_in_double(kind):
    feature_map, shape = KINDS[kind]
    rows = rows_for(shape)
    assert feature_map(rows.float()).dtype == torch.float64
    assert torch.equal(feature_map(rows.float()), feature_map(rows.float().double()))
    assert feature_map(rows).shape[1:] == feature_map.shape_after(shape)
    assert not any(parameter.requires_grad for parameter in feature_map.parameters())  # nothing in it is trained
    if "frozen" not in kind:
        assert not list(feature_map.parameters())
    assert feature_map.expensive in (True, False)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_saving_and_loading(kind, tmp_path):
    feature_map, shape = KINDS[kind]
    save_feature_map(feature_map, tmp_path / "front.safetensors")
    back = loaded_feature_map(tmp_path / "front.safetensors", feature_map)
    assert type(back) is type(feature_map)
    assert torch.equal(back(rows_for(shape)), feature_map(rows_for(shape)))
    assert back.shape_after(shape) == feature_map.shape_after(shape)
    plain = {
        name: value
        for name, value in feature_map.arguments().items()
        if not isinstance(value, torch.Tensor | tuple | torch.nn.Module)
    }
    assert {name: back.arguments()[name] for name in plain} == plain


def test_a_file_that_is_not_ours_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"centre": torch.zeros(2)}, str(path))
    with pytest.raises(ValueError, match=r"not a dpmac feature map .*not written by save"):
        load_feature_map(path)
    header = {"format": "dpmac-front-1", "front": {"kind": "wavelets", "arguments": {}}}
    save_file({"centre": torch.zeros(2)}, str(path), metadata={"dpmac": json.dumps(header)})
    with pytest.raises(ValueError, match="a feature map of kind 'wavelets', which this version does not know"):
        load_feature_map(path)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_shape_are_named(kind):
    feature_map, shape = KINDS[kind]
    for bad in ((shape[0] + 1,), (1, *shape)):
        with pytest.raises(ArgumentError, match=r"x='rows of shape \(.*\)': the feature map '.*' needs rows of shape"):
            feature_map.shape_after(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ToRange(1.0, 1.0), r"low, high=\(1.0, 1.0\): .*low < high"),
        (lambda: ToRange(0.0, torch.tensor([1.0, -1.0])), "low, high="),
        (lambda: ToRange(0.0, math.inf), "high=inf: give finite public numbers"),
        (lambda: ToRange("low", 1.0), "low='low': give a public number, or one for each feature"),
        (lambda: ToRange(torch.zeros(1, 2), 1.0), "low, high="),
        (lambda: Affine(math.nan), "centre=nan: give finite"),
        (lambda: Affine(0.0, torch.ones(2, 2)), "centre, scale="),
        (lambda: Ball(torch.zeros(2), 0.0), r"radius=0.0: give a public number above 0"),
        (lambda: Ball(torch.zeros(2), math.nan), "radius=nan"),
        (lambda: Projection(torch.zeros(3), torch.zeros(3), 1.0), r"components='shape \(3,\)': give a matrix \(k, 3\)"),
        (lambda: Projection(torch.eye(3), torch.zeros(3), 1.0, length=0.0), "length=0.0: .*None to leave codes"),
        (lambda: LowFrequencies(0, 1), "side=0"),
        (lambda: LowFrequencies(3, 10), "count=10: give the number of frequencies, from 1 to 9"),
        (lambda: Chain(()), r"feature_maps=\(\): give at least one feature map"),
        (lambda: Chain((Affine(), torch.nn.Identity())), "feature_maps=.*give at least one feature map"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_components_and_centre_must_fit():
    with pytest.raises(ArgumentError, match=r"components='shape \(3, 3\)': give a matrix \(k, 2\)"):
        Projection(torch.eye(3), torch.zeros(2), 1.0)
    with pytest.raises(ArgumentError, match=r"centre='shape \(2, 2\)'"):
        Ball(torch.zeros(2, 2), 1.0)


def test_the_old_name_of_expensive_works_for_one_release():
    with pytest.warns(DeprecationWarning, match="Old.dear is now called expensive"):

        class Old(Affine):
            dear = True

    assert Old.expensive
