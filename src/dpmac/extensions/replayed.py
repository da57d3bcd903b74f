"""A ledger for a seeded run that makes its last releases once more: what is recorded already is compared, not added."""

from __future__ import annotations

from dpmac.extensions.ledgers import Ledger
from dpmac.privacy.entry import Entry


class Replayed(Ledger):
    """The result of :meth:`Ledger.replaying`."""

    def __init__(self, whole: Ledger, recorded: list[Entry]) -> None:
        super().__init__(data_set=whole.data_set)
        self._whole, self._recorded, self._next = whole, recorded, 0

    def append(self, entry: Entry) -> None:
        if self._next >= len(self._recorded):
            self._whole.append(entry)
            return
        made = self._recorded[self._next]
        same = (made.mechanism(), dict(made.scales), made.unit) == (entry.mechanism(), dict(entry.scales), entry.unit)
        if not (same and made.seeded and entry.seeded):
            raise RuntimeError(
                f"the ledger's {made.label!r} of {made.date} is not the release that this run makes again: were its "
                "arguments changed?"
            )
        self._next += 1
