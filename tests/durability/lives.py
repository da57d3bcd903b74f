"""Lives of trainings: begun, killed at some moment, looked over, resumed; and what must hold at all times."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import dpmac
from dpmac.data import load_table
from dpmac.privacy import Ledger
from dpmac.tables.files import csv_text
from durability.child import ROWS, STEPS, nursery
from processes import forked

CHILD = Path(__file__).with_name("child.py")
TRAIN = ["train", "people.csv", "--schema", "people.schema.json", "--epsilon", "2", "--delta", "1e-5", "--out", "model"]
TRAIN += [
    "--ledger",
    "some.ledger",
    "--batch-size",
    "100",
    "--epochs",
    "4",
    "--hidden",
    "none",
    "--threads",
    "1",
    "--quiet",
]
ROUNDS = 6  # of a calibration
EPSILON, DELTA = 2.0, 1e-5


@dataclass
class Nursery:
    """Forks children that have everything imported; ``cold`` ones are started from nothing."""

    numbers: count = field(default_factory=count)

    def __post_init__(self):
        self.process, self.jobs = forked(nursery)

    def begin(self, folder, lines, seed, cold=False, inside=False, nobody=False):
        number = next(self.numbers)
        said, witness = folder / f"said.{number}", folder / f"witness.{number}"
        job = {"folder": str(folder), "lines": lines, "seed": seed, "witness": str(witness), "said": str(said)}
        job |= {"inside": inside, "nobody": nobody}
        if cold:
            with said.open("w") as out:
                child = subprocess.Popen(
                    [sys.executable, str(CHILD), json.dumps(job)], stdout=out, stderr=out, env=_paths()
                )
            return Child(child.pid, said, child.wait)
        self.jobs.send(job)
        return Child(self.jobs.recv(), said, self.jobs.recv)

    def stop(self):
        self.jobs.close()
        self.process.join(60)


@dataclass
class Child:
    pid: int
    said: Path
    wait: object

    def killed_when(self, due, seconds=60.0):
        """SIGKILL as soon as ``due()``; or after it has ended by itself, or after so many seconds. How it ended."""
        end = time.monotonic() + seconds
        while not due() and time.monotonic() < end and _alive(self.pid):
            time.sleep(0.0003)
        os.kill(self.pid, signal.SIGKILL) if _alive(self.pid) else None
        return self.wait()


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _paths():
    root = CHILD.parents[2]
    known = [str(root / "src"), str(root / "tests"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known)), "OMP_NUM_THREADS": "1"}


def people_in(folder):
    """The files of a command."""
    table = load_table()
    (folder / "people.csv").write_text(csv_text({name: cells[:ROWS] for name, cells in table.train.items()}))
    table.schema.save(folder / "people.schema.json")


def lines_in(path) -> int:
    """Releases in a ledger's file, counted from outside; -1 if there is no file."""
    try:
        return path.read_bytes().count(b"\n") - 1
    except OSError:
        return -1


def phase_of(folder):
    """How far a life had come, by what is on the disk."""
    made = lines_in(folder / "some.ledger")
    if (folder / "model" / "dpmac.json").exists():
        return "saved" if (folder / "model" / "report.html").exists() or (folder / "kept").exists() else "reporting"
    if made >= STEPS + ROUNDS:
        return "saving"
    if made >= STEPS:
        return "calibrating"
    return "starting" if made < 0 else "planning" if made == 0 else "training"


def looked_over(folder):
    """What must hold at every moment: the ledger is whole, knows of every release, and no half is taken for a whole."""
    book = folder / "some.ledger"
    made = [len(path.read_bytes()) for path in folder.glob("witness.*")]
    paid = Ledger.read(book) if book.exists() and book.stat().st_size else Ledger()
    if paid.seeded:  # a seeded run makes lost releases again, and they are not written twice
        assert max(made, default=0) <= len(paid)
    else:
        assert sum(made) <= len(paid), f"{sum(made)} releases were handed out, {len(paid)} are in the ledger"
    assert paid.epsilon(DELTA) <= EPSILON
    model = folder / "model"
    if (model / "dpmac.json").exists():
        agrees(model, paid)
    page = model / "report.html"
    if page.exists():
        assert page.read_text().rstrip().endswith("</html>")
    return paid


def agrees(model, paid):
    """A finished model: it loads whole, and its statement says what its ledger, and the data set's, have."""
    found = dpmac.load(model)
    said = json.loads((model / "statement.json").read_text())
    assert len(found.privacy_.ledger) == len(paid) == STEPS + ROUNDS
    assert said["epsilon"] == found.privacy_.epsilon == paid.epsilon(DELTA)
    assert 0.9 * EPSILON < said["epsilon"] <= EPSILON
    return found


def tidy(folder, way):
    """Nothing is left but what was asked for (a ``save`` that is killed leaves a hidden folder that is no model's)."""
    there = {path.name for path in folder.iterdir() if not path.name.startswith(("said.", "witness.", ".model."))}
    assert there <= {"people.csv", "people.schema.json", "some.ledger", "some.ledger.seen", "model"}, there
    assert way == "fit" or not list(folder.glob(".model.*"))
    left = [
        p.name
        for p in (folder / "model").iterdir()
        if p.name.startswith((".", "checkpoint", "job")) or ".new" in p.name
    ]
    assert not left
