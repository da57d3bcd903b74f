"""Every help has examples, and every example does what it says: they are given as they stand, one after the other."""

from __future__ import annotations

import re
import shlex

import pytest
import typer.main

from dpmac.cli import app

ELSEWHERE = {
    "dpmac demo": "test_demo.py runs the command",
    "dpmac audit": "test_audit_command.py runs the shortest of them",
    "dpmac data fetch": "needs a network",
    "dpmac data path mnist": "needs what the network brings",
    "dpmac reproduce": "tests/reproduction",
    "--registry": "test_statement_command.py answers its questions first",
}
# each of these is tested by itself, too
SLOW = ("dpmac tune", "dpmac budget", "dpmac report", "dpmac export", "--target weight", "--groups")
ORDER = [
    "schema",
    "split",
    "train",
    "tune",
    "resume",
    "edit",
    "evaluate",
    "predict",
    "inspect",
    "report",
    "export",
    "statement",
]
ORDER += ["key", "sign", "verify", "ledger init", "ledger"]


def walked(command, name="dpmac"):
    """Every command and group: its words, and its help."""
    yield name, command.help or ""
    for below, inner in getattr(command, "commands", {}).items():
        yield from walked(inner, f"{name} {below}")


PAGES = dict(walked(typer.main.get_command(app)))


def examples_of(page):
    return re.findall(r"^ +((?:dpmac|ls) .*)$", page, flags=re.MULTILINE)


def covered(example):
    return not any(example.startswith(start) or start in example for start in ELSEWHERE)


@pytest.mark.parametrize("name", PAGES)
def test_every_help_has_an_example_of_itself(name):
    if name == "dpmac reproduce":  # hands --help on to a command of its own
        return
    found = examples_of(PAGES[name])
    assert found
    assert all(name in example for example in found)


def place(name):
    return next((at for at, word in enumerate(ORDER) if name.startswith(f"dpmac {word}")), -1)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_example_does_what_it_says(slow, new_hospital, album, run):
    given, hospital = [], new_hospital
    assert album == hospital
    for name in sorted(PAGES, key=place):
        for example in filter(covered, examples_of(PAGES[name])):
            if example in given or (not slow and any(words in example for words in SLOW)):
                continue  # a group's example is one of its command's
            words, _, out = example.removeprefix("dpmac ").partition(" > ")
            done = run(*shlex.split(words))
            if out:
                (hospital / out).write_text(done.out)
            assert done.code == 0, (example, done.err)
            assert "Traceback" not in done.err, example
            given.append(example)
    assert len(given) >= (25 if slow else 20)
    made = {path.name for path in hospital.rglob("*")}
    assert {"predictions.csv", "template.json", "evaluation.json", "estimated.json"} <= made
    assert not slow or {"report.html", "first.html", "first.pt2"} <= made
    head, *rows = (hospital / "named-predictions.csv").read_text().splitlines()
    assert head == "patient,prediction,p_0,p_1"
    assert rows[0].startswith("p000,")
    assert len(rows) == 50
