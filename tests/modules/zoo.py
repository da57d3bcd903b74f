"""Thirty and more modules, each with a loss that gives one number a row and a function that makes rows for it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.randomness import SeededNoise

CROSS_ENTROPY = partial(F.cross_entropy, reduction="none")
WORDS, LENGTH, CLASSES = 11, 6, 3


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().flatten(1).mean(dim=1)


def per_token(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(dim=1)


@dataclass(frozen=True)
class Sample:
    """A module, its loss, and made-up tables for it."""

    module: nn.Module
    loss: Callable[..., Tensor]
    rows: Callable[[int, int], tuple[Tensor, ...]]  # how many, and a seed
    names: tuple[str, ...] | None = None
    opacus: bool = False  # whether Opacus can do it


def numbers(rows: int, seed: int, *shape: int) -> Tensor:
    return SeededNoise(seed, "/zoo").normal((rows, *shape)).float()


def whole(rows: int, seed: int, below: int, *shape: int) -> Tensor:
    size = rows
    for one in shape:
        size *= one
    return (SeededNoise(seed, "/whole").uniform(size) * below).long().reshape(rows, *shape)


def images(*shape: int):
    return lambda rows, seed: (numbers(rows, seed, *shape), whole(rows, seed, CLASSES))


def words(rows: int, seed: int) -> tuple[Tensor, ...]:
    return whole(rows, seed, WORDS, LENGTH), whole(rows, seed + 1, CLASSES)


def vectors(width: int):
    return lambda rows, seed: (numbers(rows, seed, width), whole(rows, seed, CLASSES))


class Residual(nn.Module):
    def __init__(self, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(2, channels)
        self.two = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.last = nn.GroupNorm(2, channels)
        self.short = nn.Conv2d(channels, channels, 1, stride, bias=False)

    def forward(self, x):
        inner = self.last(self.two(F.relu(self.norm(self.one(x)), inplace=True)))
        return F.relu(inner + self.short(x))


class Views(nn.Module):
    """Three shifted copies of each picture, through a convolution of standardised weights: logits of every view."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, bias=False)
        self.norm = nn.GroupNorm(2, 4)
        self.out = nn.Linear(36, CLASSES)

    def forward(self, x):
        views = torch.stack([x, x.roll(1, dims=2), x.roll(-1, dims=3)], dim=1).flatten(0, 1)
        centred = self.conv.weight - self.conv.weight.mean(dim=(1, 2, 3), keepdim=True)
        weight = centred / (centred.square().sum(dim=(1, 2, 3), keepdim=True) + 1e-4).sqrt()
        inner = torch.tanh(self.norm(F.conv2d(views, weight)))
        return self.out(inner.flatten(1)).unflatten(0, (len(x), 3))


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM, batch_first=True, **more) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.table = nn.Embedding(WORDS, 5, padding_idx=0)
        self.layer = kind(5, 4, batch_first=batch_first, **more)
        self.out = nn.Linear(4 * (1 + more.get("bidirectional", False)), CLASSES)

    def forward(self, tokens):
        x = self.table(tokens)
        found, _ = self.layer(x if self.batch_first else x.transpose(0, 1))
        return self.out(found.mean(dim=1 if self.batch_first else 0))


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.out = nn.LSTMCell(3, 4), nn.GRUCell(4, 4), nn.Linear(4, CLASSES)

    def forward(self, x):
        state = (x.new_zeros(len(x), 4), x.new_zeros(len(x), 4))
        h = x.new_zeros(len(x), 4)
        for t in range(x.shape[1]):
            state = self.lstm(x[:, t], state)
            h = self.gru(state[0], h)
        return self.out(h)


class Encoder(nn.Module):
    """A transformer encoder, with a table of positions that is looked up for all rows at once."""

    def __init__(self, positions: str = "table", **more) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)
        self.kind = positions
        if positions == "table":
            self.positions = nn.Embedding(LENGTH, 8)
        else:
            self.positions = nn.Parameter(0.1 * numbers(LENGTH, 3, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, **more)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, tokens):
        places = self.positions(torch.arange(LENGTH)) if self.kind == "table" else self.positions
        return self.out(self.layers(self.table(tokens) + places).mean(dim=1))


