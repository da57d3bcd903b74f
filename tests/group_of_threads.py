"""Threads that talk as processes do: what :mod:`dpmac.extensions.processes` uses of torch.distributed, in memory."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

import pytest
from torch import Tensor

from dpmac.extensions import processes as together
from dpmac.extensions.processes import ProcessGroup

PATIENCE = 20.0  # seconds that a thread waits for the others


@dataclass(eq=False)
class Group:
    """Processes with the global numbers from ``first`` on."""

    name: str = ""
    first: int = 0


@dataclass
class Talk:
    """Stands for torch.distributed. ``heard`` is what was called, and with which group."""

    size: int
    heard: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own, self.slots = threading.local(), [Tensor()] * self.size
        self.mail: dict[tuple[int, int], Queue[Tensor]] = defaultdict(Queue)
        self.barrier = threading.Barrier(self.size, timeout=PATIENCE)

    def get_rank(self, _group: Any) -> int:
        return int(self.own.rank)

    def get_world_size(self, _group: Any) -> int:
        return self.size

    def get_global_rank(self, group: Group, rank: int) -> int:
        return group.first + rank

    def all_gather(self, out: list[Tensor], mine: Tensor, group: Any) -> None:
        self.heard.append(("all_gather", group))
        self.slots[self.own.rank] = mine.clone()
        self.barrier.wait()
        for one, said in zip(out, self.slots, strict=True):
            assert one.shape == said.shape
            one.copy_(said)
        self.barrier.wait()

    def broadcast(self, tensor: Tensor, src: int, group: Any) -> None:
        self.heard.append(("broadcast", group))
        place = self._local(src, group)
        self.slots[self.own.rank] = tensor.clone()
        self.barrier.wait()
        tensor.copy_(self.slots[place])
        self.barrier.wait()

    def send(self, tensor: Tensor, dst: int, group: Any) -> None:
        self.heard.append(("send", group))
        self.mail[self.own.rank, self._local(dst, group)].put(tensor.clone())

    def recv(self, tensor: Tensor, src: int, group: Any) -> None:
        self.heard.append(("recv", group))
        try:
            tensor.copy_(self.mail[self._local(src, group), self.own.rank].get(timeout=PATIENCE))
        except Empty:
            raise RuntimeError("nothing came") from None

    def _local(self, rank: int, group: Any) -> int:
        place = rank - (0 if group is None else group.first)
        if not 0 <= place < self.size:
            raise ValueError(f"there is no process {rank}")
        return place


@dataclass
class Said:
    """What a thread gave, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    @property
    def words(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def in_threads(
    patch: pytest.MonkeyPatch, size: int, work: Callable[[ProcessGroup], Any], *groups: Any, talk: Talk | None = None
) -> list[Said]:
    """``work(world)`` in as many threads as one world has processes."""
    talking = Talk(size) if talk is None else talk
    patch.setattr(together, "distributed", talking)
    said = [Said() for _ in range(size)]

    def run(rank: int) -> None:
        talking.own.rank = rank
        try:
            said[rank].value = work(ProcessGroup(*groups))
        except BaseException as error:
            said[rank].error = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    return said


def values(said: list[Said]) -> list[Any]:
    for one in said:
        if one.error is not None:
            raise one.error
    return [one.value for one in said]
