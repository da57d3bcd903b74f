"""A table whose one column is a text, by the estimators with their defaults: the film snippets of benchmarks/text.py.

    python benchmarks/text_columns.py held-out [--out runs/text-columns]     # settings, on training rows alone
    python benchmarks/text_columns.py test --fits 5 [--out runs/text-columns]   # the defaults, on the test rows
    python benchmarks/text_columns.py speed                                  # what reading the texts takes

Needs DPMAC_DATA (or --data): a folder that holds text/movies.csv.gz and text/glove-100d-30k.npz. Is the rating above 0
(a classification), and which rating is it, from -4 to 4 (a regression)? The test rows are the first fifth of
``RandomState(0).permutation(n)``, and delta is 1e-6. "held-out" splits the training rows again, and compares texts
without and with whitening, with few and many features of words, and with few rows. Every finished fit is a line of
OUT/MODE.jsonl; a second start skips what is there. At the end OUT/MODE.md is written.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is loaded: one thread
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402

from dpmac import DPMACClassifier, DPMACRegressor, Schema  # noqa: E402
from dpmac.priors import SchemaPrior  # noqa: E402
from dpmac.tables import Category, Number, Text  # noqa: E402

DELTA, EPSILONS = 1e-6, (0.5, 2.0, 8.0)
Job = dict[str, Any]


class Films:
    """The snippets and their ratings, and which are for testing."""

    def __init__(self, folder: Path) -> None:
        with gzip.open(folder / "text" / "movies.csv.gz", "rt", encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        self.texts = np.array([row["text"] for row in rows], dtype=object)
        self.ratings = np.array([float(row["rating"]) for row in rows])
        self.vectors = folder / "text" / "glove-100d-30k.npz"
        order = np.random.RandomState(0).permutation(len(rows))
        test = len(rows) // 5
        self.train, self.test = order[test:], order[:test]

    def split(self, job: Job) -> tuple[Any, Any]:
        """Rows to fit and rows to judge on: of a held-out job training rows alone."""
        if job["mode"] == "test":
            return self.train, self.test
        order = self.train[np.random.RandomState(1000 + job["seed"]).permutation(len(self.train))]
        few = len(order) // 5
        return order[few:][: job["rows"]], order[:few]

    def table(self, rows: Any, numbers: bool) -> dict[str, Any]:
        target = self.ratings[rows]
        if not numbers:
            target = np.where(target > 0, "yes", "no")
        return {"text": self.texts[rows], "target": target}

    def schema(self, job: Job) -> Schema:
        target: Any = Category(["no", "yes"])
        if job["numbers"]:
            target = Number(-4.0, 4.0)
        return Schema({"text": Text(self.vectors, features=job["features"]), "target": target}, target="target")


def fitted(films: Films, job: Job) -> Job:
    """One fit and its score: AUROC, or R^2."""
    train, judged = films.split(job)
    schema = films.schema(job)
    kind: Any = DPMACClassifier
    if job["numbers"]:
        kind = DPMACRegressor
    prior = {"auto": "auto", "none": None, "drawn": SchemaPrior(schema)}[job["prior"]]
    start = time.process_time()
    model = kind(epsilon=job["epsilon"], delta=DELTA, schema=schema, prior=prior)
    model.fit(films.table(train, job["numbers"]))
    took = time.process_time() - start
    rows = films.table(judged, job["numbers"])
    if job["numbers"]:
        score = model.score(rows, rows["target"])
    else:
        score = roc_auc_score(rows["target"] == "yes", model.predict_proba(rows)[:, 1])
    return {"job": job, "score": float(score), "epsilon": model.privacy_.epsilon, "seconds": round(took, 2)}


def jobs(mode: str, fits: int) -> Iterator[Job]:
    usual = {"mode": mode, "features": 400, "prior": "auto", "rows": None}
    if mode == "test":
        cells: list[Job] = [{**usual, "numbers": numbers} for numbers in (False, True)]
    else:
        settings = [("none", 0), ("none", 400), ("auto", 0), ("auto", 400)]
        cells = [{**usual, "numbers": n, "prior": p, "features": f} for n in (False, True) for p, f in settings]
        few = [(rows, prior) for rows in (500, 2_000) for prior in ("none", "auto")]
        cells += [{**usual, "numbers": False, "prior": prior, "rows": rows} for rows, prior in few]
    for cell in cells:
        for epsilon in EPSILONS:
            yield from ({**cell, "epsilon": epsilon, "seed": seed} for seed in range(fits))


def lines(found: list[Job]) -> Iterator[str]:
    """A Markdown table: a row for each setting, a column for each epsilon."""
    yield "| target | rows | prior | features | " + " | ".join(f"epsilon {e:g}" for e in EPSILONS) + " |"
    yield "|---|--:|---|--:|" + "--:|" * len(EPSILONS)
    keys = ("numbers", "rows", "prior", "features")
    for setting in dict.fromkeys(tuple(one["job"][key] for key in keys) for one in found):
        mine = [one for one in found if tuple(one["job"][key] for key in keys) == setting]
        cells = []
        for epsilon in EPSILONS:
            scores = [one["score"] for one in mine if one["job"]["epsilon"] == epsilon]
            cells.append(f"{statistics.mean(scores):.3f} ({statistics.stdev(scores) if len(scores) > 1 else 0:.3f})")
        target = "rating, R^2" if setting[0] else "rating > 0, AUROC"
        yield f"| {target} | {setting[1] or 'all'} | {setting[2]} | {setting[3]} | {' | '.join(cells)} |"


def speed(films: Films) -> str:
    """Processor time of the word list and of all snippets, the best of three."""
    start = time.process_time()
    column = Text(films.vectors)
    column.coded("text", films.texts[:1])
    first, every = time.process_time() - start, []
    for _ in range(3):
        start = time.process_time()
        column.coded("text", films.texts)
        every.append(time.process_time() - start)
    return f"the list: {first:.2f} s, {len(films.texts):,} snippets: {min(every):.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["held-out", "test", "speed"])
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"))
    parser.add_argument("--fits", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/text-columns"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("set DPMAC_DATA, or give --data")
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    films, kept = Films(Path(given.data)), given.out / f"{given.mode}.jsonl"
    if given.mode == "speed":
        print(speed(films))
        return
    found = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for job in jobs(given.mode, given.fits):
        if job in [one["job"] for one in found]:
            continue
        found.append(fitted(films, job))
        print(json.dumps(found[-1]), flush=True)
        with kept.open("a") as out:
            out.write(json.dumps(found[-1]) + "\n")
    table = "\n".join(lines(found)) + "\n"
    (given.out / f"{given.mode}.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
