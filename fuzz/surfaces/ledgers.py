"""Ledgers' files: mutated lines, with their chain broken or forged anew."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dpmac import Ledger
from dpmac.privacy import Entry
from fuzz.cases import Action, Case
from fuzz.mutations import spoilt_bytes, spoilt_tree
from fuzz.surfaces.starts import ledger


def prepare(case: Case) -> Action:
    """A spoilt ledger: it is refused, or read and continued."""
    raw = _forged(case) if case.random.random() < 0.5 else ledger().read_bytes()
    spoilt = case.random.random() < 0.7
    for _ in case.times() if spoilt else ():
        raw, said = spoilt_bytes(case.random, raw)
        case.note(said)
    path = case.folder / "some.ledger"
    path.write_bytes(raw)

    def action() -> None:
        book = Ledger.load(path)
        count = len(book)
        book.mechanisms()
        assert path.read_bytes() == raw, "to read is not to write"
        book.append(Entry("again", 1.0, 1.0))
        found = Ledger.read(path)
        assert len(found) == count + 1
        assert found.entries == book.entries
        Ledger.at(path, found.data_set)

    return action


def _forged(case: Case) -> bytes:
    """Lines with something wrong in them, and a chain that fits all the same."""
    header, *lines = [json.loads(line) for line in ledger().read_bytes().splitlines()]
    for line in lines:
        line.pop("chain")
    place = case.random.randrange(len(lines) + 1)
    if place == len(lines):
        header, said = spoilt_tree(case.random, header)
    else:
        lines[place], said = spoilt_tree(case.random, lines[place])
    case.note(f"line {place}: {said}, chained anew")
    if not isinstance(header, dict):
        return _line(header) + b"\n".join(map(_line, lines))
    fixed = {key: header.get(key) for key in ("format", "data_set", "created")}
    head, out = _digest("", fixed), []
    for line in lines:
        head = _digest(head, line)
        out.append(_line({**line, "chain": head} if isinstance(line, dict) else line))
    return _line({**header, "head": head}) + b"".join(out)


def _line(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass") + b"\n"


def _digest(before: str, line: Any) -> str:
    return hashlib.sha256(f"{before}\n{json.dumps(line, sort_keys=True)}".encode("utf-8", "surrogatepass")).hexdigest()
