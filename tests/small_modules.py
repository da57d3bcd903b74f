"""Small torch modules for the tests of their estimators."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn


class Small(nn.Module):
    """Numbers of any type, by one hidden layer; one number, or one logit for each class."""

    def __init__(self, width: int = 6, inputs: int | None = None, outputs: int = 2) -> None:
        super().__init__()
        first = nn.Linear(4 if inputs is None else inputs, width)
        self.layers = nn.Sequential(first, nn.Tanh(), nn.Linear(width, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x.to(self.layers[0].weight.dtype))
        return found


class SmallRegression(Small):
    def __init__(self, width: int = 6) -> None:
        super().__init__(width, outputs=1)


class SmallOfThree(Small):
    def __init__(self, width: int = 6) -> None:
        super().__init__(width, outputs=3)


class Words(nn.Module):
    """Tokens with a mask, by attention pooling."""

    def __init__(self, tokens: int = 20, width: int = 4, outputs: int = 2) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, width)
        self.score, self.last = nn.Linear(width, 1), nn.Linear(width, outputs)

    def forward(self, input_ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        vectors = self.table(input_ids)
        scores = self.score(vectors).squeeze(2)
        if mask is not None:
            scores = scores.masked_fill(~mask, -30.0)
        weights = torch.softmax(scores, dim=1)
        found: torch.Tensor = self.last((weights.unsqueeze(2) * vectors).sum(dim=1))
        return found


class Padded(nn.Module):
    """A linear layer for rows of any length up to ``most``, as scikit-learn's checks have them."""

    def __init__(self, outputs: int = 1, most: int = 24) -> None:
        super().__init__()
        self.most, self.last = most, nn.Linear(most, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.to(self.last.weight.dtype).flatten(1)[:, : self.most]
        found: torch.Tensor = self.last(nn.functional.pad(rows, (0, self.most - rows.shape[1])))
        return found


WEIGHED = (
    *("check_sample_weights_list", "check_all_zero_sample_weights_error", "check_sample_weights_not_overwritten"),
    *("check_sample_weight_equivalence_on_dense_data", "check_sample_weights_shape"),
)


def skip_if_weighed(check: functools.partial[None]) -> None:
    """Of scikit-learn's own checks, skip those that fit with unequal weights: a private fit refuses these."""
    if check.func.__name__ in WEIGHED:
        pytest.skip("weights of rows are refused: tests/estimators/test_refused.py")
