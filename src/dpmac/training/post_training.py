"""What an estimator releases when its training is done (a calibration, residuals), and how that survives a crash.

It is part of the plan and of the budget, and made under the name of the run. After every such release what came of it
is written beside the checkpoint, ``after.json``: a few numbers, all of them released. If the process dies, a *seeded*
run makes these releases again, all of them, and nothing is written twice. An *unseeded* one goes on from the last
numbers that were written down; a release whose result died with the process is paid for, and left out. So the ledger
ends with the releases of the plan, never more and never fewer than were made.
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
    """Releases after a training: ``made`` of them are in the ledger, and ``kept`` are the numbers that ``known`` of
    those have left; None where nothing was written down."""

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
        """Where a run stands whose training of ``steps`` steps is done; in every process as the leader has it."""
        if checkpoints is None:
            return cls(ledger)
        found = world.everywhere(lambda: cls._found(ledger, checkpoints, steps, seeded) if world.leads else None)
        said = world.leaders(None if found is None else [found.made, found.known, found.kept])
        if found is not None:
            return found
        made, known, kept = said
        replayed = seeded and any(entry.label != STEP for entry in ledger.entries if entry.run == checkpoints.run)
        book = ledger.replaying(checkpoints.run, steps) if replayed else ledger
        return cls(book, checkpoints.run, made, known, None if kept is None else tuple(kept))

    @classmethod
    def _found(cls, ledger: Ledger, checkpoints: Checkpoints, steps: int, seeded: bool) -> PostTraining:
        run = checkpoints.run
        made = sum(entry.label != STEP for entry in ledger.entries if entry.run == run)
        if made and seeded:
            return cls(ledger.replaying(run, steps), run)
        saved = checkpoints.read()
        if saved is None or saved["done"] != steps:  # a full disk: these weights would not come back
            return cls(ledger, run, made)
        known, kept = _read(checkpoints, run)
        return cls(ledger, run, made, min(known, made), kept, checkpoints)

    @property
    def lost(self) -> int:
        """Releases whose results died with a process."""
        return self.made - self.known

    def keep(self, made: int, numbers: Sequence[float]) -> None:
        """Write down what came of the first ``made`` releases. If that fails (a full disk), the fit goes on."""
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
    """What was written down last, of this run; a damaged file is a ValueError that names it."""
    path = checkpoints.after
    if not path.exists():
        return 0, None
    with rebuilding(path, "result"):
        found = read_json(path)
        if set(found) != {"format", "run", "made", "numbers"} or found["format"] != FORMAT:
            raise ValueError("its keys are not those of its format")
        if found["run"] != run:  # of an earlier fit, which was killed when it tidied up
            return 0, None
        return int(found["made"]), tuple(float(number) for number in found["numbers"])