class ClassToken(nn.Module):
    """Patches, a class token in front, learned positions, attention: a small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, 4)
        self.token = nn.Parameter(numbers(1, 1, 1, 8))
        self.positions = nn.Parameter(0.1 * numbers(1, 2, 5, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True)
        self.scale = nn.Parameter(torch.ones(8))
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x):
        found = self.patches(x).flatten(2).transpose(1, 2)
        found = torch.cat([self.token.expand(len(x), -1, -1), found], dim=1) + self.positions
        return self.out(self.layer(found)[:, 0] * self.scale)


class Masked(nn.Module):
    """Named inputs: tokens and a mask of those to leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, tokens, mask):
        x = self.table(tokens)
        hidden = mask.clone()
        hidden[:, 0] = False
        found, _ = self.attention(x, x, x, key_padding_mask=hidden)
        return self.out(found.mean(dim=1))


class Crossed(nn.Module):
    """Queries of another width than keys and values: separate projections, attention weights in the output."""

    def __init__(self, kdim: int | None = 5) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, kdim=kdim, vdim=kdim, batch_first=True)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, query, memory):
        found, weights = self.attention(query, memory, memory)
        return self.out(found.mean(dim=1)) + weights.square().sum(dim=(1, 2)).unsqueeze(1)


class Pooled(nn.Module):
    """Attention pooling by a query of its own, with matrix products of own parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 6)
        self.query = nn.Parameter(numbers(6, 1, 1))
        self.out = nn.Parameter(numbers(6, 2, CLASSES))

    def forward(self, tokens):
        x = self.table(tokens)
        weights = torch.softmax(x @ self.query, dim=1)
        return (weights * x).sum(dim=1) @ self.out


class Bag(nn.Module):
    def __init__(self, **more) -> None:
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(WORDS, 6, **more), nn.Linear(6, CLASSES)

    def forward(self, tokens):
        return self.out(torch.tanh(self.bag(tokens)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, padding=1)
        self.low = nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        high = F.relu(self.down(x))
        return self.last(torch.cat([high, self.up(F.relu(self.low(high)))], dim=1))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(1, 6, 4, 4), nn.LayerNorm(6)
        self.tokens, self.channels = nn.Linear(4, 4), nn.Linear(6, 6)
        self.out = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.out((x + F.gelu(self.channels(self.norm(x)))).mean(dim=1))


class TiedAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.code, self.back = nn.Linear(7, 4), nn.Parameter(torch.zeros(7))

    def forward(self, x):
        return F.linear(torch.tanh(self.code(x)), self.code.weight.t(), self.back)


class TiedWords(nn.Module):
    """The table of words is also the matrix of the last layer: tokens and positions of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(WORDS, 5), nn.Linear(5, 5)

    def forward(self, tokens):
        return F.linear(torch.tanh(self.inner(self.table(tokens))), self.table.weight)


class Own(nn.Module):
    """Parameters that no layer has, used in ways that no rule knows."""

    def __init__(self) -> None:
        super().__init__()
        self.centres, self.width = nn.Parameter(numbers(4, 1, 5)), nn.Parameter(torch.tensor(0.5))
        self.out = nn.Linear(4, CLASSES)

    def forward(self, x):
        distances = (x.unsqueeze(1) - self.centres).square().sum(dim=2)
        return self.out(torch.exp(-distances * F.softplus(self.width)))


class Shared(nn.Module):
    """One linear layer, used three times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.layer(x))
        return self.out(x)


class Flattened(nn.Module):
    """Positions are put into the rows' dimension and back, as many modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.out = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, CLASSES)

    def forward(self, x):
        flat = self.norm(torch.relu(self.inner(x.reshape(-1, 4))))
        return self.out(flat.reshape(len(x), -1, 6).mean(dim=1))


