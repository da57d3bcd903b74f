"""Whether a private search pays: the same total epsilon for defaults, for a search, and for a fit of every candidate.

    python benchmarks/searching.py prices
    python benchmarks/searching.py digits --repeats 3
    python benchmarks/searching.py census --repeats 3

*digits*: scikit-learn's 1,797 digits of 8 x 8 pixels and a small convolutional network, whose learning rate nobody
knows. *census*: 2,000 people of the census table that comes with the package, and the defaults' own linear model. Every
way is given epsilon 3 at delta 1e-5, and is judged on rows that it never saw. Processor seconds are those of a fit or a
whole search, its price and its rehearsal included. --known adds what each candidate gives with the whole budget.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from dpmac import DPMACClassifier, DPMACModuleClassifier, DPMACSearch, Ledger
from dpmac.cli.tune import USUAL
from dpmac.data import load_table
from dpmac.estimators.held_out import Rows, split, table_for
from dpmac.estimators.search_budget import search_of, trained
from dpmac.kernels.selection import Selection
from dpmac.kernels.tries import Tries
from dpmac.methods import Score
from dpmac.planning.calibration import calibrate
from dpmac.privacy import Mechanism
from dpmac.privacy.accounting import epsilon_of
from dpmac.privacy.statement import round_up
from dpmac.randomness import SystemNoise

EPSILON, DELTA = 3.0, 1e-5
RATES = [{}, *({"learning_rate": rate} for rate in (0.01, 0.03, 0.1, 0.3, 1.0))]


class Small(nn.Module):
    """Two convolutions and a linear layer: 1,400 parameters."""

    def __init__(self) -> None:
        super().__init__()
        first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        ends = [nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, 10)]
        self.net = nn.Sequential(first, nn.Tanh(), nn.MaxPool2d(2), second, nn.Tanh(), *ends)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]


def digits(turn: int) -> tuple[Any, list[dict[str, Any]], Rows, Rows]:
    """The estimator, its candidates, rows to train on and rows to be judged by."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(turn).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[order]
    base = DPMACModuleClassifier(Small, classes=list(range(10)))
    return base, RATES, Rows(x[:1437], y[:1437]), Rows(x[1437:], y[1437:])


def census(turn: int) -> tuple[Any, list[dict[str, Any]], Rows, Rows]:
    table = load_table()
    count = len(table.train["income"])
    chosen = np.random.default_rng(turn).permutation(count)[:2000]
    rows = Rows({name: np.asarray(cells)[chosen] for name, cells in table.train.items()})
    test = {name: np.asarray(cells) for name, cells in table.test.items()}
    return DPMACClassifier(schema=table.schema), USUAL, rows, Rows(test, test["income"])


TASKS = {"digits": digits, "census": census}


def fitted(base: Any, setting: dict[str, Any], rows: Rows) -> Any:
    model = type(base)(**{**base.get_params(deep=False), **setting})
    return model.set_params(epsilon=EPSILON, delta=DELTA, ledger=Ledger()).fit(rows.X, rows.y)


def defaults(base: Any, candidates: list[dict[str, Any]], rows: Rows) -> Any:  # noqa: ARG001
    return fitted(base, {}, rows)


def searched(tries: float) -> Callable[..., Any]:
    def run(base: Any, candidates: list[dict[str, Any]], rows: Rows) -> Any:
        search = DPMACSearch(base, candidates, tries=tries, epsilon=EPSILON, delta=DELTA, ledger=Ledger())
        found = search.fit(rows.X, rows.y)
        assert found.privacy_.epsilon <= EPSILON
        return found

    return run


def every_one(base: Any, candidates: list[dict[str, Any]], rows: Rows) -> Any:
    """Every candidate once, in one ledger, all of which costs the same; the best by private scores, as many."""
    training, scored = split(rows, 0.2, SystemNoise())
    models = [type(base)(**{**base.get_params(deep=False), **one}).set_params(delta=DELTA) for one in candidates]

    def cost(own: float) -> float:
        return epsilon_of([m for model in models for m in trained(model, training.places, own)], DELTA)

    low, high = 0.05, EPSILON
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) <= EPSILON else (low, middle)
    score = Score.for_budget(low, DELTA, "accuracy")
    best, best_score = None, -np.inf
    for model in models:
        model.set_params(epsilon=low, ledger=Ledger()).fit(training.X, training.y)
        table, outputs = table_for(model, scored)
        found = score.of(table, outputs, SystemNoise(), model.privacy_.ledger)
        if found > best_score:
            best, best_score = model, found
    return best


def prices() -> None:
    """What a search of fits of epsilon 1 costs, each of them one plain Gaussian release, rounded up."""
    noise = calibrate(lambda s: [Mechanism(s)], 1.0, DELTA)
    for mean in (3, 10, 30):
        one = search_of(Selection(((Mechanism(noise),),), Tries.of_mean(mean)))
        all_published = epsilon_of([Mechanism(noise, count=mean)], DELTA)
        found = [epsilon_of([one], DELTA), epsilon_of([one], DELTA, "rdp"), all_published]
        print(mean, *(round_up(epsilon, 2) for epsilon in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*TASKS, "prices"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--known", action="store_true", help="fit every candidate with the whole budget, too")
    given = parser.parse_args()
    if given.task == "prices":
        prices()
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ways: dict[str, Callable[..., Any]] = {
        "defaults": defaults,
        "search, 3 fits on average": searched(3),
        "search, 10 fits on average": searched(10),
        "every candidate once": every_one,
    }
    found: dict[str, list[tuple[float, float]]] = {}
    for turn in range(given.repeats):
        base, candidates, rows, test = TASKS[given.task](turn)
        for name, way in ways.items():
            begun = time.process_time()
            model = way(base, candidates, rows)
            spent = time.process_time() - begun
            found.setdefault(name, []).append((float(model.score(test.X, test.y)), spent))
            print(f"  {turn + 1}: {name}: {found[name][-1][0]:.3f}, {spent:.0f} s", flush=True)
        for setting in candidates[1:] if given.known else ():
            model = fitted(base, setting, rows)
            known = f"if it were known: {setting}"
            found.setdefault(known, []).append((float(model.score(test.X, test.y)), 0.0))
    print(f"\n{given.task}, epsilon {EPSILON:g} at delta {DELTA:g}, {given.repeats} repeats")
    for name, results in found.items():
        scores, seconds = zip(*results, strict=True)
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        print(f"{name}: accuracy {statistics.mean(scores):.3f} (sd {spread:.3f}), {statistics.mean(seconds):.0f} s")


if __name__ == "__main__":
    main()
