"""Several processes that hold parts of one table and release from it jointly.

Every process has a *shard*: its own places of the table; n counts the places of all. It draws its own Poisson sample of
its own places at the plan's rate; jointly these are a Poisson sample of the table. It sums its own checked parts in
whole steps of the release's grid (:mod:`dpmac.privacy.noise`), so sums add up exactly in any order. Only the *leader*
learns the total. It writes the event to the ledger once, then draws the noise once, and everybody gets the released
numbers. A row is in one shard, and what other processes send does not depend on it: the proof is the one for a single
process, with blocks in all processes.

The leader inspects the sums of every process and rejects those that no rows could have produced: numbers that are not
whole, or larger than its rows can contribute (:func:`possible_sums`). If they were added unseen, a number beyond the
exact range of doubles could round away the sums of other processes, or the noise. Within those limits a process may
misreport its own rows: the noise still hides everybody else's.

Each process must trust the others with its sums, which are private numbers and are sent to the leader through
torch.distributed (whose traffic is neither signed nor encrypted). See docs/scale.md.

Nothing is charged until every process has confirmed that its sums are computed and its promises kept. Differences
between processes that must agree (the plan, the code, the weights) are reported at the same time and raise an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from dpmac.extensions.world import Done, WorldError
from dpmac.privacy.gaussian_release import ReleaseRequest
from dpmac.privacy.ledger import Releases
from dpmac.randomness import NoiseSource


class ProcessGroup:
    """The processes of a torch.distributed group, which must have been started (``dpmac.training.distributed``).

    ``group`` carries sums and answers (NCCL between GPUs, otherwise gloo); ``words``, a gloo group, carries messages.
    """

    def __init__(self, group: Any = None, words: Any = None) -> None:
        self._group, self._words = group, words
        if words is None:
            self._words = group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        self._notes: dict[str, Any] = {}
        self._count = 0  # releases begun: all processes must be at the same one
        self._broken = False

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def __repr__(self) -> str:
        return f"ProcessGroup(rank={self.rank}, size={self.size})"

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        return self  # a handle

    def released(self, request: ReleaseRequest, source: NoiseSource, ledger: Releases) -> dict[str, Tensor]:
        self._count += 1
        self._notes |= {"the number of releases": self._count, **described(request)}
        whole = self.everywhere(lambda: whole_sums(request, source))
        liars = self._collect(whole, most_steps(request))
        answer: dict[str, Tensor] = {p.name: whole.new_empty(p.shape) for p in request.query.partitions}
        with self._led():
            if self.leads:
                if liars:
                    raise WorldError(
                        f"process {liars[0]} sent sums that no rows of its own could make: nothing was released"
                    )
                ledger.append(request.entry)
                pieces = torch.split(whole, [math.prod(p.shape) for p in request.query.partitions])
                shaped = zip(pieces, request.query.partitions, strict=True)
                answer = request.perturbed([piece.view(p.shape) for piece, p in shaped], source)
        self.spread([answer[p.name] for p in request.query.partitions])
        if not self.leads:
            ledger.append(request.entry)
        return answer

    def _collect(self, mine: Tensor, limits: Sequence[float]) -> list[int]:
        """Add everybody's sums to the leader's; on the leader, returns the ranks whose sums are impossible.

        One process after the other: a reduction would add numbers that nobody has inspected. Each process has a buffer
        of its own, filled with NaN before it receives: a message that is too short leaves NaN, which no sum may hold,
        and not the sums of whoever was heard before.
        """
        if not self.leads:
            with self._talking():
                distributed.send(mine, dst=self._first, group=self._group)
            return []
        liars = list[int]()
        for rank in range(1, self.size):
            theirs = torch.full_like(mine, math.nan)
            with self._talking():
                distributed.recv(theirs, src=self._global(rank), group=self._group)
            if possible_sums(theirs, limits[rank]):
                mine.add_(theirs)
            else:
                liars.append(rank)
        return liars

    def everywhere(self, work: Callable[[], Done]) -> Done:
        done: Done | None = None
        failed: Exception | None = None
        try:
            done = work()
        except Exception as error:
            failed = error
        self._compare(self._taken(), failed)
        if failed is not None:
            raise failed
        return done  # type: ignore[return-value]

    def everyone(self, mine: Any) -> list[Any]:
        said = json.dumps(mine).encode()
        with self._talking():
            lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            distributed.all_gather(lengths, torch.tensor([len(said)]), group=self._words)
            longest = max(int(length) for length in lengths)
            heard = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
            distributed.all_gather(heard, padded, group=self._words)
        pairs = zip(heard, lengths, strict=True)
        return [json.loads(one[: int(length)].numpy().tobytes()) for one, length in pairs]

    def leaders(self, value: Any) -> Any:
        if not self.leads:
            value = None
        return self.everyone(value)[0]

    def agree(self, what: str, value: Any) -> None:
        self._compare({**self._taken(), what: value})

    def note(self, what: str, value: Any) -> None:
        self._notes[what] = value

    def spread(self, tensors: Sequence[Tensor]) -> None:
        if not tensors:
            return
        whole = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        with self._talking():
            distributed.broadcast(whole, src=self._first, group=self._group)
        if not self.leads:
            with torch.no_grad():
                for tensor, flat in zip(tensors, torch.split(whole, [t.numel() for t in tensors]), strict=True):
                    tensor.copy_(flat.view(tensor.shape))

    def leave(self) -> None:
        """Stop communicating and close all connections, so that processes that wait for this one get an error."""
        self._group = self._words = None
        self._broken = True

    # --- words --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Translate errors that torch.distributed raises if a process is gone; after one, all communication stops."""
        if self._broken:
            raise WorldError("the processes have lost each other before: start all of them again to go on")
        try:
            yield
        except BaseException as error:
            self._broken = True
            if not isinstance(error, RuntimeError | ValueError):
                raise
            said = re.sub(r"^\[[^ ]*\] ", "", (str(error).splitlines() or [""])[0]).split(". ")[0]
            raise WorldError(
                f"another process has stopped, or cannot be reached ({said:.120}). What was released until now is in "
                "the ledger; start all processes again to go on"
            ) from error

    @property
    def _first(self) -> int:
        return self._global(0)

    def _global(self, rank: int) -> int:
        if self._group is None:
            return rank
        return distributed.get_global_rank(self._group, rank)

    @contextmanager
    def _led(self) -> Iterator[None]:
        """Around what only the leader does: if it fails, every process raises."""
        failed: Exception | None = None
        try:
            yield
        except Exception as error:
            failed = error
        flag = torch.tensor([int(failed is not None)])
        with self._talking():
            distributed.broadcast(flag, src=self._first, group=self._words)
        if failed is not None:
            raise failed
        if int(flag):
            raise WorldError("process 0, which keeps the ledger, could not make the release: see its own error")

    def _taken(self) -> dict[str, Any]:
        notes, self._notes = self._notes, {}
        return notes

    def _compare(self, notes: dict[str, Any], failed: Exception | None = None) -> None:
        """Exchange one short message each, and the full notes only if the messages differ."""
        digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode()).digest()
        mine = torch.tensor([failed is not None, *digest], dtype=torch.uint8)
        heard = [torch.zeros_like(mine) for _ in range(self.size)]
        with self._talking():
            distributed.all_gather(heard, mine, group=self._words)
        fallen = [rank for rank, one in enumerate(heard) if int(one[0])]
        if fallen:
            if failed is None:
                raise WorldError(f"process {fallen[0]} could not make its part; nothing was released: see its error")
            return
        if all(torch.equal(one, mine) for one in heard):
            return
        said = self.everyone(notes)
        names = {name for notes in said for name in notes}
        for name in sorted(names):
            values = [notes.get(name) for notes in said]
            other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
            if other is not None:
                theirs, first = _short(values[other]), _short(values[0])
                raise WorldError(f"{name} of process {other} is {theirs}, and {first} of process 0")
        raise WorldError("the processes do not do the same")


