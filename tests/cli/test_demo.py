"""``dpmac demo``: on people and on digits, in this process and (long) for real, offline and without matplotlib."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

import dpmac
from dpmac.cli import app, main
from dpmac.data import fetching, load_table
from dpmac.nets.feature_maps import load_feature_map
from dpmac.tables import TableEncoder
from dpmac.training import progress

RUN_FILES = {"model.safetensors", "front.safetensors", "ledger.jsonl", "plan.json", "history.json", "result.json"} | {
    "statement.txt",
    "statement.json",
    "dpmac.json",
    "README.md",
    "report.html",
}
OF_A_TABLE = {"schema.json", "evaluation.json"}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A short run on the table: what was printed, and its folder. So short that a bar would wait for longer."""
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "_PATIENCE", 0)
        done = CliRunner().invoke(app, ["demo", "--epochs", "5", "--out", str(out)], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert done.stderr.count("50/50 steps") == 2  # a bar each; standard output stays clean
    assert "50/50" not in done.stdout
    (folder,) = out.iterdir()
    return done.stdout, folder


def test_people_are_shown_with_ranking_log_loss_and_reliability(people):
    text, folder = people
    for words in ("private (DP-MAC)", "same network, not private", "base rate", "AUROC", "log-loss", "it said"):
        assert words in text
    assert "8,000 people" in text
    assert "CC BY 4.0" in text
    assert "Privacy statement" in text
    assert folder.name in text.replace("\n", "")
    result = json.loads((folder / "result.json").read_text())
    p = result["base_rate"]
    assert result["base_rate_log_loss"] == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p), rel=1e-6)
    for found in (result["test"], result["test_not_private"]):  # few epochs, but 8,000 people: far better than a guess
        assert 0.8 < found["auroc"] < 1
        assert found["log_loss"] < result["base_rate_log_loss"]
        assert sum(b["rows"] for b in found["reliability"]) == 2000
        assert f"{found['auroc']:.3f}" in text
        assert f"{found['calibration_error']:.3f}" in text
    observed = sum(b["rows"] * b["observed"] for b in result["test"]["reliability"]) / 2000
    assert observed == pytest.approx(p)


def test_the_run_folder_holds_a_model_that_works_and_a_ledger_that_adds_up(people):
    _, folder = people
    assert {path.name for path in folder.iterdir()} == RUN_FILES | OF_A_TABLE | {"reliability.png", "curves.png"}
    for picture in ("reliability.png", "curves.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    statement = json.loads((folder / "statement.json").read_text())
    assert statement["private"]
    assert not statement["seeded"]
    assert 1.99 < statement["epsilon"] <= 2.0
    ledger = dpmac.Ledger.load(folder / "ledger.jsonl")
    assert ledger.epsilon(1e-5) == statement["epsilon"]
    feature_map, table = load_feature_map(folder / "front.safetensors"), load_table()
    assert isinstance(feature_map, TableEncoder)
    assert feature_map.schema == table.schema
    network = dpmac.Network.load(folder / "model.safetensors")
    with torch.no_grad():
        outputs = network(feature_map(feature_map.codes(table.test)).float())
    result = json.loads((folder / "result.json").read_text())["test"]
    right = outputs.softmax(dim=1)[:, 1].double().mean()
    said = sum(b["rows"] * b["predicted"] for b in result["reliability"]) / 2000
    assert float(right) == pytest.approx(said, abs=1e-5)  # calibrated: what was shown is what was saved
    again = dpmac.load(folder).predict_proba(table.test)[:, 1].mean()
    assert again == pytest.approx(said, abs=1e-9)


def test_the_settings_are_the_defaults(people):
    plan = json.loads((people[1] / "plan.json").read_text())
    usual = dpmac.training.defaults.schedule_for(8000)
    assert plan["batch_size"] == usual.batch_size
    assert plan["delta"] == dpmac.training.defaults.safe_delta(8000)


def offline(*_):
    raise OSError("no network")


@pytest.mark.long
def test_digits_end_to_end_offline_and_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", offline)
    monkeypatch.setattr(socket, "create_connection", offline)
    loaded = [name for name in sys.modules if name.split(".")[0] == "matplotlib" or name == "dpmac.report.plots"]
    for name in {*loaded, "matplotlib"}:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import of it fails
    words = ["demo", "--data", "digits", "--epochs", "4", "--seed", "3", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "No plots: matplotlib is not installed; pip install 'dpmac[plots]'" in " ".join(done.stdout.split())
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == RUN_FILES
    result = json.loads((folder / "result.json").read_text())
    for name in ("test_accuracy", "test_accuracy_not_private"):
        assert 0.4 < result[name] <= 1
    assert "seeded" in done.stdout


SINGLE_PROCESS = """
import runpy, socket, sys
from importlib.machinery import PathFinder
def offline(*_): raise OSError('no network')
socket.socket.connect = socket.create_connection = offline
find = PathFinder.find_spec
def without(name, *more): return None if name.split('.')[0] in ('matplotlib', 'pandas') else find(name, *more)
PathFinder.find_spec = without
runpy.run_module('dpmac', run_name='__main__')
"""


@pytest.mark.long
def test_a_real_start_offline_without_matplotlib_and_pandas(tmp_path):
    words = ["demo", "--epochs", "1", "--epsilon", "1", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", SINGLE_PROCESS, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "No plots: matplotlib is not installed" in done.stdout
    (folder,) = (tmp_path / "out").iterdir()
    assert {path.name for path in folder.iterdir()} == RUN_FILES | OF_A_TABLE
    assert json.loads((folder / "statement.json").read_text())["epsilon"] <= 1.0


@pytest.mark.parametrize(("words", "said"), [(("--epsilon", "-1"), "epsilon=-1.0"), (("--delta", "0.5"), "delta=0.5")])
def test_a_bad_demo_writes_nothing(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dpmac", "demo", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_table_ends_with_a_clear_line(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TABLES", tmp_path)
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert done.stderr.startswith("dpmac: adult: missing adult.csv")
    assert "install dpmac again" in done.stderr
