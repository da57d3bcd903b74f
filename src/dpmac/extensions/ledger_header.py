"""The first line of a ledger's file: format, data set, account, the number of releases, and the last digest.

    {"format": "dpmac-ledger-2", "data_set": "hospital", "created": "...", "entries": "000000000002", "head": "9f..."}

The digests of all lines begin with what of the header never changes (:meth:`Header.root`), the account included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.extensions.accounts import Account
from dpmac.extensions.splits import Splits
from dpmac.limits import check_values, finite_json

FORMAT, OLD_FORMAT, WITH_ACCOUNT, WITH_SPLITS = (f"dpmac-ledger-{number}" for number in (2, 1, 3, 4))
LINE_BYTES = 2**20  # of a line: a release of a thousand partitions has a tenth of that
_CHAIN = 100  # bytes for a line's digest
_DIGITS = 12


@dataclass(frozen=True)
class Header:
    """The first line. Its count and its head are overwritten in place, so its length never changes."""

    data_set: str
    created: str
    entries: int = 0
    head: str = ""
    account: Account | None = None
    splits: Splits | None = None

    def line(self) -> bytes:
        counted = {"entries": f"{self.entries:0{_DIGITS}d}", "head": self.head or self.root()}
        fixed = self._fixed()  # what is renewed stays in the first sector: the splits come last
        last = {name: fixed.pop(name) for name in ("splits",) if name in fixed}
        return json.dumps({**fixed, **counted, **last}).encode() + b"\n"

    def root(self) -> str:
        """The digest that the chain starts from."""
        return digest("", self._fixed())

    def _fixed(self) -> dict[str, Any]:
        fixed: dict[str, Any] = {"format": FORMAT, "data_set": self.data_set, "created": self.created}
        if self.account is not None:
            fixed |= {"format": WITH_ACCOUNT, **self.account.to_dict()}
        if self.splits is not None:
            fixed |= {"format": WITH_SPLITS, "splits": self.splits.to_dict()}
        return fixed


def first_line(path: Path, lines: list[bytes]) -> tuple[Header, bool]:
    """The header, and whether the file has the format of version 0.1, whose first line has no chain."""
    first = parsed_line(path, 1, lines[0]) if lines else {}
    if first.get("format") == OLD_FORMAT:
        return Header("", ""), True
    if first.get("format") not in (FORMAT, WITH_ACCOUNT, WITH_SPLITS):
        raise ValueError(f"{path} is not a dpmac ledger: its first line is not a {FORMAT} header")
    return _header(path, first, lines[0]), False


def account_at(path: Path) -> Account | None:
    """The account in a ledger's file, by its first line alone; None if there is no account, or no file."""
    if not path.is_file():
        return None
    with path.open("rb") as handle:
        line = handle.readline(LINE_BYTES).rstrip(b"\r\n")
    return first_line(path, [line])[0].account if line else None


def _header(path: Path, first: Mapping[str, Any], raw: bytes) -> Header:
    try:
        account = Account.from_dict(first) if "total_epsilon" in first else None
        splits = Splits.from_dict(first["splits"]) if "splits" in first else None
        names, count = (str(first["data_set"]), str(first["created"])), int(first["entries"])
        header = Header(*names, count, str(first["head"]), account, splits)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{path}, line 1: damaged (no whole header)") from None
    if header.line() != raw + b"\n" or header.entries < 0 or (header.entries == 0 and header.head != header.root()):
        raise ValueError(f"{path}, line 1: edited (not as this package writes it)")
    return header


def digest(before: str, line: Mapping[str, Any]) -> str:
    """The digest after ``line``; a ValueError if a number in it is not finite."""
    plain = json.dumps(line, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{plain}".encode()).hexdigest()


def check_line(line: Mapping[str, Any]) -> None:
    """Raise :class:`ArgumentError` for a release with names so long that its line could be written, and not be read."""
    try:
        check_values(line)
        longest = len(json.dumps(line))
    except (TypeError, ValueError) as error:
        raise ArgumentError("release", str(error), "no ledger could be read with that: give shorter names") from None
    if longest > LINE_BYTES - _CHAIN:
        fix = f"a line of a ledger may have {LINE_BYTES:,} bytes: name fewer partitions, or give shorter names"
        raise ArgumentError("release", f"a line of {longest:,} bytes", fix)


def parsed_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        if len(line) > LINE_BYTES:
            raise ValueError(f"{len(line):,} bytes, and {LINE_BYTES:,} are the most")
        raw = finite_json(line)
        check_values(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}: damaged ({error})") from error
    if not isinstance(raw, dict):
        raise ValueError(f"{path}, line {number}: damaged (not an object)")
    return raw
