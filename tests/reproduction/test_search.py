"""The search for recipes: fair to both methods, blind to the test rows, and the settings are what it picked."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.data import Dataset
from dpmac.randomness import SeededNoise
from reproduction import search
from reproduction.recipe import agrees
from reproduction.settings import DELTA, ROWS, TIGHT
from reproduction.slim import RESULTS, read_trials
from reproduction.store import Finished, Store
from reproduction.tasks import held_out


def small(rows=60):
    """Images whose test half is poison: a trial that looks at it ends in NaN."""
    x = SeededNoise(3).uniform(rows * 16).reshape(rows, 16).float()
    labels = torch.arange(rows) % 10
    poison = torch.full((20, 16), math.nan)
    return Dataset("usps", x, labels, poison, labels[:20], (4, 4), "here")


def test_held_out_rows_are_training_rows_and_only_once():
    data = small()
    split = held_out(data, 15)
    assert (len(split.x_train), len(split.x_test), len(split.y_train), len(split.y_test)) == (45, 15, 45, 15)
    both = torch.cat([split.x_train, split.x_test])
    assert torch.equal(both[both[:, 0].argsort()], data.x_train[data.x_train[:, 0].argsort()])
    for rows, labels in ((split.x_train, split.y_train), (split.x_test, split.y_test)):
        places = [int((data.x_train == row).all(dim=1).nonzero()) for row in rows]
        assert torch.equal(data.y_train[places], labels)
    assert torch.equal(held_out(data, 15).x_test, split.x_test)
    assert not torch.equal(held_out(data, 15, seed=1).x_test, split.x_test)


def test_both_methods_get_the_same_recipes_and_the_whole_budget():
    trials = search.trials("mnist", 1, [0.5]) + search.trials("usps", 1, [1.0])
    assert len({t.key for t in trials}) == len(trials) == 4
    for mac, sgd in zip(trials[::2], trials[1::2], strict=True):
        assert (mac.row, sgd.row) == ("DP-MAC", "DP-SGD")
        assert {**mac.recipe.to_dict(), "method": "dp-sgd"} == sgd.recipe.to_dict()
        rows = ROWS[mac.table] - search.HELD_OUT[mac.table]
        assert 0.99 * mac.epsilon < mac.recipe.plan(rows, DELTA).epsilon() <= mac.epsilon
    assert search.random_recipe("usps", 2.0, 5) == search.random_recipe("usps", 2.0, 5)
    assert len({search.random_recipe("usps", 2.0, k) for k in range(20)}) > 15
    for bad, message in ((("cifar", 1), "table="), (("usps", 0), "trials="), (("usps", 1, [3.0]), "epsilon=3")):
        with pytest.raises(ArgumentError, match=message):
            search.trials(*bad)


def test_a_search_from_end_to_end_sees_no_test_row(monkeypatch, tmp_path, capsys):
    loads = []

    def load(*_):
        loads.append(1)
        return small()

    monkeypatch.setattr(search, "load", load)
    monkeypatch.setattr(search, "_noise", lambda *_: 5.0)
    monkeypatch.setattr(search, "AUTOENCODER", (6,))
    monkeypatch.setitem(search.HELD_OUT, "usps", 15)
    monkeypatch.setitem(search.ROWS, "usps", 60)
    monkeypatch.setitem(search.LENGTHS, "usps", {1.0: ((20, 2),)})
    command = ["usps", "--trials", "2", "--out", str(tmp_path)]
    assert search.main(command) == 0
    assert len(loads) == 5  # once to see that they are there
    printed = capsys.readouterr().out
    assert printed.count("best of 2") == 2
    finished, damaged = Store(tmp_path).all()
    assert not damaged
    assert all(math.isfinite(t.result["metric"]) and t.result["releases"] == 5 for t in finished)
    assert search.main(command) == 0  # all of it is kept
    assert len(loads) == 6
    assert capsys.readouterr().out == printed
    slim = {(t.row, t.epsilon, t.seed): t.result for t in read_trials(tmp_path / "search.json")}
    assert slim == {
        (t.row, t.epsilon, t.seed): {name: t.result[name] for name in ("metric", "recipe")} for t in finished
    }


def test_bad_arguments_end_before_any_trial(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(search, "load", lambda *_: pytest.fail("nothing is loaded"))
    for words, named in (
        (["--workers", "0"], "--workers=0"),
        (["--trials", "0"], "trials=0"),
        (["--epsilon", "3"], "=3.0"),
    ):
        with pytest.raises(SystemExit) as end:
            search.main(["usps", "--out", str(tmp_path / "new"), *words])
        assert end.value.code == 2
        assert named in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_picks_take_the_least_error_and_the_greatest_accuracy():
    def trial(table, seed, metric):
        return Finished(table, "DP-MAC", "search", 2.0, seed, {"metric": metric})

    found = search.picks([trial(t, s, m) for t in ("usps", "mnist") for s, m in ((0, 0.5), (1, 0.2), (2, 0.9))])
    assert {key[0]: (best.seed, count) for key, (best, count) in found.items()} == {"usps": (1, 3), "mnist": (2, 3)}


def same_but_for_noise(recipe, picked):
    """The noise is calibrated again, to all training rows; what an old log does not name is at its default."""
    return agrees({name: value for name, value in picked.items() if name != "noise_multiplier"}, recipe)


def test_the_usps_recipes_are_the_picks_of_the_committed_search():
    finished = read_trials()
    found = search.picks(finished)
    private = {key for key in TIGHT if key[0] == "usps" and math.isfinite(key[2])}
    assert set(found) == private
    assert {count for _best, count in found.values()} == {24}
    for key, (best, _count) in found.items():
        assert same_but_for_noise(TIGHT[key], best.result["recipe"]), key
    for trial in finished:  # and the trials are those that the search would draw again
        drawn = search.random_recipe(trial.table, trial.epsilon, trial.seed)
        assert same_but_for_noise(replace(drawn, method=search.METHODS[trial.row]), trial.result["recipe"])
    for trial, other in zip(finished[::2], finished[1::2], strict=True):  # as the page says: one training, twice
        assert (trial.epsilon, trial.seed) == (other.epsilon, other.seed)
        assert abs(trial.result["metric"] - other.result["metric"]) < 0.005


def test_the_mnist_recipes_are_the_best_of_their_log():
    trials = [json.loads(line) for line in (RESULTS / "mnist-trials.jsonl").read_text().splitlines()]
    assert len(trials) == 353
    for (table, _row, epsilon), recipe in TIGHT.items():
        if table == "mnist" and math.isfinite(epsilon):
            mine = [t for t in trials if t["eps"] == epsilon and t["c"]["method"] == recipe.method]
            assert 56 <= len(mine) <= 62
            for counted in (mine, mine[:56]):  # as many for each method and epsilon give the same picks
                assert same_but_for_noise(recipe, max(counted, key=lambda t: t["score"])["c"]), (table, epsilon)
