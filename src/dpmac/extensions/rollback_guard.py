"""The rollback guard: a small file next to a ledger that records its number of releases and the last digest.

A chain cannot distinguish an old copy of itself from the newest one: both are complete. So every release is also
recorded here, in ``NAME.seen``, after it is on the disk in the ledger. A ledger with fewer or other releases than its
guard recorded is rejected. The guard may lag behind (after a crash between the two writes), and is never ahead. It
detects an old copy that was put back, or a file that was deleted and started anew. It does not detect that both files
were restored or deleted; against that, keep the digest that ``dpmac ledger verify`` prints, or a model's folder, to
compare with (``--against``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.files import opened_in_place, parts_of, whole_file
from dpmac.limits import parsed, read_bytes

_DIGITS = 12
_LONGEST = 4096  # bytes: it takes less than 300
_FIX = "put the newest copy back, or what was spent since is forgotten. If that is meant, delete"


def guard_file_of(ledger: Path) -> Path:
    """The path of the rollback guard of a ledger's file, whether it exists or not."""
    place = ledger.resolve()  # a link has no guard of its own
    return place.with_name(f"{place.name}.seen")


def note(ledger: Path, heads: Sequence[str]) -> None:
    """Record the state of a ledger. Errors are ignored: a release never fails because of the rollback guard."""
    seen = {"entries": f"{len(heads) - 1:0{_DIGITS}d}", "head": heads[-1], "root": heads[0]}
    text, place = json.dumps(seen).encode() + b"\n", guard_file_of(ledger)
    with suppress(OSError), opened_in_place(place) as handle:  # one write of a few bytes, not through a link
        if os.fstat(handle.fileno()).st_size == len(text):
            handle.write(text)
            return
    with suppress(OSError):
        for left in parts_of(place):  # by a process that was killed here; if it lives, its guard lags behind
            left.unlink(missing_ok=True)
        with whole_file(place, "wb") as handle:
            handle.write(text)


def check(ledger: Path, heads: Sequence[str], seen: dict[str, Any] | None) -> None:
    """Raise ValueError unless a ledger with these digests is the one that its guard recorded, or a continuation of it.

    ``seen`` must have been read *before* the ledger, because another process may write to both in between.
    """
    if seen is None:
        return
    count, head, root = int(seen["entries"]), str(seen["head"]), str(seen["root"])
    place = guard_file_of(ledger)
    if root != heads[0]:
        raise ValueError(f"{ledger} is another ledger than the one that {place} saw there: {_FIX} {place}")
    if count >= len(heads):
        said = f"{place} saw {count} releases, and it has {len(heads) - 1}"
        raise ValueError(f"{ledger} is an older copy: {said}: {_FIX} {place}")
    if heads[count] != head:
        raise ValueError(f"{ledger} has other releases than {place} saw: {_FIX} {place}")


def check_none(ledger: Path) -> None:
    """Raise if a new ledger must not start here, because one with releases or an account has disappeared."""
    seen = recorded(ledger)
    if seen is not None:
        place, what = guard_file_of(ledger), f"a ledger of {int(seen['entries'])} releases was here"
        if not int(seen["entries"]):
            what = "an account was opened here"
        raise ArgumentError("ledger", str(ledger), f"{what}, says {place}, and is gone: {_FIX} {place}")


def recorded(ledger: Path) -> dict[str, Any] | None:
    """What the guard recorded; None if there is no guard or it is damaged, since it is an aid and not a ledger."""
    place = guard_file_of(ledger)
    if not place.is_file():  # reading a pipe would block
        return None
    try:
        seen = parsed(read_bytes(place, _LONGEST))
        return {"entries": int(seen["entries"]), "head": str(seen["head"]), "root": str(seen["root"])}
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
