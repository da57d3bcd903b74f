"""Picture features as users get them: of any size, whitened by the same drawings."""

from __future__ import annotations

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.nets.feature_maps import Joined
from dpmac.pictures import DrawnEncoder, Scattering
from dpmac.priors import picture_features

FEW = {"directions": 5, "drawings": 30}


def test_both_for_pictures_of_any_size():
    features = picture_features(20, 24, **FEW)
    inner, last = features.feature_maps
    assert isinstance(inner, Joined)
    assert [type(one) for one in inner.feature_maps] == [Scattering, DrawnEncoder]
    assert features(torch.zeros(2, 480)).shape == (2, 5)
    again = picture_features(8, 8, white=1.0, **FEW).feature_maps[1]
    assert again is last  # whitened once, whatever the size and the white


def test_a_picture_has_the_same_features_whatever_its_white_is():
    grey = torch.rand(2, 784, generator=torch.Generator().manual_seed(0))
    one, other = (picture_features(28, 28, white=white, **FEW)(white * grey) for white in (1.0, 255.0))
    assert torch.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize(("kind", "cls"), [("scattering", Scattering), ("encoder", DrawnEncoder)])
def test_one_of_them_alone(kind, cls):
    features = picture_features(28, 28, 1, kind, **FEW)
    assert isinstance(features.feature_maps[0], cls)
    assert any("encoder" in note for note in features.notes()) == (kind == "encoder")


def test_bad_arguments_are_named():
    with pytest.raises(ArgumentError, match="kind='wavelets': choose one of scattering, encoder, both"):
        picture_features(28, 28, kind="wavelets")
    with pytest.raises(ArgumentError, match="channels=2"):
        picture_features(28, 28, 2)
