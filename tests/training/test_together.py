"""Training in two and four real processes against one: the same sums, the same books, the same model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from unittest import mock

import pytest
import torch
from together_child import STEPS, learned, ledger_of, shard, trained, trainer

from dpmac.checks import ArgumentError
from dpmac.extensions.world import SINGLE_PROCESS, WorldError
from dpmac.nets import LOSSES
from dpmac.nets.feature_maps import Affine
from dpmac.privacy import BrokenPromiseError, JointClip, Ledger
from dpmac.training import distributed_sync, together
from processes import together_run, values


@pytest.mark.parametrize(("size", "sigma"), [(2, 0.0), (2, 1.0), (4, 1.0)])
def test_several_processes_train_the_model_that_one_trains(size, sigma, tmp_path):
    alone = trained(SINGLE_PROCESS, str(tmp_path / "one"), {"sigma": sigma})
    several = values(together_run(size, trained, str(tmp_path / "several"), {"sigma": sigma}))
    for one in several:
        torch.testing.assert_close(torch.tensor(one["weights"]), torch.tensor(alone["weights"]), rtol=1e-5, atol=1e-6)
        assert one["weights"] == several[0]["weights"]
        assert {**one, "weights": 0} == {**alone, "weights": 0}
    ours, theirs = (Ledger.read(tmp_path / name) for name in ("one", "several"))
    assert len(theirs) == STEPS  # one event a step
    assert str(theirs.statement(1e-5)) == str(ours.statement(1e-5))


def test_learned_thresholds_are_those_of_one_process():
    alone = learned(SINGLE_PROCESS)
    first, second = values(together_run(2, learned))
    assert first == second
    assert {**first, "weights": 0} == {**alone, "weights": 0}
    torch.testing.assert_close(torch.tensor(first["weights"]), torch.tensor(alone["weights"]), rtol=1e-4, atol=1e-5)


def test_a_slow_process_changes_no_bit():
    quick, slow = (values(together_run(2, trained, None, {}, late)) for late in (None, 1))
    assert quick == slow


def test_unseeded_processes_get_one_model_that_nobody_can_repeat():
    first, second = values(together_run(2, trained, None, {"unseeded": True}))
    assert first == second
    assert first["weights"] != trained(SINGLE_PROCESS, None, {})["weights"]


def test_a_world_of_one_trains_what_no_world_trains():
    assert values(together_run(1, trained, None, {})) == [trained(SINGLE_PROCESS, None, {})]


# --- what must not differ ---------------------------------------------------------------------------------------------


def with_nan(x, y):
    return torch.where(torch.arange(len(x)).unsqueeze(1) == 3, torch.nan, x), y


ODD = {  # what process 1 does otherwise, what it is told, and what the others are
    "plan": ({"sigma": 2.0}, "plan of process 1 is", "plan of process 1 is"),
    "loss": ({"loss": LOSSES["sigmoid"]}, "loss of process 1 is", "loss of process 1 is"),
    "bound": ({"bound": JointClip(2.0)}, "bound of process 1 is", "bound of process 1 is"),
    "feature_map": ({"feature_map": Affine(0.0, 2.0)}, "feature_map of process 1 is", "feature_map of process 1 is"),
    "steps": ({"steps": 5}, "plan of process 1 is", "plan of process 1 is"),
    "micro": ({"micro_batch": 64}, "micro_batch of process 1 is", "micro_batch of process 1 is"),
    "version": ({}, "dpmac of process 1 is '0'", "dpmac of process 1 is '0'"),
    "targets": ({}, "whether there are targets of process 1", "whether there are targets of process 1"),
    "nan": ({}, "row 3, column 0 is not finite", "process 1 could not make its part; nothing was released"),
}


def refusals(world, path):
    """What every process is told, case after case, and how much was spent."""
    told = {}
    for case, (other, _, _) in ODD.items():
        odd = world.rank == 1
        x, y = with_nan(*shard(world)) if odd and case == "nan" else shard(world)
        made = trainer(world, **(other if odd else {}))
        code = "0" if odd and case == "version" else distributed_sync.version("dpmac")
        try:
            with mock.patch.object(distributed_sync, "version", lambda _, code=code: code):
                made.fit(x, None if odd and case == "targets" else y, ledger=ledger_of(world, f"{path}-{case}"))
        except (ArgumentError, WorldError) as error:
            told[case] = str(error)
    return told


def test_what_differs_between_processes_is_refused_by_all_of_them_and_nothing_is_spent(tmp_path):
    told = values(together_run(3, refusals, str(tmp_path / "ledger")))
    for case, (_, odd, others) in ODD.items():
        words = [one[case] for one in told]
        assert all(part in whole for part, whole in zip((others, odd, others), words, strict=True)), words
    assert not any(len(Ledger.read(path)) for path in tmp_path.iterdir() if path.stat().st_size)


@dataclass(frozen=True)
class Breaks:
    """A bound that fails on one process from a step on, as ``how`` says; it looks the same everywhere."""

    inner = JointClip(1.0)
    here: bool = False
    how: str = "promise"

    def __repr__(self):
        return "Breaks()"

    def promise(self, partitions):
        return self.inner.promise(partitions)

    def apply(self, parts):
        if self.here and self.how == "raises":
            raise ZeroDivisionError("a broken bound")
        bounded = self.inner.apply(parts)
        if not self.here:
            return bounded
        return [part.scaled(torch.full((part.rows,), 3.0, dtype=torch.float64)) for part in bounded]

    def learned(self, answer):
        return self


def failures(world, path):
    """One process fails inside a release: what everyone is told, and what its books hold."""
    told = {}
    for how in ("promise", "raises"):
        try:
            made = trainer(world, bound=Breaks(world.rank == 1, how))
            made.fit(*shard(world), ledger=ledger_of(world, f"{path}-{how}"))
        except (BrokenPromiseError, ZeroDivisionError, WorldError) as error:
            told[how] = type(error).__name__, str(error), len(error.ledger)
    ledger = ledger_of(world, f"{path}-full")
    if world.leads:
        write, left = ledger._file.append, iter(range(3))

        def full(*lines):
            if next(left, None) is None:
                raise OSError(28, "No space left on device")
            write(*lines)

        ledger._file.append = full
    try:
        trainer(world).fit(*shard(world), ledger=ledger)
    except (OSError, WorldError) as error:
        told["full"] = type(error).__name__, str(error), len(error.ledger)
    return told


def test_what_fails_in_one_process_ends_all_and_charges_nothing_that_was_not_released(tmp_path):
    leader, broken, other = values(together_run(3, failures, str(tmp_path / "ledger")))
    assert broken["promise"][0] == "BrokenPromiseError"
    assert broken["raises"][0] == "ZeroDivisionError"
    for how in ("promise", "raises"):
        for one in (leader, other):
            assert one[how][0] == "WorldError"
            assert "process 1 could not make its part; nothing was released" in one[how][1]
        assert not (tmp_path / f"ledger-{how}").exists()
        assert {one[how][2] for one in (leader, broken, other)} == {0}
    assert leader["full"][0] == "OSError"
    for one in (broken, other):
        assert one["full"][0] == "WorldError"
        assert "process 0, which keeps the ledger, could not make the release" in one["full"][1]
    assert {one["full"][2] for one in (leader, broken, other)} == {3} == {len(Ledger.read(tmp_path / "ledger-full"))}


def given_up(rank):
    """Process 1 cannot go on, says so to its user, and lives on."""
    start = time.monotonic()
    try:
        with together() as world:
            x, y = shard(world)
            if rank == 1:
                raise KeyError("no such column")
            trainer(world).fit(x, y)
    except (KeyError, WorldError) as error:
        took = time.monotonic() - start
        if rank == 1:
            time.sleep(3)
        return str(error), took


def test_a_process_that_gives_up_is_noticed_at_once_though_it_lives_on():
    for rank, one in enumerate(together_run(3, given_up, bare=True)):
        words, took = one.value
        assert ("no such column" if rank == 1 else "another process has stopped") in words
        assert took < 2.5


# --- weights ----------------------------------------------------------------------------------------------------------


def diverged(world, after):
    """Process 1 moves a weight by one bit, unasked: ``after`` that many looks at the model, and the first of all."""
    looks = iter(range(1 + after))

    def evaluate(network):
        if world.rank == 1 and next(looks, None) is None:
            weight = network.weight_layers[0].weight
            with torch.no_grad():
                weight.view(-1)[0] = torch.nextafter(weight.view(-1)[0], torch.tensor(torch.inf))
        return {}

    try:
        trainer(world, evaluate=evaluate).fit(*shard(world))
    except WorldError as error:
        return str(error), len(error.ledger)


@pytest.mark.parametrize(("after", "words", "steps"), [(0, "the weights after a step", 5), (2, "the weights", STEPS)])
def test_weights_that_differ_by_a_bit_are_noticed_before_the_next_release(after, words, steps):
    for told, spent in values(together_run(2, diverged, after)):
        assert told.startswith(f"{words} of process 1 is"), told
        assert spent == steps
