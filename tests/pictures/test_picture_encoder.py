"""The encoder: what it computes, its features, and its file."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.pictures.encoder import Encoder, features, fields, load_encoder, save_encoder, size_of
from dpmac.randomness import SeededNoise

WIDTHS = (8, 16, 8, 16, 24)
ABOUT = {"program": "test", "trained on": "drawings only", "recipe": {"style": "shapes", "seed": 5}}


def small(channels: int = 1) -> Encoder:
    encoder, draw = Encoder(channels, WIDTHS), SeededNoise(channels)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(0.3 * draw.normal(parameter.shape) + float(parameter.dim() == 1))
    return encoder.eval()


def rows(channels: int = 1, side: int = 28) -> torch.Tensor:
    return (
        torch.from_numpy(SeededNoise(9).uniform(3 * channels * side * side).numpy())
        .float()
        .reshape(3, channels, side, side)
    )


@torch.no_grad()
@pytest.mark.parametrize("channels", [1, 3])
def test_it_computes_what_its_layers_do(channels):
    """The oracle: the same layers, called as modules."""
    encoder, x = small(channels), 2.0 * rows(channels) - 1.0
    x = F.relu(encoder.stem_norm(encoder.stem(x)))
    wanted = []
    for block in encoder.stages:
        inner = F.relu(block.first_norm(block.first(x)))
        beside = getattr(block, "shortcut", nn.Identity())(x)
        x = F.relu(block.second_norm(block.second(inner)) + beside)
        wanted.append(x)
    found = encoder(rows(channels))
    assert [tuple(stage.shape[1:]) for stage in found] == [(8, 14, 14), (16, 7, 7), (24, 4, 4)]
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted[1:], strict=True))


@pytest.mark.parametrize("size", [(14, 14), (7, 7), (4, 4), (8, 5), (1, 1), (2, 3)])
def test_fields_are_torchs_adaptive_averages(size):
    stage = SeededNoise(1).normal((3, 5, *size))
    assert torch.allclose(fields(stage), F.adaptive_avg_pool2d(stage, 4).flatten(2), atol=1e-12)


@torch.no_grad()
def test_features_of_a_stage_have_mean_0_and_variance_1():
    found = features(small()(rows()))
    assert found.shape == (3, size_of(WIDTHS))
    for stage in torch.split(found, [16 * width for width in WIDTHS[2:]], dim=1):
        assert torch.allclose(stage.mean(dim=1), torch.zeros(3), atol=1e-5)
        assert torch.allclose(stage.var(dim=1, unbiased=False), torch.ones(3), atol=1e-2)


@torch.no_grad()
def test_a_picture_counts_for_itself():
    encoder, x = small(), rows()
    other = x.clone()
    other[1] = 0.0
    assert torch.equal(features(encoder(x))[::2], features(encoder(other))[::2])


def test_a_file_has_the_weights_in_half_precision_and_what_was_said(tmp_path):
    encoder, path = small(), tmp_path / "encoder.safetensors"
    save_encoder(encoder, path, ABOUT)
    back, about = load_encoder(path)
    assert about == ABOUT
    assert (back.channels, back.widths) == (1, WIDTHS)
    assert not any(parameter.requires_grad for parameter in back.parameters())
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor.half().float())
    assert path.stat().st_size < 2.1 * sum(tensor.numel() for tensor in encoder.state_dict().values()) + 4_000


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "encoder.safetensors"
    save_encoder(small(), path, ABOUT)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"encoder\.safetensors"):
        load_encoder(path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_encoder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("given", "name"), [((2, WIDTHS), "channels"), ((1, (8, 8)), "widths"), ((1, (8, 8, 8, 8, 12)), "widths")]
)
def test_bad_layouts_are_named(given, name):
    with pytest.raises(ArgumentError, match=name):
        Encoder(*given)
