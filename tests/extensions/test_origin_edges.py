"""Origins in modules within modules, in two runs at once, and at the limit of what is looked through."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from dpmac.checks import ArgumentError
from dpmac.extensions import provenance as origins
from dpmac.extensions.provenance import PUBLIC, check_origin
from dpmac.extensions.runs import name_of
from dpmac.nets.feature_maps import Affine, Chain
from dpmac.privacy import Entry, Ledger, Origin, origin_of
from hiding import RELEASED


def released() -> Affine:
    feature_map = Affine(1.0)
    feature_map.origin = RELEASED.origin
    return feature_map


def test_what_is_called_public_holds_nothing_that_still_knows_releases():
    chain = Chain((Affine(2.0), released()))
    public = chain.as_public("rows of others")
    assert (
        origin_of(public)
        == origin_of(origins.as_public(chain, "rows of others"))
        == Origin(declared=("rows of others",))
    )
    assert check_origin(Ledger(), feature_map=public).declared == ("rows of others",)
    assert origin_of(chain) == RELEASED.origin  # a copy was made
    plain = nn.Sequential(nn.Linear(1, 1))
    feature_map = released()
    feature_map.inner = plain
    assert not any(hasattr(module, "origin") for module in feature_map.as_public("others").inner.modules())


class Holder(nn.Module):
    """Somebody's own module with a feature map in it."""

    def __init__(self, feature_map: nn.Module) -> None:
        super().__init__()
        self.their_feature_map = feature_map


def test_every_part_of_a_module_knows_what_has_shaped_it_wherever_it_is_used_next():
    """Somebody's own module, and a feature map of ours in it."""
    module = nn.Sequential(nn.Linear(1, 1), Holder(Affine(1.0)))
    origins.mark(module, RELEASED.origin)
    for part in module.modules():
        assert origin_of(part) == RELEASED.origin
    assert module[1].their_feature_map.origin == RELEASED.origin


@pytest.mark.parametrize("deeper", [False, True])
def test_a_state_dict_of_a_module_around_it_keeps_it(deeper):
    def around(feature_map: nn.Module) -> nn.Module:
        return Holder(Holder(feature_map)) if deeper else Holder(feature_map)

    fresh = around(Affine(1.0))
    fresh.load_state_dict(around(released()).state_dict())
    assert origin_of(fresh) == RELEASED.origin


def test_a_state_dict_without_metadata_is_written_and_of_what_is_public_nothing_is_said():
    assert dict(released().state_dict(destination={})) == dict(Affine(1.0).state_dict())
    said = Affine(1.0).state_dict()._metadata  # type: ignore[attr-defined]
    assert not any("dpmac.origin" in each for each in said.values())
    assert torch.is_tensor(next(iter(nn.Linear(1, 1).state_dict().values())))


def test_as_many_objects_as_are_allowed_are_looked_through_and_one_more_is_refused(monkeypatch):
    thing, seen = [[], [], {}], {}
    origins._origins_in(thing, seen, "thing")
    monkeypatch.setattr(origins, "_MOST", len(seen))
    assert origin_of(thing) == PUBLIC
    monkeypatch.setattr(origins, "_MOST", len(seen) - 1)
    with pytest.raises(ArgumentError, match=r"^their_thing="):
        origin_of(thing, name="their_thing")


def test_entries_that_name_no_run_are_the_same_in_a_copy_that_knows_only_the_day():
    """Version 0.2 wrote the time; what is published of it has the day."""
    entry = Entry("mean", 1.0, 1.0, date="2026-11-16T02:22:46+00:00")
    assert name_of(entry) == name_of(replace(entry, date="2026-11-16"))
    assert name_of(entry) != name_of(replace(entry, date="2026-11-17"))


def test_of_one_run_that_is_known_twice_the_later_is_kept():
    ledger = Ledger()
    ledger.append(Entry("mean", 1.0, 1.0))
    early = Origin.of(ledger)
    ledger.append(Entry("mean", 1.0, 1.0))
    late = Origin.of(ledger)
    assert Origin.merged(early, late) == Origin.merged(late, early) == late
    assert (len(early), len(late)) == (1, 2)
    assert not late.within(ledger.until(1))


@pytest.mark.parametrize("words", [{"declared": ("rows of other people",)}, {"unseen": ("other.Kind",)}], ids=str)
def test_what_is_known_without_a_release_is_kept_beside_what_has_one(words):
    """An origin without a release is falsy, and has something to say all the same."""
    said, made = Origin(**words), RELEASED.origin
    assert not said
    for both in (Origin.merged(said, made), Origin.merged(made, None, said)):
        assert both == Origin(made.runs, **words)
        assert both.notes() == said.notes() != ()
    assert Origin.merged(said) == said
