"""What each run of a ledger has released, counted by kind: so the origin of a model is compared with a ledger.

A release is the same one in the ledger of a split and in the whole data set's, which names its split; so the name of
the split is left out here. Two splits could then have released the same under one name of a run. Nobody has rows in
both, so the larger of the two counts holds for everybody; and a split whose own releases contain those of another has a
figure that holds for the other as well (docs/proof.md, "Splits").
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dpmac.privacy.accounting import Mechanism

if TYPE_CHECKING:
    from dpmac.privacy.entry import Entry
    from dpmac.privacy.ledger import Releases


def released(ledger: Releases) -> dict[str, Counter[Mechanism]]:
    """Every run's releases in a ledger, of whatever split."""
    runs: dict[str, list[Mechanism]] = {}
    for entry in ledger.entries:
        runs.setdefault(name_of(entry), []).append(entry.mechanism())
    return {run: counted(made) for run, made in runs.items()}


def counted(made: Iterable[Mechanism]) -> Counter[Mechanism]:
    """How often each kind of release is there, whatever its split."""
    counts: Counter[Mechanism] = Counter()
    for one in made:
        counts[replace(one, count=1, split="")] += one.count
    return counts


def listed(runs: Mapping[str, Counter[Mechanism]]) -> tuple[tuple[str, tuple[Mechanism, ...]], ...]:
    """Plain tuples in an order that follows from what they hold, so that equal ones compare as equal."""
    return tuple((run, _in_order(runs[run])) for run in sorted(runs))


def _in_order(counts: Counter[Mechanism]) -> tuple[Mechanism, ...]:
    return tuple(replace(one, count=counts[one]) for one in sorted(counts, key=repr))


def name_of(entry: Entry) -> str:
    """The name of an entry's run or, if a file of version 0.2 has none, a digest of what the entry says."""
    if entry.run:
        return entry.run
    said = (entry.mechanism().describe(), entry.date[:10], entry.purpose, entry.model)
    return f"unnamed {hashlib.sha256(repr(said).encode()).hexdigest()[:16]}"
