"""Verdicts on the disk, so that a run that was stopped goes on and what has not changed is not asked again."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from pathlib import Path

from mutants.mutant import Mutant
from mutants.running import Verdict


class Results:
    """Verdicts by a mutant's name, each with the digest of what it was a verdict on."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._kept: dict[str, dict[str, object]] = {}
        if path.is_file():
            self._kept = json.loads(path.read_text(encoding="utf-8"))

    def of(self, mutant: Mutant, root: Path) -> Verdict | None:
        """What is known of the mutant as it is now; what did not kill it is asked again."""
        kept = dict(self._kept.get(mutant.name, {}))
        digest = kept.pop("digest", None)
        if digest != mutant.digest(root) or kept.get("state") != "killed" or set(kept) != set(Verdict.__annotations__):
            return None  # or it is of an older version of this file
        return Verdict(**kept)  # type: ignore[arg-type]

    def keep(self, mutant: Mutant, root: Path, verdict: Verdict) -> None:
        """Write it down, whole or not at all."""
        with self._lock:
            self._kept[mutant.name] = {"digest": mutant.digest(root), **asdict(verdict)}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_suffix(f".{os.getpid()}.new")
            beside.write_text(json.dumps(self._kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            beside.replace(self._path)
