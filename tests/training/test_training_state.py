"""A training under way by itself: what it keeps, how it comes back, and what the ledger says was made since."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.extensions.entries import to_dict
from dpmac.mac import FirstOrder, FixedPrediction
from dpmac.nets import DenseNetwork, loss
from dpmac.planning.plan import STEP
from dpmac.privacy import Entry, Ledger, Normalise, PerLayerClip
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.objective import StepObjective
from dpmac.training.run import Record
from dpmac.training.training_state import TrainingState, handing_over

JOB = {"plan": "3 steps", "seed": 1}
BOUND = PerLayerClip(1.0)


class Updater:
    """An optimiser that knows only how far it has come."""

    def __init__(self) -> None:
        self.weights, self.skipped = torch.zeros(2), 0

    def state(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def restore(self, state: dict[str, Any]) -> None:
        self.weights = state["weights"]

    def skip(self, steps: int) -> None:
        self.skipped += steps


class Samples:
    def __init__(self, source: Any) -> None:
        self.source = source

    def state(self) -> list[dict[str, Any]]:
        return [self.source.state()] if isinstance(self.source, SeededNoise) else []

    def restore(self, state: Any) -> None:
        self.source.restore(state)


def objective() -> StepObjective:
    network = DenseNetwork((2, 2), source=SeededNoise(0))
    step = Step(network, loss("squared"), FixedPrediction(), FirstOrder(), BOUND)
    return StepObjective(step, Updater())  # type: ignore[arg-type]


def training(ledger: Ledger, seeded: bool, run: str = "mine") -> TrainingState:
    draws = [SeededNoise(seed) if seeded else SystemNoise() for seed in (1, 2)]
    made: Any = TrainingState(objective(), Samples(draws[0]), draws[1], ledger, len(ledger), run)  # type: ignore[arg-type]
    return made  # type: ignore[no-any-return]


def paid(ledger: Ledger, count: int, run: str = "mine", label: str = STEP) -> None:
    for _ in range(count):
        ledger.append(Entry(label, 1.0, 0.5, run=run, seeded=True))


@pytest.fixture
def ledger(tmp_path):
    """A ledger that others have written to."""
    book = Ledger(tmp_path / "ledger")
    paid(book, 2, "another's")
    paid(book, 1, "mine", "norm histogram")
    return book


@pytest.fixture
def kept(tmp_path):
    return Checkpoints(tmp_path / "kept")


def stopped(ledger, kept, seeded, bound=BOUND, since=1):
    """A training that was killed ``since`` steps after its checkpoint, which was written after two."""
    first = training(ledger, seeded)
    paid(ledger, 2)
    first.done = 2
    first.objective._bounded_by(bound)
    first.objective._updater.weights = torch.tensor([1.0, 2.0])  # type: ignore[attr-defined]
    first.history = [Record(1, 0.5, 0.1, [1.0], {"loss": 2.0})]
    first.noise.normal((3,))
    if seeded:
        first.samples.source.normal((5,))  # type: ignore[attr-defined]
    kept.write(first.state(JOB))
    paid(ledger, since)
    return first


def test_a_new_training_has_done_nothing_and_finds_nothing(ledger, kept):
    new = training(ledger, True)
    new.resume(kept, JOB)
    assert (new.done, new.begun, new.history, new.ledger, new.objective._step.bound) == (0, 3, [], ledger, BOUND)
    assert new.written is ledger


@pytest.mark.filterwarnings("error")
def test_a_seeded_one_comes_back_as_it_was_and_makes_again_what_was_made_since(ledger, kept):
    first = stopped(ledger, kept, True)
    again = training(ledger, True)
    again.resume(kept, JOB)
    assert (again.done, again.begun, again.history) == (2, 3, first.history)
    assert torch.equal(again.objective._updater.weights, first.objective._updater.weights)  # type: ignore[attr-defined]
    assert again.objective._updater.skipped == 0  # type: ignore[attr-defined]
    assert torch.equal(again.noise.normal((4,)), first.noise.normal((4,)))
    drawn = [one.samples.source.normal((4,)) for one in (again, first)]  # type: ignore[attr-defined]
    assert torch.equal(*drawn)
    assert again.written is ledger
    spent = len(ledger)
    again.ledger.append(Entry(STEP, 1.0, 0.5, run="mine", seeded=True))
    assert len(ledger) == spent


def test_an_unseeded_one_goes_on_after_what_was_made_since_and_says_so(ledger, kept):
    stopped(ledger, kept, False)
    again = training(ledger, False)
    with pytest.warns(RuntimeWarning, match=r"^1 steps were released after the last checkpoint"):
        again.resume(kept, JOB)
    assert (again.done, again.ledger) == (3, ledger)
    assert again.objective._updater.skipped == 1  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("on_disk", "since"), [(True, 0), (False, 1), (False, 0)])
def test_it_is_said_only_if_something_died_and_by_whoever_keeps_the_file(ledger, kept, on_disk, since):
    stopped(ledger, kept, False, since=since)
    book = ledger if on_disk else Ledger.of([to_dict(entry) for entry in ledger.entries], "", "")
    again = training(book, False)
    again.resume(kept, JOB)
    assert again.done == 2 + since


@pytest.mark.parametrize("seeded", [True, False])
def test_a_ledger_that_lacks_its_steps_is_refused(ledger, kept, seeded):
    stopped(ledger, kept, seeded)
    with pytest.raises(ArgumentError, match=r"^ledger=.*lacks releases of this run: 2 steps"):
        training(ledger.until(4), seeded).resume(kept, JOB)


def test_a_checkpoint_of_another_training_is_refused_and_what_differs_is_named(ledger, kept):
    stopped(ledger, kept, True)
    with pytest.raises(ArgumentError, match=r"^checkpoint=.*\(another seed\)"):
        training(ledger, True).resume(kept, {**JOB, "seed": 2})


def test_a_threshold_that_was_learned_comes_back(ledger, kept):
    stopped(ledger, kept, True, bound=PerLayerClip(0.25))
    again = training(ledger, True)
    again.resume(kept, JOB)
    assert again.objective._step.bound == PerLayerClip(0.25)
    one = objective()
    assert one._learned() is None
    one._bounded_by(PerLayerClip(1.0))
    assert one._learned() == 1.0
    one._bounded_by(Normalise())
    with pytest.raises(TypeError, match="a Normalise learns something"):
        one._learned()


def test_what_is_kept_knows_the_chain_then_and_now_and_no_state_of_what_is_not_seeded(ledger):
    for seeded, sources in ((True, 2), (False, 0)):
        new = training(ledger, seeded)
        paid(ledger, 2)
        state = new.state(JOB)
        assert state["heads"] == [(count, ledger.head(count)) for count in (new.begun, len(ledger))]
        assert len(state["sources"]) == sources
        assert state["threshold"] is None


# --- what an exception carries ----------------------------------------------------------------------------------------


def test_an_exception_carries_the_ledger_out_once():
    empty, ledger = Ledger(), Ledger()
    paid(ledger, 2)
    for book, notes in ((empty, 0), (ledger, 1)):
        error = ZeroDivisionError()
        error.ledger = Ledger()  # type: ignore[attr-defined]
        with pytest.raises(ZeroDivisionError), handing_over(book), handing_over(book):
            raise error
        assert error.ledger is book  # type: ignore[attr-defined]
        assert len(getattr(error, "__notes__", [])) == notes
    with warnings.catch_warnings(), handing_over(ledger):
        pass
    assert SimpleNamespace(notes=error.__notes__).notes[0].startswith("2 releases were made and paid for")
