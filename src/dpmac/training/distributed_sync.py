"""Training in several processes: what processes other than the leader do (:mod:`dpmac.extensions.world`).

Every process makes the same steps with its own rows and updates its own copy of the weights with the released numbers,
which are the same everywhere. Only the leader keeps the ledger's file and writes checkpoints; the others keep the same
ledger in memory, and read the leader's checkpoint to resume a training (so all of them must see its folder).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpmac.extensions.accounts import Account
from dpmac.extensions.entries import to_dict
from dpmac.extensions.world import World
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import Ledger
from dpmac.training.checkpoint import Checkpoints


def agreed(world: World, said: Mapping[str, Any]) -> None:
    """Raise in every process unless all agree and run the same code; the error names the first difference."""
    if world.size == 1:
        return
    for name, value in said.items():
        world.note(name, plain(value))
    world.note("torch", torch.__version__)
    world.agree("dpmac", version("dpmac"))


def plain(value: Any) -> Any:
    """A value that processes can compare: tensors and arrays by their digest, modules by their class and the digests of
    their state, everything else by its repr."""
    if isinstance(value, Tensor | np.ndarray):
        return f"{value.dtype} {tuple(value.shape)} {digest([torch.as_tensor(value)])}"
    if isinstance(value, FeatureMap):
        return [value.kind, plain(value.arguments())]
    if isinstance(value, nn.Module):
        return [type(value).__name__, plain(value.state_dict())]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def books(world: World, ledger: Ledger | str | Path | None, data_set: str = "") -> Ledger:
    """The leader's ledger; in another process, one in memory with the same entries.

    That is the given one, if it has these entries already: models refer to the ledger that they come from.
    """
    if world.size == 1:
        return Ledger.at(ledger, data_set)
    mine = world.everywhere(lambda: Ledger.at(ledger, data_set) if world.leads else Ledger())
    account = None
    if mine.account is not None:
        account = mine.account.to_dict()
    lines = [to_dict(entry) for entry in mine.entries]
    entries, name, run, opened = world.leaders([lines, mine.data_set, mine.run, account])
    if world.leads:
        return mine
    if opened is not None:
        opened = Account.from_dict(opened)
    theirs = Ledger.of(entries, name, run, opened)
    if isinstance(ledger, Ledger) and ledger.path is None and ledger.entries == theirs.entries:
        return ledger
    return theirs


def checkpoints_for(world: World, where: Checkpoints | str | Path | None) -> Checkpoints | None:
    """The leader's checkpoints; in another process, a copy of what they contain now."""
    found = Checkpoints.at(where)
    if found is None or world.size == 1:
        return found
    saved = world.everywhere(found.read)
    run = world.leaders(world.everywhere(lambda: found.run))
    progress = None if saved is None else [saved["run"], saved["done"]]
    world.agree(f"the checkpoint in {found.folder}", progress)
    if world.leads:
        return found
    return LeaderCheckpoints(found.folder, run, saved)


class LeaderCheckpoints(Checkpoints):
    """The leader's checkpoints as they were when the training began, to resume from; never written."""

    def __init__(self, folder: str | Path, run: str, saved: dict[str, Any] | None) -> None:
        super().__init__(folder)
        self._run, self._saved = run, saved

    @contextmanager
    def locked(self, ledger: Path | None = None) -> Iterator[None]:  # noqa: ARG002 - the leader checks it
        yield  # the leader holds the lock

    def read(self) -> dict[str, Any] | None:
        return self._saved

    def before(self, ledger: Ledger) -> Ledger:
        if self._saved is None:
            return ledger
        return ledger.until(int(self._saved["ledger"]))  # the leader compares chains

    def due(self) -> bool:
        return False

    def write(self, state: Mapping[str, Any]) -> None:
        pass

    def clear(self) -> None:
        pass


def checksum(tensors: Iterable[Tensor]) -> list[int]:
    """The sum of each tensor's bits, as integers: cheap, and compared after every step. It detects any single change;
    changes that cancel each other are detected at the end, by :func:`digest`."""
    found = [_bits(tensor).sum(dtype=torch.int64) for tensor in tensors]
    if not found:
        return []
    return [int(one) for one in torch.stack(found).tolist()]


def digest(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of all bits."""
    made = hashlib.sha256()
    for tensor in tensors:
        made.update(_bits(tensor).cpu().numpy().tobytes())
    return made.hexdigest()


def _bits(tensor: Tensor) -> Tensor:
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.detach().contiguous().view(whole)
