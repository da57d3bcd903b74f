"""Fifty real SIGKILLs over the whole life of ``dpmac train`` and ``fit``: ``make durability``.

Half of the moments are drawn evenly over the time a life takes, the other half over what is written to the disk, so
that short phases (the calibration, the moves of a save) are met as well. What is on the disk is looked over after every
kill; the run is then resumed, and at times killed again.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import numpy as np
import pytest

import dpmac
from durability.child import STEPS, rows
from durability.lives import ROUNDS, TRAIN, Nursery, agrees, lines_in, looked_over, people_in, phase_of, tidy

KILLS = int(os.environ.get("KILLS", "10"))  # `make durability` makes 50
SEED = int(os.environ.get("SEED", "0"))
RESUME = [["resume", "model", "--quiet"], ["report", "model"]]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def nursery():
    made = Nursery()
    yield made
    made.stop()


def moment(draw, folder, life):
    """When to kill: a time, or something to be seen on the disk."""
    began, after = time.monotonic(), draw.uniform(0, 1.05 * life)
    lines, pause = draw.randint(-1, STEPS + ROUNDS), draw.choice([0.0, 0.0, 0.002, 0.01])
    book = folder / "some.ledger"
    sights = {
        "time": lambda: time.monotonic() - began > after,
        "release": lambda: lines_in(book) >= lines,
        "calibration": lambda: lines_in(book) > STEPS + lines % ROUNDS,
        "save": lambda: any(folder.glob(".model.*.part/*")) and lines_in(book) >= STEPS + ROUNDS,
        "moves": lambda: (folder / "model" / "model.safetensors").exists(),
        "end": lambda: (folder / "model" / "dpmac.json").exists(),
    }
    seen = sights[draw.choices(list(sights), weights=[8, 3, 2, 1, 1, 1])[0]]

    def due():
        if seen():
            time.sleep(pause)
            return True
        return False

    return due


def life_of(nursery, tmp_path, lines):
    """How long one takes that nothing stops, and what it makes with a seed."""
    lines = None if lines is None else [[*lines[0], "--seed", "1"], *lines[1:]]
    for name in ("known", "whole"):  # once inside, so that the plan is known
        folder = tmp_path / name
        folder.mkdir()
        people_in(folder)
        began = time.monotonic()
        child = nursery.begin(folder, lines, 1, inside=name == "known")
        assert child.wait() == 0, child.said.read_text()
    return time.monotonic() - began, agrees(folder / "model", looked_over(folder))


@pytest.mark.long
@pytest.mark.parametrize("way", ["train", "fit"])
def test_kills_at_random_moments_lose_nothing(nursery, tmp_path, way):
    draw, phases, kills = random.Random(f"{SEED}{way}"), Counter(), 0
    first = [TRAIN, ["report", "model"]] if way == "train" else None
    life, whole = life_of(nursery, tmp_path, first)
    for number in range(10**6):
        if kills >= KILLS // 2:
            break
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        people_in(folder)
        seed = 1 if number % 4 == 0 else None
        lines, cold = first, number % 8 == 5
        if seed is not None and lines is not None:
            lines = [[*TRAIN, "--seed", "1"], *lines[1:]]
        for chance in (1.0, 0.4, 0.2, 0.0):
            child = nursery.begin(folder, lines, seed, cold)
            stops = draw.random() < chance
            code = child.killed_when(moment(draw, folder, life + 4 * cold)) if stops else child.wait()
            assert code in ((0, -9) if stops else (0,)), child.said.read_text()
            kills += code == -9
            phases[phase_of(folder)] += code == -9
            looked_over(folder)
            if code == 0:
                break
            if way == "train" and (folder / "model").exists():
                lines = RESUME
        assert code == 0
        found = agrees(folder / "model", looked_over(folder))
        tidy(folder, way)
        if seed is not None:
            same_answers(way, found, whole)
    print(f"\n{kills} kills of {way}: {dict(phases)}")
    assert kills < 25 or len(+phases) >= 4, phases  # many moments are of many kinds


def same_answers(way, found, whole):
    """A seeded run that was killed ends as the one that was not, bit for bit."""
    x = dpmac.data.load_table().test if way == "train" else rows()[0]
    assert np.array_equal(found.predict_proba(x), whole.predict_proba(x))
    assert found.calibration_ == whole.calibration_


def test_the_witness_would_see_a_release_that_is_not_counted(tmp_path):
    (tmp_path / "witness.0").write_bytes(b"." * 3)
    with pytest.raises(AssertionError, match="3 releases were handed out, 0"):
        looked_over(tmp_path)
