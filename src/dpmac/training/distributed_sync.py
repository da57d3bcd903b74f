"""Training in several processes: what the others do where one leads (:mod:`dpmac.extensions.world`).

Every process walks the same steps with its own rows and moves its own copy of the weights by what was released, which
is the same everywhere. Only the leader keeps the ledger's file and writes checkpoints; the others keep the same books
in memory, and read its checkpoint where a training goes on (so its folder must be one that all of them see).
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
from torch import Tensor

from dpmac.extensions.entries import to_dict
from dpmac.extensions.world import World
from dpmac.nets.feature_maps import FeatureMap
from dpmac.privacy import Ledger
from dpmac.training.checkpoint import Checkpoints


def agreed(world: World, said: Mapping[str, Any]) -> None:
    """Raise in every process unless all say the same, and run the same code; it names the first that differs."""
    if world.size == 1:
        return
    for name, value in said.items():
        world.note(name, plain(value))
    world.note("torch", torch.__version__)
    world.agree("dpmac", version("dpmac"))


def plain(value: Any) -> Any:
    """What two processes can compare: numbers of a tensor or an array by their digest, all else as it is written."""
    if isinstance(value, Tensor | np.ndarray):
        return f"{value.dtype} {tuple(value.shape)} {digest([torch.as_tensor(value)])}"
    if isinstance(value, FeatureMap):
        return [value.kind, plain(value.arguments())]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def books(world: World, ledger: Ledger | str | Path | None, data_set: str = "") -> Ledger:
    """The ledger that is meant, for the leader; for another process, one in memory that holds the same.

    That is the one it was given, if it holds that already: models know the ledger that they come from.
    """
    if world.size == 1:
        return Ledger.at(ledger, data_set)
    mine = world.everywhere(lambda: Ledger.at(ledger, data_set) if world.leads else Ledger())
    entries, name, run = world.leaders([[to_dict(entry) for entry in mine.entries], mine.data_set, mine.run])
    if world.leads:
        return mine
    theirs = Ledger.of(entries, name, run)
    if isinstance(ledger, Ledger) and ledger.path is None and ledger.entries == theirs.entries:
        return ledger
    return theirs


def checkpoints_for(world: World, where: Checkpoints | str | Path | None) -> Checkpoints | None:
    """Those that are meant; for a process that does not lead, what the leader's hold now."""
    found = Checkpoints.at(where)
    if found is None or world.size == 1:
        return found
    saved = world.everywhere(found.read)
    run = world.leaders(world.everywhere(lambda: found.run))
    world.agree(f"the checkpoint in {found.folder}", None if saved is None else [saved["run"], saved["done"]])
    return found if world.leads else Followed(found.folder, run, saved)


class Followed(Checkpoints):
    """The leader's checkpoints as they were when the training began, to go on from; never written."""

    def __init__(self, folder: str | Path, run: str, saved: dict[str, Any] | None) -> None:
        super().__init__(folder)
        self._run, self._saved = run, saved

    @contextmanager
    def alone(self, ledger: Path | None = None) -> Iterator[None]:  # noqa: ARG002 - the leader looks
        yield  # the leader sees to it

    def read(self) -> dict[str, Any] | None:
        return self._saved

    def before(self, ledger: Ledger) -> Ledger:
        return ledger if self._saved is None else ledger.until(int(self._saved["ledger"]))  # the leader compares chains

    def due(self) -> bool:
        return False

    def write(self, state: Mapping[str, Any]) -> None:
        pass

    def clear(self) -> None:
        pass


def checksum(tensors: Iterable[Tensor]) -> list[int]:
    """The sum of each tensor's bits, as whole numbers: cheap, and asked after every step. Any one change shows in it;
    that several cancel out is seen at the end, by :func:`digest`."""
    found = [_bits(tensor).sum(dtype=torch.int64) for tensor in tensors]
    return [int(one) for one in torch.stack(found).tolist()] if found else []


def digest(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of all bits."""
    made = hashlib.sha256()
    for tensor in tensors:
        made.update(_bits(tensor).cpu().numpy().tobytes())
    return made.hexdigest()


def _bits(tensor: Tensor) -> Tensor:
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.detach().contiguous().view(whole)
