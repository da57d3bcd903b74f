"""Shared by the tests of commands: a server, a real table in files, and one model that was trained on it."""

from __future__ import annotations

import functools
import json
import math
import random
import signal
import sys
from types import SimpleNamespace

import pytest
import typer.main
import typer.testing

from cli.albums import few_drawings, write_album
from cli.commands import Ended, Server
from dpmac import cli
from dpmac.data import load_table
from dpmac.tables.files import csv_text

ROWS = 1000


@pytest.fixture(scope="session", autouse=True)
def commands_are_made_once():
    """Typer makes all commands anew from their functions' signatures whenever it is called: twice the time of a test
    of words. They are the same each time, and are kept."""
    kept = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", kept)
        patch.setattr(typer.testing, "_get_command", kept)
        yield


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """``dpmac`` with these words in this process and an empty folder: how it ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def given(*words):
        monkeypatch.setattr(sys, "argv", ["dpmac", *map(str, words)])
        before = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as end:
                cli.main()
        finally:
            signal.signal(signal.SIGINT, before)
        seen = capsys.readouterr()
        return Ended(end.value.code or 0, seen.out, seen.err)

    return given


@pytest.fixture(scope="session")
def server():
    started = Server()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def adult(tmp_path_factory, server):
    """A folder with adult.csv (1,000 people), test.csv, adult.schema.json, and a model of it in runs/first."""
    folder = tmp_path_factory.mktemp("adult")
    table = load_table()
    (folder / "adult.csv").write_text(csv_text({name: cells[:ROWS] for name, cells in table.train.items()}))
    (folder / "test.csv").write_text(csv_text({name: cells[:300] for name, cells in table.test.items()}))
    table.schema.save(folder / "adult.schema.json")
    words = ["train", "adult.csv", "--schema", "adult.schema.json", "--epsilon", "2", "--out", "runs/first"]
    words += ["--ledger", "census.ledger", "--seed", "1", "--public-test", "test.csv", "--epochs", "20"]
    done = server.run(*words, folder=folder, inside=True)
    assert done.code == 0, done.err
    return SimpleNamespace(folder=folder, run=folder / "runs" / "first", ledger=folder / "census.ledger", said=done)


@pytest.fixture
def album(tmp_path, monkeypatch):
    """A folder with drawn pictures of two kinds to train on, others, and new ones; features need few drawings then."""
    few_drawings(monkeypatch)
    return write_album(tmp_path)


@pytest.fixture
def new_hospital(tmp_path):
    """A folder with the files that the examples of the help speak of: patients who never lived."""
    folder = tmp_path
    draw = random.Random(0)
    patients = []
    for number in range(400):
        age, sex = draw.randint(18, 95), draw.choice("FM")
        weight = round(draw.gauss(70 if sex == "F" else 82, 12), 1)
        death = int(draw.random() < 1 / (1 + math.exp(-(age - 70) / 8)))
        patients.append((f"p{number:03d}", age, sex, weight, draw.choice(["A", "B", "C"]), death))
    table = dict(zip(("patient", "age", "sex", "weight", "ward", "death"), zip(*patients, strict=True), strict=True))
    (folder / "patients.csv").write_text(csv_text(table))
    (folder / "test-patients.csv").write_text(csv_text({name: cells[:100] for name, cells in table.items()}))
    new = {name: cells[:50] for name, cells in table.items() if name != "death"}
    (folder / "new-patients.csv").write_text(csv_text(new))
    columns = {
        "age": {"kind": "number", "low": 0, "high": 120},
        "sex": {"kind": "category", "values": ["F", "M"]},
        "weight": {"kind": "number", "low": 30, "high": 200},
        "ward": {"kind": "category", "values": ["A", "B", "C"]},
        "death": {"kind": "category", "values": ["0", "1"]},
    }
    (folder / "patients.schema.json").write_text(json.dumps({"target": "death", "columns": columns}))
    few = {"learning_rate": [0.003, 0.03]}
    (folder / "candidates.json").write_text(json.dumps(few))
    half = {**columns, "weight": {"kind": "number", "low": None, "high": None}}
    (folder / "half-done.json").write_text(json.dumps({"target": "death", "columns": half}))
    return folder
