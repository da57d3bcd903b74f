"""The made-up rows themselves, and when two results count as the same: each by what the search needs of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.extensions.row_independence import (
    MIXES,
    ROWS,
    SIZES,
    WILD,
    _moved,
    blamed,
    check_row_independence,
    fault_of,
    trials,
)
from dpmac.randomness import SeededNoise

NAN, INF = float("nan"), float("inf")


class Fixed(SeededNoise):
    """Draws the place between as it is told."""

    def __init__(self, place: float) -> None:
        super().__init__(3)
        self.place = place

    def uniform(self, *_: int) -> Tensor:
        return torch.tensor([self.place], dtype=torch.float64)


BLANK = (torch.zeros(ROWS, 4, dtype=torch.float64), torch.zeros(ROWS, 3, dtype=torch.float64))


@pytest.mark.parametrize(("drawn", "between"), [(0.0, 1), (0.5, ROWS // 2), (1 - 2.0**-53, ROWS - 2)])
def test_first_last_and_one_between_become_outrageous_and_all_others_become_others(drawn, between):
    for trial in trials(BLANK, source=Fixed(drawn)):
        (others, left), (wild, rest) = trial.changed
        assert left.nonzero().flatten().tolist() == [0, between, ROWS - 1]
        assert torch.equal(rest, ~left)
        for before, other, outrageous in zip(trial.rows, others, wild, strict=True):
            assert torch.equal(before[left], other[left])
            assert not (before[~left] == other[~left]).any()
            assert torch.equal(before[rest], outrageous[rest])
            assert (outrageous[left].abs() == WILD).all()


def test_rows_are_of_three_sizes_in_every_column():
    assert max(SIZES) / min(SIZES) >= 1000
    for size, trial in zip(SIZES, trials(BLANK, source=SeededNoise(1)), strict=True):
        for column in trial.rows:
            assert 0.4 < float(column.abs().median()) / size < 1.1  # 0.67 of a normal number's deviation


def test_targets_that_are_classes_stay_classes_and_nothing_else_does():
    numbers = torch.zeros(ROWS, dtype=torch.float64)  # one target for each row
    for size, trial in zip(SIZES, trials((*BLANK, numbers), one_hot=True, source=SeededNoise(1)), strict=True):
        (others, _), (wild, rest) = trial.changed
        for rows, targets, plain in (trial.rows, others):
            assert torch.equal(targets.sort(dim=1).values, torch.tensor([0.0, 0.0, 1.0]).expand(ROWS, 3).double())
            assert 0.4 < float(rows.abs().median()) / size < 1.1
            assert 0.3 < float(plain.abs().median()) < 1.5  # no classes to choose from, and no size
        assert (wild[0][~rest].abs() == WILD).all()
        assert (wild[1][~rest] == 1).all()  # of every class at once
    assert trials(BLANK, source=SeededNoise(1))[0].rows[1].unique().numel() == ROWS * 3


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.uint8, torch.float32])
def test_rows_of_any_kind_can_be_made_up_and_outrageous_ones_are_others(kind):
    trial = trials((torch.zeros(ROWS, 6, dtype=kind),), source=SeededNoise(2))[
        1
    ]  # large: small ones are all 0 in whole
    _, ((wild,), rest) = trial.changed
    assert trial.rows[0].dtype == wild.dtype == kind
    assert (wild[~rest] != trial.rows[0][~rest]).any(dim=1).all()


# --- what counts as moved ---------------------------------------------------------------------------------------------


def moved(before: list[list[float]], after: list[list[float]]) -> bool:
    one, other = (torch.tensor(rows, dtype=torch.float64) for rows in (before, after))
    return _moved([one], [other])


def test_rounding_of_a_rows_largest_number_is_allowed_and_no_more():
    assert not moved([[1.0], [0.0]], [[1 + 1e-7], [0.0]])  # a row of zeros beside it, which has nothing to round
    assert not moved([[1000.0, 1e-3]], [[1000.0, 2e-3]])
    assert not moved([[1e-3], [1.0]], [[1e-3 + 1e-9], [1.0]])
    assert moved([[1e-3], [1000.0]], [[1.1e-3], [1000.0]])  # of its own row's, not of another's
    assert moved([[1.0, 5.0]], [[1.0, 5.1]])
    assert moved([[1.0], [5.0]], [[1.0], [5.1]])


def test_what_is_no_number_is_the_same_only_in_the_same_place():
    assert not moved([[NAN, INF, 1.0]], [[NAN, INF, 1 + 1e-7]])
    assert moved([[NAN, 1.0]], [[0.0, 1.0]])
    assert moved([[0.0, 1.0]], [[NAN, 1.0]])
    assert moved([[INF]], [[-INF]])
    assert moved([[INF, 1.0]], [[1.0, 1.0]])


def test_what_is_no_number_allows_nothing_to_the_numbers_beside_it():
    """An infinity, being the row's largest number, allowed all others of its row to move."""
    assert moved([[INF, 1.0]], [[INF, 2.0]])
    assert moved([[-INF, 1.0]], [[-INF, 2.0]])
    assert moved([[NAN, 1e-8]], [[NAN, 2e-8]])
    assert moved([[INF, 1e-8]], [[INF, 2e-8]])


