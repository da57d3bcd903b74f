"""What processes compare before they fit together: the parts of the table, the classes, the arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmac import DPMACPCA, ArgumentError, Machine
from dpmac.estimators.sharing import OWN, agree_on, all_classes, check_own_rows
from dpmac.extensions.world import SINGLE_PROCESS, WorldError
from talking import talk

ROWS = torch.arange(4000.0).reshape(1000, 4)


def refused(parts):
    """Whether processes with these parts are all refused; if one goes on, all must."""
    ended = talk(len(parts), lambda world: check_own_rows(world, parts[world.rank]))
    assert all(one.error is None or type(one.error) is ArgumentError for one in ended), ended
    assert len({one.error is None for one in ended}) == 1
    return ended[0].error


def changed(rows, place):
    other = rows.clone()
    other[place, -1] += 0.5
    return other


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 3, 255, 256, 257, 1000])
@pytest.mark.parametrize(("size", "same"), [(2, (0, 1)), (3, (0, 2)), (3, (1, 2)), (4, (2, 3))])
def test_two_processes_with_the_same_rows_are_refused_whichever_they_are(size, same, length):
    parts = [ROWS[:length] + 10_000 * rank for rank in range(size)]
    assert refused(parts) is None
    parts[same[1]] = parts[same[0]].clone()
    assert f"X='processes {same[0]} and {same[1]}': they were given the same rows" in str(refused(parts))


@pytest.mark.parametrize("length", [2, 200, 256])
def test_parts_that_differ_in_any_row_of_a_few_are_not_the_same(length):
    for place in (0, 1, length // 2, length - 2, length - 1):
        assert refused([ROWS[:length], changed(ROWS[:length], place)]) is None


@pytest.mark.parametrize("place", [0, 999])
def test_of_many_rows_the_first_and_the_last_are_looked_at(place):
    assert refused([ROWS, changed(ROWS, place)]) is None


def test_many_rows_are_looked_at_from_end_to_end():
    """In every eighth of a table there are rows it is known by: another eighth makes it another table."""
    for eighth in range(8):
        other = ROWS.clone()
        other[eighth * 125 : (eighth + 1) * 125] += 0.5
        assert refused([ROWS, other]) is None


def test_a_longer_part_is_another_one():
    rows = torch.tensor([[1.0], [2.0], [1.0], [2.0]])
    assert refused([rows[:2], rows]) is None


def test_rows_that_are_all_alike_are_not_compared_but_those_of_which_one_differs_are():
    alike = torch.ones(300, 2)
    assert refused([alike, alike]) is None
    for place in (0, 1, 299):  # at the second row, the two first differ as well
        assert refused([changed(alike, place), changed(alike, place)]) is not None
    two = torch.tensor([[0.0, 1.0], [0.0, 2.0]])  # alike in a column alone
    assert refused([two, two]) is not None


def test_rows_of_other_precision_are_the_same_rows():
    assert refused([ROWS.float(), ROWS.double()]) is not None


def test_a_part_of_many_million_rows_can_be_looked_at():
    """Found by reading: single precision has no 2^24 + 3, and the last place came out as one row too many."""
    rows = torch.zeros(1, 1).expand(2**24 + 4, 1)
    assert refused([rows, rows]) is None


def test_one_process_alone_compares_nothing():
    check_own_rows(SINGLE_PROCESS, ROWS)


# --- classes ----------------------------------------------------------------------------------------------------------


def classes(*labels, known=None):
    return talk(len(labels), lambda world: all_classes(world, labels[world.rank], known))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("dtype", ["U1", object, np.int64, np.float32, bool])
def test_the_classes_are_those_of_all_rows_in_the_type_of_the_labels(size, dtype):
    whole = {bool: [False, True]}.get(dtype, [1, 2, 3] if dtype in (np.int64, np.float32) else ["a", "b", "c"])
    labels = [np.array(whole[rank % len(whole) :][:1], dtype=dtype) for rank in range(size)]
    expected = np.unique(np.concatenate(labels))
    for one in classes(*labels):
        assert one.error is None
        assert one.value.tolist() == expected.tolist()
        assert one.value.dtype == expected.dtype


def test_longer_names_of_another_process_are_not_cut():
    labels = [np.array(["a"]), np.array(["long"])]
    assert [one.value.tolist() for one in classes(*labels)] == [["a", "long"]] * 2


def test_texts_of_both_types_go_together_and_texts_and_numbers_do_not():
    both = classes(np.array(["a"]), np.array(["b"], dtype=object))
    assert [one.value.tolist() for one in both] == [["a", "b"]] * 2
    for numbers in (np.array([1]), np.array([1.0])):
        assert all(type(one.error) is WorldError for one in classes(np.array(["a"]), numbers))
    assert all(type(one.error) is WorldError for one in classes(np.array([1]), np.array([1.0])))


@pytest.mark.parametrize("odd", [None, (1, 2), b"a"])
def test_labels_that_cannot_be_compared_are_refused_by_all(odd):
    strange = np.empty(1, dtype=object)
    strange[0] = odd
    for one in classes(np.array(["a"], dtype=object), strange):
        assert isinstance(one.error, ArgumentError)
        assert "give classes" in str(one.error)


def test_classes_that_were_given_are_taken_as_they_are():
    assert [one.value for one in classes(np.array([1]), np.array(["a"]), known=(1, 2))] == [(1, 2)] * 2
    assert all_classes(SINGLE_PROCESS, np.array([2, 1])) is None
    assert all_classes(SINGLE_PROCESS, np.array([2, 1]), (1, 2)) == (1, 2)


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "name",
    ["epsilon", "delta", "total_epsilon", "max_rows", "n_components", "machine__threads", "machine__micro_batch_size"],
)
def test_whoever_was_given_another_argument_stops_all(size, name):
    def work(world):
        model = DPMACPCA(2)
        agree_on(world, model)
        if world.rank == size - 1:
            model.set_params(**{name: 7})
        agree_on(world, model)

    assert all(isinstance(one.error, WorldError) for one in talk(size, work))


def test_what_a_process_may_have_of_its_own_is_not_compared():
    def work(world):
        assert set(DPMACPCA().get_params(deep=False)) >= OWN
        own = {name: f"{name} of {world.rank}" for name in OWN - {"machine"}}
        places = {"checkpoint": f"kept-{world.rank}", "scratch": f"scratch-{world.rank}", "memory": 1 + world.rank}
        machine = Machine(device=f"cuda:{world.rank}", progress=world.leads, world=world, **places)
        agree_on(world, DPMACPCA(2, machine=machine, **own))

    assert [one.error for one in talk(2, work)] == [None, None]
