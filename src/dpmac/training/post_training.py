"""The releases of an estimator after its training (a calibration, residuals), and how they survive a crash.

They are part of the plan and of the budget, and recorded under the name of the run. After every such release its
result is written next to the checkpoint, to ``after.json``: a few released numbers. If the process dies, a *seeded* run
repeats all of these releases, and none is recorded twice. An *unseeded* run continues from the last numbers that were
written; a release whose result died with the process is paid for, and skipped. So the ledger ends with the releases of
the plan, never more and never fewer than were made.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from dpmac.extensions.world import SINGLE_PROCESS, World
from dpmac.files import whole_file
from dpmac.limits import read_json
from dpmac.nets.files import rebuilding
from dpmac.planning.plan import STEP
from dpmac.privacy import Ledger
from dpmac.training.checkpoint import Checkpoints

FORMAT = "dpmac-after-1"


@dataclass(frozen=True)
class PostTraining:
    """Releases after a training: ``made`` of them are in the ledger, and ``kept`` are the numbers that resulted from
    ``known`` of those; None if nothing was written."""

    ledger: Ledger  # to release into
    run: str = ""
    made: int = 0
    known: int = 0
    kept: tuple[float, ...] | None = None
    _checkpoints: Checkpoints | None = None

    @classmethod
    def of(
        cls, ledger: Ledger, checkpoints: Checkpoints | None, steps: int, *, seeded: bool, world: World = SINGLE_PROCESS
    ) -> PostTraining:
        """The state of a run whose training of ``steps`` steps is done; the leader's state in every process."""
        if checkpoints is None:
            return cls(ledger)
        found = world.everywhere(lambda: cls._found(ledger, checkpoints, steps, seeded) if world.leads else None)
        if found is not None:
            world.leaders([found.made, found.known, found.kept])
            return found
        made, known, kept = world.leaders(None)
        if seeded and any(entry.label != STEP for entry in ledger.entries if entry.run == checkpoints.run):
            ledger = ledger.replaying(checkpoints.run, steps)
        return cls(ledger, checkpoints.run, made, known, None if kept is None else tuple(kept))

    @classmethod
    def _found(cls, ledger: Ledger, checkpoints: Checkpoints, steps: int, seeded: bool) -> PostTraining:
        run = checkpoints.run
        made = sum(entry.label != STEP for entry in ledger.entries if entry.run == run)
        if made and seeded:
            return cls(ledger.replaying(run, steps), run)
        saved = checkpoints.read()
        if saved is None or saved["done"] != steps:  # the disk was full: these weights cannot be restored
            return cls(ledger, run, made)
        known, kept = _read(checkpoints, run)
        return cls(ledger, run, made, min(known, made), kept, checkpoints)

    @property
    def lost(self) -> int:
        """The number of releases whose results died with a process."""
        return self.made - self.known

    def keep(self, made: int, numbers: Sequence[float]) -> None:
        """Write the results of the first ``made`` releases. If that fails (a full disk), the fit continues."""
        if self._checkpoints is None:
            return
        path = self._checkpoints.after
        try:
            with whole_file(path) as handle:
                known = {"format": FORMAT, "run": self.run, "made": made, "numbers": list(numbers)}
                handle.write(json.dumps(known, allow_nan=False) + "\n")
        except (OSError, ValueError) as error:
            said = f"{path} could not be written ({error}): if the process is killed now, more is lost"
            warnings.warn(said, RuntimeWarning, stacklevel=3)


def _read(checkpoints: Checkpoints, run: str) -> tuple[int, tuple[float, ...] | None]:
    """What this run wrote last; a damaged file raises a ValueError that names it."""
    path = checkpoints.after
    if not path.exists():
        return 0, None
    with rebuilding(path, "result"):
        found = read_json(path)
        if set(found) != {"format", "run", "made", "numbers"} or found["format"] != FORMAT:
            raise ValueError("its keys are not those of its format")
        if found["run"] != run:  # from an earlier fit, which was killed before it removed the file
            return 0, None
        return int(found["made"]), tuple(float(number) for number in found["numbers"])
