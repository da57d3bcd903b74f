"""The accuracy of DPMACImageClassifier on test rows: MNIST, Fashion-MNIST and scikit-learn's digits.

    python benchmarks/images.py mnist --data FOLDER --epsilon 0.5 2 8 --fits 5

FOLDER holds the four idx files of MNIST, or of Fashion-MNIST (Debian's package dataset-fashion-mnist); digits need
none. Features are computed once and kept in runs/images (in half precision: 1.4 GB), and so are what 4,000 directions
have of them (1 GB) and the results: what was fitted is not fitted again. ``--held-out`` fits on all training rows but
5,000 and scores these, for choosing settings; test rows are not read. Every fit is the estimator's own, with its
defaults and its noise; only the features are handed to it ready-made: as many of the first directions as it would keep,
scaled as it scales them.
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
from dpmac.nets.feature_maps import FeatureMap, Whitening
from dpmac.pictures.arrays import array_of, rows_of
from dpmac.priors import PicturePrior, picture_features
from dpmac.priors.whitened_pictures import maps_of
from dpmac.training.pictures import LENGTH, MOST_DIRECTIONS, picture_directions

NAMES = ("mnist", "fashion", "digits")
HELD_OUT = 5_000
BLOCK = 2_048
DELTA = 1e-5
MEASURED = 4_096  # drawings that tell a mean length


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
    (x, y), (others, right) = _data(asked)
    where = asked.out / f"{asked.name}.jsonl"
    done = []
    if where.exists():
        done = [json.loads(line) for line in where.read_text().splitlines()]
    for epsilon in asked.epsilon:
        kept, scale = _kept(asked, len(x), epsilon)
        same = {"held_out": asked.held_out, "epsilon": epsilon, "rows": len(x), "directions": kept}
        found = [one for one in done if all(one[key] == value for key, value in same.items())]
        for _ in range(len(found), asked.fits):
            ready = (scale * x[:, :kept], y, scale * others[:, :kept], right)
            found.append({**same, **_fit(*ready, epsilon)})
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


def _data(asked: argparse.Namespace) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """What 4,000 directions have of the rows to fit and to score, and the labels of both."""
    parts = ("train",) if asked.held_out else ("train", "test")
    found = [_codes(asked, part) for part in parts]
    if not asked.held_out:
        return found[0], found[1]
    (x, y) = found[0]
    kept = len(x) - min(HELD_OUT, len(x) // 5)
    return (x[:kept], y[:kept]), (x[kept:], y[kept:])


def _codes(asked: argparse.Namespace, part: str) -> tuple[Any, Any]:
    pictures, labels = _pictures(asked, part)
    path = asked.out / f"{asked.name}-{part}-codes.npy"
    if not path.exists():
        _write(path, _features(asked, part, pictures), _whitening(asked), MOST_DIRECTIONS, np.float32)
    return np.load(path, mmap_mode="r"), labels


def _features(asked: argparse.Namespace, part: str, pictures: Any) -> Any:
    """The features of training or of test rows, as they are before they are whitened."""
    path = asked.out / f"{asked.name}-{part}-features.npy"
    if not path.exists():
        inner = maps_of("both", *array_of(pictures[:1])[1], 255.0)
        (width,) = inner.shape_after((pictures[0].size,))
        _write(path, rows_of(array_of(pictures)[0]), inner, width, np.float16)
    return np.load(path, mmap_mode="r")


def _whitening(asked: argparse.Namespace) -> FeatureMap:
    path = asked.out / "whitening.npz"
    if not path.exists():
        made = picture_features(28, 28, directions=MOST_DIRECTIONS).feature_maps[-1]
        assert isinstance(made, Whitening)
        np.savez(path, centre=made.centre.numpy(), matrix=made.matrix.float().numpy())
    found = np.load(path)
    return Whitening(torch.from_numpy(found["centre"]), torch.from_numpy(found["matrix"]), "drawings")


def _kept(asked: argparse.Namespace, rows: int, epsilon: float) -> tuple[int, float]:
    """How many directions the estimator keeps, and what brings a drawing's mean length in these to the estimator's."""
    path = asked.out / "drawn-codes.npy"
    if not path.exists():
        drawn, inner = PicturePrior(28, 28).drawn(MEASURED).numpy(), maps_of("both", 28, 28, 1, 255.0)
        _write(path, _mapped(drawn, inner), _whitening(asked), MOST_DIRECTIONS, np.float32)
    kept = picture_directions(rows, epsilon, len(_whitening(asked).get_buffer("centre")))
    lengths = np.linalg.norm(np.load(path)[:, :kept], axis=1)
    return kept, float(LENGTH / lengths.mean())


def _write(path: Path, rows: Any, by: FeatureMap, width: int, kind: type) -> None:
    """What ``by`` gives of all rows, into a file that is there when it is whole."""
    began, partial = time.process_time(), path.with_suffix(".part")
    out = np.lib.format.open_memmap(partial, "w+", kind, (len(rows), width))
    for first in range(0, len(rows), BLOCK):
        out[first : first + BLOCK] = _mapped(rows[first : first + BLOCK], by)
    out.flush()
    partial.rename(path)
    print(f"{path.name}: {time.process_time() - began:.0f} s of one core")


@torch.no_grad()
def _mapped(rows: Any, by: FeatureMap) -> Any:
    return by(torch.from_numpy(np.asarray(rows, dtype=np.float32))).float().numpy()


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
