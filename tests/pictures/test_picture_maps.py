"""Feature maps of pictures: sizes, white, rows by themselves, files, and the encoders that come with the package."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import origin_of
from dpmac.nets.feature_maps import Chain, Joined, Whitening, load_feature_map, save_feature_map
from dpmac.pictures import DrawnEncoder, Scattering, shipped
from dpmac.pictures.encoder import Encoder, features, save_encoder
from dpmac.pictures.resizing import Squares, weights_of
from dpmac.pictures.scattering import Wavelets
from dpmac.priors import PicturePrior, WhiteningOptions, directions, whitened
from dpmac.randomness import SeededNoise

ABOUT = {"program": "a test", "trained on": "drawings only", "recipe": {"style": "shapes", "seed": 5}}
WIDTHS = (8, 8, 8, 8, 16)


def rows(count: int = 5, height: int = 28, width: int = 28, channels: int = 1, white: float = 255.0) -> torch.Tensor:
    size = height * width * channels
    return SeededNoise(0).uniform(count * size).reshape(count, size) * white


@pytest.fixture
def encoder_file(tmp_path):
    encoder, draw = Encoder(3, WIDTHS), SeededNoise(1)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(0.3 * draw.normal(parameter.shape))
    save_encoder(encoder, tmp_path / "encoder.safetensors", ABOUT)
    return tmp_path / "encoder.safetensors"


# --- pictures as squares ----------------------------------------------------------------------------------------------


def test_rows_are_pixels_as_arrays_have_them():
    pixels = rows(2, 28, 28, 3).reshape(2, 28, 28, 3)
    found = Squares(28, 28, 3, 255.0, 28, torch.float64)(pixels.flatten(1))
    assert torch.allclose(found, pixels.permute(0, 3, 1, 2) / 255.0)


@pytest.mark.parametrize(
    ("height", "width", "side"), [(8, 8, 28), (64, 64, 28), (28, 20, 32), (100, 37, 28), (56, 56, 28)]
)
def test_other_sizes_are_resized_as_torch_does(height, width, side):
    pixels = rows(2, height, width)
    wanted = F.interpolate(
        pixels.reshape(2, 1, height, width) / 255.0, (side, side), mode="bilinear", antialias=True, align_corners=False
    )
    assert torch.allclose(Squares(height, width, 1, 255.0, side, torch.float64)(pixels), wanted, atol=1e-12)
    assert torch.allclose(weights_of(height, side).sum(dim=0), torch.ones(side, dtype=torch.float64))


def test_what_lies_outside_is_clipped_and_what_is_no_number_stays_none():
    odd = torch.tensor([[-1.0, 0.0, 0.5, 9.0] * 4, [torch.inf] * 15 + [torch.nan]])
    found = Squares(4, 4, 1, 1.0, 4, torch.float64)(odd).flatten(1)
    assert found[0].tolist() == [0.0, 0.0, 0.5, 1.0] * 4
    assert found[1, :15].tolist() == [1.0] * 15
    assert bool(found[1, 15].isnan())


# --- what the maps give -----------------------------------------------------------------------------------------------


def test_scattering_is_the_wavelets_in_groups():
    feature_map = Scattering(28, 28, double=True)
    plain = Wavelets(28, torch.float64)(rows().reshape(5, 28, 28) / 255.0)
    assert torch.allclose(feature_map(rows()), F.group_norm(plain, 27).flatten(1), atol=1e-12)
    assert feature_map.shape_after((784,)) == (81 * 49,)
    assert Scattering(32, 32, 3).shape_after((3_072,)) == (3 * 81 * 64,)
    assert torch.allclose(Scattering(28, 28)(rows()), feature_map(rows()), atol=1e-3)


def test_a_drawn_encoder_gives_its_features(encoder_file):
    from dpmac.pictures.encoder import load_encoder

    feature_map = DrawnEncoder.read(encoder_file, 32, 32)
    pixels = rows(3, 32, 32, 3)
    pictures = pixels.reshape(3, 32, 32, 3).permute(0, 3, 1, 2).float() / 255.0
    with torch.no_grad():
        wanted = features(load_encoder(encoder_file)[0](pictures))
    assert torch.allclose(feature_map(pixels), wanted.double(), atol=1e-4)
    assert feature_map(pixels).dtype == torch.float64
    assert feature_map.shape_after((3_072,)) == (16 * 32,)


def test_many_pictures_are_mapped_as_few_are():
    """Slices of a few pictures are for speed: features are those of one picture at a time."""
    feature_map, _ = DrawnEncoder.sample()
    many = rows(37, 8, 9, 3, 1.0)
    assert torch.allclose(feature_map(many), torch.cat([feature_map(row[None]) for row in many]), atol=1e-10)
    assert feature_map(many[:0]).shape == (0, 16 * 24)


def test_what_it_was_trained_on_is_said(encoder_file):
    feature_map = DrawnEncoder.read(encoder_file, 32, 32)
    said = "it was trained on drawings only (style shapes) by the program a test, seed 5"
    assert said in feature_map.notes()[0]
    assert "encoder.safetensors" not in feature_map.notes()[0]
    assert feature_map.origin.declared  # a file that the user brings is on the user's word
    chain = Chain((Joined((feature_map, Scattering(32, 32, 3))), Whitening(torch.zeros(2), torch.eye(2), "rows")))
    assert said in chain.notes()[0]


def test_both_are_whitened_saved_and_loaded_bit_for_bit(encoder_file, tmp_path, monkeypatch):
    monkeypatch.setattr(directions, "WIDE", 100)
    both = Joined((DrawnEncoder.read(encoder_file, 16, 16), Scattering(16, 16, 3, side=8)))
    chain = whitened(both, PicturePrior(16, 16, 3), WhiteningOptions(directions=7, rows=40))
    save_feature_map(chain, tmp_path / "map.safetensors")
    back = load_feature_map(tmp_path / "map.safetensors")
    pictures = PicturePrior(16, 16, 3, seed=8).drawn(6)
    assert torch.equal(back(pictures), chain(pictures))
    assert chain(pictures).shape == (6, 7)
    assert back.notes() == chain.notes()
    assert origin_of(back) == origin_of(chain)
    assert back.feature_maps[0].feature_maps[0].weights.dtype == torch.float16  # a file of half the size


# --- the encoders that come with the package --------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_the_package_has_an_encoder(channels):
    feature_map = DrawnEncoder.shipped(20, 24, channels)
    found = feature_map(rows(2, 20, 24, channels))
    assert found.shape == (2, feature_map.shape_after((480 * channels,))[0])
    assert bool(torch.isfinite(found).all())
    assert not feature_map.origin.declared
    assert "drawings only" in feature_map.notes()[0]
    assert sum(path.stat().st_size for path in shipped.FOLDER.iterdir()) < 6_000_000


RELEASED = (
    "bb7867c8b83164290cfe4b5af2e68329b5dbace8d69a27fc26fcf390c3e2b411",
    "1fb4ce764fc3e752deb84635473250ac7aab3c690b8f1793bcc507c9865b3370",
)


def test_a_file_names_an_encoder_of_the_package_by_its_checksum(tmp_path):
    feature_map, x = DrawnEncoder.shipped(9, 9, 3), rows(2, 9, 9, 3)
    save_feature_map(feature_map, tmp_path / "small")
    assert (tmp_path / "small").stat().st_size < 5_000
    back = load_feature_map(tmp_path / "small")
    assert torch.equal(back(x), feature_map(x))
    assert back.arguments() == feature_map.arguments()
    feature_map.weights[0] += 1.0
    save_feature_map(feature_map, tmp_path / "whole")
    assert (tmp_path / "whole").stat().st_size > 2_000_000
    assert torch.equal(load_feature_map(tmp_path / "whole")(x), feature_map(x))
    with pytest.raises(ValueError, match="no encoder of SHA-256 abc comes with this version"):
        DrawnEncoder("abc", (32, 32, 80, 160, 224), "drawings", 9, 9, 3)
    assert set(RELEASED) <= set(shipped.CHECKSUMS.values())  # for ever: saved models name them


def test_an_encoder_with_another_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match="install the package again"):
        DrawnEncoder.shipped(28, 28)
    source = shipped.Path(shipped.__file__).parent / "weights" / "encoder-1.safetensors"
    shutil.copy(source, tmp_path)
    content = bytearray(source.read_bytes())
    content[-1] ^= 1
    (tmp_path / source.name).write_bytes(content)
    with pytest.raises(ValueError, match="not the file that was released"):
        DrawnEncoder.shipped(28, 28)
    monkeypatch.setattr(shipped, "CHECKSUMS", {})
    with pytest.raises(ArgumentError, match="channels=1: no encoder for that comes with this version"):
        DrawnEncoder.shipped(28, 28)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Scattering(28, 28, 2), "channels"),
        (lambda: Scattering(0, 28), "height"),
        (lambda: Scattering(28, 5_000), "width"),
        (lambda: Scattering(28, 28, white=0.0), "white"),
        (lambda: Scattering(28, 28, side=7), "side"),
        (lambda: DrawnEncoder(torch.zeros(5), WIDTHS, "drawings", 28, 28), "weights"),
        (lambda: DrawnEncoder([1.0], WIDTHS, "drawings", 28, 28), "weights"),
        (lambda: DrawnEncoder(torch.zeros(5), (8, 8), "drawings", 28, 28), "widths"),
        (lambda: DrawnEncoder(torch.zeros(5), WIDTHS, " ", 28, 28), "trained_on"),
    ],
)
def test_bad_arguments_are_named(make, name):
    with pytest.raises(ArgumentError, match=name):
        make()


def test_weights_that_are_not_finite_are_refused():
    feature_map, _ = DrawnEncoder.sample()
    given = feature_map.arguments()
    given["weights"] = torch.full_like(given["weights"], torch.nan)
    with pytest.raises(ArgumentError, match="not finite"):
        DrawnEncoder(**given)
