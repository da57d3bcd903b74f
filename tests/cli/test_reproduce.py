"""``dpmac reproduce``, with jobs that take no time; what the real ones compute is tested with them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict, dataclass
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import dpmac.data
from dpmac.checks import ArgumentError
from dpmac.cli import display as display_module
from dpmac.cli import reproduce as command
from dpmac.experiments.runner import Failure
from dpmac.experiments.store import Job, Store

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
app.command()(command.reproduce)

FIGURES = {"curves-mnist.png", "curves-usps.png", "expansion.png", "features.png"}
EPSILONS = {"mnist": (0.5, 2.0, 8.0), "usps": (1.0, 2.0, 4.0, 8.0, math.inf)}


@dataclass
class FakeRecipe:
    hidden: tuple[int, ...]


class Catalogue(SimpleNamespace):
    """Has the shape of dpmac.experiments.jobs; counts its calls; ``broken`` are keys of runs that fail."""

    PUBLISHED = {("mnist", "DP-MAC", 2.0): 0.95, ("mnist", "DP-CDBN (quoted)", 0.5): 0.92}  # noqa: RUF012
    METRIC = {"mnist": "test accuracy", "usps": "test error"}  # noqa: RUF012

    def jobs(self, table, preset, runs, epsilons=None):
        chosen = [e for e in EPSILONS[table] if epsilons is None or e in epsilons]
        return [Job(table, row, preset, e, s) for row in ("DP-MAC", "DP-SGD") for e in chosen for s in range(runs)]

    def recipe_of(self, _job):
        return FakeRecipe((self.size, 2))

    def run_job(self, job, data_path, device="cpu"):
        self.calls.append(job.key)
        if job.key in self.broken:
            raise RuntimeError("no luck")
        sigma = 0.0 if math.isinf(job.epsilon) else 4 / job.epsilon
        mechanism = {"label": "step", "noise_multiplier": sigma, "sample_rate": 1.0, "count": 1}
        curve = [{"epoch": e, "train": 1 / e, "test": 1 / e + job.seed / 100} for e in (1.0, 2.0, 3.0)]
        layer = {"first_layer": [[0.1, -0.2, 0.3, 0.4]] * 3, "image_shape": [2, 2]} if job.table == "mnist" else {}
        result = {"metric": 0.9 + job.seed / 100, "curve": curve, "mechanisms": [mechanism], "delta": 1e-5, **layer}
        return result | {"seconds": 0.1, "recipe": asdict(self.recipe_of(job))}


@pytest.fixture
def catalogue(monkeypatch):
    fake = Catalogue(calls=[], broken=set(), loaded=[], downloads=[], size=3)
    monkeypatch.setattr(command, "_catalogue", lambda: fake)

    def load(name, path=None, download=False):
        fake.loaded.append((name, path))
        fake.downloads.append(download)

    monkeypatch.setattr(dpmac.data, "load", load)
    return fake


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [*map(str, arguments), "--workers", "1"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.stderr
    return done


def test_both_tables_end_to_end_and_never_twice(catalogue, tmp_path):
    out = tmp_path / "out"
    done = run("all", "--runs", 2, "--preset", "both", "--out", out, "--data", tmp_path)
    assert {p.name for p in out.iterdir()} == {"runs", "results.json", "tables.md", *FIGURES}
    assert len(list((out / "runs").iterdir())) == 2 * 2 * 2 * (3 + 5) == len(catalogue.calls)
    assert catalogue.loaded == [("mnist", str(tmp_path)), ("usps", str(tmp_path))]
    text = (out / "tables.md").read_text()
    assert text in done.stdout
    assert "DP-CDBN (quoted)" in text
    assert "0.9050 ± 0.0071 (2)" in text
    results = json.loads((out / "results.json").read_text())
    assert results["failures"] == []
    assert {"dpmac", "torch", "dp-accounting", "python", "machine", "command"} <= set(results["written_by"])
    assert sum(made["runs"] for made in results["made_with"]) == 64
    assert {row["preset"] for row in results["tables"]["usps"]["rows"]} == {"paper", "tight"}
    assert "[64/64]" in done.stderr
    again = run("all", "--runs", 2, "--preset", "both", "--out", out)
    assert len(catalogue.calls) == 64
    assert len(catalogue.loaded) == 2  # nothing to do: the data are not even looked for
    assert text in again.stdout


def test_one_table_one_epsilon(catalogue, tmp_path):
    run("mnist", "--runs", 1, "--epsilon", 2, "--epsilon", 8, "--out", tmp_path)
    assert {key.split("_")[0] for key in catalogue.calls} == {"mnist"}
    assert len(catalogue.calls) == 4
    run("usps", "--runs", 1, "--epsilon", "inf", "--out", tmp_path)
    assert catalogue.calls[4:] == ["usps_paper_dp-mac_epsinf_seed0", "usps_paper_dp-sgd_epsinf_seed0"]
    assert "USPS" in (tmp_path / "tables.md").read_text()  # beside MNIST, which was there


def test_figures_only_redraws(catalogue, tmp_path):
    run("all", "--runs", 1, "--out", tmp_path)
    (tmp_path / "runs" / "mnist_paper_dp-mac_eps2_seed0.json").write_text("{")
    for name in (*FIGURES, "tables.md"):
        (tmp_path / name).unlink()
    count = len(catalogue.calls)
    done = run("figures", "--out", tmp_path)
    assert len(catalogue.calls) == count
    assert {p.name for p in tmp_path.iterdir()} > FIGURES
    assert "left out, damaged" in done.stderr


def test_a_failure_is_reported_at_the_end_and_retried(catalogue, tmp_path):
    catalogue.broken.add("mnist_paper_dp-mac_eps0.5_seed0")
    done = run("mnist", "--runs", 2, "--out", tmp_path, code=1)
    assert len(catalogue.calls) == 12
    assert "failed: mnist_paper_dp-mac_eps0.5_seed0: RuntimeError: no luck" in done.stderr
    assert "0.9100 ± - (1)" in done.stdout
    assert json.loads((tmp_path / "results.json").read_text())["failures"] == [
        {"run": "mnist_paper_dp-mac_eps0.5_seed0", "error": "RuntimeError: no luck"}
    ]
    catalogue.broken.clear()
    run("mnist", "--runs", 2, "--out", tmp_path)
    assert len(catalogue.calls) == 13


def test_a_damaged_run_is_reported_and_redone(catalogue, tmp_path):
    run("mnist", "--runs", 1, "--out", tmp_path)
    (tmp_path / "runs" / "mnist_paper_dp-mac_eps2_seed0.json").write_text("{")
    done = run("mnist", "--runs", 1, "--out", tmp_path)
    assert "was damaged, and done again" in done.stderr
    assert catalogue.calls.count("mnist_paper_dp-mac_eps2_seed0") == 2


def test_ctrl_c_says_how_to_go_on(catalogue, tmp_path, monkeypatch):
    def interrupt(job, data_path, device="cpu"):
        if job.epsilon > 0.5:
            raise KeyboardInterrupt
        return Catalogue.run_job(catalogue, job, data_path)

    monkeypatch.setattr(catalogue, "run_job", interrupt, raising=False)
    done = CliRunner().invoke(app, ["mnist", "--runs", "2", "--out", str(tmp_path), "--workers", "1"])
    assert done.exit_code != 0
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
        (["cifar"], "what='cifar': choose one of mnist, usps, figures, all"),
        (["mnist", "--preset", "loose"], "--preset='loose'"),
        (["mnist", "--runs", "0"], "--runs=0"),
        (["mnist", "--epsilon", "0"], "--epsilon=0.0"),
        (["mnist", "--epsilon", "nan"], "--epsilon=nan"),
        (["mnist", "--epsilon", "3"], "no row of mnist has it"),
        (["mnist", "--device", "abacus"], "--device='abacus'"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_written(catalogue, tmp_path, arguments, message):
    with pytest.raises(ArgumentError) as error:
        run(*arguments, "--out", tmp_path / "out")
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ArgumentError, match="--workers=0"):
        command.reproduce("mnist", workers=0)


def test_help_imports_nothing_heavy():
    code = (
        "import sys, typer\nfrom dpmac.cli import reproduce\n"
        "app = typer.Typer()\napp.command()(reproduce.reproduce)\n"
        "try: app(['--help'])\nexcept SystemExit as e: assert not e.code\n"
        "heavy = {'torch', 'dp_accounting', 'sklearn', 'scipy', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "dpmac reproduce mnist --runs 3" in done.stdout


# --- the display ------------------------------------------------------------------------------------------------------


def test_time_left_knows_that_rows_differ(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(display_module.time, "monotonic", lambda: clock.now)
    slow, quick = (Job("mnist", row, "paper", 2.0, 0) for row in ("DP-SGD", "DP-MAC"))
    more = [Job("mnist", "DP-MAC", "paper", 2.0, seed) for seed in range(1, 5)]
    display = display_module.Display(Store(tmp_path), show=False)
    display.begin([slow, quick, *more], 2)
    assert display.time_left() is None
    display.started(quick)
    display.finished(quick, 10.0)
    assert display.time_left() == 5 * 10 / 2  # a row never run counts as the others
    display.started(slow)
    display.finished(slow, 60.0)
    display.started(more[0])
    clock.now += 4
    assert display.time_left() == (6 + 3 * 10) / 2
    clock.now += 100
    assert display.time_left() == 3 * 10 / 2  # overdue is not negative


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (90, "90 s"), (91, "2 min"), (3600, "1 h 00 min"), (7321, "2 h 03 min")]
)
def test_times_are_spoken(seconds, words):
    assert display_module._spoken(seconds) == words


def test_a_bar_on_a_terminal_and_lines_elsewhere(tmp_path, capsys):
    jobs = [Job("mnist", "DP-MAC", "paper", 2.0, seed) for seed in range(2)]
    for show in (True, False):
        with display_module.Display(Store(tmp_path), show=show) as display:
            display.begin(jobs, 1)
            display.started(jobs[0])
            display.finished(jobs[0], 1.0)
            display.failed(Failure(jobs[1], "no luck"))
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "2/2" in shown.err
        assert "1 failed" in shown.err
        assert ("FAILED: no luck" in shown.err) != show


@pytest.mark.parametrize("what", ["mnist", "figures"])
def test_a_folder_that_cannot_be_written_to_is_said_before_any_run(catalogue, tmp_path, what):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ArgumentError, match=r"--out=.*file.*can be written to"):
            run(what, "--runs", 1, "--out", place)
    assert not catalogue.calls
    assert (tmp_path / "file").read_text() == "mine"


def test_every_epsilon_must_be_of_some_row_and_a_refusal_makes_no_folder(catalogue, tmp_path):
    with pytest.raises(ArgumentError, match=r"--epsilon=3\.0: no row of usps"):
        run("usps", "--epsilon", 1, "--epsilon", 3, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    run("all", "--epsilon", 0.5, "--epsilon", 1, "--runs", 1, "--out", tmp_path / "new")  # one of each table
    assert not catalogue.broken


def test_runs_of_other_settings_are_kept_and_named(catalogue, tmp_path):
    command_line = ("mnist", "--epsilon", 2, "--runs", 1, "--out", tmp_path)
    assert "other settings" not in run(*command_line).stderr
    assert "other settings" not in run(*command_line).stderr
    catalogue.size = 4
    said = run(*command_line).stderr
    assert "2 finished runs" in said
    assert "mnist_paper_dp-mac_eps2_seed0 and others; move them away" in said
    assert len(catalogue.calls) == 2
    run("mnist", "--epsilon", 2, "--runs", 2, "--out", tmp_path)  # the second seed is of the new settings
    results = json.loads((tmp_path / "results.json").read_text())
    assert all(row["mixed_recipes"] for row in results["tables"]["mnist"]["rows"])
    assert "MIXED" in (tmp_path / "tables.md").read_text()


def test_what_is_no_run_of_the_tables_is_left_out(catalogue, tmp_path):
    run("mnist", "--epsilon", 2, "--runs", 1, "--out", tmp_path)
    before = (tmp_path / "tables.md").read_text()
    Store(tmp_path).save(Job("mnist", "DP-MAC", "search", 2.0, 0), {"metric": 0.5})
    assert "left out, no run of these tables: 1 files" in run("figures", "--out", tmp_path).stderr
    assert (tmp_path / "tables.md").read_text() == before


def test_without_a_run_there_is_still_the_figure_that_needs_none(catalogue, tmp_path):
    said = run("figures", "--out", tmp_path / "new").stdout
    assert "No run is finished yet: dpmac reproduce all makes them" in said
    assert (tmp_path / "new" / "expansion.png").stat().st_size > 10_000


def test_data_are_downloaded_only_if_asked(catalogue, tmp_path):
    run("mnist", "--epsilon", 2, "--runs", 1, "--out", tmp_path / "a")
    run("mnist", "--epsilon", 2, "--runs", 1, "--out", tmp_path / "b", "--download")
    assert catalogue.downloads == [False, True]


def test_a_device_that_keeps_no_numbers_is_refused(catalogue, tmp_path):
    with pytest.raises(ArgumentError, match="--device='meta'"):
        run("mnist", "--device", "meta", "--out", tmp_path)
    assert not catalogue.calls
