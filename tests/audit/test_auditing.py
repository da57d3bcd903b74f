"""The audit as a whole: which cases there are, how looks are counted, and what comes out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from dpmac.audit import FULL, QUICK, Audit, Effort, Finding, all_cases, audit, chosen_cases
from dpmac.audit.cases import Scene
from dpmac.audit.confidence import share_of
from dpmac.audit.findings import looks_of
from dpmac.audit.module_steps import MODULES
from dpmac.checks import ArgumentError
from dpmac.mac import Z_STEPS
from dpmac.nets.layers import LAYERS
from dpmac.privacy import BOUNDS, Ledger

TINY = Effort("test", 40, 20)


def finding(**more):
    usual = {"case": "a", "attacker": "knows", "claim": "", "claimed_epsilon": 1.0, "epsilon": 0.5, "ratio": 0.6}
    return Finding(**{**usual, "reach": 0.9, "draws": 100, **more})


def test_every_listed_piece_has_a_case_on_all_rows_and_on_a_sample():
    names = set(all_cases())
    for kind, listed in {"bound": BOUNDS, "layer": LAYERS}.items():
        for name in set(listed) - {"none"}:
            assert {f"step, {kind} {name}", f"step, {kind} {name}, sampled"} <= names
    assert {f"step, Z-step {name}" for name in set(Z_STEPS) - {"fixed"}} <= names
    for method in ("DP-PCA", "histogram", "closed form", "calibration, two classes", "step, DP-SGD", "mean", "ridge"):
        assert method in names
    assert {"whole run", "many canaries, one run"} <= names
    for name in MODULES:
        assert {f"module, {name}", f"module, {name}, sampled"} <= names


def test_a_quick_audit_is_a_part_of_a_full_one():
    quick, full = chosen_cases(QUICK), chosen_cases(FULL)
    assert set(quick) < set(full)
    assert set(full) == set(all_cases())
    assert FULL.draws > 10 * QUICK.draws
    assert QUICK.judged + QUICK.learned == QUICK.draws // 2


@pytest.mark.parametrize(
    "name", ["step, bound clip", "step, layer conv2d, sampled", "ridge", "private ranges", "module, attention"]
)
def test_what_is_known_beforehand_is_what_releases_are_about(name):
    """The mean of real draws lies where the exact shares say, in units of the noise."""
    case = all_cases()[name]
    scene, count = Scene(case), 60
    for there in (False, True):
        x = scene.draws(there, count) @ scene.attack / scene.attack.norm()
        wanted = there * case.rate * float(scene.attack.norm())
        assert abs(float(x.mean()) - wanted) < 6 * 1.5 / math.sqrt(count)
        assert case.rate < 1 or 0.5 < float(x.std()) < 1.6


def test_an_audit_of_one_case_and_its_confidence(monkeypatch):
    told, seen = [], []
    case = type(all_cases()["mean"])
    judge = case.judge
    monkeypatch.setattr(case, "judge", lambda self, effort, miss: (seen.append(miss), judge(self, effort, miss))[1])
    found = audit(TINY, only="residual", confidence=0.999, told=lambda *what: told.append(what))
    assert [name for name, _ in told] == ["residual scale"]
    assert seen == [pytest.approx(0.001 / 2)]  # two attackers look
    assert found.exceeded == ()
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["looks"] == len(written["findings"]) == 2
    assert written["confidence"] == 0.999
    assert "Gaussian mechanism, noise multiplier 0.5, on all rows" in written["findings"][0]["claim"]


def test_looks_are_counted_before_anything_is_drawn():
    cases = chosen_cases(QUICK)
    assert looks_of(list(cases.values())) == 2 * (len(cases) - 3) + 3  # one look at one run, a search and two splits
    assert share_of(0.99, looks_of(list(cases.values()))) < 0.01 / 50


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"only": "nonsense"}, "only"), ({"workers": 0}, "workers"), ({"confidence": 1.0}, "confidence")],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(ArgumentError, match=f"{name}="):
        audit(TINY, **{"only": "mean", **arguments})
    with pytest.raises(ArgumentError, match="draws="):
        Effort("test", 10, 20)


def test_findings_that_exceed_and_their_table():
    fine, broken = finding(), finding(case="b", ratio=math.inf, epsilon=math.inf)
    bound = finding(case="c", reach=1.5)
    better = finding(attacker="learns", ratio=0.7)
    found = Audit((fine, better, broken, bound), TINY, 0.99, 1.0)
    assert found.exceeded == (broken, bound)
    assert found.cases() == {"a": better, "b": broken, "c": bound}
    assert found.to_dict()["exceeded"] == ["b", "c"]
    assert broken.to_dict()["ratio"] is None


def test_draws_are_of_the_default_noise(monkeypatch):
    """Nothing is seeded: every entry of every ledger says so."""
    entries, append = [], Ledger.append
    monkeypatch.setattr(Ledger, "append", lambda self, entry: (entries.append(entry), append(self, entry))[1])
    scene = Scene(all_cases()["step, bound joint, sampled"])
    first, second = scene.draws(True, 2)
    assert not torch.equal(first, second)
    assert not any(entry.seeded for entry in entries)
    assert {entry.noise_multiplier for entry in entries} == {0.0, 0.5}  # exact ones are in ledgers of their own


@pytest.mark.long
def test_a_correct_build_passes_a_quick_audit_in_two_processes():
    """Every quick case, with a third of the draws: of broken builds most are found with as many
    (test_broken_builds.py)."""
    found = audit(replace(QUICK, draws=400), confidence=1 - 1e-6, workers=2)
    assert found.exceeded == ()
    assert len(found.findings) == looks_of(list(chosen_cases(QUICK).values()))


@pytest.mark.long
@pytest.mark.usefixtures("repeatable_noise")
@pytest.mark.parametrize("name", ["step, bound clip"])  # `make audit` has the others
def test_thirty_thousand_draws_come_close_to_the_claim(name):
    """At the share of confidence that a full audit leaves for one look. With other keys: 0.92 and 0.94."""
    miss = share_of(1 - 1e-3, looks_of(list(all_cases().values())))
    found = all_cases()[name].judge(Effort("long", 30_000, 20), miss)
    best = max(one.ratio for one in found)
    assert 0.88 < best <= 1.0
