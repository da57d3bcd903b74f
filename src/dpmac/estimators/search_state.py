"""What of a search survives a kill, in a folder for the holder alone: which entry pays for it, and how many tries.

How many fits a search tries must stay the number that was drawn. Whoever drew it again after every kill would keep the
small ones, which finish sooner, and the law that was paid for would be another. So the number is written down before
the first try, for the holder's eyes: the file can be read by its owner only, and is removed when the search is done.

Nothing else is kept. No candidate's numbers are on the disk before the best of them is released; a search that is
resumed makes all of its tries anew, with fresh noise, and whatever had been tried before is forgotten unseen. It is
paid for once, by the entry of the same name: a kill before that entry was written leaves nothing to pay for twice, and
a kill after it finds the entry there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.files import parts_of, sync, whole_file
from dpmac.kernels.streams import fresh_name
from dpmac.limits import read_json
from dpmac.privacy import Ledger

FORMAT = "dpmac-search-1"
NAME = "search.json"
MOST = 10**9


@dataclass(frozen=True)
class SearchState:
    """``run`` names the search's entry; ``before`` and ``head`` say which ledger it is in; ``tries`` is secret."""

    run: str
    settings: Mapping[str, Any]  # what must be equal for a search to go on
    before: int
    head: str | None
    tries: int | None = None

    @classmethod
    def begun(cls, folder: Path | None, settings: Mapping[str, Any], ledger: Ledger) -> SearchState:
        """The search in ``folder``, if one was interrupted there; else a new one, which is written there."""
        fresh = cls(fresh_name(), json.loads(json.dumps(settings)), len(ledger), ledger.head(len(ledger)))
        if folder is None:
            return fresh
        if ledger.path is None:
            fix = "a search that can be resumed needs a ledger on the disk: give ledger='a/path'"
            raise ArgumentError("checkpoint", str(folder), fix)
        found = _read(folder / NAME)
        if found is None:
            fresh.write(folder)
            return fresh
        if found.settings != fresh.settings:
            other = sorted(k for k in fresh.settings if found.settings.get(k) != fresh.settings[k])
            fix = f"it is of another search (another {', '.join(other)}): give another folder, or delete it"
            raise ArgumentError("checkpoint", str(folder), fix)
        if found.before and ledger.head(found.before) != found.head:
            fix = "the search began with another ledger, or with a newer copy of this one: give that one"
            raise ArgumentError("ledger", ledger, fix)
        return found

    def paid(self, ledger: Ledger) -> bool:
        """Whether the search's entry is in the ledger already."""
        return any(entry.run == self.run for entry in ledger.entries)

    def drawn(self, folder: Path | None, tries: int) -> SearchState:
        """The same with the number of tries, on the disk before the first of them."""
        state = replace(self, tries=tries)
        if folder is not None:
            state.write(folder)
        return state

    def write(self, folder: Path) -> None:
        """Replace the file atomically; it is readable by its owner only, from the first byte on."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        with whole_file(folder / NAME) as handle:
            Path(handle.name).chmod(0o600)
            handle.write(json.dumps({"format": FORMAT, **asdict(self)}))
        sync(folder)

    @staticmethod
    def finished(folder: Path | None) -> None:
        """The best model is in hand: remove what only an unfinished search needs."""
        if folder is None:
            return
        for path in (folder / NAME, *parts_of(folder / NAME)):
            path.unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _read(path: Path) -> SearchState | None:
    if not path.exists():
        return None
    try:
        raw = read_json(path)
        if raw.pop("format") != FORMAT:
            raise ValueError("its format is another")
        found = SearchState(**raw)
        right = isinstance(found.run, str) and found.run and isinstance(found.settings, dict)
        if not right or not _whole(found.before) or (found.tries is not None and not 0 < found.tries <= MOST):
            raise ValueError("a field has the wrong type")
        return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: damaged, or of another version ({error})") from None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
