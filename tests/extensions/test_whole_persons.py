"""Persons of several processes: every id is compared, the unit is agreed on, a feature map's origin is remembered."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

from doorway import ONE, ask
from dpmac.checks import ArgumentError
from dpmac.extensions.persons import check_whole, said_id
from dpmac.extensions.provenance import Origin, Shaped
from dpmac.extensions.world import SingleProcess
from dpmac.privacy import Ledger, Persons, PrivateRows
from shelves import Shelf

KEY = "5a" * 32


class Told(SingleProcess):
    """One of several processes, of which the others have said ``others``; what it says itself is kept."""

    def __init__(self, *others):
        self.others, self.said, self.agreed, self.size = others, [], [], 1 + len(others)

    def leaders(self, value):
        return KEY

    def everyone(self, mine):
        self.said.append(mine)
        return [mine, *self.others] if isinstance(mine, str) else [mine]

    def agree(self, what, value):
        self.agreed.append(value)


def said_of(ids):
    world = Told()
    check_whole(world, ids)
    return world.said[0]


# --- whole persons ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [0, 1234, 2999])
@pytest.mark.parametrize("where", [0, 1500, 3000])
def test_an_id_that_two_processes_have_is_found_wherever_it_stands(shared, where):
    others = list(range(3000, 6000))
    others.insert(where, shared)
    with pytest.raises(ArgumentError, match="some persons have rows in more than one"):
        check_whole(Told(said_of(["a"]), said_of(others)), range(3000))


def test_ids_of_one_process_may_come_often_and_those_of_others_differ():
    check_whole(Told(said_of(list(range(3000, 6000)) * 2), said_of(["1", "2"])), list(range(3000)) * 2)


def test_a_table_of_persons_is_refused_if_another_process_has_rows_of_one():
    with pytest.raises(ArgumentError, match="some persons have rows in more than one"):
        PrivateRows(torch.zeros(3, 1), groups=[1, 2, 2], world=Told(said_of([2, 3])))
    PrivateRows(torch.zeros(3, 1), groups=[1, 2, 2], world=Told(said_of([3, 4])))


def test_persons_that_were_compared_with_other_processes_or_with_none_are_refused():
    ids = [1, 2, 2]
    for persons, world in (
        (Persons.of(ids), Told()),
        (Persons.of(ids).whole_in(Told(), ids), Told()),
        (Persons.of(ids).whole_in(Told(), ids), SingleProcess()),
    ):
        with pytest.raises(ArgumentError, match="was not asked"):
            PrivateRows(torch.zeros(3, 1), groups=persons, world=world)
    world = Told()
    assert PrivateRows(torch.zeros(3, 1), groups=Persons.of(ids).whole_in(world, ids), world=world).n == 2


def test_processes_agree_only_if_unit_and_rows_of_one_are_the_same_in_all():
    """A process whose persons bring more rows, or whose unit is a row, makes another mechanism."""

    def agreed(rows=3, **more):
        world = Told("")
        PrivateRows(torch.zeros(rows, 1), world=world, **more)
        return world.agreed

    named = pd.Series([1, 2, 2], name="patient")
    kinds = [{}, *({"groups": [1, 2, 2], "max_rows": most} for most in (1, 2, 3)), {"groups": named, "max_rows": 2}]
    found = [agreed(**kind) for kind in kinds]
    assert all(found.count(one) == 1 and one for one in found)
    assert agreed(rows=5) == found[0]
    assert agreed(rows=5, groups=[7, 8, 9, 9, 9], max_rows=2) == found[2]


ONE_ID = [1, 1.0, True, Decimal(1), Decimal("1.0"), Fraction(1), np.int8(1), np.float32(1.0), np.bool_(True)]
OTHERS = ["1", b"1", 2, 1.5, 1e300, float("inf"), float("-inf"), (1,), ("1",), (1, 1), "1.0", "", np.str_("a")]


def test_ids_are_said_alike_if_and_only_if_they_are_equal():
    """What is said of ids is compared between processes, and says which split a row is in."""
    assert {said_id(one) for one in ONE_ID} == {said_id(1)}
    assert said_id((1, "a")) == said_id((1.0, "a"))
    assert said_id(np.str_("a")) == said_id("a")
    assert said_id(float("inf")) == said_id(Decimal("inf")) == said_id(np.inf)
    assert len({said_id(one) for one in [1, *OTHERS]}) == 1 + len(OTHERS)


@pytest.mark.parametrize("bad", [None, float("nan"), Decimal("nan"), object(), [1], (1, None)])
def test_what_cannot_be_compared_is_no_id(bad):
    with pytest.raises(ArgumentError, match="give whole numbers or texts"):
        said_id(bad)


@pytest.mark.parametrize("gap", [None, "", float("nan")])
def test_an_id_of_several_parts_needs_all_of_them(gap):
    with pytest.raises(ArgumentError, match=r"groups, row 1=.*no id"):
        Persons.of([(1, "a"), (2, gap), (1, "a")])


# --- what has shaped a feature map ------------------------------------------------------------------------------------


class Doubled(Shaped):
    def forward(self, rows):
        return 2 * rows


@pytest.mark.parametrize("kind", ["rows", "persons", "store"])
def test_a_table_behind_a_feature_map_is_released_only_into_a_ledger_that_holds_what_shaped_it(kind):
    ledger, earlier, feature_map, before = Ledger(), Ledger(), Doubled(), Doubled()
    ask(ONE, ledger=earlier)
    before.origin = Origin.of(earlier)
    ask(ONE, ledger=ledger)
    feature_map.origin = Origin.of(ledger)
    column = torch.zeros(4, 1)
    table = {
        "rows": PrivateRows(column),
        "persons": PrivateRows(column, groups=range(4), max_rows=1),
        "store": PrivateRows(Shelf(column)),
    }[kind]
    assert table.behind(feature_map).origin == feature_map.origin
    both = table.behind(before).behind(feature_map)
    assert both.origin == Origin.merged(before.origin, feature_map.origin)
    with pytest.raises(ArgumentError, match="ledger="):
        ask(ONE, rows=table.behind(feature_map))
    with pytest.raises(ArgumentError, match="ledger="):
        ask(ONE, rows=both, ledger=ledger)
