"""The command line: what it prints, and how it ends. Most of it in this process, one start of each kind for real."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import dp_accounting as dpa
import pytest
from dp_accounting import pld, rdp

import dpmac
from dpmac import cli

COMMON = ["budget", "--n", "60000", "--batch-size", "1000", "--epochs", "30"]


@pytest.fixture
def run(monkeypatch, capsys):
    """``dpmac`` with these words, through the entry point: exit code, standard output, standard error."""

    def given(*words):
        monkeypatch.setattr(sys, "argv", ["dpmac", *words])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as end:
            cli.main()
        seen = capsys.readouterr()
        return end.value.code or 0, seen.out, seen.err

    return given


def started(*words, code=None):
    """A real start: of ``python -m dpmac``, or of some code."""
    how = ["-m", "dpmac"] if code is None else ["-c", code]
    return subprocess.run([sys.executable, *how, *words], capture_output=True, text=True, check=False, timeout=300)


# --- budget -----------------------------------------------------------------------------------------------------------


def direct(sigma, extra, accountant):
    step = dpa.PoissonSampledDpEvent(1 / 60, dpa.GaussianDpEvent(sigma))
    events = [*map(dpa.GaussianDpEvent, extra), dpa.SelfComposedDpEvent(step, 1800)]
    return accountant().compose(dpa.ComposedDpEvent(events)).get_epsilon(1e-5)


LONG = [pytest.param(extra, marks=pytest.mark.long) for extra in ((), (8.0,))]


@pytest.mark.parametrize("extra", [*LONG, (8.0, 20.0)])
def test_budget_by_epsilon_and_by_noise(extra, run):
    more = [word for s in extra for word in ("--also-gaussian", str(s))]

    def budget(*words):
        code, out, err = run(*COMMON, "--delta", "1e-5", "--json", *words, *more)
        assert (code, err) == (0, "")
        return json.loads(out)

    found = budget("--epsilon", "2")
    assert set(found) == {"noise_multiplier", "epsilon_pld", "epsilon_rdp", "delta", "sample_rate", "steps"}
    assert (found["steps"], found["delta"]) == (1800, 1e-5)
    assert found["sample_rate"] == 1000 / 60000
    sigma = found["noise_multiplier"]
    assert found["epsilon_pld"] <= 2.0
    plain = direct(sigma, extra, pld.PLDAccountant)
    assert plain <= found["epsilon_pld"] <= plain * (1 + 1e-5)  # a little of delta is set aside
    assert found["epsilon_rdp"] == pytest.approx(direct(sigma, extra, rdp.RdpAccountant), rel=1e-5)
    assert direct(sigma * 0.999, extra, pld.PLDAccountant) > 2.0
    assert budget("--noise-multiplier", repr(sigma)) == found


def test_budget_as_a_table_never_rounds_down(run):
    code, text, _ = run(*COMMON, "--noise-multiplier", "2.8")
    assert code == 0
    epsilon = direct(2.8, (), pld.PLDAccountant)
    assert f"{math.ceil(epsilon * 1e4) / 1e4:.4f}" in text
    assert "PLD" in text
    assert "RDP" in text


SMALL = ["--n", "100", "--batch-size", "10", "--epochs", "1"]
BAD = [
    (SMALL, "--epsilon, --noise-multiplier=(None, None)"),
    ([*SMALL, "--epsilon", "1", "--noise-multiplier", "1"], "--epsilon, --noise-multiplier=(1.0, 1.0)"),
    (["--n", "100", "--batch-size", "10", "--epsilon", "1"], "steps, epochs=(None, None)"),
    (["--n", "100", "--batch-size", "200", "--epochs", "1", "--epsilon", "1"], "batch_size=200.0: it cannot exceed"),
    (["--n", "1", "--batch-size", "1", "--epochs", "1", "--epsilon", "1"], "n=1"),
    ([*SMALL, "--epsilon", "0"], "epsilon=0.0"),
    ([*SMALL, "--epsilon", "1", "--delta", "0.5"], "delta=0.5"),
    ([*SMALL, "--noise-multiplier", "0"], "--noise-multiplier=0.0"),
    ([*SMALL, "--epsilon", "1", "--also-gaussian", "0"], "--also-gaussian=[0.0]"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_budgets_end_with_one_clear_line(words, message, run):
    code, out, err = run("budget", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"dpmac: {message}")
    assert err.count("\n") == 1


# --- real starts ------------------------------------------------------------------------------------------------------


def test_a_real_start_ends_as_this_process_does():
    """``python -m dpmac`` as it ends well; badly below, where there is a start that can be shared."""
    done = started("version")
    assert done.returncode == 0, done.stderr
    assert f"dpmac {dpmac.__version__}" in done.stdout
    assert "dp-accounting" in done.stdout


def test_help_teaches_and_imports_nothing_heavy():
    """The help of every command, one after the other in one process; the versions; the package itself, by name; then a
    command that ends badly: no traceback, and the entry point's code. Heavy ones that do: the bad budgets above."""
    code = """
import json, runpy, sys
heavy = {'torch', 'dp_accounting', 'sklearn', 'scipy', 'matplotlib', 'numpy'}
for words in json.loads(sys.argv[1]):
    sys.argv = ['dpmac', *words, '--help']
    print('>>>', *words)
    try: runpy.run_module('dpmac', run_name='__main__')
    except SystemExit as e: assert not e.code, words
    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))
sys.argv = ['dpmac', 'version']
try: runpy.run_module('dpmac', run_name='__main__')
except SystemExit as e: assert not e.code
import dpmac
dpmac.ArgumentError
assert not heavy & set(sys.modules)
sys.argv = ['dpmac', 'data', 'path', 'nowhere']
print('>>> nothing more', flush=True)
runpy.run_module('dpmac', run_name='__main__')
"""
    data = [["data", name] for name in ("list", "fetch", "path")]
    groups = {"schema": ("init", "check", "estimate"), "ledger": ("show", "remaining", "verify")}
    more = [[group, *name] for group, names in groups.items() for name in ([], *([one] for one in names))]
    own = [[name] for name in ("train", "resume", "predict", "evaluate", "inspect", "report", "export", "audit")]
    words = [[], ["demo"], ["budget"], ["data"], *data, ["reproduce"], ["version"], *more, *own]
    done = started(json.dumps(words), code=code)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("dpmac: name='nowhere'")
    assert "Traceback" not in done.stderr
    _, *pages, more = done.stdout.split(">>>")
    assert more == " nothing more\n"
    assert len(pages) == len(words)
    assert all("Usage" in page for page in pages)
    by_command = dict(zip(map(tuple, words), pages, strict=True))
    assert "dpmac budget --n 60000" in by_command["budget",]
    assert "dpmac data fetch mnist" in by_command["data", "fetch"]
    assert "dpmac demo" in by_command[()]


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_the_packages_names_are_loaded_on_first_use():
    assert set(dir(dpmac)) == set(dpmac.__all__)
    assert all(getattr(dpmac, name) is not None for name in dpmac.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dpmac.nonsense


def test_an_interruption_ends_with_one_line(run, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    assert run("demo") == (130, "", "dpmac: interrupted\n")
