"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import dp_accounting as dpa
import pytest
from dp_accounting import pld, rdp

import dpmac


def run(*arguments, check=True, cwd=None):
    done = subprocess.run(
        [sys.executable, "-m", "dpmac", *arguments], capture_output=True, text=True, check=False, cwd=cwd, timeout=300
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def budget(*arguments):
    common = ["budget", "--n", "60000", "--batch-size", "1000", "--epochs", "30", "--delta", "1e-5", "--json"]
    return json.loads(run(*common, *arguments).stdout)


def direct(sigma, extra, accountant):
    step = dpa.PoissonSampledDpEvent(1 / 60, dpa.GaussianDpEvent(sigma))
    events = [*map(dpa.GaussianDpEvent, extra), dpa.SelfComposedDpEvent(step, 1800)]
    return accountant().compose(dpa.ComposedDpEvent(events)).get_epsilon(1e-5)


@pytest.mark.parametrize("extra", [(), (8.0,), (8.0, 20.0)])
def test_budget_by_epsilon_and_by_noise(extra):
    more = [word for s in extra for word in ("--also-gaussian", str(s))]
    found = budget("--epsilon", "2", *more)
    assert set(found) == {"noise_multiplier", "epsilon_pld", "epsilon_rdp", "delta", "sample_rate", "steps"}
    assert (found["steps"], found["delta"]) == (1800, 1e-5)
    assert found["sample_rate"] == 1000 / 60000
    sigma = found["noise_multiplier"]
    assert found["epsilon_pld"] <= 2.0
    plain = direct(sigma, extra, pld.PLDAccountant)
    assert plain <= found["epsilon_pld"] <= plain * (1 + 1e-6)  # a little of delta is set aside for rounding
    assert found["epsilon_rdp"] == pytest.approx(direct(sigma, extra, rdp.RdpAccountant), rel=1e-9)
    assert direct(sigma * 0.999, extra, pld.PLDAccountant) > 2.0
    back = budget("--noise-multiplier", repr(sigma), *more)
    assert back == found


def test_budget_as_a_table_never_rounds_down():
    words = ["budget", "--n", "60000", "--batch-size", "1000", "--epochs", "30", "--noise-multiplier", "2.8"]
    text = run(*words).stdout
    epsilon = direct(2.8, (), pld.PLDAccountant)
    assert f"{math.ceil(epsilon * 1e4) / 1e4:.4f}" in text
    assert "PLD" in text
    assert "RDP" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n", "100", "--batch-size", "10", "--epochs", "1"], "--epsilon, --noise-multiplier=(None, None)"),
        (["--n", "100", "--batch-size", "10", "--epsilon", "1"], "steps, epochs=(None, None)"),
        (
            ["--n", "100", "--batch-size", "200", "--epochs", "1", "--epsilon", "1"],
            "batch_size=200.0: it cannot exceed",
        ),
        (["--n", "1", "--batch-size", "1", "--epochs", "1", "--epsilon", "1"], "n=1"),
        (["--n", "100", "--batch-size", "10", "--epochs", "1", "--epsilon", "0"], "epsilon=0.0"),
        (["--n", "100", "--batch-size", "10", "--epochs", "1", "--epsilon", "1", "--delta", "0.5"], "delta=0.5"),
        (["--n", "100", "--batch-size", "10", "--epochs", "1", "--noise-multiplier", "0"], "--noise-multiplier=0.0"),
        (
            ["--n", "100", "--batch-size", "10", "--epochs", "1", "--epsilon", "1", "--also-gaussian", "0"],
            "--also-gaussian=[0.0]",
        ),
    ],
)
def test_bad_budgets_end_with_one_clear_line(arguments, message):
    done = run("budget", *arguments, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_teaches_and_imports_nothing_heavy():
    data = [["data", name] for name in ("list", "fetch", "path")]
    for words in ([], ["demo"], ["budget"], ["data"], *data, ["reproduce"], ["version"]):
        code = (
            "import sys, runpy; sys.argv = ['dpmac', *sys.argv[1:], '--help']\n"
            "try: runpy.run_module('dpmac', run_name='__main__')\n"
            "except SystemExit as e: assert not e.code\n"
            "heavy = {'torch', 'dp_accounting', 'sklearn', 'scipy', 'matplotlib', 'numpy'} & set(sys.modules)\n"
            "assert not heavy, heavy"
        )
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout
    assert "dpmac budget --n 60000" in run("budget", "--help").stdout
    assert "dpmac data fetch mnist" in run("data", "fetch", "--help").stdout


def test_importing_the_package_is_light():
    code = "import sys, dpmac; assert not {'torch', 'dp_accounting', 'sklearn'} & set(sys.modules); dpmac.Plan"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(dir(dpmac)) == set(dpmac.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dpmac.nonsense


def test_version():
    text = run("version").stdout
    assert f"dpmac {dpmac.__version__}" in text
    assert "dp-accounting" in text


def test_demo_end_to_end(tmp_path):
    done = run("demo", "--epochs", "4", "--out", "out", cwd=tmp_path)
    assert "private (DP-MAC)" in done.stdout
    assert "same network, not private" in done.stdout
    assert "Privacy statement" in done.stdout
    (folder,) = (tmp_path / "out").iterdir()
    assert folder.name in done.stdout.replace("\n", "")
    result = json.loads((folder / "result.json").read_text())
    for name in ("test_accuracy", "test_accuracy_not_private"):  # fresh noise, few epochs: either may come out ahead
        assert 0.4 < result[name] <= 1
    statement = json.loads((folder / "statement.json").read_text())
    assert statement["private"]
    assert statement["epsilon"] <= 2.0
    assert not statement["seeded"]
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    ledger = dpmac.Ledger.load(folder / "ledger.jsonl")
    assert ledger.epsilon(1e-5) == statement["epsilon"]


def test_a_bad_demo_writes_nothing(tmp_path):
    done = run("demo", "--epsilon", "-1", "--out", "out", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "epsilon=-1.0" in done.stderr
    assert not (tmp_path / "out").exists()
