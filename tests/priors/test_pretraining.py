"""A drawn start: better than random weights, the same for the same arguments, computed once, and never private."""

from __future__ import annotations

import pytest
import torch

from dpmac import ArgumentError
from dpmac.extensions.provenance import PUBLIC, mark, origin_of
from dpmac.nets import DenseNetwork
from dpmac.nets.feature_maps import Affine, ToRange
from dpmac.priors import DrawnStart, PicturePrior, Pretraining, PublicRows, pretraining
from dpmac.randomness import SeededNoise
from hiding import RELEASED

STROKES = PicturePrior(16, 16, style="strokes", white=1.0)
SHORT = Pretraining(rows=512, steps=30, batch_size=64)


def network(code=8, seed=0):
    return DenseNetwork([256, 32, code, 32, 256], "elu", source=SeededNoise(seed))


def missed(model, rows):
    with torch.no_grad():
        return float((model(rows) - rows).square().sum(dim=1).mean())


@pytest.fixture(autouse=True)
def _forgotten():
    pretraining._known.clear()


def test_it_gives_back_drawn_rows_that_it_did_not_see_better_than_their_mean_does():
    started = network()
    DrawnStart(STROKES, Pretraining(rows=1_000, steps=150, batch_size=64)).load_into(started)
    unseen = STROKES.drawn(1_200)[1_000:]
    assert missed(started, unseen) < 0.6 * float((unseen - unseen.mean(dim=0)).square().sum(dim=1).mean())


def test_the_same_start_is_the_same_weights_whatever_the_network_had_and_is_computed_once(monkeypatch):
    first, second, other = network(), network(seed=1), network()
    start = DrawnStart(STROKES, SHORT)
    start.load_into(first)
    monkeypatch.setattr(pretraining, "_trained", None)  # a second training would fail
    start.load_into(second)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    monkeypatch.undo()
    pretraining._known.clear()
    start.load_into(other)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    "changed",
    [
        DrawnStart(PicturePrior(16, 16, style="strokes", white=1.0, seed=1), SHORT),
        DrawnStart(STROKES, Pretraining(rows=512, steps=30, batch_size=64, seed=1)),
        DrawnStart(STROKES, Pretraining(rows=512, steps=31, batch_size=64)),
    ],
)
def test_other_arguments_give_other_weights(changed):
    first, second = network(), network()
    DrawnStart(STROKES, SHORT).load_into(first)
    changed.load_into(second)
    assert not torch.equal(first.weight_layers[0].weight, second.weight_layers[0].weight)


def test_drawn_rows_pass_the_feature_map_first():
    seen, raw = network(), network()
    DrawnStart(STROKES, SHORT).load_into(seen, ToRange(0.0, 1.0))
    DrawnStart(STROKES, SHORT).load_into(raw)
    rows = STROKES.drawn(64)
    assert missed(seen, 2 * rows - 1) < missed(raw, 2 * rows - 1)


def test_a_network_remembered_is_not_changed_by_what_becomes_of_the_one_that_it_was_made_for():
    first, second = network(), network()
    start = DrawnStart(STROKES, SHORT)
    start.load_into(first)
    kept = first.weight_layers[0].weight.clone()
    with torch.no_grad():
        first.weight_layers[0].weight.zero_()
    start.load_into(second)
    assert torch.equal(second.weight_layers[0].weight, kept)


def test_it_says_what_was_drawn_and_how_much():
    assert "512 rows of pictures (strokes) of 16 x 16 pixels" in DrawnStart(STROKES, SHORT).note(256)
    assert DrawnStart(STROKES).rows(256) == 195_312  # 200 MB
    assert DrawnStart(STROKES).rows(10**9) == 2


def test_a_prior_that_a_release_has_shaped_is_refused_and_a_feature_map_leaves_its_trace():
    shaped = Affine(0.5)
    mark(shaped, RELEASED.origin)
    brought = PublicRows(torch.rand(10, 256), "made up")
    brought.rows_of = shaped
    with pytest.raises(ArgumentError, match="private rows have shaped it"):
        DrawnStart(brought)
    started = network()
    DrawnStart(STROKES, SHORT).load_into(started, shaped)
    assert origin_of(started) == RELEASED.origin
    plain = network()
    DrawnStart(STROKES, SHORT).load_into(plain, Affine(0.5))
    assert origin_of(plain) == PUBLIC


def test_why_what_has_shaped_the_drawn_rows_is_public_is_said_of_the_network():
    """Such as a generator that was trained on rows of other people: a statement must say on whose word that is."""

    shaped, started = network(), network()
    mark(shaped, RELEASED.origin)
    drawn = PicturePrior(16, 16, style="strokes", white=1.0)
    drawn.generator = shaped.as_public("rows of another hospital")
    DrawnStart(drawn, SHORT).load_into(started)
    assert origin_of(started).declared == ("rows of another hospital",)
    assert not origin_of(started)


def test_rows_of_another_width_networks_that_are_no_autoencoders_and_odd_numbers_are_refused():
    with pytest.raises(ArgumentError, match="rows of 256 inputs for a network 4"):
        DrawnStart(STROKES, SHORT).load_into(DenseNetwork([4, 2, 4], "elu", source=SeededNoise(0)))
    with pytest.raises(ArgumentError, match="for a network 256"):
        DrawnStart(STROKES, SHORT).load_into(DenseNetwork([256, 2, 3], "elu", source=SeededNoise(0)))
    with pytest.raises(ArgumentError, match="prior='strokes'"):
        DrawnStart("strokes")
    for wrong in ({"rows": 1}, {"steps": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"learning_rate": "fast"}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            Pretraining(**wrong)


def test_rows_that_are_not_finite_are_left_out():
    rows = torch.rand(100, 4)
    rows[::2] = torch.inf
    start = DrawnStart(PublicRows(rows, "made up"), Pretraining(steps=2))
    made = DenseNetwork([4, 2, 4], "elu", source=SeededNoise(0))
    start.load_into(made)
    assert all(bool(torch.isfinite(p).all()) for p in made.parameters())
    with pytest.raises(ArgumentError, match="needs at least 2"):
        DrawnStart(PublicRows(rows[::2], "made up"), SHORT).load_into(made)
