"""A fit that can be resumed: its checkpoints, what it releases after the training, and its end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.estimators.rows import OnRows
from dpmac.extensions.provenance import mark, origin_of
from dpmac.privacy import Ledger, Origin
from dpmac.training import Run
from dpmac.training.checkpoint import Checkpoints
from dpmac.training.distributed_sync import checkpoints_for
from dpmac.training.post_training import PostTraining
from dpmac.training.threads import using
from dpmac.training.training_state import handing_over


class Resumable(OnRows):
    """An estimator whose fit is a training and, perhaps, some releases after it."""

    run_: Run
    _after: PostTraining  # during a fit
    _made_of: Origin  # during a fit: what has made its rows
    _own_threads: int  # during a fit: torch's threads, for what follows the training as well

    def _model(self) -> Any:
        """The trained model."""
        raise NotImplementedError

    def _checkpoints(self, ledger: Ledger) -> Checkpoints | None:
        checkpoint = self._machine.checkpoint
        self._world.agree("whether there is a checkpoint", checkpoint is not None)
        if checkpoint is not None and self._world.leaders(ledger.path is None):
            fix = "a training that can be resumed needs a ledger on the disk: give ledger='a/path'"
            raise ArgumentError("checkpoint", checkpoint, fix)
        return checkpoints_for(self._world, checkpoint)

    def _written_here(self) -> Checkpoints | None:
        """The checkpoints that this process writes."""
        if self._world.leads:
            return Checkpoints.at(self._machine.checkpoint)
        return None

    @contextmanager
    def _post_training(self, what: str) -> Iterator[PostTraining]:
        """Around the releases after the training, of which a resumed fit has made some already; then the fit ends."""
        after, ledger, checkpoints = self._after, self.run_.ledger, self._written_here()
        if after.lost and self._world.leads:
            said = f"{after.lost} releases of the {what} died with the process: they are paid for, and left out"
            warnings.warn(said, RuntimeWarning, stacklevel=3)
        lock: AbstractContextManager[None] = nullcontext()
        if checkpoints is not None:
            lock = checkpoints.locked()
        with using(self._own_threads), handing_over(ledger), lock, ledger.noting(run=after.run or None):
            yield after
        mark(self._model(), Origin.of(ledger, origin_of(self._model())))
        del self._after
        self._fitted()

    def _fitted(self) -> None:
        """The end of a fit: nothing is left to resume. The releases that made its rows are part of its origin, too."""
        mark(self._model(), Origin.merged(origin_of(self._model()), self._made_of))
        del self._made_of, self._own_threads
        checkpoints = self._written_here()
        if checkpoints is not None:
            checkpoints.finished()
