"""Builds with one thing wrong: each is found, by the very cases that a correct build passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dpmac.audit import Case, Effort, WholeRun, all_cases
from dpmac.audit.cases import RATE
from dpmac.audit.one_shots import mean
from dpmac.audit.steps import small_network, step_setting
from dpmac.bounds.allocation import promised
from dpmac.mac import FirstOrder, FixedPrediction
from dpmac.privacy import Ledger, OuterPart, PerLayerClip, PrivateRows, accounting, gaussian_release
from dpmac.training import Trainer

pytestmark = pytest.mark.usefixtures("repeatable_noise")
FEW = Effort("test", 800, 100)
MISS = 1e-7  # a chance of this of being wrong, in every look: a correct build is not accused in our lifetime
CASES = all_cases()


def judged(name, effort=FEW):
    case = CASES[name] if isinstance(name, str) else name
    return {finding.attacker: finding for finding in case.judge(effort, MISS)}


def exceeded(name, effort=FEW):
    return {attacker for attacker, finding in judged(name, effort).items() if finding.exceeded}


def deep():
    """Four layers, each of them clipped: what forgets their number is off by 2."""
    return step_setting(small_network(4), FixedPrediction(), FirstOrder(), PerLayerClip(1.0))


DEEP = Case("four layers", deep)
LONG = pytest.mark.long
SOME = ["step, bound joint, sampled", "DP-PCA", pytest.param(DEEP, id="four layers", marks=LONG)]
MORE = [pytest.param(name, marks=LONG) for name in ("step, bound clip", "step, layer conv2d", "histogram")]


@pytest.mark.parametrize("name", [*SOME, *MORE])
def test_a_correct_build_is_not_accused(name):
    found = judged(name, Effort("test", 400, 100))
    assert set(found) == {"knows", "learns"}
    assert not any(finding.exceeded for finding in found.values())
    assert found["knows"].said_with > found["knows"].said_without + 20  # and the canary was seen
    assert 0.9 < found["knows"].reach <= 1.0


# --- noise ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def noise(monkeypatch):
    """Puts ``wrong(totals, partitions, scales, noise)`` in place of what the door adds: ``noise`` as it would be."""
    real = gaussian_release.perturbed

    def put(wrong):
        def perturbed(sums, partitions, scales, grid, source, divisor, dtype, on_grid):
            assert not on_grid  # one block
            if grid.step == 0:  # the auditor's exact numbers
                return real(sums, partitions, scales, grid, source, divisor, dtype, on_grid)
            zeros = [torch.zeros_like(total, dtype=torch.float64) for total in sums]
            fresh = real(zeros, partitions, scales, grid, source, 1.0)
            added = wrong([fresh[p.name] / scale for p, scale in zip(partitions, scales, strict=True)])
            parts = zip(partitions, sums, scales, added, strict=True)
            return {p.name: (total.double() + scale * more) / divisor for p, total, scale, more in parts}

        monkeypatch.setattr(gaussian_release, "perturbed", perturbed)

    return put


@LONG
def test_the_fixture_leaves_a_correct_build_correct(noise):
    noise(lambda fresh: fresh)
    assert not exceeded("step, bound clip")


HALVED = ["mean", *(pytest.param(n, marks=LONG) for n in ("step, bound clip", "step, bound joint, sampled", "DP-PCA"))]


@pytest.mark.parametrize("name", HALVED)
def test_half_the_noise_is_found(noise, name):
    noise(lambda fresh: [each / 2 for each in fresh])
    assert "knows" in exceeded(name, replace(FEW, draws=6_000 if "sampled" in name else 1_000))


def test_noise_that_two_layers_share_is_found(noise):
    """Both layers have six numbers; the difference of what they release has no noise at all."""
    noise(lambda fresh: [fresh[0].reshape(each.shape) for each in fresh])
    assert exceeded("step, bound clip", Effort("test", 400, 100)) == {"learns"}


def test_one_draw_of_noise_for_all_releases_is_found(noise):
    kept = {}
    noise(lambda fresh: kept.setdefault("always", fresh))
    assert "learns" in exceeded("residual scale", Effort("test", 400, 100))


@LONG
def test_noise_that_leaves_out_the_bias_is_found(noise):

    def on_weights(fresh):
        return [torch.cat([each[:, :-1], torch.zeros_like(each[:, -1:])], dim=1) for each in fresh]

    noise(on_weights)
    assert "learns" in exceeded("step, bound joint")


@LONG
def test_noise_that_is_the_same_in_every_step_of_a_run_is_found(monkeypatch, noise):
    """A run's ledger composes independent noise; with one draw for all steps, their differences show the sampling."""
    kept, fit = {}, Trainer.fit
    noise(lambda fresh: kept.setdefault("run", fresh))
    monkeypatch.setattr(Trainer, "fit", lambda *given: (kept.clear(), fit(*given))[1])
    assert exceeded(WholeRun("whole run", steps=6, sigma=2.0, share=0.5)) == {"learns"}


