"""Worlds for tests of what processes say to each other: threads that only talk, and release nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpmac.extensions.world import WorldError

PATIENCE = 10.0  # seconds after which a test has failed


class Meeting:
    """Where threads hear each other: round by round, until one has ended."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._rounds: dict[int, dict[int, Any]] = {}
        self._ended = False
        self._changed = threading.Condition()

    def heard(self, number: int, rank: int, mine: Any) -> list[Any]:
        """What all say in this round."""
        with self._changed:
            said = self._rounds.setdefault(number, {})
            said[rank] = mine
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(said) == self.size or self._ended, PATIENCE)
            if len(said) < self.size:
                raise TimeoutError(f"only processes {sorted(said)} speak")
            return [said[place] for place in range(self.size)]

    def end(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Talking:
    """One of several processes: a thread that hears what all others say."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.leads = rank, meeting.size, rank == 0
        self._meeting, self._round = meeting, 0
        self._notes: dict[str, Any] = {}

    def everyone(self, mine: Any) -> list[Any]:
        self._round += 1
        return self._meeting.heard(self._round, self.rank, mine)

    def released(self, *_: Any) -> Any:
        raise NotImplementedError("here nothing is released")

    def leaders(self, value: Any) -> Any:
        return self.everyone(value)[0]

    def note(self, what: str, value: Any) -> None:
        self._notes[what] = value

    def agree(self, what: str, value: Any) -> None:
        mine, self._notes = {**self._notes, what: value}, {}
        heard = self.everyone(mine)
        differing = [name for name in mine if any(one.get(name) != mine[name] for one in heard)]
        if differing:
            raise WorldError(f"{differing[0]} differs")


@dataclass
class Ended:
    """What a process gave, or its error."""

    value: Any = None
    error: BaseException | None = None


def talk(size: int, work: Callable[[Talking], Any]) -> list[Ended]:
    """``work(world)`` in so many threads, and how each ended; whoever waits for one that has ended fails."""
    meeting = Meeting(size)
    ended = [Ended() for _ in range(size)]

    def one(rank: int) -> None:
        try:
            ended[rank].value = work(Talking(rank, meeting))
        except BaseException as error:
            ended[rank].error = error
        finally:
            meeting.end()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    return ended
