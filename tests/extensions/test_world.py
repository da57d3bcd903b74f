"""Several real processes at the door: one event, one noise, and no release where they do not ask the same."""

from __future__ import annotations

from decimal import Decimal

import pytest
import torch

from dpmac.checks import ArgumentError
from dpmac.extensions.processes import described
from dpmac.extensions.world import SINGLE_PROCESS
from dpmac.privacy import (
    DensePart,
    Ledger,
    Partition,
    PerLayerClip,
    Persons,
    PoissonSampler,
    PrivateRows,
    Query,
    release,
)
from dpmac.privacy.gaussian_release import ReleaseRequest
from dpmac.randomness import SeededNoise, SystemNoise
from processes import together_run, values

ROWS = SeededNoise(1).normal((90, 2))


def query(shape=(2,), threshold=1.0, label="sum", spoil=False):
    bound = PerLayerClip(threshold)

    def parts(x):
        shares = bound.apply([DensePart(x if x.shape[1:] == shape else torch.cat([x, x[:, :1]], dim=1))])
        return [DensePart(3.0 * shares[0].values)] if spoil else shares

    return Query(label, bound.promise([Partition("s", shape)]), parts)


def asked(world, odd, *, path=None, times=1):
    """One release or more of the shared rows; ``odd`` is how process 1 differs."""
    mine = odd if world.rank == 1 else {}
    first, last = (len(ROWS) * place // world.size for place in (world.rank, world.rank + 1))
    groups = list(range(last - first)) if mine.get("persons") else None
    table = PrivateRows(ROWS[first:last], groups=groups, world=world)
    ledger = Ledger(path) if path and world.leads else Ledger()
    sampling = SeededNoise(3) if mine.get("seeded_sample", True) else SystemNoise()
    answers = []
    for _ in range(times):
        rate = mine.get("rate", 0.5)
        answer = release(
            table.sample(PoissonSampler(table.n, rate, sampling)) if rate else table.everything(),
            query(**{key: mine[key] for key in ("shape", "threshold", "label", "spoil") if key in mine}),
            noise_multiplier=mine.get("sigma", 1.0),
            source=SeededNoise(5),
            ledger=ledger,
            divisor=mine.get("divisor", 1.0),
        )
        answers.append(answer["s"].tolist())
    return answers, len(ledger), repr(ledger.mechanisms())


@pytest.mark.parametrize("size", [2, 4])
def test_all_get_what_one_process_would_release_and_each_keeps_one_event(size):
    (alone, count, books) = asked(SINGLE_PROCESS, {})
    found = values(together_run(size, asked, {}))
    assert all(one == found[0] for one in found)
    assert found[0][1:] == (count, books)
    torch.testing.assert_close(torch.tensor(found[0][0]), torch.tensor(alone), atol=1e-5, rtol=0)


ODD = {
    "noise_multiplier": {"sigma": 0.1},
    "sample_rate": {"rate": 0.9},
    "seeded": {"seeded_sample": False},
    "shapes": {"shape": (3,)},
    "scales": {"threshold": 2.0},
    "label": {"label": "another"},
    "divisor": {"divisor": 2.0},
    "unit": {"persons": True},
}


@pytest.mark.parametrize("what", ODD)
def test_whoever_asks_for_something_else_stops_all_before_anything_is_paid(what, tmp_path):
    """Found in review: with less noise in one process, its sums came out on a finer grid, and the ledger knew nothing.

    (Of a seed in the source of the noise the ledger says "seeded" in either case; here it is the sample's.)
    """
    path = tmp_path / "ledger"
    ended = together_run(2, _without_a_seeded_source if what == "seeded" else asked_into, ODD[what], str(path))
    assert [one.error for one in ended] == ["WorldError", "WorldError"]
    named = {"unit": "the unit of privacy", "noise_multiplier": "the release's grid", "shapes": "the release's grid"}
    assert all(named.get(what, f"the release's {what}") in one.words for one in ended), ended[0].words
    assert not path.exists()


def asked_into(world, odd, path):
    return asked(world, odd, path=path)


def _without_a_seeded_source(world, odd, path):
    first, last = (len(ROWS) * place // 2 for place in (world.rank, world.rank + 1))
    table = PrivateRows(ROWS[first:last], world=world)
    sampler = PoissonSampler(table.n, 0.5, SeededNoise(3) if world.rank else SystemNoise())
    ledger = Ledger(path) if world.leads else Ledger()
    release(table.sample(sampler), query(), noise_multiplier=1.0, source=SystemNoise(), ledger=ledger)


def test_a_promise_that_one_process_breaks_is_broken_for_all(tmp_path):
    path = tmp_path / "ledger"
    ended = together_run(2, asked_into, {"spoil": True}, str(path))
    assert [one.error for one in ended] == ["WorldError", "BrokenPromiseError"]
    assert "process 1 could not make its part" in ended[0].words
    assert not path.exists()


def _one_more_in_process_1(world):
    table, ledger = PrivateRows(ROWS[:5], world=world), Ledger()
    more = {"noise_multiplier": 1.0, "source": SystemNoise(), "ledger": ledger}
    if world.rank == 1:
        with pytest.raises(Exception, match="noise_multiplier=-1"):
            release(table.everything(), query(), **{**more, "noise_multiplier": -1})
        world._count += 1  # a release that it alone has begun, and got over
    release(table.everything(), query(), **more)


def test_one_processs_second_release_does_not_meet_anothers_first():
    ended = together_run(2, _one_more_in_process_1)
    assert [one.error for one in ended] == ["WorldError", "WorldError"]
    assert "the number of releases of process 1 is 2" in ended[0].words


def _noisy(world, times):
    table, ledger = PrivateRows(torch.zeros(4, 40), world=world), Ledger()
    more = {"noise_multiplier": 1.5, "source": SystemNoise(), "ledger": ledger}
    return [release(table.everything(), query((40,)), **more)["s"].tolist() for _ in range(times)]


def test_the_noise_is_added_once():
    """Twice would have a deviation of 2.1, never of 0; 600 numbers tell."""
    one, other = values(together_run(2, _noisy, 15))
    assert one == other
    assert float(torch.tensor(one).std()) == pytest.approx(1.5, rel=0.15)
    assert len({tuple(answer) for answer in one}) == 15


# --- persons ----------------------------------------------------------------------------------------------------------

SPLIT = {
    "texts": (["a", "b", "b"], ["b", "c", "c"]),
    "numbers of two kinds": ([1, 2, 2], [2.0, 3.0, 3.0]),
    "decimals": ([Decimal("1"), Decimal("2")], [Decimal("1.0"), Decimal("3")]),
    "tuples": ([(1, "a"), (2, "a")], [(True, "a"), (3, "b")]),
    "zeros": ([0.0, 1.0], [-0.0, 2.0]),
}
WHOLE = {"texts": (["1", "b"], ["2", "c"]), "text and number": (["1", "2"], [1, 2]), "bytes": ([b"1"], ["1"])}


def _persons(world, ids):
    mine = ids[world.rank]
    return PrivateRows(ROWS[: len(mine)], groups=mine, world=world).n


@pytest.mark.parametrize("kind", SPLIT)
def test_a_person_with_rows_in_two_processes_is_refused(kind):
    """Found in review: such a person would have two places. Ids that are equal are one person's, however they print."""
    ended = together_run(2, _persons, SPLIT[kind])
    assert [one.error for one in ended] == ["ArgumentError", "ArgumentError"]
    assert all("some persons have rows in more than one" in one.words for one in ended)


@pytest.mark.parametrize("kind", WHOLE)
def test_persons_who_are_whole_are_counted_over_all_processes(kind):
    assert values(together_run(2, _persons, WHOLE[kind])) == [sum(len(set(ids)) for ids in WHOLE[kind])] * 2


def test_ids_that_cannot_be_compared_are_refused_everywhere():
    ended = together_run(2, _persons, ([1j], ["a"]))
    assert [one.error for one in ended] == ["ArgumentError", "WorldError"]


def _never_asked(world):
    with pytest.raises(ArgumentError, match=r"whether others have rows of these persons was not asked"):
        PrivateRows(ROWS[:2], groups=Persons.of([1, 2]), world=world)


def test_persons_that_were_not_compared_are_refused():
    values(together_run(2, _never_asked))


# --- sums that cannot be true -----------------------------------------------------------------------------------------

LIES = {
    "beyond what doubles hold exactly": 2.0**52,
    "beyond what its rows can bring": 200.0 * 2.0**30,
    "not whole": 0.5,
    "no number": float("nan"),
    "endless": float("inf"),
}


def _with_lies(world, lies, path, sigma=1.0):
    """A release in which some processes add something to their sums before they send them."""
    from dpmac.extensions import processes

    truly = processes.whole_sums
    processes.whole_sums = lambda asked, source: truly(asked, source) + lies.get(world.rank, 0.0)
    table = PrivateRows(torch.ones(20, 2), world=world)
    ledger = Ledger(path) if world.leads else Ledger()
    more = {"noise_multiplier": sigma, "source": SystemNoise(), "ledger": ledger}
    return release(table.everything(), query(), **more)["s"].tolist()


@pytest.mark.parametrize("lie", LIES)
def test_sums_that_no_rows_could_make_are_refused_before_anything_is_paid(lie, tmp_path):
    """Found in an attack: 2^52 steps more from one process, and the leader's doubles rounded the noise away."""
    ended = together_run(3, _with_lies, {2: LIES[lie]}, str(tmp_path / "ledger"))
    assert [one.error for one in ended] == ["WorldError"] * 3
    assert "process 2 sent sums that no rows of its own could make" in ended[0].words
    assert not (tmp_path / "ledger").exists()


def test_lies_that_cancel_out_are_refused_too(tmp_path):
    """On their way they would round a third process' sums: the total alone does not show it."""
    ended = together_run(3, _with_lies, {1: 2.0**70, 2: -(2.0**70)}, str(tmp_path / "ledger"))
    assert [one.error for one in ended] == ["WorldError"] * 3
    assert not (tmp_path / "ledger").exists()


def test_all_that_rows_can_bring_is_taken(tmp_path):
    """Every row as long as its bound allows, in every process: 60 of length 1 along one line, and next to no noise."""
    for size in (1, 3):
        answers = values(together_run(size, _with_lies, {}, str(tmp_path / f"ledger{size}"), 0.02))
        torch.testing.assert_close(torch.tensor(answers[0]), torch.full((2,), 20 * size / 2**0.5), atol=0.3, rtol=0)


def test_one_process_is_a_world_that_it_leads_and_that_releases_nothing_for_others():
    assert (SINGLE_PROCESS.rank, SINGLE_PROCESS.size, SINGLE_PROCESS.leads) == (0, 1, True)
    assert SINGLE_PROCESS.everyone("said") == ["said"]
    with pytest.raises(RuntimeError, match="one process releases by itself"):
        SINGLE_PROCESS.released(None, SystemNoise(), Ledger())


def test_processes_tell_each_other_of_shapes_that_make_the_same_grid():
    """Sums of as many numbers would be added up, each in another place."""

    def told(partition):
        batch = PrivateRows(torch.zeros(9, 1)).everything()
        asked = Query("sum", (partition,), lambda x: [])
        return described(ReleaseRequest.of(batch, asked, 1.0, SystemNoise(), 1.0, None))

    first = told(Partition("s", (2, 2), 1.0))
    assert first == told(Partition("s", (2, 2), 1.0))
    for other in (Partition("s", (4, 1), 1.0), Partition("s", (2, 2), 1.0, symmetric=True)):
        assert [name for name, said in told(other).items() if said != first[name]] == ["the release's shapes"]
