"""``dpmac train`` and ``resume`` in several processes: one folder, one ledger, one voice; whoever dies, all go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys

import pytest
import torch

import dpmac
from cli.commands import lines_of, wait_for
from dpmac import Ledger, cli
from dpmac.cli.jobs import Job
from dpmac.cli.several import rows_of
from dpmac.tables import Files
from dpmac.tables.files import read_table
from processes import together_run

SCHEMA = {
    "columns": {
        "a": {"kind": "number", "low": -3, "high": 3},
        "b": {"kind": "number", "low": -3, "high": 3},
        "ill": {"kind": "category", "values": ["no", "yes"]},
    },
    "target": "ill",
    "positive": "yes",
}
GIVEN = ("train", "t.csv", "--schema", "s.json", "--epsilon", "2")
TRAIN = (*GIVEN, "--epochs", "100", "--batch-size", "300")
SHORT = (*GIVEN, "--epochs", "5", "--batch-size", "900")  # all rows in every step: quickly planned


@pytest.fixture
def folder(tmp_path):
    """900 rows of 300 persons, whose rows lie apart."""
    draw = random.Random(1)
    lines = ["who,a,b,ill"]
    for row in range(900):
        a, b = draw.gauss(0, 1), draw.gauss(0, 1)
        lines.append(f"p{row % 300},{a:.3f},{b:.3f},{'yes' if a > b else 'no'}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    return tmp_path


def command(rank, folder, *words):
    """``dpmac`` with these words; what it wrote is in files, for it may be killed."""
    os.chdir(folder)
    sys.argv = ["dpmac", *words]
    with open(f"out{rank}", "w") as out, open(f"err{rank}", "w") as err:
        sys.stdout, sys.stderr = out, err
        try:
            cli.main()
        except SystemExit as end:
            return end.code or 0


def dpmac_in(size, folder, *words, during=None):
    """``dpmac`` in so many processes: how each ended."""
    return together_run(size, command, folder, *words, during=during, bare=True)


def said(folder, size, name="err"):
    return [(folder / f"{name}{rank}").read_text() for rank in range(size)]


def codes(ended):
    assert not any(one.error for one in ended), ended
    return [one.value for one in ended]


def stopping(ledger, victim, how):
    """Sends ``how`` to a process when some steps are on the disk."""

    def during(processes):
        wait_for(lambda: lines_of(ledger) > 20)
        os.kill(processes[victim].pid, how)

    return during


def weights(folder):
    return torch.cat([p.detach().flatten() for p in dpmac.load(folder).network_.parameters()])


class Place:
    """One of several processes, as far as rows go."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_row_is_in_one_process_and_every_persons_rows_in_the_same(folder, size, stored):
    table = read_table(folder / "t.csv")
    rows = list(zip(*table.values(), strict=True))
    jobs = [Job("t.csv", {"columns": {"a": 0, "b": 0, "ill": 0}}, "", 1.0, groups=groups) for groups in (None, "who")]
    for job in jobs:
        parts = [rows_of(Place(rank, size), Files(folder / "t.csv") if stored else table, job) for rank in range(size)]
        found = [list(zip(*(part[name] for name in table), strict=True)) for part in parts]
        assert sorted(row for part in found for row in part) == sorted(rows)
        assert max(map(len, found)) - min(map(len, found)) <= (1 if job.groups is None else 3)
    persons = [{row[0] for row in part} for part in found]
    assert sum(map(len, persons)) == len(set.union(*persons)) == 300


@pytest.mark.long
def test_torchrun_trains_what_one_process_trains(folder):
    """The command as users type it, and the same without torchrun."""
    words = (*TRAIN, "--seed", "1", "--json")
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "dpmac"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    line = [*start, *words, "--out", "two", "--ledger", "two.ledger"]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)  # one object, of one process
    assert codes(dpmac_in(1, folder, *words, "--out", "one", "--ledger", "one.ledger")) == [0]
    alone = json.loads((folder / "out0").read_text())
    for name in ("rows", "epsilon", "delta", "releases", "seeded"):
        assert told[name] == alone[name], name
    torch.testing.assert_close(weights(folder / "two"), weights(folder / "one"), rtol=1e-4, atol=1e-5)
    assert (folder / "two" / "statement.txt").read_text() == (folder / "one" / "statement.txt").read_text()
    assert lines_of(folder / "two.ledger") == lines_of(folder / "one.ledger") == told["releases"] + 1
    assert not (folder / "two" / "job.json").exists()


