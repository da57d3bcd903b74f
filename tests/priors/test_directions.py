"""The longest directions of many features: near those of the whole covariance."""

from __future__ import annotations

import pytest
import torch

from dpmac.nets.feature_maps import Affine
from dpmac.priors import RangePrior, WhiteningOptions, directions, whitened
from dpmac.priors import whitening as module
from dpmac.randomness import SeededNoise


def spread(rows: int = 600, width: int = 300) -> torch.Tensor:
    """Rows whose eigenvalues fall as those of pictures do, turned at random."""
    draw = SeededNoise(0)
    turn, _ = torch.linalg.qr(draw.normal((width, width)))
    found = draw.normal((rows, width)) / torch.arange(1.0, width + 1) @ turn
    return found - found.mean(dim=0)


def test_the_block_finds_what_the_eigenvalues_are():
    rows = spread()
    values, vectors = directions.longest(rows, 20)
    exact, exact_vectors = torch.linalg.eigh(rows.T @ rows / len(rows))
    assert torch.allclose(values, exact.flip(0)[:20], rtol=1e-3)
    assert torch.allclose(vectors.T @ vectors, torch.eye(20, dtype=torch.float64), atol=1e-9)
    seen = torch.linalg.svdvals(vectors[:, :10].T @ exact_vectors.flip(1)[:, :10])
    assert float(seen.min()) > 0.999  # the same ten directions, up to signs


def test_it_is_the_same_at_every_call_and_in_single_precision_nearly():
    rows = spread()
    once, again = directions.longest(rows, 5), directions.longest(rows, 5)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    single = directions.longest(rows.float(), 5)
    assert torch.allclose(single[0], once[0], rtol=1e-4)


def test_only_where_it_is_much_less_work():
    assert directions.worth_it(4_000, 1_000)
    assert not directions.worth_it(4_000, None)
    assert not directions.worth_it(4_000, 1_950)
    assert not directions.worth_it(500, 10)


def test_the_most_directions_for_which_the_block_pays():
    assert directions.most_worth_it(500) == 0
    for features in (1_501, 4_000, 4_001):
        most = directions.most_worth_it(features)
        assert directions.worth_it(features, most)
        assert not directions.worth_it(features, most + 1)


def test_whitening_is_about_the_same_with_it(monkeypatch):
    prior, options = RangePrior(0.0, 1.0, 60), WhiteningOptions(directions=6, rows=2_000)
    scaled = Affine(0.0, 1.0 / torch.arange(1.0, 61.0))
    rows = prior.drawn(2_000)
    exact = whitened(scaled, prior, options)(rows)
    monkeypatch.setattr(directions, "WIDE", 10)
    monkeypatch.setattr(directions, "_MORE", 20)
    monkeypatch.setattr(module, "_known", type(module._known)())
    found = whitened(scaled, prior, options)(rows)
    assert torch.allclose(found.abs(), exact.abs(), atol=0.02)
    assert float(torch.linalg.vector_norm(found, dim=1).mean()) == pytest.approx(6.0, rel=1e-3)