def whole_sums(request: ReleaseRequest, source: NoiseSource) -> Tensor:
    """This process's sums in whole steps of the grid, all partitions concatenated."""
    sums, on_grid = request.sums(source)
    if not on_grid:
        sums = request.grid.whole(sums, request.scales)
    return torch.cat([total.reshape(-1) for total in sums])


def most_steps(request: ReleaseRequest) -> list[float]:
    """The largest number of grid steps that the rows of each process can contribute: public."""
    return [request.grid.most_steps(rows) for rows in request.batch.most_rows(request.paddings)]


def described(request: ReleaseRequest) -> dict[str, str]:
    """All public facts about a release, which processes must agree on before anything is charged."""
    words = ("label", "noise_multiplier", "sample_rate", "overflow", "seeded", "scales", "unit")
    said: dict[str, Any] = {word: getattr(request.entry, word) for word in words}
    said["shapes"] = {p.name: (p.shape, p.symmetric) for p in request.query.partitions}
    said["grid"], said["divisor"] = request.grid, request.divisor
    return {f"the release's {word}": repr(value) for word, value in said.items()}


def possible_sums(sums: Tensor, limit: float) -> bool:
    """Whether rows can have produced these sums: whole numbers of steps, none beyond ``limit``.

    A release without noise has no grid and an infinite ``limit``: its sums must only be finite.
    """
    if math.isinf(limit):
        return bool(sums.isfinite().all())
    return bool(((sums.abs() <= limit) & (sums == sums.round())).all())  # NaN is neither


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) > 120:
        text = f"{text[:117]}..."
    return text
