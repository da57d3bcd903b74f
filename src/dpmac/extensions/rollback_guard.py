"""A ledger's witness: a small file beside it that remembers how many releases it held, and the digest of the last.

A chain cannot tell an old copy of itself from the newest: both are whole. So every release is noted here as well, in
``NAME.seen``, after it is on the disk in the ledger; a ledger that has fewer releases than its witness saw, or others,
is refused. The witness may lag behind (a crash comes between the two), and is never ahead. It helps against a copy that
was put back, or a file that was deleted and begun anew; whoever restores or deletes both is not found out, and keeps
the digest that ``dpmac ledger verify`` prints, or a model's folder, to compare with (``--against``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.files import opened_in_place, whole_file
from dpmac.limits import parsed, read_bytes

_DIGITS = 12
_LONGEST = 4096  # bytes: it has less than 300
_FIX = "put the newest copy back, or what was spent since is forgotten. If that is meant, delete"


def guard_file_of(ledger: Path) -> Path:
    """The witness of a ledger's file, whether it is there or not."""
    place = ledger.resolve()  # a link has no witness of its own
    return place.with_name(f"{place.name}.seen")


def note(ledger: Path, heads: Sequence[str]) -> None:
    """Remember that a ledger has come so far. What cannot be written is left: a release never fails for its witness."""
    seen = {"entries": f"{len(heads) - 1:0{_DIGITS}d}", "head": heads[-1], "root": heads[0]}
    text, place = json.dumps(seen).encode() + b"\n", guard_file_of(ledger)
    with suppress(OSError), opened_in_place(place) as handle:  # one write of a few bytes, and through no link
        if os.fstat(handle.fileno()).st_size == len(text):
            handle.write(text)
            return
    with suppress(OSError), whole_file(place, "wb") as handle:
        handle.write(text)


def check(ledger: Path, heads: Sequence[str], seen: dict[str, Any] | None) -> None:
    """Raise ValueError unless a ledger with these digests is what its witness saw, or has come further since.

    ``seen`` must have been read *before* the ledger: somebody may write to both in between.
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
    """Raise unless a new ledger may begin here: not where one with releases has gone."""
    seen = told(ledger)
    if seen is not None and int(seen["entries"]):
        place = guard_file_of(ledger)
        fix = f"a ledger of {int(seen['entries'])} releases was here, says {place}, and is gone: {_FIX} {place}"
        raise ArgumentError("ledger", str(ledger), fix)


def told(ledger: Path) -> dict[str, Any] | None:
    """What the witness says; None if there is none, or it is damaged: it is a help, and no ledger."""
    place = guard_file_of(ledger)
    if not place.is_file():  # a pipe would make its reader wait
        return None
    try:
        seen = parsed(read_bytes(place, _LONGEST))
        return {"entries": int(seen["entries"]), "head": str(seen["head"]), "root": str(seen["root"])}
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
