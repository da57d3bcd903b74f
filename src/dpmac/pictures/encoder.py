"""A small residual network that turns pictures into features, and its file of weights.

A stem, then four stages of one residual block each: 3 x 3 convolutions with group normalisation, so that every picture
is treated by itself; each stage after the first halves the sides. Features are the last three stages averaged over
4 x 4 fields each, and normalised over the channels of each stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.nets.files import read_tensors, rebuilding, write_tensors

FORMAT = "dpmac-picture-encoder-1"
WIDTHS = (32, 32, 80, 160, 224)  # channels: of the stem and of the four stages
STRIDES = (1, 2, 2, 2)  # of the stages
FIELDS = 4  # the side of the grid over which a stage is averaged
_GROUPS = 8
_TINY = 1e-5


class Block(nn.Module):
    """The weights of two convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(_GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(_GROUPS, outputs)
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)


class Encoder(nn.Module):
    """Pictures (rows, channels, height, width) in [0, 1] to the outputs of the last three stages."""

    def __init__(self, channels: int = 1, widths: Sequence[int] = WIDTHS) -> None:
        super().__init__()
        self.channels, self.widths = check_layout(channels, widths)
        self.stem = nn.Conv2d(channels, self.widths[0], 3, 1, 1, bias=False)
        self.stem_norm = nn.GroupNorm(_GROUPS, self.widths[0])
        steps = zip(self.widths, self.widths[1:], STRIDES, strict=False)
        self.stages = nn.ModuleList([Block(before, after, stride) for before, after, stride in steps])

    def forward(self, pictures: Tensor) -> list[Tensor]:
        return stages_of(pictures, dict(self.named_parameters()))


def check_layout(channels: int, widths: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Raise :class:`ArgumentError` unless there can be such an encoder."""
    if channels not in (1, 3):
        raise ArgumentError("channels", channels, "give 1 for grey pictures or 3 for colours")
    if len(widths) != 5 or any(width < _GROUPS or width % _GROUPS for width in widths):
        raise ArgumentError("widths", tuple(widths), f"give five numbers of channels, multiples of {_GROUPS}")
    return channels, tuple(int(width) for width in widths)


def size_of(widths: Sequence[int]) -> int:
    """How many features a picture has."""
    return FIELDS * FIELDS * sum(widths[2:])


def stages_of(pictures: Tensor, weights: Mapping[str, Tensor]) -> list[Tensor]:
    """What the encoder with these weights computes: each picture by itself."""
    x = F.conv2d(2.0 * pictures - 1.0, weights["stem.weight"], padding=1)
    x = F.relu(_norm(x, weights, "stem_norm"))
    found = []
    for place, stride in enumerate(STRIDES):
        x = _block(x, weights, f"stages.{place}", stride)
        found.append(x)
    return found[1:]


def _block(x: Tensor, weights: Mapping[str, Tensor], name: str, stride: int) -> Tensor:
    inner = F.conv2d(x, weights[f"{name}.first.weight"], stride=stride, padding=1)
    inner = F.relu(_norm(inner, weights, f"{name}.first_norm"))
    inner = _norm(F.conv2d(inner, weights[f"{name}.second.weight"], padding=1), weights, f"{name}.second_norm")
    if f"{name}.shortcut.weight" in weights:
        x = F.conv2d(x, weights[f"{name}.shortcut.weight"], stride=stride)
    return F.relu(inner + x)


def _norm(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    # not F.group_norm, which refuses a group of one number
    return torch.group_norm(x, _GROUPS, weights[f"{name}.weight"], weights[f"{name}.bias"], _TINY)


def features(stages: Sequence[Tensor]) -> Tensor:
    """The features of each picture, flat: averages over 4 x 4 fields, with mean 0 and variance 1 in each stage."""
    return torch.cat([normalised(fields(stage).flatten(1)) for stage in stages], dim=1)


def fields(stage: Tensor) -> Tensor:
    """(rows, channels, h, w) averaged over a grid of 4 x 4 fields, (rows, channels, 16): fields overlap where 4 does
    not divide a side, as in torch's adaptive pooling."""
    down, across = (_pool(side, stage.dtype, stage.device) for side in stage.shape[2:])
    return ((stage @ across).transpose(2, 3) @ down).transpose(2, 3).flatten(2)


def normalised(rows: Tensor) -> Tensor:
    """Each row with mean 0 and variance 1."""
    return F.layer_norm(rows, rows.shape[1:], eps=_TINY)


def _pool(side: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The averages over each field, (side, 4)."""
    found = torch.zeros(side, FIELDS, dtype=torch.float64)
    for field in range(FIELDS):
        begin, end = field * side // FIELDS, -(-(field + 1) * side // FIELDS)
        found[begin:end, field] = 1.0 / (end - begin)
    return found.to(device=device, dtype=dtype)


def save_encoder(encoder: Encoder, path: str | Path, about: dict[str, Any]) -> None:
    """Write the weights in half precision; ``about`` says how they were made."""
    weights = {name: tensor.detach().half() for name, tensor in encoder.state_dict().items()}
    header = {"format": FORMAT, "channels": encoder.channels, "widths": list(encoder.widths), "about": about}
    write_tensors(path, header, weights)


def load_encoder(path: str | Path) -> tuple[Encoder, dict[str, Any]]:
    """What :func:`save_encoder` wrote, in single precision, in evaluation mode; and what was said of it."""
    header, tensors = read_tensors(path, FORMAT, "a picture encoder")
    with rebuilding(path, "picture encoder"):
        encoder = Encoder(header["channels"], header["widths"])
        encoder.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        return encoder.eval().requires_grad_(False), dict(header["about"])
