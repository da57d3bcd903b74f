"""What a release is told beside its rows is the same for two neighbouring tables: divisors, rates, room, scales.

test_neighbours.py looks at sums. A divisor is applied to them afterwards, noise and all: one that followed the rows,
such as the number that are there, would tell of them without moving any sum.
"""

from __future__ import annotations

import pytest

from askers import SUPERVISED, UNSUPERVISED, labels, numbers
from doorway import capacity
from dpmac.privacy import PrivateRows, gaussian_release
from dpmac.privacy.sampling import Batch
from dpmac.randomness import SeededNoise


def told(method, table, monkeypatch):
    """All that every release of ``method`` is told, and the public sizes of its batch."""
    seen, check = [], gaussian_release._check_arguments

    def watched(*arguments):
        public = [("arguments", tuple(a for a in arguments if not isinstance(a, Batch)))]
        for batch in (a for a in arguments if isinstance(a, Batch)):
            public += [
                (
                    "batch",
                    batch.sample_rate,
                    batch.overflow,
                    capacity(batch),
                    batch.expected_rows,
                    batch.spots_per_place,
                )
            ]
        seen.append(public)
        return check(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(gaussian_release, "_check_arguments", watched)
        method(table, SeededNoise(7))
    return seen


# one for each way from rows to a release: what a Z-step or a bound does inside is no argument
WAYS = {
    *(
        "Z-step fixed",
        "Z-step fixed, sampled",
        "micro-batches",
        "a feature map in every step",
        "a feature map computed once",
    ),
    *("DP-PCA, then a network", "Algorithm 2", "ridge", "calibration", "residual scale"),
}


@pytest.mark.parametrize("name", [*(name for name in SUPERVISED if name in WAYS), *UNSUPERVISED])
def test_a_release_is_told_the_same(name, monkeypatch):
    columns = (numbers(24, 5), labels(24, 4)) if name in SUPERVISED else (numbers(24, 9),)
    method, table = (SUPERVISED | UNSUPERVISED)[name], PrivateRows(*columns)
    whole = told(method, table, monkeypatch)
    assert whole
    assert told(method, table.without(3).without(0), monkeypatch) == whole


def test_all_ways_are_there():
    assert set(SUPERVISED) >= WAYS
