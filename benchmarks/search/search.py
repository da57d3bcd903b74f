"""Defaults, looked for and looked at: many settings of private training on held-out *training* rows, simulated.

    python benchmarks/search/search.py [--tables adult insurance ...] [--epsilons 0.5 1 2 4 8] [--grid rule|wide]
        [--seeds 4] [--device cpu|cuda] [--out runs/search.jsonl] [--data FOLDER] [--collection FOLDER]

``--grid rule`` tries the rule as it is (:mod:`dpmac.training.defaults`) with its learning rate and threshold times 0.6,
1 and 1.6, linear and with its hidden layer; ``--grid wide`` asks no rule. The tables are those of a data folder
(--data or DPMAC_DATA) and, with --collection, of the R datasets (tables.py says where from).

Every training is one line of OUT, and a second start skips what is there. At the end it prints the mean regret: by how
much a setting's score (AUROC or R^2, mean over the seeds) is below the mean of the ten best of its table and epsilon.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from simulation import Settings, Shape, judged, train

from dpmac.methods import BaseRates, Calibration, ResidualScale
from dpmac.privacy import Mechanism, Plan
from dpmac.training.defaults import calibration_for, defaults_for, residuals_for, safe_delta, schedule_for
from tables import COLLECTION, Table, table

TIMES = (0.6, 1.0, 1.6)
BEST = 10
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Setting:
    """One training; ``label`` is what it is called in the table of regrets, and is no part of what it is."""

    table: str
    epsilon: float
    hidden: tuple[int, ...]
    activation: str
    rate: float
    steps: int
    noise: float
    lr: float
    clip: float
    codes: float  # times the encoder's piecewise-linear codes
    average: float
    label: str
    chosen: bool = False  # what an estimator would take

    @property
    def shape(self) -> tuple[Shape, float]:
        return Shape(self.hidden, self.activation, self.rate, self.steps), self.average

    def key(self, seed: int) -> Key:
        numbers = (self.rate, self.noise, self.lr, self.clip, self.codes, self.average)
        rounded = tuple(float(f"{value:.4g}") for value in numbers)
        return (self.table, float(self.epsilon), tuple(self.hidden), self.activation, self.steps, *rounded, seed)


@cache
def plan_of(n: int, classes: bool, epsilon: float, batch: float, steps: int) -> Plan:
    """What an estimator would plan for n rows, its calibration or residual scale included."""
    delta = safe_delta(n)
    after: tuple[Mechanism, ...] = ()
    if epsilon < float("inf"):
        after = after_training(n, classes, epsilon, delta)
    return Plan.for_budget(epsilon=epsilon, delta=delta, n=n, batch_size=batch, steps=steps, before=after)


def after_training(n: int, classes: bool, epsilon: float, delta: float) -> tuple[Mechanism, ...]:
    """What an estimator releases when its training is done."""
    share, rounds = calibration_for(n, epsilon)
    measured = residuals_for(n, epsilon)
    if classes and rounds:
        return (Calibration.for_share(share, epsilon, delta, rounds).mechanism(),)
    if classes:
        return (BaseRates.for_share(share, epsilon, delta).mechanism(),)
    if measured is None:
        return ()
    return (ResidualScale.for_share(measured, epsilon, delta).mechanism(),)


def rule(of: Table, epsilon: float) -> Iterator[Setting]:
    """The defaults, and their neighbours."""
    n = len(of.split(0)[0])
    cut = schedule_for(n)
    plan = plan_of(n, of.classes, epsilon, cut.batch_size, cut.steps)
    chosen = defaults_for(plan, regression=not of.classes).hidden
    for hidden, a, b in itertools.product([(), (64,)], TIMES, TIMES):
        usual = defaults_for(plan, regression=not of.classes, hidden=hidden)
        yield Setting(
            *(of.name, epsilon, hidden, usual.activation, plan.batch_size / n, plan.steps, plan.noise_multiplier),
            *(usual.learning_rate * a, usual.threshold * b, 1.0, usual.average),
            f"{hidden!s:6} rate x {a} threshold x {b}",
            (hidden, a, b) == (chosen, 1.0, 1.0),
        )


def wide(of: Table, epsilon: float) -> Iterator[Setting]:
    """Whatever might be good."""
    n = len(of.split(0)[0])
    for (q, steps), hidden in itertools.product([(0.1, 300), (0.1, 1000)], [(), (16,), (64,), (64, 32)]):
        noise = plan_of(n, of.classes, epsilon, q * n, steps).noise_multiplier
        for lr, clip, codes in itertools.product((0.002, 0.004, 0.008, 0.016), (0.1, 0.3, 1.0, 3.0, 10.0), (0.5, 1, 2)):
            label = f"{hidden!s:8} steps {steps:4d} rate {lr} threshold {clip} codes x {codes}"
            yield Setting(of.name, epsilon, hidden, "relu", q, steps, noise, lr, clip, codes, 0.95, label)


def tried(of: Table, settings: Sequence[Setting], seed: int, device: str) -> list[dict[str, Any]]:
    """The settings of one shape, trained side by side on the rows that the seed leaves, judged on the others."""

    def column(name: str) -> torch.Tensor:
        return torch.tensor([getattr(s, name) for s in settings], dtype=torch.float32, device=device)

    x, y = of.x.to(device), of.y.to(device)
    fit, held = (places.to(device) for places in of.split(seed))
    inputs = torch.where(of.codes.to(device)[None, :], column("codes")[:, None], 1.0)
    (shape, average), ones = settings[0].shape, torch.ones(len(settings), device=device)
    of_each = Settings(column("lr"), column("clip"), column("noise"), inputs, ones, average)
    models = train(x[fit], y[fit], of.classes, shape, of_each, seed)
    scores, losses = judged(models, x[held], y[held], of.classes)
    return [
        {**asdict(s), "seed": seed, "score": round(float(score), 6), "loss": round(float(loss), 6)}
        for s, score, loss in zip(settings, scores, losses, strict=True)
    ]


def read(path: Path) -> dict[Key, float]:
    """The scores there are; a line that a crash cut short counts as not there."""
    found: dict[Key, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            score, seed = float(row.pop("score")), int(row.pop("seed"))
            row.pop("loss")
            found[Setting(**row | {"hidden": tuple(row["hidden"])}).key(seed)] = score
        except (ValueError, KeyError, TypeError):
            continue
    return found


def regrets(settings: Iterable[Setting], found: dict[Key, float], seeds: Sequence[int]) -> dict[str, dict[Key, float]]:
    """Of each label, and of what the estimators take: (table, epsilon) -> regret."""
    cells: dict[Key, list[tuple[Setting, float]]] = {}
    for s in settings:
        score = statistics.mean(found[s.key(seed)] for seed in seeds)
        cells.setdefault((s.table, s.epsilon), []).append((s, score))
    result: dict[str, dict[Key, float]] = {}
    for cell, members in cells.items():
        best = statistics.mean(sorted(score for _, score in members)[-BEST:])
        for s, score in members:
            for label in (s.label, *(["the rule itself"] if s.chosen else [])):
                result.setdefault(label, {})[cell] = best - score
    return result


def told(found: dict[str, dict[Key, float]], epsilons: Sequence[float], most: int = 40) -> str:
    """The table of mean regrets, the smallest first."""
    lines = [f"{'mean regret over the tables':60}" + "".join(f"{f'eps {e:g}':>10}" for e in epsilons) + f"{'all':>10}"]
    ranked = sorted(found.items(), key=lambda item: statistics.mean(item[1].values()))
    for label, cells in ranked[:most]:
        means = [statistics.mean(v for (_, e), v in cells.items() if e == epsilon) for epsilon in epsilons]
        lines.append(f"{label:60}" + "".join(f"{m:10.4f}" for m in (*means, statistics.mean(cells.values()))))
    return "\n".join(lines)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"), help="holds tables/NAME.csv.gz")
    parser.add_argument("--collection", type=Path, help="holds the CSV files of the R datasets")
    parser.add_argument("--tables", nargs="+", help="all that there are, if none is named")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--grid", choices=("rule", "wide"), default="rule")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/search.jsonl"))
    options = parser.parse_args(given)
    options.data = None if options.data is None else Path(options.data)
    if options.tables is None:
        there = [] if options.data is None else sorted((options.data / "tables").glob("*.schema.json"))
        options.tables = [path.name.removesuffix(".schema.json") for path in there]
        options.tables += COLLECTION if options.collection is not None else ()
    return options


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found, seeds, everything = read(options.out), range(options.seeds), []
    for name in options.tables:
        of = table(name, options.data, options.collection)
        settings = [s for e in options.epsilons for s in (rule if options.grid == "rule" else wide)(of, e)]
        everything += settings
        shapes = dict.fromkeys(s.shape for s in settings)
        for seed, shape in itertools.product(seeds, shapes):
            todo = [s for s in settings if s.shape == shape and s.key(seed) not in found]
            if not todo:
                continue
            rows = tried(of, todo, seed, options.device)
            with options.out.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows))
            found |= {s.key(seed): row["score"] for s, row in zip(todo, rows, strict=True)}
            print(f"{name} seed {seed} {shape[0].hidden} {shape[0].steps} steps: {len(rows)}", file=sys.stderr)
    if everything:
        print(told(regrets(everything, found, seeds), options.epsilons))


if __name__ == "__main__":
    main()
