"""The state of a training: everything that changes from one step to the next, and how it is restored after a crash."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.extensions.provenance import Origin, mark
from dpmac.planning.plan import STEP
from dpmac.privacy import Ledger
from dpmac.randomness import NoiseSource, SeededNoise
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.objective import TrainingObjective
from dpmac.training.run import Record
from dpmac.training.samples import Samples


@dataclass
class TrainingState:
    """A training after ``done`` steps. Releases go into ``ledger``, which had ``begun`` entries at the start."""

    objective: TrainingObjective
    samples: Samples
    noise: NoiseSource
    ledger: Ledger
    begun: int
    run: str = ""
    done: int = 0
    history: list[Record] = field(default_factory=list)
    written: Ledger = field(init=False)  # the ledger itself, also if ``ledger`` becomes a replaying one

    def __post_init__(self) -> None:
        self.written = self.ledger

    def state(self, job: dict[str, Any]) -> dict[str, Any]:
        """The contents of a checkpoint; ``job`` identifies the training."""
        sources = self.samples.state()
        if isinstance(self.noise, SeededNoise):
            sources = [*sources, self.noise.state()]
        return {
            "job": job,
            "run": self.run,
            "done": self.done,
            "ledger": self.begun,
            "heads": [(count, self.written.head(count)) for count in (self.begun, len(self.written))],
            **self.objective.state(),
            "history": [asdict(record) for record in self.history],
            "sources": sources,
        }

    def resume(self, checkpoints: Checkpoints, job: dict[str, Any]) -> None:
        """Continue from the checkpoint, if there is one, and from the releases that the ledger has recorded since."""
        saved = checkpoints.read()
        if saved is None:
            return
        if saved["job"] != job:
            other = [name for name in job if saved["job"].get(name) != job[name]]
            fix = f"it is of another training (another {', '.join(other)}): give another folder, or delete it"
            raise ArgumentError("checkpoint", str(checkpoints.path), fix)
        self.done, self.begun = saved["done"], saved["ledger"]
        self.objective.restore(saved)
        self.history = [Record(**record) for record in saved["history"]]
        if saved["sources"]:
            assert isinstance(self.noise, SeededNoise)  # as the job says
            self.samples.restore(saved["sources"][0])
            self.noise.restore(saved["sources"][1])
        self._catch_up(bool(saved["sources"]))

    def _catch_up(self, seeded: bool) -> None:
        """Handle releases after the checkpoint, which are paid for: they are repeated if seeded, and lost otherwise."""
        made = sum(entry.label == STEP for entry in self.ledger.entries if entry.run == self.run)
        if made < self.done:
            raise ArgumentError("ledger", self.ledger, f"it lacks releases of this run: {self.done} steps were made")
        if seeded:
            self.ledger = self.ledger.replaying(self.run, self.done)
            return
        more = made - self.done
        self.objective.skip(more)
        self.done = made
        if more and self.written.path is not None:  # only the process that keeps the file warns
            warnings.warn(
                f"{more} steps were released after the last checkpoint and died with the process: they are paid for, "
                "and training goes on without them",
                RuntimeWarning,
                stacklevel=2,
            )


@contextmanager
def handing_over(ledger: Ledger) -> Iterator[None]:
    """Attach the ledger to an exception that leaves the block, so that the record of spending is not lost."""
    try:
        yield
    except BaseException as error:
        if getattr(error, "ledger", None) is not ledger and hasattr(error, "__dict__"):
            error.ledger = ledger  # type: ignore[attr-defined]
            if len(ledger):
                error.add_note(f"{len(ledger)} releases were made and paid for: this exception's .ledger has them.")
        raise


@contextmanager
def shaped_by(objective: TrainingObjective, book: Ledger, known: Origin) -> Iterator[None]:
    """Around a step: if an error ends the training, the model, which others may still hold, gets its origin."""
    try:
        yield
    except BaseException:
        mark(objective.model, Origin.of(book, known))
        raise
