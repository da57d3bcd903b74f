"""``python -m reproduction``, with jobs that take no time; what the real ones compute is tested with them."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import dpmac.data
from dpmac.checks import ArgumentError
from dpmac.cli import reproduce as door
from reproduction import command, drawing, slim
from reproduction.store import Job, Store

ROOT = Path(__file__).parents[2]
FIGURES = {"curves-mnist.png", "curves-usps.png", "expansion.png", "first-layer.png", "overview.png"}
EPSILONS = {"mnist": (0.5, 2.0, 8.0), "usps": (1.0, math.inf)}


@dataclass
class FakeRecipe:
    hidden: tuple[int, ...]


class Catalogue(SimpleNamespace):
    """Has the shape of reproduction.jobs; counts its calls; ``broken`` are keys of runs that fail."""

    def table_jobs(self, table, preset, runs, epsilons=None):
        chosen = [e for e in EPSILONS[table] if epsilons is None or e in epsilons]
        return [Job(table, row, preset, e, s) for row in ("DP-MAC", "DP-SGD") for e in chosen for s in range(runs)]

    def recipe_of(self, _job):
        return FakeRecipe((self.size, 2))

    def run_job(self, job, data_path, device="cpu"):
        self.calls.append(job.key)
        if job.key == self.interrupted:
            raise KeyboardInterrupt
        if job.key in self.broken:
            raise RuntimeError("no luck")
        sigma = 0.0 if math.isinf(job.epsilon) else 4 / job.epsilon
        mechanism = {"label": "step", "noise_multiplier": sigma, "sample_rate": 1.0, "count": 1}
        curve = [{"epoch": e, "train": 1 / e, "test": 1 / e + job.seed / 100} for e in (1.0, 2.0, 3.0)]
        shown = job.table == "mnist" and job.row == "DP-MAC"
        layer = {"first_layer": [[0.1, -0.2, 0.3, 0.4]] * 7, "image_shape": [2, 2]} if shown else {}
        result = {"metric": 0.9 + job.seed / 100, "curve": curve, "mechanisms": [mechanism], "delta": 1e-5, **layer}
        return result | {"seconds": 0.1, "recipe": asdict(self.recipe_of(job))}


@pytest.fixture
def undrawn(monkeypatch):
    """Drawing takes seconds; only one test looks at what comes of it."""
    monkeypatch.setattr(drawing, "draw_all", lambda *_: [])


@pytest.fixture
def catalogue(monkeypatch):
    fake = Catalogue(calls=[], broken=set(), interrupted="", loaded=[], downloads=[], size=3)
    monkeypatch.setattr(command, "_catalogue", lambda: fake)

    def load(name, path=None, download=False):
        fake.loaded.append((name, path))
        fake.downloads.append(download)

    monkeypatch.setattr(dpmac.data, "load", load)
    return fake


def run(*arguments, code=0):
    done = CliRunner().invoke(command.app, [*map(str, arguments), "--workers", "1"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.stderr
    return done


# --- from end to end --------------------------------------------------------------------------------------------------


def size_of(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


@pytest.mark.long
def test_both_tables_end_to_end_and_never_twice(catalogue, tmp_path, request):
    out = tmp_path / "out"
    done = run("all", "--runs", 2, "--preset", "both", "--out", out, "--data", tmp_path)
    assert {p.name for p in out.iterdir()} == {"runs", "results.json", "tables.md", *FIGURES}
    assert len(list((out / "runs").iterdir())) == 2 * 2 * 2 * (3 + 2) == len(catalogue.calls)
    assert catalogue.loaded == [("mnist", str(tmp_path)), ("usps", str(tmp_path))]
    for name in FIGURES:
        width, height = size_of(out / name)
        assert 800 <= width <= 2500
        assert 400 <= height <= 2500
    request.getfixturevalue("undrawn")
    text = (out / "tables.md").read_text()
    assert text in done.stdout
    assert "DP-CDBN (quoted)" in text
    assert "0.9050 ± 0.0071 (2)" in text
    results = json.loads((out / "results.json").read_text())
    assert results["failures"] == []
    (made,) = results["made_with"]
    assert {"dpmac", "torch", "dp-accounting", "python", "machine", "command", "runs"} <= set(made)
    assert made["runs"] == 40
    assert {row["preset"] for row in results["rows"] if row["table"] == "usps"} == {"paper", "tight"}
    assert "[40/40]" in done.stderr
    again = run("all", "--runs", 2, "--preset", "both", "--out", out)
    assert len(catalogue.calls) == 40
    assert len(catalogue.loaded) == 2  # nothing to do: the data are not even looked for
    assert text in again.stdout


def test_figures_trains_nothing_and_leaves_out_what_cannot_be_used(catalogue, undrawn, tmp_path):
    run("mnist", "--runs", 1, "--out", tmp_path)
    before = (tmp_path / "tables.md").read_text()
    Store(tmp_path).save(Job("mnist", "DP-MAC", "search", 2.0, 0), {"metric": 0.5})
    assert "left out, no run of these tables: 1 files" in run("figures", "--out", tmp_path).stderr
    assert (tmp_path / "tables.md").read_text() == before
    (tmp_path / "runs" / "mnist_paper_dp-mac_eps2_seed0.json").write_text("{")
    assert "left out, damaged" in run("figures", "--out", tmp_path).stderr
    assert len((tmp_path / "tables.md").read_text().splitlines()) == len(before.splitlines())  # now: not run
    assert len(catalogue.calls) == 6


def test_figures_of_a_folder_without_runs(catalogue, undrawn, tmp_path):
    """With slim results, such as the folder in git: what they say, and they stay. With nothing: a sentence."""
    assert "No run is finished yet" in run("figures", "--out", tmp_path / "new").stdout
    for name in ("results.json", "tables.md"):
        (tmp_path / name).write_text((slim.RESULTS / name).read_text())
    run("figures", "--out", tmp_path)
    for name in ("results.json", "tables.md"):
        assert (tmp_path / name).read_text() == (slim.RESULTS / name).read_text()


def test_one_table_one_epsilon(catalogue, undrawn, tmp_path):
    run("mnist", "--runs", 1, "--epsilon", 2, "--epsilon", 8, "--out", tmp_path)
    assert {key.split("_")[0] for key in catalogue.calls} == {"mnist"}
    assert len(catalogue.calls) == 4
    run("usps", "--runs", 1, "--epsilon", "inf", "--out", tmp_path, "--download")
    assert catalogue.calls[4:] == ["usps_paper_dp-mac_epsinf_seed0", "usps_paper_dp-sgd_epsinf_seed0"]
    assert "USPS" in (tmp_path / "tables.md").read_text()  # beside MNIST, which was there
    assert catalogue.downloads == [False, True]  # only if asked
    run("all", "--epsilon", 0.5, "--epsilon", 1, "--runs", 1, "--out", tmp_path)  # one of each table


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_failures_and_damage_are_reported_at_the_end_and_retried(catalogue, undrawn, tmp_path):
    key = "mnist_paper_dp-mac_eps0.5_seed0"
    catalogue.broken.add(key)
    done = run("mnist", "--runs", 2, "--out", tmp_path, code=1)
    assert len(catalogue.calls) == 12
    assert f"failed: {key}: RuntimeError: no luck" in done.stderr
    assert "0.9100 ± - (1)" in done.stdout
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["failures"] == [{"run": key, "error": "RuntimeError: no luck"}]
    catalogue.broken.clear()
    (tmp_path / "runs" / "mnist_paper_dp-mac_eps2_seed0.json").write_text("{")
    done = run("mnist", "--runs", 2, "--out", tmp_path)
    assert "was damaged, and done again" in done.stderr
    assert sorted(catalogue.calls[12:]) == [key, "mnist_paper_dp-mac_eps2_seed0"]
    assert json.loads((tmp_path / "results.json").read_text())["failures"] == []


def test_ctrl_c_says_how_to_go_on(catalogue, tmp_path):
    catalogue.interrupted = "mnist_paper_dp-mac_eps2_seed0"
    done = run("mnist", "--runs", 2, "--out", tmp_path, code=130)
    assert "the same command goes on from there" in done.stderr
    assert len(Store(tmp_path).all()[0]) == 2


def test_missing_data_are_reported_once_before_any_run(catalogue, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(command, "_catalogue", lambda: catalogue)
    done = run("usps", "--out", tmp_path / "out", "--data", tmp_path / "nowhere", code=2)
    assert done.stderr.count("usps: missing usps_all.mat") == 1
    assert "dpmac data fetch usps" in done.stderr
    assert catalogue.calls == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cifar"], "what='cifar': choose one of mnist, usps, all, figures, compare"),
        (["mnist", "--preset", "loose"], "--preset='loose'"),
        (["mnist", "--runs", "0"], "--runs=0"),
        (["mnist", "--epsilon", "0"], "--epsilon=0.0"),
        (["mnist", "--epsilon", "nan"], "--epsilon=nan"),
        (["mnist", "--epsilon", "2", "--epsilon", "3"], "--epsilon=3.0: no row of mnist has it"),
        (["mnist", "--device", "abacus"], "--device='abacus'"),
        (["mnist", "--device", "meta"], "--device='meta'"),  # takes numbers, and keeps none
        (["compare"], "give a folder with finished runs"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_written(catalogue, tmp_path, arguments, message, capsys):
    with pytest.raises(ArgumentError) as error:
        run(*arguments, "--out", tmp_path / "out")
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()
    assert not catalogue.calls
    with pytest.raises(SystemExit) as end:  # and from outside: one line, exit code 2
        command.main([*arguments, "--workers", "0"])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("what", ["mnist", "figures"])
def test_a_folder_that_cannot_be_written_to_is_said_before_any_run(catalogue, tmp_path, what):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ArgumentError, match=r"--out=.*file.*can be written to"):
            run(what, "--runs", 1, "--out", place)
    assert not catalogue.calls
    assert (tmp_path / "file").read_text() == "mine"


def test_runs_of_other_settings_are_kept_and_named(catalogue, undrawn, tmp_path):
    command_line = ("mnist", "--epsilon", 2, "--runs", 1, "--out", tmp_path)
    assert "other settings" not in run(*command_line).stderr
    assert "other settings" not in run(*command_line).stderr
    catalogue.size = 4
    said = run(*command_line).stderr
    assert "2 finished runs" in said
    assert "mnist_paper_dp-mac_eps2_seed0 and others; move them away" in said
    assert len(catalogue.calls) == 2
    run("mnist", "--epsilon", 2, "--runs", 2, "--out", tmp_path)  # the second seed is of the new settings
    assert all(row["mixed"] for row in json.loads((tmp_path / "results.json").read_text())["rows"])
    assert "MIXED" in (tmp_path / "tables.md").read_text()


# --- compare ----------------------------------------------------------------------------------------------------------


def test_compare_ends_with_1_if_any_row_is_off(catalogue, undrawn, tmp_path, monkeypatch):
    committed, new = tmp_path / "committed", tmp_path / "new"
    run("mnist", "--runs", 3, "--out", committed)
    monkeypatch.setattr(slim, "RESULTS", committed)
    run("mnist", "--runs", 1, "--epsilon", 2, "--out", new)  # the first seed is one standard deviation below the mean
    done = run("compare", "--out", new)
    assert done.stdout.count("-1.00 std") == 2
    assert "2 of 2 rows compared; 0 off" in done.stdout
    store, job = Store(new), Job("mnist", "DP-SGD", "paper", 2.0, 0)
    store.save(job, {**store.load(job).result, "metric": 0.95})
    done = run("compare", "--out", new, code=1)
    assert "+4.00 std" in done.stdout
    assert "1 off by more than one standard deviation" in done.stdout
    assert len(catalogue.calls) == 18 + 2  # it trains nothing


# --- the doors --------------------------------------------------------------------------------------------------------

HEAVY = (
    "import sys, {module} as program\n"
    "sys.argv = ['program', {words}]\n"
    "try: program.main()\nexcept SystemExit as end: assert not end.code, end\n"
    "heavy = {{'torch', 'dp_accounting', 'sklearn', 'scipy', 'matplotlib', 'numpy'}} & set(sys.modules)\n"
    "assert not heavy, heavy"
)


@pytest.mark.parametrize(
    ("module", "words"), [("reproduction.command", "'--help'"), ("dpmac.cli", "'reproduce', '--help'")]
)
def test_help_imports_nothing_heavy_and_goes_through_both_doors(module, words, tmp_path):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" if module == "reproduction.command" else ""
    done = subprocess.run(
        [sys.executable, "-c", code + HEAVY.format(module=module, words=words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "python -m reproduction mnist --runs 3" in done.stdout
    assert "--preset" in done.stdout


def doorway():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command(context_settings=door.FORWARDED)(door.reproduce)
    return app


def test_dpmac_reproduce_hands_everything_on(monkeypatch):
    heard = []
    monkeypatch.setattr(command, "main", lambda *given: heard.append(given))
    words = ["mnist", "--runs", "3", "--help", "--epsilon", "inf"]
    assert CliRunner().invoke(doorway(), words).exit_code == 0
    assert heard == [(words, "dpmac reproduce")]


def test_dpmac_reproduce_without_a_clone_says_where_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(dpmac, "__file__", str(tmp_path / "site-packages" / "lib" / "dpmac" / "__init__.py"))
    monkeypatch.setitem(sys.modules, "reproduction.command", None)  # as if it could not be found
    done = CliRunner().invoke(doorway(), ["all", "--runs", "1"])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "clone the repository" in done.stderr
