"""The tries of a search: what each of them is, which is the best, and how the best becomes public.

What happens in here is secret until one try is returned. Nothing of it is written, shown or logged: not how many tries
there are, nor which candidates they are of, nor what the others scored. Warnings are shown once, by the rehearsal,
which takes every candidate to its first release and no further.

An error in a try ends the search. Whoever holds the data sees it, and so learns that this candidate was tried, as any
error shows something of what was going on (docs/guarantee.md).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.held_out import Rows, table_for, targets_for
from dpmac.estimators.machine import Machine
from dpmac.estimators.search_budget import Priced
from dpmac.estimators.warning import counted_as_one
from dpmac.extensions.provenance import Origin, mark, origin_of
from dpmac.extensions.searches import Prepaid, Rehearsal, Rehearsed, best_of
from dpmac.methods.merits import merit_of
from dpmac.privacy import Ledger, Persons
from dpmac.privacy.sampling import ROW
from dpmac.randomness import NoiseSource, noise_source

TIME_NOTE = "how long the search took, which shows roughly how many fits it tried;"
SEEDS = 2**53


@dataclass(frozen=True, eq=False)
class Job:
    """What a search is going to do. All of it is public but the rows."""

    settings: list[dict[str, Any]]
    candidates: list[Any]
    training: Rows
    scored: Rows
    public: bool
    price: Priced
    delta: float
    scoring: str
    notes: tuple[str, ...]

    def to_compare(self, base: Any, seed: int | None) -> dict[str, Any]:
        """What must be equal for a search to be resumed. (That the rows are the same is the caller's to know.)"""
        return {
            "estimator": repr(base),
            "candidates": json.loads(json.dumps(self.settings, default=repr)),
            "price": self.price.selection.to_dict(),
            "scoring": self.scoring,
            "rows to score on": self.public,
            "seed": seed,
        }


@dataclass(frozen=True, eq=False)
class Tried:
    """One try, which nobody sees unless it is the best. ``runs`` names the entries of its own releases."""

    which: int
    model: Any
    score: float
    runs: frozenset[str]


def unit_of(rows: Rows, max_rows: int) -> str:
    """The unit of privacy of the search's entry."""
    if rows.groups is None:
        return ROW
    return Persons.of(rows.groups, max_rows).unit


def rehearse(job: Job, before: Ledger, machine: Machine) -> None:
    """Take every candidate to its first release, which it does not make: an error comes before anything is spent."""
    for candidate, training in zip(job.candidates, job.price.trainings, strict=True):
        candidate.set_params(machine=machine)
        trial = clone(candidate).set_params(ledger=Rehearsal(before, training))
        try:
            trial.fit(job.training.X, job.training.y, groups=job.training.groups)
        except Rehearsed:
            continue
        raise RuntimeError("a rehearsal ended without a release: this is a bug, nothing was spent")


def best_try(count: int, job: Job, before: Ledger, source: NoiseSource) -> Tried:
    """The best of ``count`` tries, each of a candidate drawn at random."""
    draws = source.spawn("candidates")

    def run(turn: int) -> Tried:
        which = min(int(float(draws.uniform(1)) * len(job.candidates)), len(job.candidates) - 1)
        seed = None
        if source.seeded:
            seed = int(float(source.spawn(f"try {turn}").uniform(1)) * SEEDS)
        return _try(which, job, before, seed)

    with warnings.catch_warnings(), counted_as_one():
        warnings.simplefilter("ignore")  # the rehearsal has shown them, once
        return best_of(count, run)


def _try(which: int, job: Job, before: Ledger, seed: int | None) -> Tried:
    book = Prepaid(before, job.price.trainings[which])
    model = clone(job.candidates[which]).set_params(ledger=book, random_state=seed)
    model.fit(job.training.X, job.training.y, groups=job.training.groups)
    runs = frozenset(entry.run for entry in book.entries[len(before) :])
    if job.public:
        found = merit_of(job.scoring, model._outputs(job.scored.X), targets_for(model, job.scored))
        return Tried(which, model, found, runs)
    table, outputs = table_for(model, job.scored)
    score = job.price.score
    found = score.of(table, outputs, noise_source(seed).spawn("score"), Prepaid(book, [score.mechanism()]))
    return Tried(which, model, found, runs)


def released(best: Tried, job: Job, ledger: Ledger) -> Any:
    """The best model, which is public now: what has shaped it is the search's entry, and not those of its own run."""
    model: Any = best.model
    known = origin_of(model._model())
    others = tuple((run, made) for run, made in known.runs if run not in best.runs)
    mark(model._model(), Origin.of(ledger, Origin(others, known.declared, known.unseen)))
    notes = tuple(dict.fromkeys((*job.notes, *model.privacy_.notes, TIME_NOTE)))
    model.run_ = replace(model.run_, ledger=ledger, notes=notes)
    model.privacy_ = Privacy(ledger, job.delta, notes)
    return model


@contextmanager
def searching(show: Any) -> Iterator[None]:
    """A sign of life on a terminal, for the holder: how long it takes, and never how far it is."""
    if show is False or (show == "auto" and not sys.stderr.isatty()):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    words = TextColumn("searching; how many fits there are is secret")
    with Progress(SpinnerColumn(), words, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        bar.add_task("", total=None)
        yield
