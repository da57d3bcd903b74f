"""Advice about a ledger that is not the one that was meant: a name mistyped, another unit of privacy.

None of it is part of the guarantee. A mistyped name would begin a second account, which knows nothing of what the first
one has spent; so a new name beside a similar one is questioned. A unit that differs is refused, and the way out is
never another ledger: that would forget what these rows have given already.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.privacy.sampling import ROW

_MOST = 1000  # files of a folder that are looked at
_FORMAT = b'{"format": "dpmac-ledger-'


def check_place(path: Path, *, new: bool = False) -> None:
    """Raise unless a ledger can be at ``path``; a name that looks mistyped is refused unless it is to be ``new``."""
    if path.is_dir():
        raise ArgumentError("ledger", str(path), "this is a folder: give the path of a file")
    if not path.absolute().parent.is_dir():
        raise ArgumentError("ledger", str(path), f"there is no folder {path.parent}: make it first")
    if not new:
        check_name(path)


def check_name(path: Path, name: str = "ledger") -> None:
    """Raise if there is no ledger at ``path``, and one of nearly the same name is beside it."""
    if path.exists() and path.stat().st_size:
        return
    found = similar(path)
    if found is not None:
        begin = "dpmac train --new-ledger, or open it by dpmac ledger init"
        if name == "ledger":
            begin = f"Ledger({str(path)!r}), or dpmac train --new-ledger"
        fix = (
            f"there is no such ledger, and {found.name} is beside it: give that name, or what these rows have given is "
            f"forgotten. If the rows are others, begin a second one: {begin}"
        )
        raise ArgumentError(name, str(path), fix)


def similar(path: Path) -> Path | None:
    """A ledger in the same folder whose name differs from this one by a slip of the keys; the likeliest, or None.

    Names that differ in numbers alone (visits-2023, visits-2024) are meant to differ.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        return None
    near = []
    for place, other in enumerate(sorted(folder.iterdir())):
        if place >= _MOST:
            break
        slips = _slips(path.name, other.name)
        if slips is not None and _is_ledger(other):
            near.append((slips, other))
    return min(near, default=(0, None))[1]


def _slips(one: str, other: str) -> int | None:
    """How many slips lie between two names; None if they are too many for so short names."""
    if other.endswith((".seen", ".writer", ".part")):
        return None
    if re.sub(r"[^a-z0-9]", "", one.lower()) == re.sub(r"[^a-z0-9]", "", other.lower()):
        return 0
    one, other = one.lower(), other.lower()
    if re.sub(r"\d+", "0", one) == re.sub(r"\d+", "0", other):
        return None
    stems = [name.partition(".")[0] for name in (one, other)]
    if stems[0] and stems[0] == stems[1]:
        return 0  # another ending
    stem = min(map(len, stems))
    slips = _distance(one, other)
    if slips <= min(2, stem // 4):
        return slips
    return None


def _distance(one: str, other: str) -> int:
    """Letters to put in, take out or replace, or neighbours to swap, to make ``other`` of ``one``."""
    before, last = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one):
        row = [i + 1]
        for j, b in enumerate(other):
            cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (a != b))
            if i and j and a == other[j - 1] and one[i - 1] == b:
                cost = min(cost, before[j - 1] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def _is_ledger(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as handle:
            return handle.read(len(_FORMAT)) == _FORMAT
    except OSError:
        return False


def check_unit_of(ledger: Any, held: str, unit: str, *, differs: bool) -> None:
    """Raise if a release of ``unit`` must not go into a ledger of ``held``, with a way out that forgets nothing."""
    if not differs:
        return
    if unit == ROW:
        of = held.removeprefix("person").removeprefix(" by ")
        column = f"groups={of!r} (--groups {of})" if of else "groups=, the ids of the persons (--groups COLUMN)"
        fix = f"give {column}, so that this protects persons with all their rows, too"
    elif held == ROW:
        fix = (
            "what it holds says little about a person with several rows, and cannot be counted for one. Leave groups "
            "out where everybody has one row"
        )
    else:
        fix = "a person must be the same in all of it: give the column of ids that it was begun with"
    began = "it was opened for" if not len(ledger) else "it holds"
    raise ArgumentError("ledger", ledger, f"{began} releases whose unit of privacy is a {held}, not a {unit}: {fix}")
