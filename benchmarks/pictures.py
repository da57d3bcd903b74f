"""The time of picture features on one core: ``python benchmarks/pictures.py``. Times are of the processor."""

from __future__ import annotations

import time

import torch

from dpmac.pictures import DrawnEncoder, Scattering
from dpmac.pictures.resizing import SIDES
from dpmac.priors import PicturePrior

PICTURES, TRIES = 256, 5


def main() -> None:
    torch.set_num_threads(1)
    for channels, side in SIDES.items():
        rows = PicturePrior(side, side, channels).drawn(PICTURES)
        for feature_map in (Scattering(side, side, channels), DrawnEncoder.shipped(side, side, channels)):
            feature_map(rows)
            tries = [_seconds(lambda one=feature_map, rows=rows: one(rows)) for _ in range(TRIES)]
            (width,) = feature_map.shape_after((rows.shape[1],))
            each = 1_000 * min(tries) / PICTURES
            print(f"{feature_map.kind}, {side} x {side} x {channels}: {width:,} features, {each:.2f} ms a picture")
    each = 1_000 * _seconds(lambda: PicturePrior().drawn(2_560)) / 2_560
    print(f"a drawing, 28 x 28: {each:.2f} ms")


def _seconds(work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
