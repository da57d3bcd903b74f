"""What a private evaluation gives: figures with intervals, what they cost, and plain values of it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.evaluation.intervals import Figure
from dpmac.privacy.statement import not_less, noun, round_up
from dpmac.tables.texts import did_you_mean

Groups = Mapping[str, Mapping[str, Mapping[str, Figure]]]


@dataclass(frozen=True)
class Threshold:
    """Rates if everybody from ``threshold`` on is called; ``precision`` is None where nearly nobody is."""

    threshold: float
    sensitivity: Figure
    specificity: Figure
    precision: Figure | None
    called: Figure

    def rates(self) -> dict[str, Figure]:
        found = {"sensitivity": self.sensitivity, "specificity": self.specificity, "called": self.called}
        if self.precision is not None:
            found["precision"] = self.precision
        return found

    def to_dict(self) -> dict[str, float | None]:
        names = ("sensitivity", "specificity", "precision", "called")
        known = self.rates()
        return {"threshold": self.threshold, **{name: known[name].value if name in known else None for name in names}}


@dataclass(frozen=True)
class Score:
    """Figures by their names, thresholds to choose from, bins of predicted and observed rates, and subgroups."""

    figures: Mapping[str, Figure]
    thresholds: Sequence[Threshold] = ()
    reliability: Sequence[Mapping[str, float]] = ()
    groups: Groups = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Scores on private rows. All of it is public: one release, and what follows from it and from public numbers.

    ``epsilon`` is what the release costs by itself, at ``delta``, for one ``unit``; ``whole`` what everything that was
    released from these rows costs together, the training included if they were trained on. ``noise_multiplier`` says
    how noisy it was. ``rows`` are persons where the unit is one.
    """

    scores: Score
    rows: int
    epsilon: float
    delta: float
    whole: float
    unit: str
    noise_multiplier: float
    positive: str = ""
    split: str = ""
    seeded: bool = False

    def __getitem__(self, name: str) -> Figure:
        figures = self.scores.figures
        if name not in figures:
            hint = did_you_mean(name, figures)
            raise ArgumentError("score", name, f"there are {', '.join(figures)}{hint}")
        return figures[name]

    @property
    def price(self) -> str:
        """What it cost, in a sentence."""
        one, among = noun(self.unit), ""
        if self.split:
            among = f" of the split {self.split!r}"
        return (
            f"One release from {self.rows:,} {one}s{among}: epsilon = {round_up(self.epsilon)} at delta = "
            f"{not_less(self.delta)} for one {one}; with all that was released from them before, "
            f"{round_up(self.whole)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the form of a run folder's evaluation.json."""
        figures = self.scores.figures
        groups = {
            column: {value: {name: one.to_dict() for name, one in rates.items()} for value, rates in each.items()}
            for column, each in self.scores.groups.items()
        }
        found: dict[str, Any] = {
            "rows": self.rows,
            "public": False,
            "paid": True,
            "scores": {name: one.value for name, one in figures.items()},
            "intervals": {name: [one.low, one.high] for name, one in figures.items()},
            "privacy": {"epsilon": self.epsilon, "delta": self.delta, "whole": self.whole, "unit": self.unit},
            "price": self.price,
        }
        found |= {"split": self.split} if self.split else {}
        if self.scores.thresholds:
            found |= {"threshold": 0.5, "thresholds": [one.to_dict() for one in self.scores.thresholds]}
        if self.scores.reliability:
            found |= {"positive": self.positive, "reliability": [dict(one) for one in self.scores.reliability]}
        return found | ({"groups": groups} if groups else {})

    def __str__(self) -> str:
        width = max(map(len, self.scores.figures))
        lines = [f"{name.replace('_', ' '):{width}}  {one}" for name, one in self.scores.figures.items()]
        for column, each in self.scores.groups.items():
            for value, rates in each.items():
                said = ", ".join(f"{name.replace('_', ' ')} {one}" for name, one in rates.items())
                lines.append(f"{column} {value}: {said}")
        return "\n".join([*lines, self.price])