@dataclass
class Result:
    shown: Tensor
    _own: Tensor


WAYS = {
    "in one column": lambda x: torch.stack([x[:, 0], x[:, 1] - x[:, 1].mean()], dim=1),
    "beside an infinity": lambda x: torch.stack([x[:, 0] / 0.0, x[:, 1] - x[:, 1].mean()], dim=1),
    "into no number": lambda x: x + (NAN if float(x.abs().amax()) > 1e20 else 0.0),
    "by the shape": lambda x: x[:, : 1 + int(x[0, 0] > 0) + int(x[1, 0] > 0) + int(x.abs().amax() > 1e20)],
    "by how many there are": lambda x: [x] * (2 if float(x.abs().amax()) > 1e20 else 1),
    "in the second tensor": lambda x: [x, x - x.mean(dim=0)],
    "in a field": lambda x: Result(x.cumsum(dim=0), x),
}
PLAIN = {
    "no numbers": lambda x: torch.stack([x[:, 0] / 0.0, x[:, 1] * NAN, x[:, 0]], dim=1),
    "something that is of no row": lambda x: [x, torch.ones(5), torch.tensor(1.0)],
    "a field of its own": lambda x: Result(x, x.cumsum(dim=0)),
}


@pytest.mark.parametrize("way", WAYS)
def test_mixing_is_found(way):
    assert fault_of(WAYS[way], trials(BLANK[:1], source=SeededNoise(4))) == MIXES


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", PLAIN)
def test_what_treats_rows_by_themselves_is_not_blamed(way):
    assert fault_of(PLAIN[way], trials(BLANK[:1], source=SeededNoise(4))) is None


# --- generators -------------------------------------------------------------------------------------------------------


def test_torchs_generators_are_where_they_were(monkeypatch):
    """Also a GPU's, where there is one: here it is a list that remembers what it is told."""
    put_back = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: ["where it is"])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", put_back.append)
    before = torch.get_rng_state()
    assert fault_of(lambda x: x + torch.rand_like(x), trials(BLANK[:1])) is None
    assert torch.equal(torch.get_rng_state(), before)
    assert len(put_back) == 3 * len(SIZES) + 1  # before each result, and at the end
    assert set(put_back[0]) == {"where it is"}


def test_whole_numbers_are_of_any_size_unless_they_are_told_to_be_tokens():
    """A mixture that begins above 1 would not be found among zeros and ones."""
    blank = (torch.zeros(ROWS, 3, dtype=torch.int64),)
    assert any(trial.rows[0].abs().max() > 1 for trial in trials(blank))
    assert all((trial.changed[1][0][0][0] == torch.iinfo(torch.int64).min).all() for trial in trials(blank))
    for trial in trials((*BLANK, *blank), tokens=True):
        for *numbers, tokens in (trial.rows, *(rows for rows, _ in trial.changed)):
            assert tokens.unique().tolist() == [0, 1]
            assert all(column.unique().numel() > ROWS for column in numbers)

    def mixing(x):
        return x.double() + (x.abs().max() > 1) * x.double().mean()

    with pytest.raises(ArgumentError, match="mixing"):
        check_row_independence("mixing", mixing, blank)
    check_row_independence("mixing", mixing, blank, tokens=True)


def test_code_that_takes_none_of_the_rows_that_others_are_compared_with_was_not_tried():
    def picky(x):
        if float(x.min()) > -1e29:
            raise ValueError("only outrageous rows")
        return x

    with pytest.warns(RuntimeWarning, match="could not be tried"):
        assert fault_of(picky, trials(BLANK[:1])) is None


@pytest.mark.parametrize("beside", [(), BLANK[:1]], ids=["alone", "beside numbers"])
def test_code_that_takes_tokens_only_is_tried_with_tokens(beside):
    def embedding(*columns):
        chosen = torch.nn.functional.embedding(columns[-1], torch.tensor([[1.0], [2.0]]))  # raises for other numbers
        return chosen - chosen.mean()

    with pytest.raises(ArgumentError, match="influence each other"):
        check_row_independence("embedding", embedding, (*beside, torch.zeros(ROWS, dtype=torch.int64)))


def test_a_piece_is_shown_as_it_is_printed_if_that_is_one_line():
    assert "Linear(in_features=1" in str(blamed("loss", torch.nn.Linear(1, 1), MIXES))
    assert "loss='Sequential'" in str(blamed("loss", torch.nn.Sequential(torch.nn.ReLU()), MIXES))
