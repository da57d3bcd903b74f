"""``dpmac audit``: its table, its JSON, and how it ends when a claim is broken."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import torch

from cli.commands import wait_for
from dpmac.bounds.allocation import promised
from dpmac.privacy import OuterPart, PerLayerClip, gaussian_release

SURE = ["--confidence", "0.9999999"]  # so that no test accuses a correct build by chance
SHORT = ["audit", "--only", "residual", "--draws", "60", "--workers", "1", *SURE]


def test_a_table_for_people(run):
    done = run(*SHORT)
    assert done.code == 0, done.err
    assert "residual scale" in done.out
    assert "10.00" in done.out  # of one Gaussian release of multiplier 0.5, at 1e-5, rounded up
    assert "2 looks, all bounds hold with a chance of 0.9999999" in " ".join(done.out.split())
    assert "No claim was proved wrong: 1 case," in done.out


def test_json_for_scripts(run):
    found = run(*SHORT, "--json").json()
    assert found["exceeded"] == []
    assert found["confidence"] == 0.9999999
    assert (found["draws_per_case"], found["looks"]) == (60, 2)
    for finding in found["findings"]:
        assert finding["case"] == "residual scale"
        assert 0 <= finding["ratio"] <= 1
        assert finding["epsilon"] <= finding["claimed_epsilon"]


def test_a_broken_build_ends_with_1_and_says_which_case(run, monkeypatch):
    monkeypatch.setattr(PerLayerClip, "promise", lambda self, partitions: promised(partitions, [0.1] * len(partitions)))
    monkeypatch.setattr(gaussian_release, "_keep_promise", lambda *_: torch.tensor(True))
    done = run(*SHORT)
    assert done.code == 1
    assert "residual scale" in done.out
    assert "more leaks than is claimed: residual scale." in done.err
    assert "case 1 of 1, residual scale" in done.err  # shown at once, not at the end
    as_json = run(*SHORT, "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["exceeded"] == ["residual scale", "residual scale"]


def test_a_case_that_the_door_refuses_ends_with_1(run, monkeypatch):
    real = OuterPart.norms
    monkeypatch.setattr(OuterPart, "norms", lambda self: 2 * real(self) + 1)
    done = run("audit", "--only", "ridge", "--draws", "40", "--workers", "1")
    assert done.code == 1
    assert "exceeds the bound promised" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nonsense"], "only='nonsense': no case has that in its name; there are: "),
        (["--only", "mean", "--confidence", "1"], "confidence=1.0"),
        (["--only", "mean", "--draws", "3"], "draws=3"),
        (["--only", "mean", "--workers", "0"], "workers=0"),
    ],
)
def test_wrong_words_end_with_2(words, message, run):
    done = run("audit", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"dpmac: {message}")


@pytest.mark.long
def test_the_example_in_two_processes_and_an_interruption(server, tmp_path):
    done = server.run("audit", "--only", "bound clip", "--draws", "400", *SURE, folder=tmp_path)
    assert done.code == 0, done.err
    assert done.out.count("bound clip") >= 4
    running = server.begin("audit", "--workers", "2", "--json", folder=tmp_path)
    try:
        wait_for(lambda: _children(running.pid) >= 2)
    finally:
        running.send(signal.SIGINT)
    ended = running.end()
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.strip().endswith("dpmac: interrupted")
    assert "Traceback" not in ended.err
    wait_for(lambda: _children(running.pid) == 0)


def _children(pid: int) -> int:
    """Processes that this one has begun, by /proc."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found += int(stat.read_text().rpartition(")")[2].split()[1]) == pid
        except OSError:
            continue
    return found
