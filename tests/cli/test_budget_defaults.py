"""``dpmac budget --n N``: what an estimator would do; held against estimators that do it. And all examples of helps."""

from __future__ import annotations

import functools
import json
import re
import shlex
import sys
from dataclasses import dataclass, fields

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from dpmac import DPMACClassifier, DPMACRegressor, cli
from dpmac.cli import app
from dpmac.cli.budget import _settings, _text
from dpmac.training import defaults
from dpmac.training.defaults import Defaults, defaults_for, safe_delta

PLAIN = {"noise_multiplier", "epsilon_pld", "epsilon_rdp", "delta", "sample_rate", "steps"}


def budget(*words):
    done = CliRunner().invoke(app, ["budget", *words], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return done.stdout


@functools.cache
def fitted(n, regression, **given):
    x = np.linspace(-1, 1, n).reshape(-1, 1)
    if regression:
        return DPMACRegressor(feature_range=(-1, 1), target_range=(-1, 1), **given).fit(x, x[:, 0])
    return DPMACClassifier(feature_range=(-1, 1), classes=(False, True), **given).fit(x, x[:, 0] > 0)


@pytest.mark.parametrize(
    ("n", "regression", "given"),
    [
        pytest.param(1100, False, {}, id="classifier"),
        pytest.param(999, False, {"epsilon": 1.0}, id="few rows", marks=pytest.mark.long),
        pytest.param(1100, True, {"epsilon": 4.0, "epochs": 3}, id="regressor with epochs"),
    ],
)
def test_it_is_what_the_estimator_does(n, regression, given):
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    found = json.loads(budget("--n", str(n), "--json", *words, *(["--regression"] if regression else [])))
    model = fitted(n, regression, **given)
    plan = model.plan_
    assert found["noise_multiplier"] == plan.noise_multiplier
    assert (found["steps"], found["batch_size"], found["delta"]) == (plan.steps, plan.batch_size, plan.delta)
    assert found["epsilon_pld"] == pytest.approx(model.privacy_.epsilon, rel=1e-9)
    assert found["estimator"] == type(model).__name__
    released = {m.label for m in model.privacy_.ledger.mechanisms()} - {"training step"}
    assert released == (set() if found["after"] is None else {found["after"]["label"]})


def test_keys_of_before_stay_and_all_of_the_rule_is_there():
    found = json.loads(budget("--n", "1100", "--json"))
    assert set(found) == PLAIN | {"batch_size", "estimator", "defaults", "after"}
    assert set(found["defaults"]) == {field.name for field in fields(Defaults)}
    plan = fitted(1100, False).plan_
    assert found["defaults"] == json.loads(json.dumps(vars(defaults_for(plan, regression=False))))
    assert found["delta"] == safe_delta(1100)
    own = json.loads(budget("--n", "1100", "--batch-size", "100", "--steps", "9", "--epsilon", "1", "--json"))
    assert set(own) == PLAIN


def test_the_table_shows_every_setting_whatever_fields_the_rule_has(monkeypatch):
    @dataclass(frozen=True)
    class More(Defaults):
        gradient_memory: float = 0.125
        layer_widths: tuple[int, ...] = (5, 7)
        way: object = None

    monkeypatch.setattr(defaults, "defaults_for", lambda plan, **_: More(**vars(defaults_for(plan, regression=False))))
    text = budget("--n", "1100")
    for words in ("What DPMACClassifier would do", "gradient memory", "0.125", "5, 7", "none: a linear model", "366"):
        assert words in text
    assert "calibration, 5% of the budget" in text
    assert "base rates, 20% of the budget" in budget("--n", "200")
    assert "too few rows" in budget("--n", "200", "--regression")
    assert json.loads(budget("--n", "300", "--json"))["defaults"]["layer_widths"] == [5, 7]


def test_the_table_speaks_of_whitening_and_of_units_beside_a_linear_model():
    many = budget("--n", "60000", "--epsilon", "4")
    assert "beside a linear model" in many
    assert "by drawn rows, power 0.25" in many
    for words in ("wide", "penalty", "None"):  # names of fields
        assert words not in many


def test_every_kind_of_setting_is_shown_in_words():
    known = {
        "hidden": (5, 7),
        "wide": False,
        "bins": 32,
        "whitening": None,
        "penalty": 0.0,
        "learning_rate": 0.1234567891,
    }
    shown = dict(_settings(known))
    assert shown == {
        "hidden": "5, 7",
        "bins": "32 pieces of a number's range",
        "whitening": "none",
        "learning rate": "0.123457",
    }
    shown = dict(_settings(known | {"hidden": (), "bins": None, "whitening": 0.25, "penalty": 0.5}))
    assert shown["hidden"] == "none: a linear model"
    assert (shown["bins"], shown["whitening"], shown["penalty"]) == ("None", "by drawn rows, power 0.25", "0.5")
    assert _text([1, 2.5, "a"]) == "1, 2.5, a"


def test_a_one_off_release_is_counted_beside():
    alone, beside = (json.loads(budget("--n", "300", "--json", *more)) for more in ((), ("--also-gaussian", "8")))
    assert beside["noise_multiplier"] > alone["noise_multiplier"]
    assert beside["epsilon_pld"] <= 2.0


BAD = [
    (["--n", "1"], "n=1"),
    (["--n", "0"], "n=0"),
    (["--n", "300", "--noise-multiplier", "1"], "--noise-multiplier=1.0: give --batch-size too"),
    (["--n", "300", "--epsilon", "inf"], "--epsilon=inf"),
    (["--n", "300", "--epsilon", "-1"], "epsilon=-1.0"),
    (["--n", "300", "--delta", "0.5"], "delta=0.5"),
    (["--n", "300", "--steps", "3", "--epochs", "3"], "steps, epochs=(3, 3.0)"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_questions_end_with_one_clear_line(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dpmac", "budget", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    seen = capsys.readouterr()
    assert (end.value.code, seen.out) == (2, "")
    assert seen.err.startswith(f"dpmac: {message}")
    assert seen.err.count("\n") == 1


# --- the examples of the helps ----------------------------------------------------------------------------------------


def examples(text):
    return [
        line.strip()
        for line in (text or "").splitlines()
        if line.startswith("  ") and line.strip().startswith("dpmac ")
    ]


COMMANDS = typer.main.get_command(app).commands
PAGES = {**COMMANDS, **{f"data {name}": command for name, command in COMMANDS["data"].commands.items()}}
EXAMPLES = [(page, line) for page, command in PAGES.items() for line in examples(command.help)]


def test_the_helps_have_examples():
    assert {page for page, _ in EXAMPLES} >= {"demo", "budget", "data fetch"}


@pytest.mark.parametrize(("page", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_an_example_is_understood(page, line):
    """Its options are there and take those values; what the command then does is tested elsewhere."""
    words = shlex.split(re.split("&&|>", line)[0])[1 + len(page.split()) :]
    PAGES[page].make_context(page, words)


@pytest.mark.long
@pytest.mark.parametrize("line", [line for page, line in EXAMPLES if page == "budget"])
def test_an_example_of_the_budget_works(line):
    assert budget(*shlex.split(line)[2:])
