"""What the peers in environments of their own are handed: public places and orders, and no wait without end."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def columns():
    from peers.data import Column

    return (
        Column("age", 0.0, 100.0, (), True),
        Column("dose", 0.0, 12.0, (), False),
        Column("sex", 0, 1, ("F", "M"), True),
    )


@pytest.fixture
def frame():
    return pd.DataFrame({"age": [0.0, 100.0, np.nan], "dose": [0.0, 1.0, 12.0], "sex": ["F", "M", None]})


def test_places_are_public_and_inside_their_sizes(columns, frame):
    from peers.outside import binned

    rows, sizes = binned(columns, frame)
    assert sizes == [binned(columns, frame[:1])[1][0], 12, 3]  # one row or three: the same public sizes
    assert rows[:, 0].tolist() == [0, sizes[0] - 2, sizes[0] - 1]  # the missing one after the last bin
    assert rows[:, 1].tolist() == [0, 1, 11]
    assert rows[:, 2].tolist() == [0, 1, 2]


def test_a_wide_range_has_fine_bins_at_its_low_end():
    from peers.outside import places, public_edges

    edges = public_edges(0.0, 1e5, 12)
    assert edges[0] == 0.0
    assert edges[-1] == 1e5
    assert np.all(np.diff(edges) > 0)
    assert len(np.unique(places(np.array([0.0, 5.0, 50.0, 500.0]), edges))) == 4
    assert public_edges(0.0, 20.0, 4).tolist() == [0.0, 5.0, 10.0, 15.0, 20.0]


def test_orders_lie_within_their_bounds(columns, frame):
    from peers.outside import order_bounds, orders

    rows, (low, high) = orders(columns, frame), order_bounds(columns)
    assert rows.shape == (3, 4)
    assert low.shape == high.shape == (4,)
    assert np.all(low <= rows)
    assert np.all(rows <= high)
    assert rows[:, 1].tolist() == [0.0, 0.0, 1.0]  # the flag of a missing age
    assert high.tolist() == [100.0, 1.0, 12.0, 2.0]


def test_a_method_for_classes_gets_no_job_on_numbers():
    from tables import jobs

    todo = jobs({"adult": True, "wages": False}, [2.0], ["forest", "mst"], 1)
    assert {(job.table, job.method) for job in todo} == {("adult", "forest"), ("adult", "mst"), ("wages", "mst")}


def test_a_worker_past_the_cap_is_stopped(tmp_path, monkeypatch):
    from peers import environments

    worker = tmp_path / "slow.py"
    worker.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(environments.Environments, "python", lambda self, name: Path(sys.executable))
    with pytest.raises(RuntimeError, match=r"stopped after 0.2 s \(--cap\)"):
        environments.ask(environments.Environments(tmp_path, 0.2), "any", str(worker), rows=np.zeros(1))
