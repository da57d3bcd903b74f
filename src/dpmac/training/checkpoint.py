"""Checkpoints: a training that was killed continues from the last one, and no release is ever forgotten.

The contents of a checkpoint are public: weights, an optimiser's moments, averages and thresholds are functions of
released numbers, and the rest are counts. A seeded run also stores the state of its random generators, which anyone who
knows the seed can compute anyway; an unseeded run has no such state.

The ledger contains more than the checkpoint: every release, including those after the last checkpoint, whose results
died with the process. They are paid for and remain so. A seeded run repeats them (the same noise on the same rows gives
the same numbers), so that it ends where it would have ended, bit for bit. An unseeded run cannot, and skips them: it
makes the remaining releases of its plan, and the budget holds. The ledger says which releases belong to this run,
because each carries the run's name. The releases of an estimator after the training are resumed in the same way
(:mod:`dpmac.training.post_training`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.files import parts_of, sync
from dpmac.kernels.streams import fresh_name
from dpmac.nets.files import read_tensors, rebuilding, write_tensors
from dpmac.privacy import Ledger
from dpmac.training.exclusive import exclusive_access
from dpmac.training.trees import packed, unpacked

FORMAT = "dpmac-checkpoint-1"
NAME = "checkpoint.safetensors"
AFTER = "after.json"
EVERY = 0.25  # seconds between checkpoints, if writing them takes less than 1 % of the time
SELDOM = 2.0  # seconds after which writing may take 5 % of the time
_AT_1_PERCENT, _AT_5_PERCENT = 100.0, 20.0  # the pause, in units of the writing time


class Checkpoints:
    """The checkpoint of one training, in a folder of its own; rewritten atomically at intervals.

    The interval is ``every`` seconds if writing takes less than 1 % of the time, and otherwise as short as 1 % allows.
    But a checkpoint that takes long to write is still written every SELDOM seconds, as long as that takes less than
    5 %. So a process that is killed loses the steps of a quarter of a second if a checkpoint is written in 2.5 ms,
    those of two seconds up to 0.1 s, and 20 times the writing time beyond.

    ``keep`` leaves the checkpoint in place when the estimator is fitted; call :meth:`clear` when the model is saved.
    """

    def __init__(self, folder: str | Path, every: float = EVERY, keep: bool = False) -> None:
        if not isinstance(folder, str | Path):
            raise ArgumentError("checkpoint", folder, "give the path of a folder, or None")
        self.folder = Path(folder)
        self._every = number("every", every, "give a number of seconds, at least 0", low=0.0, high=1e9)
        self._keep = keep
        self._last, self._took = time.monotonic(), 0.0
        self._run: str | None = None

    @property
    def path(self) -> Path:
        return self.folder / NAME

    @property
    def after(self) -> Path:
        """The file with the results of releases after the training."""
        return self.folder / AFTER

    @contextmanager
    def locked(self, ledger: Path | None = None) -> Iterator[None]:
        """Lock this checkpoint: another process that trains with it gets an error before it spends anything.

        A folder at the path of the ``ledger``, whose file the first release creates, is rejected too.
        """
        folder = self.folder.resolve()
        if ledger is not None and ledger.resolve() in (folder, *folder.parents):
            raise ArgumentError("checkpoint", str(self.folder), f"the ledger {ledger} is in its way: give another path")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fix = f"no folder can be made there ({error.strerror}): give the path of one, or of a new one"
            raise ArgumentError("checkpoint", str(self.folder), fix) from None
        with exclusive_access(self.folder, "checkpoint"):
            try:
                yield
            finally:
                self._remove_if_empty()

    def read(self) -> dict[str, Any] | None:
        """The last checkpoint; None if there is none yet. A damaged file raises a ValueError that names it."""
        if not self.path.exists():
            return None
        header, tensors = read_tensors(self.path, FORMAT, "a dpmac checkpoint")
        with rebuilding(self.path, "checkpoint"):
            if header["digest"] != _digest(header["state"], tensors):
                raise ValueError("its digest is another")
            found: dict[str, Any] = unpacked(header["state"], tensors)
        return found

    @property
    def run(self) -> str:
        """The name of this training in the ledger: that of the checkpoint, or a fresh one."""
        if self._run is not None:
            return self._run
        saved = self.read()
        if saved is None:
            self._run = fresh_name()
        else:
            self._run = str(saved["run"])
        return self._run

    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        pause = max(self._every, min(_AT_1_PERCENT * self._took, max(SELDOM, _AT_5_PERCENT * self._took)))
        return not self._every or time.monotonic() - self._last >= pause  # 0: after every step, whatever the cost

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint by ``state`` atomically; a crash leaves the old one."""
        start = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, Any] = {}
        tree = packed(state, tensors)
        write_tensors(self.path, {"format": FORMAT, "state": tree, "digest": _digest(tree, tensors)}, tensors)
        sync(self.folder)
        self._last = time.monotonic()
        self._took = self._last - start

    @classmethod
    def at(cls, where: Checkpoints | str | Path | None) -> Checkpoints | None:
        """The given checkpoints, or those in a folder."""
        if where is None or isinstance(where, Checkpoints):
            return where
        return cls(where)

    def finished(self) -> None:
        """The model is fitted: remove the checkpoint, unless ``keep`` says that the caller will do so."""
        if not self._keep:
            self.clear()

    def clear(self) -> None:
        """Remove the checkpoint, and the folder if it is then empty."""
        self._run = None
        for path in (self.path, self.after, *parts_of(self.path), *parts_of(self.after)):
            path.unlink(missing_ok=True)
        self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def before(self, ledger: Ledger) -> Ledger:
        """A read-only view of the ledger as it was when the training began; the whole ledger without a checkpoint.

        The checkpoint contains two digests of the ledger's chain, from the start of the training and from when it was
        written. So another ledger, or an older copy of this one, is rejected.
        """
        saved = self.read()
        if saved is None:
            return ledger
        for count, head in saved["heads"]:
            if count == 0 and not ledger.begun:  # nothing was released: there is no file yet
                continue
            if ledger.head(count) != head:
                fix = (
                    f"it is not the ledger that the run of {self.path} wrote to, or an older copy of it: give that one"
                )
                raise ArgumentError("ledger", ledger, fix)
        return ledger.until(int(saved["ledger"]))


def _digest(tree: Any, tensors: Mapping[str, Tensor]) -> str:
    """The digest of everything in a checkpoint: safetensors has no checksum of its own."""
    found = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
