"""Which split a row is in: by its id and a key, the same for ever; and who is in two of them is refused."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import numpy as np
import pytest

from dpmac.checks import ArgumentError
from dpmac.extensions.entries import from_dict, to_dict
from dpmac.extensions.rollback_guard import guard_file_of
from dpmac.extensions.splits import Splits
from dpmac.privacy import Entry, Ledger
from dpmac.privacy.entry import PERSON

SHARES = {"train": 0.7, "test": 0.2, "later": 0.1}
KNOWN = Splits(tuple(SHARES.items()), "patient", "00" * 32)
ONE = Entry("mean", 4.0, 1.0)


def divided(path=None, by="patient", **shares):
    ledger = Ledger(path, "visits")
    ledger.divide(shares or SHARES, by=by)
    return ledger


def test_shares_are_kept_and_every_row_of_an_id_is_in_one_split():
    ids = np.repeat(np.arange(20_000), 3)
    found = KNOWN.of(np.random.default_rng(0).permutation(ids))
    shares = np.bincount(found) / len(ids)
    assert shares == pytest.approx(list(SHARES.values()), abs=0.01)  # a standard deviation is .0032
    by_row = KNOWN.of(ids).reshape(-1, 3)
    assert (by_row == by_row[:, :1]).all()


def test_new_rows_and_another_order_leave_everybody_where_they_were():
    ids = np.arange(500)
    before = KNOWN.of(ids)
    order = np.random.default_rng(1).permutation(900)
    assert (KNOWN.of(order)[np.argsort(order)][:500] == before).all()


READ_ALIKE = [
    [7, "7", 7.0, " 7 ", "7.0", np.int8(7), b"7", "+7", "007", "7e0", ".7E1"],
    ["a b", "a b ", b"a b"],
    [2024.1, "2024.1", "2024.10", np.float64("2024.10"), b"20241e-1"],  # year and number, which a reader takes for one
    [2**60 + 1, str(2**60 + 1), float(2**60 + 1)],
    [10**400, "1" + 400 * "0", float("inf")],
    [-0.0, 0, "-0", False],
]


@pytest.mark.parametrize("same", READ_ALIKE)
def test_an_id_is_where_it_is_however_it_is_read(same):
    column = np.empty(len(same), dtype=object)
    column[:] = same
    assert len(set(KNOWN.of(column))) == 1


def test_another_key_divides_otherwise_and_independently():
    ids = np.arange(4000)
    ours, theirs = (divided(train=0.5, test=0.5).splits.of(ids) for _ in range(2))
    assert 0.4 < (ours == theirs).mean() < 0.6


@pytest.mark.parametrize("bad", [[1, None, 3], [1.0, float("nan")], ["x", " "]])
def test_a_row_without_an_id_is_refused(bad):
    with pytest.raises(ArgumentError, match="the row has no id"):
        KNOWN.of(bad)


@pytest.mark.parametrize(
    "shares",
    [{"all": 1.0}, {}, {"a": 0.5, "b": 0.4}, {"a": 0.0, "b": 1.0}, {"a b": 0.5, "c": 0.5}, {"": 0.5, "c": 0.5}, [1, 2]],
)
def test_shares_that_divide_nothing_are_refused(shares):
    ledger = Ledger()
    with pytest.raises(ArgumentError, match="share"):
        ledger.divide(shares)
    assert ledger.splits is None


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ({f"s{k}": 1 / 21 for k in range(21)}, "2 to 20 of them"),
        ({"a": 1.5, "b": 0.5}, "share of 'a'=1.5"),
        ({"a": 0.9e-6, "b": 1 - 0.9e-6}, "share of 'a'=9e-07"),
        ({"a": 0.5, "b": 0.5 + 1.5e-9}, "which add up to 1"),
        ({"a" * 41: 0.5, "b": 0.5}, "at most 40 letters"),
        ({3: 0.5, "b": 0.5}, "at most 40 letters"),
    ],
)
def test_limits_of_shares_are_named(shares, why):
    with pytest.raises(ArgumentError, match=why):
        Ledger().divide(shares)


def test_what_is_within_the_limits_divides():
    for shares in (
        {f"s{k}": 1 / 20 for k in range(20)},
        {"a": 1e-6, "b": 1 - 1e-6},
        {"a": 0.5, "b": 0.5 + 0.9e-9},
        {"a" * 40: 0.5, "b": 0.5},
    ):
        assert dict(Ledger().divide(shares, by="b" * 40).shares) == shares


@pytest.mark.parametrize("by", [3, None, "b" * 41])
def test_the_column_of_ids_has_a_short_name(by):
    with pytest.raises(ArgumentError, match="of at most 40 characters"):
        Ledger().divide(SHARES, by=by)


def test_shares_are_kept_as_plain_numbers():
    """In a file they would otherwise be another thing than in memory, and seal it otherwise."""
    splits = Splits((("a", Fraction(1, 4)), ("b", np.float32(0.75))))
    assert splits == Splits((("a", 0.25), ("b", 0.75)))
    assert [type(share) for _, share in splits.shares] == [float, float]


def test_a_data_set_is_divided_once(tmp_path):
    ledger = divided(tmp_path / "book")
    first = ledger.splits
    assert ledger.divide(SHARES, by="patient") is first
    assert Ledger.load(tmp_path / "book").divide(SHARES, by="patient") == first
    for shares, by in (({"train": 0.8, "test": 0.2}, "patient"), (SHARES, "row")):
        with pytest.raises(ArgumentError, match="the data set was divided into"):
            ledger.divide(shares, by=by)


def test_it_is_in_the_file_from_the_first_moment_and_releases_from_before_stay(tmp_path):
    path = tmp_path / "book"
    Ledger(path, "visits").append(ONE)
    ledger = Ledger.load(path)
    ledger.divide(SHARES, by="patient")
    again = Ledger.load(path)
    assert (again.splits, again.entries, again.data_set) == (ledger.splits, ledger.entries, "visits")
    again.append(ONE)
    assert len(Ledger.load(path)) == 2
    fresh = tmp_path / "fresh"
    divided(fresh)
    assert fresh.exists()
    assert Ledger.load(fresh).splits is not None


def test_an_account_and_splits_are_in_one_file_whichever_comes_first(tmp_path):
    for name in ("account first", "splits first"):
        path = tmp_path / name
        if name == "account first":
            Ledger.init(path, total_epsilon=2.0).divide(SHARES, by="patient")
        else:
            divided(path)
            Ledger.init(path, total_epsilon=2.0)
        ledger = Ledger.load(path)
        assert ledger.account.total_epsilon == 2.0
        assert ledger.splits.by == "patient"


@pytest.mark.parametrize("edit", [("0.7", "0.6"), ("patient", "row"), ('"test"', '"rest"'), ('"key": "', '"key": "0')])
def test_an_edit_of_the_division_is_noticed(edit, tmp_path):
    path = tmp_path / "book"
    divided(path).append(ONE)
    text = path.read_text()
    assert edit[0] in text.splitlines()[0]
    path.write_text(text.replace(edit[0], edit[1], 1))
    guard_file_of(path).unlink()
    with pytest.raises(ValueError, match=r"line 1|line 2"):
        Ledger.load(path)


def test_another_order_of_the_shares_is_noticed(tmp_path):
    """It says who is where: with it, rows could be given once more under another name."""
    path = tmp_path / "book"
    divided(path).append(ONE)
    guard_file_of(path).unlink()
    header, *lines = path.read_text().splitlines()
    first = json.loads(header)
    first["splits"]["shares"].reverse()
    path.write_text("\n".join([json.dumps(first), *lines, ""]))
    with pytest.raises(ValueError, match="chain is broken"):
        Ledger.load(path)


def test_a_header_without_whole_splits_is_damaged(tmp_path):
    path = tmp_path / "book"
    divided(path)
    header = json.loads(path.read_text())
    no_key = header["splits"] | {"key": "no digits"}
    for broken in ([], {"shares": 3}, {"shares": {"a": 1.0}, "by": "", "key": ""}, {"shares": SHARES, "by": 1}, no_key):
        path.write_text(json.dumps(header | {"splits": broken}) + "\n")
        with pytest.raises(ValueError, match="line 1: damaged"):
            Ledger.load(path)


def test_what_changes_in_the_header_stays_in_the_first_sector(tmp_path):
    path = tmp_path / "book"
    ledger = Ledger(path, "d" * 190)
    ledger.divide({f"{'s' * 37}{k:02d}": 0.05 for k in range(20)}, by="b" * 40)
    ledger.append(ONE)
    assert path.read_bytes().index(b'"head"') < 512 - 80
    assert len(Ledger.load(path)) == 1


def test_a_copy_to_publish_has_no_key_and_says_what_was_spent(tmp_path):
    ledger = divided()
    ledger.append(Entry("mean", 4.0, 1.0, split="test"))
    ledger.save(tmp_path / "copy")
    assert ledger.splits.key not in (tmp_path / "copy").read_text()
    copy = Ledger.read(tmp_path / "copy")
    assert copy.entries == ledger.entries
    assert copy.epsilon(1e-5) == ledger.epsilon(1e-5)
    with pytest.raises(ArgumentError, match="it has no key of the splits"):
        copy.split("test", [1])


def test_an_entry_of_a_split_that_nobody_declared_is_refused(tmp_path):
    for ledger in (Ledger(), divided()):
        with pytest.raises(ArgumentError, match="split='other'"):
            ledger.append(Entry("mean", 4.0, 1.0, split="other"))
        assert not len(ledger)
    path = tmp_path / "book"
    divided(path).append(Entry("mean", 4.0, 1.0, split="test"))
    lines = path.read_text().splitlines()
    plain = json.loads(lines[1])
    assert plain["split"] == "test"
    plain.pop("chain")
    other = Ledger(tmp_path / "other")
    other.append(ONE)
    other._file.append(plain)
    with pytest.raises(ValueError, match=r"line 3: not a ledger entry .*not divided"):
        Ledger.load(tmp_path / "other")


def test_an_entry_of_persons_by_another_id_is_refused():
    for unit, by in ((PERSON, "patient"), (f"{PERSON} by household", "patient"), (f"{PERSON} by patient", "")):
        said = "'patient'" if by else "an array without a name"
        with pytest.raises(ArgumentError, match=f"divided by {said}: such a {unit} may have rows in several splits"):
            divided(by=by).append(Entry("mean", 4.0, 1.0, unit=unit, split="test"))
    divided(by="").append(Entry("mean", 4.0, 1.0, unit=PERSON, split="test"))


def test_lines_of_all_rows_are_as_they_were():
    line = to_dict(ONE)
    assert "split" not in line
    assert from_dict(line).split == ""
    with_split = Entry("mean", 4.0, 1.0, split="test")
    assert from_dict(to_dict(with_split)) == with_split
    with pytest.raises(ValueError, match="wrong type"):
        from_dict(line | {"split": 3})


def test_who_is_in_another_split_is_refused_with_the_row():
    ledger, ids = divided(), np.arange(300)
    places = ledger.splits.of(ids)
    mine, theirs = ids[places == 1], ids[places == 0]
    assert ledger.split("test", mine).rows == len(mine)
    mixed = np.concatenate([mine[:5], theirs[:2], mine[5:]])
    with pytest.raises(ArgumentError, match=re.escape("2 of ") + ".*the first of them in 'train'") as raised:
        ledger.split("test", mixed)
    assert raised.value.value == 5
    with pytest.raises(ArgumentError, match=r"split='rest': the data set was divided into train, test, later"):
        ledger.split("rest", mine)
    with pytest.raises(ArgumentError, match="the data set is not divided"):
        Ledger().split("test", mine)
