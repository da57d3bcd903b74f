"""Runs in smartnoise-synth's own environment: `synthetic_worker.py IN.npz OUT.npz`.

IN holds train (places, the target last), sizes (how many places each column has), nominal (which are categories), test,
middles (of the target's bins), is_class, kind (mst or aim), epsilon, delta, seed; OUT gets predicted and seconds.
MST or AIM makes as many rows as it was given, and histogram gradient boosting is fitted to these.

The rows are drawn here from the released model: smartnoise-synth asks for mbi below 2, whose own `synthetic_data` links
columns that the model has independent (mended by ryan112358/mbi, pull request 145). Drawing costs no privacy.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np


class Drawn:
    """Stands in for the released model: rows one column after another, given those before it in its cliques."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.random = np.random.default_rng()

    def synthetic_data(self, rows: int) -> Any:
        from mbi import Dataset, junction_tree, marginal_oracles

        domain = self.model.domain
        tree, order = junction_tree.make_junction_tree(domain, [set(clique) for clique in self.model.cliques])
        marginals = marginal_oracles.message_passing_stable(self.model.potentials.expand(list(tree.nodes)))
        drawn: dict[str, np.ndarray] = {}
        for column in reversed(order):
            beside = set().union(*(node for node in tree.nodes if column in node))
            given = tuple(name for name in drawn if name in beside)
            counts = np.asarray(marginals.project((*given, column)).datavector(flatten=False), np.float64)
            counts = counts + 1e-12 * counts.sum() / counts.size  # what never occurs is drawn evenly
            part = counts.cumsum(axis=-1) / counts.sum(axis=-1, keepdims=True)
            chosen = part[tuple(drawn[name] for name in given)]
            drawn[column] = np.minimum((self.random.random((rows, 1)) > chosen).sum(axis=-1), domain.size(column) - 1)
        return Dataset({name: drawn[name] for name in domain.attrs}, domain)


def synthesised(train: np.ndarray, sizes: list[int], kind: str, epsilon: float, delta: float) -> np.ndarray:
    from snsynth import Synthesizer
    from snsynth.transform.table import NoTransformer

    class Places(NoTransformer):
        """The rows are places already, and how many there are is public: nothing is learned from the rows."""

        def __init__(self) -> None:
            super().__init__()
            self.output_width = len(sizes)

        @property
        def cardinality(self) -> list[int]:
            return sizes

        def transform(self, data: np.ndarray) -> np.ndarray:
            return data

        def inverse_transform(self, data: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
            return data

    made = Synthesizer.create(kind, epsilon=epsilon, delta=delta)
    made.fit(train, transformer=Places())
    made.synthesizer = Drawn(made.synthesizer)
    return np.asarray(made.sample(len(train)), np.int64)


def main(source: str, goal: str) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    warnings.simplefilter("ignore")
    given = np.load(source)
    is_class, start = bool(given["is_class"]), time.perf_counter()
    sizes = [int(size) for size in given["sizes"]]
    rows = synthesised(given["train"], sizes, str(given["kind"]), float(given["epsilon"]), float(given["delta"]))
    kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    target = rows[:, -1] if is_class else given["middles"][rows[:, -1]]
    if len(np.unique(target)) == 1:
        predicted = np.full(len(given["test"]), float(target[0]))
    else:
        model = kind(categorical_features=given["nominal"], random_state=int(given["seed"])).fit(rows[:, :-1], target)
        predicted = model.predict_proba(given["test"])[:, 1] if is_class else model.predict(given["test"])
    np.savez(goal, predicted=predicted, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main(*sys.argv[1:3])