# --- bounds and samples -----------------------------------------------------------------------------------------------


def test_the_number_of_layers_forgotten_is_found(monkeypatch):
    """scale_i = Theta_i in place of sqrt(K) Theta_i; the door's own check, which sees it too, is out of the way."""
    monkeypatch.setattr(PerLayerClip, "promise", lambda self, partitions: promised(partitions, [1.0] * len(partitions)))
    few = Effort("test", 400, 100)
    with pytest.raises(gaussian_release.BrokenPromiseError):
        DEEP.judge(few, MISS)
    monkeypatch.setattr(gaussian_release, "_keep_promise", lambda *_: torch.tensor(True))
    found = judged(DEEP, few)["knows"]
    assert found.ratio > 1.0
    assert found.reach == pytest.approx(2.0, rel=0.02)


def test_a_bias_that_no_bound_sees_is_found(monkeypatch):
    """The length of a share without its constant 1: a row of zeros has none, and its whole slope goes out."""
    real = OuterPart._measured_single
    monkeypatch.setattr(OuterPart, "_measured_single", lambda self: real(replace(self, one=False)))
    found = judged("step, bound clip", Effort("test", 400, 100))["knows"]
    assert found.exceeded
    assert found.ratio > 1.0
    assert found.reach > 10.0


@LONG
def test_a_rate_that_is_written_down_smaller_than_it_was_is_found(monkeypatch):
    real = PrivateRows.sample

    def sample(self, sampler):
        batch = real(self, sampler)
        object.__setattr__(batch, "sample_rate", batch.sample_rate / 4)
        return batch

    monkeypatch.setattr(PrivateRows, "sample", sample)
    found = judged(Case("mean, sampled", mean, RATE), Effort("test", 2_000, 100))["knows"]
    assert found.exceeded
    assert found.ratio > 1.0


def test_a_ledger_that_says_two_things_stops_the_audit(monkeypatch):
    """Draws whose ledgers differ have no one claim."""
    real, count = Ledger.append, iter(range(10**6))

    def append(self, entry):
        real(self, replace(entry, noise_multiplier=entry.noise_multiplier + 0.01 * (next(count) % 7)))

    monkeypatch.setattr(Ledger, "append", append)
    with pytest.raises(RuntimeError, match="two releases of the same kind"):
        judged("mean")


def test_a_ledger_that_charges_the_cheapest_split_is_found(monkeypatch):
    real, released = accounting.by_split, Effort("test", 2_000, 100)
    assert not exceeded("splits", released)

    def cheapest(mechanisms):
        return [min(real(mechanisms), key=lambda mine: -max(m.noise_multiplier for m in mine))]

    monkeypatch.setattr(accounting, "by_split", cheapest)
    accounting.cost_of.cache_clear()
    try:
        assert exceeded("splits", released) == {"learns"}
    finally:
        accounting.cost_of.cache_clear()
