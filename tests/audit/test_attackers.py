"""Attackers on made-up releases, in which something is wrong or not."""

from __future__ import annotations

import pytest
import torch

from dpmac.audit.attackers import coordinates, who_knows, who_learns
from dpmac.audit.curves import strength
from dpmac.privacy import Mechanism
from dpmac.randomness import SeededNoise

CLAIM = (Mechanism(0.5),)
SHARE = torch.tensor([1.6, -1.2, 0.0, 0.0], dtype=torch.float64)  # length 2 = 1 / 0.5: all that the bound allows
MISS = 1e-6


def as_claimed(noise):
    return noise


def shared(noise):
    """The second half of the coordinates has the noise of the first."""
    return torch.cat([noise[:, :2], noise[:, :2]], dim=1)


def missing(noise):
    return noise * torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)


def repeated(noise):
    return SeededNoise(9).normal((1, 4)).expand_as(noise)


def releases(there, count, wrong, seed, share=SHARE):
    noise = SeededNoise(seed, f"/{there}").normal((count, 4))
    return wrong(noise) + there * share


def proved(attacker, wrong, share=SHARE):
    judged = [releases(there, 400, wrong, 1, share) for there in (False, True)]
    return strength(CLAIM, attacker.counts(*judged).corner(MISS))


def learnt(wrong, share=SHARE):
    seen = [releases(there, 200, wrong, 2, share) for there in (False, True)]
    return who_learns(*seen, CLAIM, 400, MISS)


def test_a_correct_mechanism_is_not_accused_and_nearly_reached():
    assert 0.6 < proved(who_knows(SHARE, CLAIM, 400, MISS), as_claimed) <= 1.0
    assert 0.5 < proved(learnt(as_claimed), as_claimed) <= 1.0


def test_shared_noise_misleads_who_knows_and_not_who_learns():
    both = torch.tensor([1.2, 0.4, 0.9, 1.2], dtype=torch.float64)
    assert proved(who_knows(both, CLAIM, 400, MISS), shared, both) <= 1.0
    assert proved(learnt(shared, both), shared, both) > 1.2


@pytest.mark.parametrize("wrong", [missing, repeated])
def test_missing_and_repeated_noise_are_learnt(wrong):
    share = torch.tensor([0.1, 0.0, 0.0, 0.1], dtype=torch.float64)  # hardly anything, where noise hides it
    assert proved(learnt(as_claimed, share), as_claimed, share) < 0.5
    assert proved(learnt(wrong, share), wrong, share) > 1.2


def test_a_canary_that_moves_nothing_proves_nothing():
    nothing = torch.zeros(4, dtype=torch.float64)
    assert proved(who_knows(nothing, CLAIM, 400, MISS), as_claimed, nothing) == 0.0
    assert proved(learnt(as_claimed, nothing), as_claimed, nothing) < 0.5


def test_places_are_looked_at_in_every_partition_that_has_them():
    moved = torch.tensor([0.0, 9.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.5])
    assert coordinates(moved, [3, 3, 2], 10).tolist() == list(range(8))
    assert coordinates(moved, [3, 3, 2], 3).tolist() == [1, 4, 7]  # place 1 of each
    assert coordinates(moved, [3, 3, 2], 6).tolist() == [0, 1, 3, 4, 6, 7]  # and then place 0
