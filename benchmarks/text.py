"""Private models of text: a rating above 0 from a film snippet, by torch modules on public word vectors.

    python benchmarks/text.py [--modules mean attention ...] [--epsilons 0.5 2 8] [--fits 5] [--out runs/text]

Needs DPMAC_DATA (or --data): a folder that holds text/movies.csv.gz and text/glove-100d-30k.npz; and opacus, which
trains the same modules with the same noise, rate and steps.

First settings are chosen for every module and epsilon by fits of dpmac on a part of the *training* rows, judged on the
rest of them. Then every module is fitted with its settings on all training rows, by dpmac and by Opacus, and judged on
the test rows. Every finished fit is one line of OUT/fits.jsonl; a second start skips what is there. At the end
OUT/text.json and OUT/text.md are written. (The stated epsilon does not cover the search, as with any other search.)
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is loaded: one thread
    os.environ.setdefault(_name, "1")

import torch  # noqa: E402
from texts import data, fits, modules  # noqa: E402

GRIDS = {
    "mean": [fits.Setting(0.25, 60, clip, lr) for clip in (0.5, 1.0) for lr in (0.03, 0.1, 0.3)],
    "attention": [fits.Setting(0.25, 60, clip, lr) for clip in (0.5, 1.0) for lr in (0.03, 0.1)],
    "transformer": [fits.Setting(0.1, 40, 1.0, lr, hidden=8) for lr in (0.03, 0.06)],
    "mean, words trained": [fits.Setting(0.1, 40, 1.0, lr) for lr in (0.003, 0.03)],
}
SPLITS = {"mean": 2, "attention": 2}  # of the training rows, in the search; 1 for the others, which are slow


class Kept:
    """Finished fits, one a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found = {self._key(row["job"]): row for row in map(json.loads, lines)}

    @staticmethod
    def _key(job: dict[str, Any]) -> str:
        return json.dumps(job, sort_keys=True)

    def of(self, texts: data.Texts, job: dict[str, Any]) -> dict[str, Any]:
        """The result of a job; fitted now if it is not there yet."""
        key = self._key(job)
        if key not in self.found:
            setting, seed = fits.Setting(**job["setting"]), job["seed"]
            rows = (texts.train, texts.test)
            if job["stage"] == "search":
                rows = texts.inner_split(seed)
            made = fits.fitted(texts, job["module"], job["way"], job["epsilon"], setting, rows, seed)
            self.found[key] = {"job": job, **made}
            with self.path.open("a") as lines:
                lines.write(json.dumps(self.found[key]) + "\n")
            print(json.dumps(self.found[key]), flush=True)
        return self.found[key]


def chosen(texts: data.Texts, kept: Kept, name: str, epsilon: float) -> fits.Setting:
    """The setting with the largest mean AUROC on held-out training rows."""

    def score(setting: fits.Setting) -> float:
        job = {"stage": "search", "module": name, "way": "dpmac", "epsilon": epsilon, "setting": setting.plain()}
        return statistics.mean(kept.of(texts, {**job, "seed": s})["auroc"] for s in range(SPLITS.get(name, 1)))

    return max(GRIDS[name], key=score)


def cells(
    texts: data.Texts, kept: Kept, names: list[str], epsilons: list[float], count: int
) -> Iterator[dict[str, Any]]:
    """The mean and the deviation of all fits of a module, way and epsilon."""
    for name, epsilon in itertools.product(names, epsilons):
        setting = chosen(texts, kept, name, epsilon)
        for way in fits.WAYS:
            job = {"stage": "test", "module": name, "way": way, "epsilon": epsilon, "setting": setting.plain()}
            rows = [kept.of(texts, {**job, "seed": seed}) for seed in range(count)]
            scores = [row["auroc"] for row in rows]
            yield {
                **{key: job[key] for key in ("module", "way", "epsilon", "setting")},
                "auroc": round(statistics.mean(scores), 4),
                "deviation": round(statistics.stdev(scores), 4) if count > 1 else None,
                "fits": count,
                "noise_multiplier": round(rows[0]["noise_multiplier"], 3),
            }


def table(found: list[dict[str, Any]], epsilons: list[float]) -> str:
    """A Markdown table: a row for each module and way, a column for each epsilon."""
    head = [
        "| module | trained by | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |",
        "|---|---|" + "--:|" * len(epsilons),
    ]
    lines = []
    for name, way in dict.fromkeys((cell["module"], cell["way"]) for cell in found):
        mine = {cell["epsilon"]: cell for cell in found if (cell["module"], cell["way"]) == (name, way)}
        numbers = [f"{mine[e]['auroc']:.3f} ({mine[e]['deviation'] or 0:.3f})" for e in epsilons]
        lines.append(f"| {name} | {way} | {' | '.join(numbers)} |")
    return "\n".join([*head, *lines]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"))
    parser.add_argument("--modules", nargs="+", choices=modules.NAMES, default=list(modules.NAMES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 2.0, 8.0])
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/text"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("set DPMAC_DATA, or give --data")
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    texts, kept = data.load(Path(given.data)), Kept(given.out / "fits.jsonl")
    found = list(cells(texts, kept, given.modules, given.epsilons, given.fits))
    (given.out / "text.json").write_text(json.dumps(found, indent=1) + "\n")
    (given.out / "text.md").write_text(table(found, given.epsilons))
    print(table(found, given.epsilons))


if __name__ == "__main__":
    main()
