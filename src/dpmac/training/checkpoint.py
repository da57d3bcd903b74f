"""Checkpoints: a training that was killed goes on from the last one, and no release is ever forgotten.

What a checkpoint holds is public: weights, an optimiser's moments, averages and thresholds are functions of what was
released, and the rest are counts. A seeded run also keeps how far its draws have come, which whoever knows the seed can
compute anyway; an unseeded one has nothing to keep.

The ledger knows more than the checkpoint: it holds every release, also those after the last checkpoint, whose results
died with the process. They are paid for and stay so. A seeded run makes them again (the same noise on the same rows
gives the same numbers), so that it ends where it would have ended, bit for bit. An unseeded one cannot, and leaves them
out: it makes the releases that are left of its plan, and the budget holds. Which releases are this run's, the ledger
says: each carries the run's name. What an estimator releases after the training goes on in the same way
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
from dpmac.training.exclusive import alone_with
from dpmac.training.trees import packed, unpacked

FORMAT = "dpmac-checkpoint-1"
NAME = "checkpoint.safetensors"
AFTER = "after.json"
EVERY = 0.25  # seconds between two, where they take less than a hundredth of the time
SELDOM = 2.0  # seconds, after which they may take a twentieth of it
_LITTLE, _MUCH = 100.0, 20.0


class Checkpoints:
    """The checkpoint of one training, in a folder of its own; written anew every so many seconds, whole or not at all.

    That is ``every`` seconds where it takes less than 1 % of the time, and otherwise as often as 1 % allows; but one
    that takes long to write is written every SELDOM seconds all the same, as long as it takes less than 5 %. So a
    process that is killed loses the steps of a quarter of a second where a checkpoint is written in 2.5 ms, those of
    two seconds up to 0.1 s, and 20 times what it takes beyond.

    ``keep`` leaves it there when the estimator is fitted; then call :meth:`clear` when the model is safe.
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
        """Where what came of the releases after the training is written down."""
        return self.folder / AFTER

    @contextmanager
    def alone(self, ledger: Path | None = None) -> Iterator[None]:
        """Inside, no other process trains with this checkpoint; one that would is refused before it spends.

        So is a folder at the place of the ``ledger``, whose file the first release makes.
        """
        folder = self.folder.resolve()
        if ledger is not None and ledger.resolve() in (folder, *folder.parents):
            raise ArgumentError("checkpoint", str(self.folder), f"the ledger {ledger} is in its way: give another path")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fix = f"no folder can be made there ({error.strerror}): give the path of one, or of a new one"
            raise ArgumentError("checkpoint", str(self.folder), fix) from None
        with alone_with(self.folder, "checkpoint"):
            try:
                yield
            finally:
                self._remove_if_empty()

    def read(self) -> dict[str, Any] | None:
        """What was written last; None if there is nothing yet. A damaged file is a ValueError that names it."""
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
        if self._run is None:
            saved = self.read()
            self._run = fresh_name() if saved is None else str(saved["run"])
        return self._run

    def due(self) -> bool:
        """Whether it is time for the next one."""
        pause = max(self._every, min(_LITTLE * self._took, max(SELDOM, _MUCH * self._took)))
        return not self._every or time.monotonic() - self._last >= pause  # 0: after every step, whatever it costs

    def write(self, state: Mapping[str, Any]) -> None:
        """Put ``state`` in place of what was there; a crash on the way leaves what was there."""
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
        """Those that are meant: given, or in a folder."""
        return where if where is None or isinstance(where, Checkpoints) else cls(where)

    def finished(self) -> None:
        """The model is fitted: remove the checkpoint, unless whoever made this will do so when the model is saved."""
        if not self._keep:
            self.clear()

    def clear(self) -> None:
        """Remove the checkpoint, and the folder if nothing else is in it."""
        self._run = None
        for path in (self.path, self.after, *parts_of(self.path), *parts_of(self.after)):
            path.unlink(missing_ok=True)
        self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def before(self, ledger: Ledger) -> Ledger:
        """The ledger as the training found it when it began, to look at; all of it if there is no checkpoint.

        The checkpoint knows two digests of the ledger's chain, of when it began and of when it was written: another
        ledger, or an older copy of this one, is refused.
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
    """Of all that a checkpoint holds: safetensors has no check sum of its own."""
    found = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
