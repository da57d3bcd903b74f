"""Mutants of splits: releases that are charged to others, and rows that are in two of them."""

from __future__ import annotations

from mutants.mutant import Mutant

ACCOUNT, SPLITS = "tests/privacy/test_account_of_splits.py", "tests/extensions/test_splits.py"
VIEWS = "tests/extensions/test_split_ledgers.py"

MUTANTS = (
    Mutant(
        "splits-cheapest",
        "The figure is that of the split which has paid least.",
        "A minimum is taken in the same line.",
        "privacy/accounting.py",
        "    return max(min(",
        "    return min(min(",
        (f"{ACCOUNT}::test_the_figure_is_the_largest_of_the_splits_own",),
    ),
    Mutant(
        "whole-not-in-splits",
        "What was released from all rows is not composed with what a split has released by itself.",
        "Every release is in one list.",
        "privacy/accounting.py",
        'if m.split in ("", name))',
        "if m.split == name)",
        (f"{ACCOUNT}::test_a_release_from_all_rows_is_paid_for_in_every_split",),
    ),
    Mutant(
        "split-lost-in-the-account",
        "Equal releases of two splits are merged as if a split were a label.",
        "The rows of both are from one data set.",
        "privacy/accounting.py",
        "replace(m, count=1)\n        counts",
        'replace(m, count=1, split="")\n        counts',
        (f"{ACCOUNT}::test_equal_releases_of_two_splits_stay_apart_when_they_are_merged",),
    ),
    Mutant(
        "ids-not-checked",
        "Rows of another split are taken under any name that was declared.",
        "Whoever has divided a table knows its files.",
        "extensions/splits.py",
        "        if len(wrong):\n",
        "        if len(wrong) == len(found):\n",
        (f"{SPLITS}::test_who_is_in_another_split_is_refused_with_the_row",),
    ),
    Mutant(
        "ids-by-row-number",
        "The split follows from the row's number in the file: new rows move others, and a person is in both.",
        "A shuffle and a cut is what everybody does.",
        "extensions/splits.py",
        "[self._place(one) for one in cells[first]]",
        "[self._place(int(one)) for one in first]",
        (f"{SPLITS}::test_new_rows_and_another_order_leave_everybody_where_they_were",),
    ),
    Mutant(
        "ids-as-they-are-read",
        "An id that one reader takes for a number and another for a text is in two splits.",
        "An id is an id.",
        "extensions/splits.py",
        "    if isinstance(one, str) and _WHOLE.fullmatch(one):\n        return str(Fraction(one.strip()))\n",
        "",
        (f"{SPLITS}::test_an_id_is_where_it_is_however_it_is_read",),
    ),
    Mutant(
        "persons-across-splits",
        "Persons by one column are released from splits that were made by another.",
        "Both are ids.",
        "extensions/splits.py",
        "        if unit not in (ROW, _person(self.by)):\n",
        "        if not unit:\n",
        (f"{SPLITS}::test_an_entry_of_persons_by_another_id_is_refused",),
    ),
    Mutant(
        "divided-again",
        "A data set that was divided can be divided otherwise: two divisions have rows in common.",
        "The last word counts.",
        "extensions/splits.py",
        "        if self._splits is None:\n            self._seal(wanted)",
        "        if self._splits != wanted:\n            self._seal(wanted)",
        (f"{SPLITS}::test_a_data_set_is_divided_once",),
    ),
    Mutant(
        "other-rows-under-a-split",
        "A table of other rows is released from into a split's ledger.",
        "The ids were checked.",
        "extensions/split_ledgers.py",
        "        if places is not None and places != checked:\n",
        "        if places is not None and places < 0:\n",
        (f"{VIEWS}::test_rows_whose_ids_were_not_given_are_refused_and_nothing_is_spent",),
    ),
    Mutant(
        "split-forgets-the-whole",
        "A split's budget counts its own releases, and not those from all rows.",
        "Its own are its own.",
        "extensions/split_ledgers.py",
        'replace(entry, split="") for entry in new if entry.split in ("", self.name)]',
        'replace(entry, split="") for entry in new if entry.split == self.name]',
        (f"{VIEWS}::test_a_release_is_recorded_under_its_split_and_charged_to_it_alone",),
    ),
    Mutant(
        "plan-of-a-split-for-nobody",
        "A plan for a split is compared with the account as if it were another split's.",
        "The name is only for the record.",
        "extensions/split_ledgers.py",
        "[replace(m, split=self.name) for m in own]",
        "[replace(m, split=self.name[::-1]) for m in own]",
        (f"{VIEWS}::test_a_plan_is_allowed_for_its_own_split_and_used_up",),
    ),
)
