"""What a ledger says over time: epsilon after so many releases, groups of like releases, and signal beside noise.

All of it is public: the ledger, the plan, and what was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from operator import attrgetter
from typing import Any

from dpmac.extensions.searches import SEARCH
from dpmac.planning.plan import STEP
from dpmac.privacy import Ledger, Plan
from dpmac.privacy.entry import Entry
from dpmac.training.run import Record

POINTS = 12  # at which epsilon is asked for


@dataclass(frozen=True)
class Group:
    """Like releases that follow each other: neighbours that differ in nothing but the moment."""

    model: str
    purpose: str
    label: str
    noise_multiplier: float
    sample_rate: float
    seeded: bool
    split: str
    count: int
    first: str  # when the first was made, and the last
    last: str

    @property
    def noise(self) -> str:
        """The noise multiplier in short; the runs of a search have several."""
        if self.label == SEARCH:
            return "several"
        return f"{self.noise_multiplier:.5g}"

    @property
    def what(self) -> str:
        """What was released, and of which split of the data set."""
        return self.label + f" (split {self.split})" * bool(self.split)

    @property
    def date(self) -> str:
        return self.first[:10]


_ALIKE = tuple(field.name for field in fields(Group))[:7]


@dataclass(frozen=True)
class LayerSignal:
    """Of one layer, at each record of the history: the norm that was released, and that which noise alone would have.

    ``numbers`` are the layer's weights. Signal and noise are independent, so that their squares add up, on average.
    """

    name: str
    numbers: int
    epochs: tuple[float, ...]
    released: tuple[float, ...]
    noise: tuple[float, ...]

    @property
    def signal(self) -> float:
        """The norm of the signal, by what the squares of the releases have beyond the noise's, over all records."""
        beyond = [r**2 - n**2 for r, n in zip(self.released, self.noise, strict=True)]
        return math.sqrt(max(0.0, math.fsum(beyond) / len(beyond)))

    @property
    def uncertain(self) -> float:
        """Two standard deviations of chance in the square of :attr:`signal`, if there was none, as a norm."""
        spread = math.sqrt(2.0 / self.numbers) * math.sqrt(math.fsum(n**4 for n in self.noise)) / len(self.noise)
        return math.sqrt(2.0 * spread)


def epsilon_over_releases(ledger: Ledger, delta: float, points: int = POINTS) -> list[tuple[int, float]]:
    """(releases, epsilon at ``delta`` of these) along the ledger: evenly, and at the end; infinite without noise."""
    mechanisms = [entry.mechanism() for entry in ledger.entries]
    total = len(mechanisms)
    if not total:
        return []
    turns = [k for k in range(1, total) if mechanisms[k] != mechanisms[k - 1]]
    wanted = {round(k * total / points) for k in range(1, points + 1)} | set(turns[:3]) | {1, total}
    places = sorted(k for k in wanted if k >= 1)
    return [(0, 0.0), *((k, ledger.until(k).epsilon(delta)) for k in places)]


def groups_of(entries: Sequence[Entry]) -> list[Group]:
    """The ledger in short."""
    found = []
    for alike, same in groupby(entries, attrgetter(*_ALIKE)):
        dates = [entry.date for entry in same]
        shared: dict[str, Any] = dict(zip(_ALIKE, alike, strict=True))
        found.append(Group(**shared, count=len(dates), first=dates[0], last=dates[-1]))
    return found


def signals_of(estimator: Any, plan: Plan | None, ledger: Ledger, history: Sequence[Record]) -> list[LayerSignal]:
    """Each layer's released norms beside those of the noise; empty where nothing was trained step by step."""
    network = getattr(estimator, "network_", None)
    if plan is None or network is None or not history:
        return []
    before = sum(m.count for m in plan.before)
    steps = ledger.entries[before : before + plan.steps]
    if len(steps) < plan.steps or any(entry.label != STEP for entry in steps):
        return []
    found = []
    for place, (name, layer) in enumerate(zip(network.layer_names, network.weight_layers, strict=True)):
        numbers = int(layer.matrix().numel())
        noise = [_noise(steps[record.step - 1], name, numbers, plan.batch_size) for record in history]
        if any(place >= len(record.released_norms) for record in history) or any(n is None for n in noise):
            return []
        epochs = tuple(record.epoch for record in history)
        released = tuple(record.released_norms[place] for record in history)
        found.append(LayerSignal(name, numbers, epochs, released, tuple(n for n in noise if n is not None)))
    return found


def _noise(entry: Entry, name: str, numbers: int, batch: float) -> float | None:
    """The norm to expect of the noise in so many numbers of a release: the root of its mean square."""
    if entry.noise_multiplier == 0:
        return 0.0
    scale = entry.scales.get(name)
    if scale is None:
        return None
    return entry.noise_multiplier * scale * math.sqrt(numbers) / batch
