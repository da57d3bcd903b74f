"""A private search: candidates are tried a secret number of times, and the best of the tries is the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from dpmac.checks import ArgumentError, number
from dpmac.estimators.arguments import estimator
from dpmac.estimators.base import Array, TrainedEstimator
from dpmac.estimators.budget import Budgeted, alone_with_ledger
from dpmac.estimators.held_out import FEWEST, Rows, check_apart, pictures_as_arrays, split, targets_for
from dpmac.estimators.labelled import Labelled
from dpmac.estimators.labels import CLASSES_NOTE, check_classes, encoded, looked_over
from dpmac.estimators.ranged import Ranged
from dpmac.estimators.search_budget import priced
from dpmac.estimators.search_state import SearchState
from dpmac.estimators.search_tries import Job, Tried, best_try, rehearse, released, searching, unit_of
from dpmac.estimators.totals import Total
from dpmac.extensions.accounts import over_total
from dpmac.extensions.searches import entry_of
from dpmac.kernels.tries import Tries
from dpmac.methods.merits import MERITS
from dpmac.privacy import Ledger
from dpmac.privacy.accounting import epsilon_of
from dpmac.randomness import NoiseSource, noise_source
from dpmac.training.exclusive import exclusive_access
from dpmac.training.training_state import handing_over

OWN = ("epsilon", "delta", "max_rows", "ledger", "total_epsilon", "random_state", "machine")
MOST = 1000  # candidates


@estimator
class DPMACSearch(Budgeted):
    """Chooses settings on private rows, and returns the best model that it found, at one price.

    It draws a candidate at random, fits it, and scores it by a small private release on rows that it was not trained
    on. It repeats this a random and secret number of times, ``tries`` on average. The best fit is the model. All of
    this is (epsilon, delta)-differentially private *together*: one entry in the ledger, paid before the first fit. The
    model is not fitted again, so no budget has to be reserved for it. All other fits are forgotten, and neither the
    number of fits nor the tried candidates are written, shown or kept (docs/hyperparameters.md says what is kept
    where). **Time is not hidden**: anyone who knows how long a search took can guess how many fits it made.

    Each fit gets less than the whole budget: at 10 tries on average a little over half of it. On tables the defaults
    are within .003 of the best settings, and a search there costs more than it finds.

    Parameters
    ----------
    estimator : a classifier or a regressor of this package, for one label a row. ``epsilon``, ``delta``, ``ledger``,
        ``random_state``, ``max_rows`` and ``machine`` are set here and not there.
    candidates : a dictionary of lists, all of whose combinations are candidates, or a list of dictionaries: arguments
        of the estimator. They are fixed before any row is seen; ``{}`` is the estimator as it is.
    tries : how many fits there are on average, from 1.1 to 100.
    shape : of the law of their number, above -1 to 1: 0 is the logarithmic law, which costs least for a given mean; 1
        the geometric one, which makes a single fit less likely.
    held_out : the part of the rows (of persons, with ``groups``) that is scored on and not trained on, drawn at random.
    scoring : "accuracy" or "log_loss" of a classifier, "error" of a regressor; None takes the first that suits.
    others : those of :class:`~dpmac.estimators.arguments.Arguments`. With ``Machine(checkpoint=...)`` a search that was
        killed continues with the number of tries that it had drawn, and is not paid for again.

    Attributes
    ----------
    best_estimator_, a fitted estimator; best_params_, its candidate; best_score_, the score by which it was the best,
    noise included, between about 0 and 1; score_noise_, that noise's standard deviation; run_epsilon_, the budget of
    one fit; privacy_.
    """

    estimator: Any = field(default=None, kw_only=False)
    candidates: Any = field(default=None, kw_only=False)
    tries: float = 10.0
    shape: float = 0.0
    held_out: float = 0.2
    scoring: str | None = None

    @alone_with_ledger
    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        held_out_rows: Sequence[Any] | None = None,
        public_rows: Sequence[Any] | None = None,
    ) -> DPMACSearch:
        """Search on ``X`` and targets ``y``, in memory, as the estimator's own ``fit`` takes them.

        ``held_out_rows=(X, y)`` or ``(X, y, groups)`` are private rows to score on, of people who are not in ``X``;
        without them a part of ``X`` is held out. ``public_rows=(X, y)`` are public: scores on them cost nothing, and
        all of ``X`` is trained on. Everything is checked before any privacy is spent: each candidate is taken as far as
        its first release, where the rehearsal ends.
        """
        self._check_budget()
        if not math.isfinite(self.epsilon):
            raise ArgumentError("epsilon", self.epsilon, "give a finite budget: without noise any search will do")
        if self._world.size > 1:
            raise ArgumentError("machine", self._machine, "a search runs in one process")
        if held_out_rows is not None and public_rows is not None:
            raise ArgumentError(
                "public_rows", "rows", "give rows to score on that are private, or public ones, not both"
            )
        settings = self._settings()
        source = noise_source(self._seed())
        job = self._job(settings, Rows(X, y, groups), held_out_rows, public_rows, source)
        ledger = Ledger.at(self.ledger)
        folder = _folder(self._machine.checkpoint)
        with ExitStack() as held, handing_over(ledger), searching(self._machine.progress):
            held.enter_context(ledger.exclusive(refusing=True))
            if folder is not None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                held.enter_context(exclusive_access(folder, "checkpoint"))
            best = self._search(job, ledger, folder, source)
            self._release(best, job, ledger)
            SearchState.finished(folder)
        return self

    def _search(self, job: Job, ledger: Ledger, folder: Path | None, source: NoiseSource) -> Tried:
        """Pay, draw the number of tries, and try; each of the two is done once, however often this is interrupted."""
        unit = unit_of(job.training, self.max_rows)
        places = job.training.places
        if not job.public:
            places += job.scored.places  # of the split whose ledger this is, if it is one
        ledger.check_unit(unit, places)
        state = SearchState.begun(folder, job.to_compare(self.estimator, self._seed()), ledger)
        before, paid = ledger.of_others(state.run), state.paid(ledger)
        if not paid:
            self._check_totals(ledger, before, job)
        rehearse(job, before, replace(self._machine, checkpoint=None, progress=False))
        if not paid:
            with ledger.noting(run=state.run):
                ledger.append(entry_of(job.price.selection, unit, source.seeded))
        if state.tries is None:
            tries = job.price.selection.tries.drawn(source.spawn("tries").uniform)
            state = state.drawn(folder, tries)
        assert state.tries is not None
        return best_try(state.tries, job, before, source)

    def _release(self, best: Tried, job: Job, ledger: Ledger) -> None:
        """The best model becomes public."""
        model = released(best, job, ledger)
        own = {"ledger": self.ledger, "random_state": self.random_state, "machine": self.machine}
        model.set_params(epsilon=self.epsilon, **own)  # what the model cost, and not what its fit had
        self.best_estimator_, self.best_params_ = model, job.settings[best.which]
        self.best_score_, self.run_epsilon_ = best.score, job.price.epsilon
        self.score_noise_ = 0.0
        if not job.public:
            self.score_noise_ = job.price.score.deviation(job.scored.places)
        self.privacy_ = model.privacy_

    # --- before anything is spent --------------------------------------------------------------------------------

    def _settings(self) -> list[dict[str, Any]]:
        """The arguments of every candidate."""
        if not isinstance(self.estimator, Labelled | Ranged) or not isinstance(self.estimator, TrainedEstimator):
            fix = "give a classifier or a regressor of dpmac, such as DPMACClassifier(schema=...)"
            raise ArgumentError("estimator", self.estimator, fix)
        for name in ("delta", "ledger", "total_epsilon", "random_state", "machine"):
            if getattr(self.estimator, name) is not None:
                raise ArgumentError(f"estimator.{name}", getattr(self.estimator, name), "give it to the search instead")
        fix = "give a dictionary of lists of arguments, or a list of dictionaries, such as {'learning_rate': [.1, .3]}"
        if not self.candidates or not isinstance(self.candidates, Mapping | list | tuple):
            raise ArgumentError("candidates", self.candidates, fix)
        found = list(self.candidates)
        try:
            if isinstance(self.candidates, Mapping):
                found = list(ParameterGrid(dict(self.candidates)))
            settings = [dict(one) for one in found]
        except (TypeError, ValueError):
            raise ArgumentError("candidates", self.candidates, fix) from None
        if len(settings) > MOST:
            raise ArgumentError("candidates", f"{len(settings):,}", f"a search of {self.tries:g} tries needs fewer")
        for one in settings:
            for name in one:
                if name.partition("__")[0] in OWN:
                    raise ArgumentError("candidates", name, "it is the same for all: give it to the search")
        return settings

    def _job(
        self,
        settings: list[dict[str, Any]],
        rows: Rows,
        held_out_rows: Sequence[Any] | None,
        public_rows: Sequence[Any] | None,
        source: NoiseSource,
    ) -> Job:
        """All that the search is going to do, its price included."""
        whole = pictures_as_arrays(self.estimator, rows).with_ids(self.estimator)
        base, notes = self._known(whole)
        given = held_out_rows if held_out_rows is not None else public_rows
        if given is None:
            part = number(
                "held_out", self.held_out, "give a part of the rows above 0, at most a half", low=1e-9, high=0.5
            )
            training, scored = split(whole, part, source.spawn("split"))
        else:
            training, scored = whole, Rows(*given).with_ids(self.estimator)
            if public_rows is None:
                check_apart(training, scored)
        places = scored.places
        if places < FEWEST:
            raise ArgumentError(
                "held_out", f"{places} rows", f"give at least {FEWEST} to score on, by far more if you can"
            )
        n = training.places
        delta = self._delta(n + places * (public_rows is None))
        candidates = []
        for one in settings:
            try:
                candidate = clone(base).set_params(**one)
            except (ValueError, TypeError) as error:
                raise ArgumentError("candidates", one, str(error)) from None
            candidates.append(candidate.set_params(delta=delta, max_rows=self.max_rows, epsilon=self.epsilon))
        scoring = self._scoring()
        tries = Tries.of_mean(self.tries, self.shape)
        price = priced(candidates, n, tries, float(self.epsilon), delta, scoring, free_scores=public_rows is not None)
        targets_for(candidates[0], scored)  # an odd label is an error now
        return Job(settings, candidates, training, scored, public_rows is not None, price, delta, scoring, notes)

    def _known(self, rows: Rows) -> tuple[Any, tuple[str, ...]]:
        """The estimator that all candidates are made from: it knows the classes, which are public, of all rows."""
        base = clone(self.estimator).set_params(max_rows=self.max_rows)
        if not isinstance(base, Labelled) or base._known_classes() is not None:
            return base, ()
        if rows.y is None:
            raise ArgumentError("y", None, "give a label for each row, or a schema whose target is in the table")
        labels = looked_over(rows.y)
        if labels.ndim == 2:
            raise ArgumentError("y", f"shape {labels.shape}", "a search is for one label a row, not for several")
        check_classes(labels)
        return base.set_params(classes=encoded(labels, None)[0].tolist()), (CLASSES_NOTE,)

    def _scoring(self) -> str:
        fitting = ["error"]
        if isinstance(self.estimator, Labelled):
            fitting = [name for name in MERITS if name != "error"]
        if self.scoring is None:
            return fitting[0]
        if self.scoring not in fitting:
            raise ArgumentError("scoring", self.scoring, f"choose one of {', '.join(fitting)}")
        return self.scoring

    def _check_totals(self, ledger: Ledger, before: Ledger, job: Job) -> None:
        """Refuse a search that with what the ledger holds would exceed a total or an account."""
        own, held = job.price.mechanism(), before.mechanisms()
        if self.total_epsilon is not None:
            total = Total(float(self.total_epsilon), job.delta)
            if not total.holds([*held, own]):
                spent, whole = (epsilon_of(some, job.delta) for some in (held, [*held, own]))
                raise over_total(total.epsilon, job.delta, spent, whole)
        ledger.check_plan([own])

    # --- the model -----------------------------------------------------------------------------------------------

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any, **more: Any) -> Any:
        """The best model's predictions."""
        return self._best().predict(X, **more)

    def predict_proba(self, X: Any) -> Array:
        """The best model's probabilities."""
        found: Array = self._best().predict_proba(X)
        return found

    def score(self, X: Any, y: Any) -> float:
        """The best model's score on rows that are public, or shown to nobody."""
        return float(self._best().score(X, y))

    @property
    def classes_(self) -> Array:
        """The best model's classes."""
        found: Array = self._best().classes_
        return found

    def save(self, folder: str | Path, **more: Any) -> Path:
        """Write the best model to a new folder: see :func:`dpmac.saving.save`. The search itself is in its ledger."""
        found: Path = self._best().save(folder, **{"searched": "ledger", **more})
        return found


def _folder(checkpoint: Any) -> Path | None:
    if checkpoint is None:
        return None
    return Path(getattr(checkpoint, "folder", checkpoint))