class Adapted(nn.Module):
    """A frozen linear layer with a small matrix beside it that is trained: LoRA."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(6, 5).requires_grad_(False)
        self.down, self.up = nn.Parameter(numbers(6, 1, 2)), nn.Parameter(0.3 * numbers(2, 2, 5))
        self.out = nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.out(torch.tanh(self.frozen(x) + 0.5 * (x @ self.down @ self.up)))


class TimeFirst(nn.Module):
    """A linear layer on (length, rows, width): its entries are not in the order of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(4, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.out(torch.tanh(self.inner(x.transpose(0, 1))).mean(dim=0))


def chain(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers)


def fresh(name: str) -> Sample:
    """One of the zoo, to be changed as one likes."""
    one = zoo()[name]
    return replace(one, module=copy.deepcopy(one.module))


@cache
def zoo() -> dict[str, Sample]:
    """All of them, of seeded weights, made once: only to be looked at."""
    state = torch.get_rng_state()
    torch.manual_seed(7)
    try:
        return _zoo()
    finally:
        torch.set_rng_state(state)


def _zoo() -> dict[str, Sample]:
    image, small = images(1, 8, 8), images(2, 6, 6)
    flat, norm2 = nn.Flatten, nn.InstanceNorm2d
    sequences = lambda rows, seed: (numbers(rows, seed, 5, 4), whole(rows, seed, CLASSES))  # noqa: E731
    pairs = lambda rows, seed: (numbers(rows, seed, 4, 8), numbers(rows, seed + 1, 3, 5), whole(rows, seed, CLASSES))  # noqa: E731
    alike = lambda rows, seed: (numbers(rows, seed, 4, 8), numbers(rows, seed + 1, 3, 8), whole(rows, seed, CLASSES))  # noqa: E731
    masked = lambda rows, seed: (  # noqa: E731
        whole(rows, seed, WORDS, LENGTH),
        whole(rows, seed + 1, 2, LENGTH).bool(),
        whole(rows, seed, CLASSES),
    )
    again = lambda rows, seed: (numbers(rows, seed, 1, 8, 8), numbers(rows, seed + 1, 1, 8, 8))  # noqa: E731
    ce = CROSS_ENTROPY
    return {
        "linear": Sample(nn.Linear(5, CLASSES), ce, vectors(5), opacus=True),
        "two layers": Sample(chain(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, CLASSES)), ce, vectors(5), opacus=True),
        "in place": Sample(chain(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, CLASSES)), ce, vectors(5)),
        "no bias": Sample(chain(nn.Linear(5, 4, bias=False), nn.Tanh(), nn.Linear(4, CLASSES)), ce, vectors(5)),
        "double": Sample(chain(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, CLASSES)).double(), ce, vectors(5)),
        "small convolutions": Sample(
            chain(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2), flat(), nn.Linear(20, CLASSES)),
            ce,
            image,
            opacus=True,
        ),
        "views of a row, standardised weights": Sample(
            Views(), lambda out, y: per_token(out, y[:, None].expand(-1, 3)), images(1, 5, 5)
        ),
        "residual": Sample(
            chain(nn.Conv2d(1, 4, 3, padding=1), Residual(4), Residual(4, 2), flat(), nn.Linear(64, CLASSES)), ce, image
        ),
        "grouped": Sample(
            chain(nn.Conv2d(2, 6, 3, groups=2), nn.ReLU(), flat(), nn.Linear(96, CLASSES)), ce, small, opacus=True
        ),
        "depthwise": Sample(chain(nn.Conv2d(2, 4, 3, groups=2, bias=False), flat(), nn.Linear(64, CLASSES)), ce, small),
        "dilated": Sample(chain(nn.Conv2d(2, 3, 2, dilation=(2, 3)), flat(), nn.Linear(36, CLASSES)), ce, small),
        "strided, padded": Sample(
            chain(nn.Conv2d(2, 3, (3, 2), (2, 1), (1, 2)), flat(), nn.Linear(3 * 3 * 9, CLASSES)), ce, small
        ),
        "same padding": Sample(
            chain(nn.Conv2d(2, 3, (3, 5), dilation=(2, 1), padding="same"), flat(), nn.Linear(108, CLASSES)), ce, small
        ),
        "circular padding": Sample(
            chain(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), flat(), nn.Linear(108, CLASSES)), ce, small
        ),
        "1d": Sample(
            chain(nn.Conv1d(2, 4, 3, 2, 1), nn.ReLU(), flat(), nn.Linear(20, CLASSES)), ce, images(2, 10), opacus=True
        ),
        "3d": Sample(chain(nn.Conv3d(1, 3, 2, 2), nn.ReLU(), flat(), nn.Linear(24, CLASSES)), ce, images(1, 4, 4, 4)),
        "transposed 1d": Sample(
            chain(nn.ConvTranspose1d(2, 3, 3, 2, groups=1), flat(), nn.Linear(63, CLASSES)), ce, images(2, 10)
        ),
        "transposed, grouped": Sample(
            chain(
                nn.ConvTranspose2d(2, 4, 3, 2, 1, 1, groups=2), norm2(4, affine=True), flat(), nn.LazyLinear(CLASSES)
            ),
            ce,
            small,
        ),
        "U-Net": Sample(UNet(), squared, again),
        "mixer": Sample(Mixer(), ce, image),
        "layer norm": Sample(
            chain(nn.Linear(5, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, CLASSES)), ce, vectors(5), opacus=True
        ),
        "norms of images": Sample(
            chain(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), norm2(4, affine=True), flat(), nn.Linear(64, CLASSES)),
            ce,
            small,
            opacus=True,
        ),
        "RMS norm": Sample(chain(nn.Linear(5, 6), nn.RMSNorm(6), nn.Linear(6, CLASSES)), ce, vectors(5)),
        "LSTM": Sample(Recurrent(), ce, words),
        "LSTM, two layers, both ways": Sample(Recurrent(num_layers=2, bidirectional=True), ce, words),
        "LSTM, time first": Sample(Recurrent(batch_first=False), ce, words),
        "GRU": Sample(Recurrent(nn.GRU), ce, words),
        "GRU, both ways, no bias": Sample(Recurrent(nn.GRU, bidirectional=True, bias=False), ce, words),
        "RNN": Sample(Recurrent(nn.RNN), ce, words),
        "RNN, ReLU": Sample(Recurrent(nn.RNN, nonlinearity="relu"), ce, words),
        "cells": Sample(Cells(), ce, lambda rows, seed: (numbers(rows, seed, 4, 3), whole(rows, seed, CLASSES))),
        "transformer": Sample(Encoder(), ce, words),
        "transformer, own positions": Sample(Encoder("own"), ce, words),
        "vision transformer": Sample(ClassToken(), ce, image),
        "masked attention": Sample(Masked(), ce, masked, names=("tokens", "mask")),
        "cross-attention": Sample(Crossed(), ce, pairs),
        "cross-attention, packed": Sample(Crossed(None), ce, alike),
        "attention pooling": Sample(Pooled(), ce, words),
        "bag": Sample(Bag(), ce, words),
        "bag, sum, padding": Sample(Bag(mode="sum", padding_idx=1), ce, words),
        "bag, max": Sample(Bag(mode="max"), ce, words),
        "tied autoencoder": Sample(TiedAutoencoder(), squared, lambda rows, seed: (numbers(rows, seed, 7),) * 2),
        "tied words": Sample(
            TiedWords(),
            per_token,
            lambda rows, seed: (whole(rows, seed, WORDS, LENGTH), whole(rows, seed + 1, WORDS, LENGTH)),
        ),
        "own parameters": Sample(Own(), ce, vectors(5)),
        "shared": Sample(Shared(), ce, vectors(5)),
        "flattened": Sample(Flattened(), ce, sequences),
        "adapters": Sample(Adapted(), ce, vectors(6)),
        "time first": Sample(TimeFirst(), ce, sequences),
        "weight norm": Sample(
            chain(nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.Tanh(), nn.Linear(4, CLASSES)),
            ce,
            vectors(5),
        ),
    }
