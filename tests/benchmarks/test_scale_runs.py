"""The command of benchmarks/scale.py, for real and tiny; and every benchmark can be imported."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _beside_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def _run(out: Path, *more: str) -> None:
    import scale

    assert scale.main(["--quick", "--out", str(out), *more]) == 0


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_every_benchmark_imports_what_there_is(name, monkeypatch):
    """A name of the package that has moved is noticed here; what a benchmark does is run for real below, and long."""
    before = set(sys.modules)
    importlib.import_module(name)
    for new in set(sys.modules) - before:
        if Path(getattr(sys.modules[new], "__file__", None) or "/").parent == BENCHMARKS:
            del sys.modules[new]


@pytest.mark.long
def test_two_processes_send_their_sums_and_get_the_answer_in_float64(tmp_path, capsys):
    _run(tmp_path, "--only", "weak", "--processes", "2")
    assert "ms a step" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "scale" / "scale.json").read_text())["weak"]
    words = 2 * 33 + 8  # all say whether they are well and what they did; the leader, whether it has paid
    assert row["bytes_a_step"] == pytest.approx(2 * 8 * row["parameters"] + words, rel=1e-4)  # five digits are kept
    assert row["messages_a_step"] == 4
    assert 0 < row["sums_share"] + row["words_share"] < 1
    _run(tmp_path, "--only", "weak", "--processes", "2")
    assert capsys.readouterr().out == ""  # what is there is not measured again


@pytest.mark.long
def test_a_quick_run_makes_every_figure_and_leaves_no_table(tmp_path):
    _run(tmp_path, "--large")
    figures = json.loads((tmp_path / "scale" / "scale.json").read_text())
    assert [row["processes"] for row in figures["strong"] if row["threads"] == 1] == [1, 2]
    assert all(row["same_weights"] for row in figures["stream"])
    assert [row["way"] for row in figures["stream"]] == ["arrays", "arrow", "parquet", "scratch", "groups"]
    assert figures["large"][0]["fetch_rows_a_second"] > 0
    assert not list(tmp_path.glob("large-*"))
    page = (tmp_path / "scale.md").read_text()
    for part in ("One table", "grows with", "Streaming", "More rows", "On paper"):
        assert part in page