def test_an_error_that_all_share_is_said_once_and_all_end_with_its_code(folder):
    (folder / "run").mkdir()
    assert codes(dpmac_in(3, folder, *SHORT, "--out", "run")) == [2, 2, 2]
    first, *others = said(folder, 3)
    assert first.count("\n") == 1
    assert "it exists" in first
    assert others == ["", ""]
    assert said(folder, 3, "out") == ["", "", ""]


def test_an_error_of_one_process_is_said_by_it_and_nothing_is_spent(folder):
    """A cell in the last part of the table that is no number."""
    lines = (folder / "t.csv").read_text().splitlines()
    lines[-1] = "p299,0.1,much,yes"
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    assert codes(dpmac_in(2, folder, *SHORT, "--out", "run", "--ledger", "ledger")) == [1, 2]
    first, second = said(folder, 2)
    assert "dpmac: process 1: " in second
    assert "much" in second
    assert "another process has stopped" in first
    assert not (folder / "ledger").exists()
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("victim", "how"),
    [
        (1, signal.SIGKILL),
        pytest.param(0, signal.SIGKILL, marks=pytest.mark.long),
        pytest.param(1, signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_whoever_is_stopped_a_resume_goes_on_in_any_number_of_processes(folder, victim, how):
    """Persons are never split, whatever the number is; the ledger ends with the plan's releases."""
    ledger = folder / "ledger"
    words = (*TRAIN, "--groups", "who", "--out", "run", "--ledger", "ledger")
    ended = dpmac_in(2, folder, *words, during=stopping(ledger, victim, how))
    made = lines_of(ledger) - 1
    other = 1 - victim
    assert ended[other].value == 1
    assert ended[victim].value == 130 if how == signal.SIGTERM else ended[victim].code == -how
    err = said(folder, 2)
    assert "another process has stopped" in err[other]
    if other == 0:
        assert f"stopped after {made} releases" in err[0]
        assert "resume it with  dpmac resume run" in err[0]
        assert err[1] == ""
    size = 3 if victim else 1
    assert codes(dpmac_in(size, folder, "resume", "run", "--quiet")) == [0] * size
    model = dpmac.load(folder / "run")
    assert len(Ledger.read(ledger)) == len(model.privacy_.ledger) == model.plan_.steps + 1 > made
    assert model.plan_.n == 300
    assert model.privacy_.epsilon <= 2.0
    assert said(folder, size, "out")[1:] == [""] * (size - 1)


def test_a_finished_run_is_left_alone_by_all(folder):
    assert codes(dpmac_in(2, folder, *SHORT, "--out", "run", "--quiet")) == [0, 0]
    assert codes(dpmac_in(2, folder, "resume", "run")) == [0, 0]
    first, second = said(folder, 2)
    assert "is finished" in first
    assert second == ""


def elsewhere(rank, folder, *words):
    """As :func:`command`, each process in a folder of its own."""
    return command(rank, folder / str(rank), *words)


@pytest.mark.parametrize("other", ["longer", "none"])
def test_processes_that_see_other_files_are_refused_before_anything_is_spent(folder, other):
    """Found by a user: two tables with the same people in them would count these twice."""
    for rank in range(2):
        (folder / str(rank)).mkdir()
        for name in ("t.csv", "s.json"):
            (folder / str(rank) / name).write_text((folder / name).read_text())
    if other == "longer":
        lines = (folder / "t.csv").read_text().splitlines()
        (folder / "1" / "t.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n\n")
    ended = together_run(2, elsewhere, folder, *SHORT, "--out", str(folder / "run"), bare=True)
    assert codes(ended) == ([2, 2] if other == "longer" else [0, 0])
    if other == "longer":
        assert "process 1 sees another file" in (folder / "0" / "err0").read_text()
        assert not (folder / "run").exists()
