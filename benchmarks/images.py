"""The accuracy of DPMACImageClassifier on test rows: MNIST, Fashion-MNIST and scikit-learn's digits.

    python benchmarks/images.py mnist --data FOLDER --epsilon 0.5 2 8 --fits 5

FOLDER holds the four idx files of MNIST, or of Fashion-MNIST (Debian's package dataset-fashion-mnist); digits need
none. Features are computed once and kept in runs/images, and so are results: what was fitted is not fitted again.
``--held-out`` fits on all training rows but 5,000 and scores these, for choosing settings; test rows are not read.
Every fit is the estimator's own, with its defaults and its noise; only the features are handed to it ready-made.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpmac import DPMACImageClassifier, Machine
from dpmac.data import load
from dpmac.estimators import DPMACClassifier
from dpmac.nets.feature_maps import FeatureMap
from dpmac.pictures.arrays import array_of, rows_of
from dpmac.priors import picture_features

NAMES = ("mnist", "fashion", "digits")
HELD_OUT = 5_000
BLOCK = 2_048
DELTA = 1e-5


class OnFeatures(DPMACImageClassifier):
    """The estimator behind its feature map: rows are features, and all else is as it is."""

    _needs_scales = False

    def fit(self, X: Any, y: Any = None, *others: Any) -> Any:
        return DPMACClassifier.fit(self, X, y, *others)

    def _feature_map(self, width: int, bins: int | None = None) -> None:  # type: ignore[override]
        del width, bins

    def _map_of(self, *given: Any) -> None:  # type: ignore[override]
        del given

    def _raw(self, X: Any) -> torch.Tensor:
        return torch.from_numpy(X)


def main() -> None:
    asked = _arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.threads is not None:
        torch.set_num_threads(asked.threads)
    train, test = (_features(asked, part) for part in ("train", "test"))
    (x, y), (others, right) = train, test
    if asked.held_out:
        kept = len(x) - min(HELD_OUT, len(x) // 5)
        x, y, others, right = x[:kept], y[:kept], x[kept:], y[kept:]
    where = asked.out / f"{asked.name}.jsonl"
    done = []
    if where.exists():
        done = [json.loads(line) for line in where.read_text().splitlines()]
    for epsilon in asked.epsilon:
        same = {"held_out": asked.held_out, "epsilon": epsilon, "rows": len(x)}
        found = [one for one in done if all(one[key] == value for key, value in same.items())]
        for _ in range(len(found), asked.fits):
            found.append({**same, **_fit(x, y, others, right, epsilon)})
            with where.open("a") as handle:
                handle.write(json.dumps(found[-1]) + "\n")
        scores = [one["accuracy"] for one in found[: asked.fits]]
        print(f"{asked.name}, epsilon {epsilon:g}: {np.mean(scores):.4f}, {len(scores)} fits from {min(scores):.4f}")


def _fit(x: Any, y: Any, others: Any, right: Any, epsilon: float) -> dict[str, float]:
    began = time.monotonic()
    model = OnFeatures(epsilon=epsilon, delta=DELTA, classes=tuple(range(10)), machine=Machine(progress=False))
    model.fit(x, y)
    took = time.monotonic() - began
    return {"accuracy": model.score(others, right), "seconds": took, "stated": model.privacy_.epsilon}


def _features(asked: argparse.Namespace, part: str) -> tuple[Any, Any]:
    """The features, and labels, of training or of test rows; kept in a file of a name that says it all."""
    pictures, labels = _pictures(asked, part)
    size = pictures.shape[1:]
    path = asked.out / f"{asked.name}-{part}-features.npy"
    if not path.exists():
        features = picture_features(*size, *array_of(pictures[:1])[1][2:])
        np.save(path, _mapped(features, pictures, f"{asked.name}, {part} rows"))
    return np.load(path), labels


@torch.no_grad()
def _mapped(features: FeatureMap, pictures: Any, what: str) -> Any:
    rows, began = rows_of(array_of(pictures)[0]), time.monotonic()
    starts = range(0, len(rows), BLOCK)
    found = [features(torch.from_numpy(rows[first : first + BLOCK])).float().numpy() for first in starts]
    print(f"features of {len(rows):,} pictures ({what}): {time.monotonic() - began:.0f} s")
    return np.concatenate(found)


def _pictures(asked: argparse.Namespace, part: str) -> tuple[Any, Any]:
    if asked.name == "digits":
        digits = load("digits")
        x, y = {"train": (digits.x_train, digits.y_train), "test": (digits.x_test, digits.y_test)}[part]
        return x.numpy().reshape(-1, *digits.shape), y.numpy()
    begins = {"train": "train", "test": "t10k"}[part]
    pictures = _bytes(asked.data / f"{begins}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    return pictures, _bytes(asked.data / f"{begins}-labels-idx1-ubyte.gz", 8).astype(np.int64)


def _bytes(path: Path, offset: int) -> Any:
    with gzip.open(path) as handle:
        return np.frombuffer(handle.read(), np.uint8, offset=offset)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--data", type=Path, help="the folder of the idx files")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 2.0, 8.0])
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/images"))
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--threads", type=int)
    found = parser.parse_args()
    if found.name != "digits" and found.data is None:
        parser.error("--data: give the folder of the idx files")
    return found


if __name__ == "__main__":
    main()
