"""The defaults with a prior and without, simulated on held-out *training* rows: what whitening is worth.

    python benchmarks/search/prior.py [--tables adult ...] [--epsilons 0.5 2 8] [--seeds 2] [--data FOLDER]
        [--collection FOLDER] [--out runs/prior.jsonl] [--power P] [--bins B] [--steps S] [--rate R] [--clip C]

The last five try other settings in place of the rule's (:mod:`dpmac.training.defaults`); rate and clip multiply it.
Every training is one line of OUT, and a second start skips what is there. The printed table has the mean score (AUROC
or R^2) of the rule without a prior, and what the prior adds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from simulation import Models, Settings, Shape, WideModels, judged, train

from dpmac.priors import SchemaPrior, WhiteningOptions, whitened
from dpmac.tables import Schema, TableEncoder
from dpmac.training.defaults import Defaults, defaults_for, schedule_for, whitens
from search import plan_of
from tables import COLLECTION, Table, encoded, frame_of


def settings_of(options: argparse.Namespace, of: Table, n: int, epsilon: float, drawn: bool) -> tuple[Defaults, Any]:
    """What an estimator would take for n rows, or what was asked for in its place; and its plan."""
    cut = schedule_for(n, whitened=drawn and of.classes and whitens(n, regression=False))
    steps = cut.steps
    if drawn and options.steps is not None:
        steps = options.steps
    plan = plan_of(n, of.classes, epsilon, cut.batch_size, steps)
    found = defaults_for(plan, regression=not of.classes, drawn=drawn)
    if not drawn:
        return found, plan
    if options.power is not None:
        found = replace(found, whitening=options.power)
    if options.bins is not None:
        found = replace(found, bins=options.bins)
    rate, clip = found.learning_rate * options.rate, found.threshold * options.clip
    return replace(found, learning_rate=rate, threshold=clip), plan


def inputs_of(name: str, frame: Any, description: dict[str, Any], usual: Defaults) -> Table:
    """The table's training rows as the estimators see them."""
    of = encoded(name, frame, description, usual.bins)
    if usual.whitening is None:
        return of
    schema = Schema.from_dict(description)
    chain = whitened(TableEncoder(schema, usual.bins), SchemaPrior(schema), WhiteningOptions(power=usual.whitening))
    last = chain.feature_maps[1]
    return replace(of, x=torch.cat([last(block).float() for block in torch.split(of.x, 8192)]))


def scored(of: Table, usual: Defaults, plan: Any, seed: int) -> float:
    fit, held = of.split(seed)
    one = torch.ones(1)
    settings = Settings(
        one * usual.learning_rate,
        one * usual.threshold,
        one * plan.noise_multiplier,
        torch.ones(1, of.x.shape[1]),
        one,
        usual.average,
    )
    kind: type[Models] = Models
    if usual.wide:
        kind = WideModels
    shape = Shape(usual.hidden, usual.activation, plan.batch_size / plan.n, plan.steps)
    models = train(of.x[fit], of.y[fit], of.classes, shape, settings, seed, kind)
    return float(judged(models, of.x[held], of.y[held], of.classes)[0][0])


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("DPMAC_DATA"))
    parser.add_argument("--collection", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 2.0, 8.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/prior.jsonl"))
    parser.add_argument("--power", type=float)
    parser.add_argument("--bins", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--clip", type=float, default=1.0)
    options = parser.parse_args(given)
    if options.tables is None:
        there = sorted((Path(options.data) / "tables").glob("*.schema.json")) if options.data else []
        options.tables = [path.name.removesuffix(".schema.json") for path in there]
        options.tables += COLLECTION if options.collection else ()
    return options


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    known = {json.dumps(row[:-1]): row[-1] for row in map(json.loads, lines)}
    asked = [options.power, options.bins, options.steps, options.rate, options.clip]
    print(f"{'table':12} {'rows':>7}" + "".join(f"{f'epsilon {e:g}':>18}" for e in options.epsilons))
    for name in options.tables:
        frame, description = frame_of(name, Path(options.data) if options.data else None, options.collection)
        plain = encoded(name, frame, description)
        n, cells = len(plain.split(0)[0]), []
        for epsilon in options.epsilons:
            means = []
            for drawn in (False, True):
                usual, plan = settings_of(options, plain, n, epsilon, drawn)
                of, scores = None, []
                for seed in range(options.seeds):
                    key = json.dumps([name, epsilon, drawn, seed, *(asked if drawn else [])])
                    if key not in known:
                        of = inputs_of(name, frame, description, usual) if of is None else of
                        known[key] = scored(of, usual, plan, seed)
                        with options.out.open("a", encoding="utf-8") as file:
                            file.write(json.dumps([*json.loads(key), known[key]]) + "\n")
                    scores.append(known[key])
                means.append(statistics.mean(scores))
            change = "      =" if math.isclose(*means) else f"{means[1] - means[0]:+.4f}"
            cells.append(f"{means[0]:10.4f} {change}")
        print(f"{name:12} {n:7,}" + "".join(cells), flush=True)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
