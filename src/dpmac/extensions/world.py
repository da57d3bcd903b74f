"""The processes that hold parts of one table and release from it as one: what the rest of the core asks of them.

Most of the time there is one (:class:`SingleProcess`). Several are :class:`dpmac.extensions.processes.ProcessGroup`.
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
    """Another process has stopped, cannot be reached, or does something else than this one."""


class World(Protocol):
    """The processes of one training."""

    @property
    def rank(self) -> int:
        """This one's number, from 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    @property
    def leads(self) -> bool:
        """Whether this one keeps the ledger and makes the noise."""

    def released(self, request: ReleaseRequest, source: NoiseSource, ledger: Releases) -> dict[str, Tensor]:
        """One release of several processes: everyone's sums are made, the leader's event is written and its noise
        drawn, and everyone gets its answer. What is asked must be the same everywhere."""

    def everywhere(self, work: Callable[[], Done]) -> Done:
        """``work``, done by everyone; if it fails anywhere, everyone raises. In it nobody may wait for others."""

    def everyone(self, mine: Any) -> list[Any]:
        """What every process says, in their order: plain public values, as JSON has them."""

    def leaders(self, value: Any) -> Any:
        """The leader's ``value``, a plain public one, everywhere."""

    def agree(self, what: str, value: Any) -> None:
        """Raise :class:`WorldError` in every process unless all say the same; it names what differs."""

    def note(self, what: str, value: Any) -> None:
        """Say it at the next release, and be held to it there."""

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Write the leader's numbers into everybody's tensors."""


class SingleProcess:
    """The only process there is."""

    rank, size, leads = 0, 1, True

    def released(self, request: ReleaseRequest, source: NoiseSource, ledger: Releases) -> dict[str, Tensor]:  # noqa: ARG002
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
        return "Alone()"

    def __deepcopy__(self, memo: Any) -> SingleProcess:
        return self


SINGLE_PROCESS = SingleProcess()
