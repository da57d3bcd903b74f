"""Command lines in this process: mutated words, and files that may be spoilt as well."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys

from dpmac import cli
from fuzz.cases import Action, Case, EndedError
from fuzz.mutations import as_json, spoilt_bytes, spoilt_tree
from fuzz.surfaces.starts import SCHEMA, csv_bytes, ledger, saved

QUICK = ["--delta", "1e-3", "--batch-size", "12", "--epochs", "2", "--hidden", "none", "--seed", "1", "--threads", "1"]
LINES = (
    ["train", "people.csv", "--schema", "people.schema.json", "--epsilon", "8", "--out", "new", *QUICK, "--quiet"],
    ["train", "people.csv", "--schema", "people.schema.json", "--epsilon", "8", "--out", "new", *QUICK, "--json",
     "--ledger", "some.ledger", "--total-epsilon", "100", "--data-set", "hospital"],
    ["predict", "run", "people.csv", "--out", "predictions.csv", "--id", "patient"],
    ["predict", "run", "people.csv"],
    ["evaluate", "run", "people.csv", "--json"],
    ["evaluate", "run", "people.csv", "--public"],
    ["inspect", "run", "--json"],
    ["inspect", "run"],
    ["report", "run", "--out", "report.html"],
    ["resume", "run"],
    ["schema", "init", "people.csv", "--target", "death"],
    ["schema", "check", "people.schema.json", "people.csv"],
    ["schema", "estimate", "people.csv", "--schema", "half.json", "--epsilon", "1", "--ledger", "some.ledger", "--seed",
     "1", "--out", "estimated.json"],
    ["ledger", "show", "some.ledger"],
    ["ledger", "show", "some.ledger", "--json"],
    ["ledger", "remaining", "some.ledger", "--epsilon", "10", "--delta", "1e-3"],
    ["ledger", "verify", "some.ledger", "--json"],
    ["budget", "--n", "24", "--epsilon", "8", "--delta", "1e-3"],
    ["version"],
    ["--version"],
    ["data", "list"],
    ["data", "write"],
)  # fmt: skip
WORDS = (
    *(
        "",
        "-",
        "--",
        "--help",
        "-h",
        "nothing",
        "0",
        "-1",
        "nan",
        "inf",
        "1e999",
        "1_0",
        "people.csv",
        "run",
        "some.ledger",
    ),
    *(
        ".",
        "..",
        "/",
        "/dev/null",
        "no/such/file",
        "people.schema.json",
        "--json",
        "--quiet",
        "--out",
        "--epsilon",
        "\x7f",
    ),
    *(
        "é",
        "a" * 300,
        "a" * 5000,
        "--nothing",
        "--epsilon=8",
        "[bold]x[/bold]",
        "{x}",
        "%s",
        "new\nline",
        "\udcff",
        "2**63",
    ),
)
REAL = 0.005  # of the commands are run by a process of their own, which takes seconds


def prepare(case: Case) -> Action:
    """A command with words changed, left out, doubled or added, in a folder with its files."""
    _files(case)
    words = list(case.one_of(LINES))
    for _ in case.times() if case.random.random() < 0.85 else ():
        place = case.random.randrange(len(words))
        match case.random.randrange(5):
            case 0:
                words.pop(place)
            case 1:
                words.insert(place, words[place])
            case 2:
                words.insert(place, case.one_of(WORDS))
            case 3:
                other = case.random.randrange(len(words))
                words[place], words[other] = words[other], words[place]
            case _:
                words[place] = case.one_of(WORDS)
        words = words or ["--help"]
    case.note(" ".join(map(repr, words)))
    if case.random.random() < REAL:
        case.note("in a process of its own")
        return lambda: run_beside(case, words)
    return lambda: run_in(case, words)


def _files(case: Case) -> None:
    half = SCHEMA.to_dict()
    half["columns"]["weight"] = {"kind": "number", "low": None, "high": None, "missing": True}
    there = {"people.csv": csv_bytes(), "people.schema.json": as_json(SCHEMA.to_dict()), "half.json": as_json(half)}
    there["some.ledger"] = ledger().read_bytes()
    if case.random.random() < 0.3:
        name = case.one_of(sorted(there))
        if name.endswith("json") and case.random.random() < 0.6:
            tree, said = spoilt_tree(case.random, half if name == "half.json" else SCHEMA.to_dict())
            there[name] = as_json(tree)
        else:
            there[name], said = spoilt_bytes(case.random, there[name])
        case.note(f"{name}: {said}")
    for name, raw in there.items():
        (case.folder / name).write_bytes(raw)
    shutil.copytree(saved(case.one_of(["classifier", "regressor", "array"])), case.folder / "run")


def run_in(case: Case, words: list[str]) -> None:
    """The command, as from a shell in the case's folder; a refusal is raised, and whatever else is wrong asserted."""
    before, argv, handler = os.getcwd(), sys.argv, signal.getsignal(signal.SIGINT)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2))
    os.chdir(case.folder)
    sys.argv = ["dpmac", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _code()
    finally:
        os.chdir(before)
        sys.argv = argv
        signal.signal(signal.SIGINT, handler)
    _judge(code, out.buffer.getvalue(), err.buffer.getvalue().decode("utf-8", "replace"))


def run_beside(case: Case, words: list[str]) -> None:
    """The command in a process of its own, as a shell starts it."""
    line = [sys.executable, "-m", "dpmac", *words]
    ended = subprocess.run(
        line, cwd=case.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
    )
    _judge(ended.returncode, ended.stdout, ended.stderr.decode("utf-8", "replace"))


def _judge(code: int, out: bytes, said: str) -> None:
    assert code in (0, 1, 2), f"exit code {code}"
    assert "Traceback" not in said, said
    if code:
        assert said.strip() or out.strip(), "it failed without a word"
        raise EndedError(said)


def _code() -> int:
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0
