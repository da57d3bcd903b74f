"""Where a run stands whose training is done: by what the ledger, the checkpoint and the numbers written down say."""

from __future__ import annotations

import json

import pytest
import torch

from dpmac.planning.plan import STEP
from dpmac.privacy import Entry, Ledger
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.post_training import FORMAT, PostTraining
from group_of_threads import in_threads, values

STEPS = 2


def paid(ledger, count, label=STEP, run="mine"):
    for _ in range(count):
        ledger.append(Entry(label, 1.0, 0.5, run=run, seeded=True))


def ledger_with(post_training):
    """A run's steps and so many releases after them, between those of others."""
    ledger = Ledger()
    paid(ledger, 4, "mean", "another's")
    paid(ledger, STEPS)
    paid(ledger, post_training, "calibration")
    return ledger


@pytest.fixture
def kept(tmp_path):
    found = Checkpoints(tmp_path / "kept")
    found.write({"run": "mine", "done": STEPS, "weights": torch.ones(1)})
    return found


def written(kept, **other):
    kept.after.write_text(json.dumps({"format": FORMAT, "run": "mine", "made": 2, "numbers": [1.5, 0.0], **other}))


def test_without_checkpoints_nothing_is_known_and_nothing_is_written():
    ledger = ledger_with(3)
    found = PostTraining.of(ledger, None, STEPS, seeded=True)
    assert found == PostTraining(ledger)
    assert (found.made, found.known, found.kept, found.lost) == (0, 0, None, 0)
    found.keep(1, [1.0])


@pytest.mark.parametrize(("post_training", "known"), [(3, 2), (2, 2), (1, 1), (0, 0)])
def test_an_unseeded_run_knows_what_was_written_down_and_no_more_than_was_released(kept, post_training, known):
    ledger = ledger_with(post_training)
    written(kept)
    found = PostTraining.of(ledger, kept, STEPS, seeded=False)
    assert (found.run, found.made, found.known, found.kept) == ("mine", post_training, known, (1.5, 0.0))
    assert found.lost == post_training - known
    assert found.ledger is ledger


def test_what_is_kept_is_read_again(kept):
    ledger = ledger_with(2)
    first = PostTraining.of(ledger, kept, STEPS, seeded=False)
    assert (first.known, first.kept, first.lost) == (0, None, 2)
    first.keep(1, [0.1 + 0.2])
    found = PostTraining.of(ledger, kept, STEPS, seeded=False)
    assert (found.known, found.kept, found.lost) == (1, (0.1 + 0.2,), 1)
    with pytest.warns(RuntimeWarning, match=r"after\.json could not be written"):
        found.keep(2, [float("nan")])
    assert PostTraining.of(ledger, kept, STEPS, seeded=False) == found


def test_of_weights_that_would_not_come_back_nothing_is_known(kept, tmp_path):
    ledger = ledger_with(2)
    written(kept)
    other = Checkpoints(tmp_path / "other")
    other._run = "mine"
    for checkpoints, steps in ((kept, STEPS + 1), (other, STEPS)):
        found = PostTraining.of(ledger, checkpoints, steps, seeded=False)
        assert (found.made, found.known, found.kept, found.lost) == (2, 0, None, 2)
        found.keep(2, [1.0])
    assert json.loads(kept.after.read_text())["numbers"] == [1.5, 0.0]
    assert not other.after.exists()


def test_a_seeded_run_makes_again_what_was_made_and_a_first_time_writes(kept):
    ledger = ledger_with(2)
    found = PostTraining.of(ledger, kept, STEPS, seeded=True)
    assert (found.made, found.known, found.kept) == (0, 0, None)
    for grown in (0, 0, 1):  # what was released, again, and then one more
        before = len(ledger)
        found.ledger.append(Entry("calibration", 1.0, 0.5, run="mine", seeded=True))
        assert len(ledger) == before + grown
    first = ledger_with(0)
    assert PostTraining.of(first, kept, STEPS, seeded=True).ledger is first


def test_numbers_of_an_earlier_fit_are_nothing_to_this_one(kept):
    written(kept, run="another's")
    found = PostTraining.of(ledger_with(2), kept, STEPS, seeded=False)
    assert (found.known, found.kept) == (0, None)


@pytest.mark.parametrize("odd", [{"format": "another"}, {"more": 1}, {"numbers": None}])
def test_a_damaged_file_is_refused_by_name(kept, odd):
    written(kept, **odd)
    with pytest.raises(ValueError, match=r"after\.json"):
        PostTraining.of(ledger_with(2), kept, STEPS, seeded=False)


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("post_training", [0, 2])
@pytest.mark.parametrize("numbers", [True, False])
def test_every_process_stands_where_the_leader_does(kept, monkeypatch, seeded, post_training, numbers):
    books = [ledger_with(post_training) for _ in range(2)]
    if numbers:
        written(kept)

    def work(world):
        mine = Checkpoints(kept.folder)
        return PostTraining.of(books[world.rank], mine, STEPS, seeded=seeded, world=world)

    leader, other = values(in_threads(monkeypatch, 2, work))
    for name in ("run", "made", "known", "kept", "lost"):
        assert getattr(other, name) == getattr(leader, name)
    assert (leader.ledger is books[0]) == (other.ledger is books[1]) == (not (seeded and post_training))
    other.ledger.append(Entry("calibration", 1.0, 0.5, run="mine", seeded=True))
    assert len(books[1]) == len(books[0]) + (not (seeded and post_training))
    before = kept.after.exists()
    other.keep(1, [3.0])
    assert kept.after.exists() == before
