"""The interface of the processes that hold parts of one table and release from it jointly.

Usually there is one (:class:`SingleProcess`). Several are a :class:`dpmac.extensions.processes.ProcessGroup`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torch import Tensor

if TYPE_CHECKING:
    from dpmac.privacy.gaussian_release import ReleaseRequest
    from dpmac.privacy.ledger import Releases
    from dpmac.randomness import NoiseSource

Done = TypeVar("Done")


class WorldError(RuntimeError):
    """Another process has stopped, cannot be reached, or does something different from this one."""


class World(Protocol):
    """The processes of one training."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    @property
    def leads(self) -> bool:
        """Whether this process keeps the ledger and draws the noise."""

    def released(self, request: ReleaseRequest, source: NoiseSource, ledger: Releases) -> dict[str, Tensor]:
        """One joint release: every process computes its sums, the leader records the event and draws the noise, and
        every process gets the answer. The request must be the same everywhere."""

    def everywhere(self, work: Callable[[], Done]) -> Done:
        """Run ``work`` in every process; if it fails in one, all raise. ``work`` must not wait for other processes."""

    def everyone(self, mine: Any) -> list[Any]:
        """The value of every process, in order of rank: plain public values that JSON can represent."""

    def leaders(self, value: Any) -> Any:
        """The leader's ``value``, a plain public one, in every process."""

    def agree(self, what: str, value: Any) -> None:
        """Raise :class:`WorldError`, which names what differs, in every process unless all have the same value."""

    def note(self, what: str, value: Any) -> None:
        """Compare this value with the other processes at the next release."""

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Copy the leader's numbers to the tensors of every process."""


class SingleProcess:
    """The only process."""

    rank, size, leads = 0, 1, True

    def released(self, request: ReleaseRequest, source: NoiseSource, ledger: Releases) -> dict[str, Tensor]:
        del request, source, ledger
        raise RuntimeError("one process releases by itself: call release()")

    def everywhere(self, work: Callable[[], Done]) -> Done:
        return work()

    def everyone(self, mine: Any) -> list[Any]:
        return [mine]

    def leaders(self, value: Any) -> Any:
        return value

    def agree(self, what: str, value: Any) -> None:
        pass

    def note(self, what: str, value: Any) -> None:
        pass

    def spread(self, tensors: Sequence[Tensor]) -> None:
        pass

    def __repr__(self) -> str:
        return "SingleProcess()"

    def __deepcopy__(self, memo: Any) -> SingleProcess:
        return self


SINGLE_PROCESS = SingleProcess()
