"""The training of an encoder at toy size: it learns, writes down what it did, and goes on where it stopped."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.pictures import train
from dpmac.pictures.contrastive import Recipe, Training, contrast
from dpmac.pictures.encoder import load_encoder
from dpmac.pictures.numbers import Quick
from dpmac.pictures.views import Views, view
from dpmac.randomness import SeededNoise

TOY = Recipe(side=16, widths=(8, 8, 8, 8, 8), steps=4, batch=6, warm_up=2)
COMMAND = ["--device", "cpu", "--side", "16", "--batch", "8", "--widths", *["8"] * 5, "--channels", "1"]


def same(one: Training, other: Training) -> bool:
    pairs = zip(one.learner.state_dict().values(), other.learner.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_it_goes_on_where_it_stopped_to_the_last_bit():
    """Step t draws by (seed, t): the state of a run is weights and moments alone."""
    whole, first, second, other = (
        Training(TOY),
        Training(TOY),
        Training(TOY),
        Training(Recipe(**{**vars(TOY), "seed": 1})),
    )
    for training, steps in ((whole, 4), (first, 2), (other, 4)):
        for _ in range(steps):
            training.step()
    assert not same(whole, first)
    second.restore(first.state())
    for _ in range(2):
        second.step()
    assert same(whole, second)
    assert whole.tested() == second.tested()
    assert not same(whole, other)


def test_it_learns():
    training = Training(Recipe(side=16, widths=(8, 8, 8, 8, 8), steps=25, batch=16, warm_up=3, learning_rate=0.01))
    before = training.tested()
    for _ in range(25):
        training.step()
    after = training.tested()
    assert after["loss"] < before["loss"] - 0.3
    assert after["found"] > before["found"]


def test_the_rate_rises_and_falls():
    recipe = Recipe(steps=100, warm_up=10, learning_rate=1.0)
    assert [recipe.rate_at(step) for step in (0, 4, 9, 10)] == pytest.approx([0.1, 0.5, 1.0, 1.0])
    assert recipe.rate_at(55) == pytest.approx(0.5)
    assert recipe.rate_at(100) == pytest.approx(0.0)


def test_the_loss_is_that_of_finding_the_other_view():
    """The oracle: one code after the other, in plain numbers."""
    draw = SeededNoise(2)
    codes = torch.nn.functional.normalize(draw.normal((6, 4)), dim=1)
    loss, found = contrast(codes, 0.5)
    wanted = []
    for one in range(6):
        others = torch.tensor([float(codes[one] @ codes[k]) / 0.5 for k in range(6) if k != one])
        pair = float(codes[one] @ codes[(one + 3) % 6]) / 0.5
        wanted.append(float(torch.logsumexp(others, 0)) - pair)
    assert float(loss) == pytest.approx(sum(wanted) / 6)
    perfect = torch.eye(3).repeat(2, 1)
    assert float(contrast(perfect, 0.15)[1]) == 1.0
    assert 0.0 <= float(found) <= 1.0


# --- views ------------------------------------------------------------------------------------------------------------

STILL = Views(turn=0.0, smallest=1.0, largest=1.0, shear=0.0, shift=0.0, gamma=0.0, noise=0.0, blanked=0.0, tint=0.0)


def pictures() -> torch.Tensor:
    place = torch.linspace(0, 1, 20)
    return (place[:, None] * place)[None, None].repeat(50, 1, 1, 1)


def test_views_differ_and_stay_pictures():
    numbers = Quick(SeededNoise(3))
    one, other = view(numbers, pictures(), Views()), view(numbers, pictures(), Views())
    assert one.shape == (50, 1, 20, 20)
    assert float(one.min()) >= 0.0
    assert float(one.max()) <= 1.0
    assert not torch.equal(one, other)
    assert len(torch.unique(one.flatten(1), dim=0)) == 50


def test_views_that_may_not_differ_have_only_another_brightness():
    found = view(Quick(SeededNoise(3)), pictures().clamp(min=0.2, max=0.7), STILL)
    for picture in found:
        seen = torch.corrcoef(torch.stack([picture.flatten(), pictures()[0].clamp(min=0.2, max=0.7).flatten()]))
        assert float(seen[0, 1]) > 0.97  # all but a little stretching


def test_a_square_is_blanked_as_often_as_it_should_be():
    plain = torch.full((400, 1, 20, 20), 0.5)
    found = view(Quick(SeededNoise(4)), plain, Views(**{**vars(STILL), "blanked": 0.5}))
    blanked = (found.flatten(1).amax(dim=1) - found.flatten(1).amin(dim=1)) > 0.02
    assert 0.35 < float(blanked.float().mean()) < 0.6


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_an_encoder_and_its_figures(tmp_path, capsys):
    given = ["--out", str(tmp_path / "new"), "--steps", "3", "--seed", "4", *COMMAND]
    train.main(given)
    found = json.loads((tmp_path / "new" / "encoder-1.json").read_text())
    weights = tmp_path / "new" / "encoder-1.safetensors"
    assert found["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert found["recipe"]["seed"] == 4
    assert found["steps done"] == found["recipe"]["steps"] == 3
    assert set(found["held out"]) == {"loss", "found"}
    encoder, about = load_encoder(weights)
    assert encoder.channels == 1
    assert about["trained on"] == "drawings only"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["encoder-1.json", "encoder-1.safetensors"]
    train.main(given)
    assert "there already" in capsys.readouterr().out


def test_an_interrupted_command_goes_on(tmp_path, monkeypatch, capsys):
    given = ["--steps", "4", *COMMAND]
    train.main(["--out", str(tmp_path / "whole"), *given])
    monkeypatch.setattr(train, "_SAVED", 0.0)
    plain, calls = Training.step, []

    def stopping(training):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(training)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "step", stopping)
        with pytest.raises(KeyboardInterrupt):
            train.main(["--out", str(tmp_path / "cut"), *given])
    with pytest.raises(ArgumentError, match="another recipe"):
        train.main(["--out", str(tmp_path / "cut"), *given, "--seed", "9"])
    train.main(["--out", str(tmp_path / "cut"), *given])
    assert "going on from step 2" in capsys.readouterr().out
    one, other = (load_encoder(tmp_path / name / "encoder-1.safetensors")[0] for name in ("whole", "cut"))
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_with_minutes_the_steps_follow_from_the_speed(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "_TIMED", (1, 3))
    train.main(["--out", str(tmp_path), "--minutes", "0.01", *COMMAND])
    found = json.loads((tmp_path / "encoder-1.json").read_text())
    assert 4 <= found["recipe"]["steps"] < 6_000
    assert found["steps done"] <= found["recipe"]["steps"]
