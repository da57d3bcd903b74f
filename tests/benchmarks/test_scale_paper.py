"""The formula of benchmarks/scale_paper.py, and the page that is made of the figures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpmac.nets import DenseNetwork
from dpmac.randomness import SeededNoise

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GIVEN = {"rows": 1e6, "batch": 1000.0, "steps": 10, "rate_rows": 100.0, "parameters": 5000, "read_rate": 1e4}
LINE = {"bandwidth": 1e6, "latency": 0.25}


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_one_process_talks_to_nobody():
    from scale_paper import projected

    found = projected(**GIVEN, **LINE, processes=1)
    assert (found.sums, found.words, found.noise, found.draw, found.fetch) == (0.0, 0.0, 0.0, 0.0, None)
    assert found.seconds == 1e6 / 1e4 + 10 * 1000 / 100


def test_every_term_by_hand():
    from scale_paper import projected

    rates = {"draw_rate": 1000.0, "noise_rate": 1000.0}
    found = projected(**GIVEN, **LINE, **rates, processes=4, fetch_rate=50.0, messages=3)
    assert found.reading == 1e6 / 4e4
    assert (found.work, found.draw, found.fetch) == (2.5, 0.25, 5.0)
    assert found.sums == pytest.approx(4 * 8 * 5000 / 1e6)
    assert (found.words, found.noise) == (3 * 0.25 * 2, 5.0)
    assert found.step == pytest.approx(5.25 + 0.16 + 1.5 + 5.0)  # what is read ahead hides the work, or the other way
    assert found.seconds == pytest.approx(25.0 + 10 * 11.91)
    in_memory = projected(**GIVEN, **LINE, **rates, processes=4, messages=3)
    assert in_memory.step == pytest.approx(2.5 + 0.25 + 0.16 + 1.5 + 5.0)  # nothing is drawn ahead there


def test_more_processes_shrink_a_step_to_its_floor_only():
    from scale_paper import projected

    line = {"bandwidth": 1e6, "latency": 0.0}
    steps = [projected(**GIVEN, **line, processes=p, noise_rate=1e4) for p in (1, 2, 64, 10**9)]
    floors = [0.5 + one.sums for one in steps]
    assert [one.step - floor for one, floor in zip(steps, floors, strict=True)] == pytest.approx(
        [10, 5, 10 / 64, 0], abs=1e-6
    )
    assert [one.sums for one in steps] == pytest.approx([0.0, 0.08, 64 * 0.04, 4e7])  # the leader takes each by itself


def test_parameters_are_those_of_a_network():
    from scale_paper import parameters_of

    sizes = [7, 5, 3, 2]
    there = sum(p.numel() for p in DenseNetwork(sizes, "relu", source=SeededNoise(0)).parameters())
    assert parameters_of(sizes) == there


def test_a_case_says_where_every_number_comes_from_and_takes_what_was_measured():
    from scale_paper import STAND_IN, cases, measured_rates

    slow = {"contender": "dpmac", "batch": 1000, "rows_a_second": 1.0}
    figures = {
        "strong": [{"processes": 1, "threads": 1, "batch": 100, "step_s": 0.5, "noise_s": 0.1, "parameters": 30}],
        "gpu": [slow, {**slow, "batch": 10_000, "rows_a_second": 7e6}, {**slow, "contender": "torch", "batch": 8192}],
        "large": [
            {"pass_rows_a_second": 2e5, "fetch_rows_a_second": 3e5, "draw_rows_a_second": 1e6, "bytes": 700, "rows": 10}
        ],
    }
    rates = measured_rates(figures)
    assert set(rates) == set(STAND_IN)
    assert rates["cpu rate"] == pytest.approx(100 / 0.4)
    assert (rates["gpu rate"], rates["cpu noise rate"], rates["bytes a row"]) == (7e6, pytest.approx(300), 70)
    assert measured_rates({}) == {}
    for one, other in zip(cases({}), cases(rates), strict=True):
        assert set(one.numbers) == set(one.origin) == set(other.origin)
        assert math.isfinite(one.projection().seconds)
        assert other.projection().seconds != one.projection().seconds
    assert cases(rates)[0].numbers["rate_rows"] == 7e6
    assert cases(rates)[1].origin["rate_rows"].startswith("measured")
    assert cases({})[1].origin["rate_rows"].startswith("assumed")


# --- the page ---------------------------------------------------------------------------------------------------------

STEP = {"step_s": 0.04, "sums_share": 0.1, "words_share": 0.2, "others_share": 0.3, "noise_s": 0.001}
STEP |= {"bytes_a_step": 341_000, "messages_a_step": 4, "parameters": 21_310, "rows_a_second": 2e5, "threads": 1}
FIT = {"seconds": 5.0, "before_s": 3.0, "steps_s": 1.5, "step_s": 0.01, "peak_mib": 700.0, "same_weights": True}
ABOUT = {"command": "python x", "date": "2026-01-01", "machine": "2 cores", "cores": 2, "torch": "2.0"}
CELLS = {
    "strong": [{"processes": p, "rows": 400_000, "batch": 8192, **STEP} for p in (1, 2, 4)],
    "weak": [{"processes": p, "rows": p * 1000, "batch": p * 100, **STEP} for p in (1, 2, 4)],
    "stream": [{"way": way, "rows": 1000, "batch": 100, **FIT} for way in ("arrays", "scratch")],
}


def test_the_page_marks_what_exceeds_the_cores_and_says_whether_weights_are_the_same(tmp_path):
    import scale_report

    scale_report.write(tmp_path, CELLS, ABOUT)
    page = (tmp_path / "scale.md").read_text()
    assert "| 2 x 1 | " in page
    assert page.count("| 4 x 1 * | ") == 2
    assert "the same, bit for bit" in page
    assert (tmp_path / "scale" / "scale.png").stat().st_size > 10_000
    other = {**CELLS, "stream": [*CELLS["stream"], {**CELLS["stream"][0], "same_weights": False}]}
    scale_report.write(tmp_path, other, ABOUT)
    assert "**Weights differ.**" in (tmp_path / "scale.md").read_text()


def test_figures_of_a_gpu_stand_beside_those_of_another_machine(tmp_path):
    import scale_report

    scale_report.write(tmp_path, CELLS, ABOUT)
    row = {
        "batch": 10_000,
        "rows": 10**6,
        "step_s": 0.002,
        "rows_a_second": 5e6,
        "rounds": 3,
        "peak_mib": 90.0,
        "start_mib": 95.0,
    }
    cells = {"gpu": [{"contender": who, **row} for who in ("torch, not private", "dpmac")]}
    scale_report.write(tmp_path, cells, {**ABOUT, "command": "python y"}, "a GPU")
    page = (tmp_path / "scale.md").read_text()
    assert "on the device: a GPU" in page
    assert "Measured on 2 cores" in page
    assert "| rate_rows | 5,000,000 | measured" in page
    assert json.loads((tmp_path / "scale" / "scale.json").read_text())["command"] == "python x"


def test_medians_are_of_the_rounds_and_one_round_that_differs_is_seen():
    import scale

    rows = [
        {"job": {"part": "stream", "way": way, "round": turn}, "found": {"step_s": float(turn), "weights": digest}}
        for way, digests in {"arrays": "aaa", "scratch": "aab"}.items()
        for turn, digest in enumerate(digests)
    ]
    arrays, scratch = scale.slim(rows)["stream"]
    assert (arrays["step_s"], arrays["rounds"], arrays["same_weights"]) == (1.0, 3, True)
    assert not scratch["same_weights"]
    assert "weights" not in scratch
