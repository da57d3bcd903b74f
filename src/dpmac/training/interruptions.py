"""Ctrl-C between steps: a training with checkpoints finishes its step and saves it before it stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any


@dataclass
class HeldBack:
    """A deferred interruption; ``came`` says whether there is one."""

    _handler: Callable[[int, FrameType | None], Any]
    _waiting: list[tuple[int, FrameType | None]] = field(default_factory=list)

    @property
    def came(self) -> bool:
        return bool(self._waiting)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Defer the first interruption, but not a second one."""
        self._waiting.append((number, frame))
        if len(self._waiting) > 1:
            self._handler(number, frame)

    def let_through(self) -> None:
        """Pass a deferred interruption to the original handler, which usually raises KeyboardInterrupt."""
        if self._waiting:
            self._handler(*self._waiting.pop())


@contextmanager
def held_back() -> Iterator[HeldBack]:
    """Defer SIGINT until it is let through, at the latest at the end of the block. Only Python's main thread gets
    signals, so in any other thread there is nothing to defer."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield HeldBack(lambda *_: None)
        return
    held = HeldBack(before)
    signal.signal(signal.SIGINT, held.receive)
    try:
        yield held
    finally:
        if signal.getsignal(signal.SIGINT) == held.receive:  # the original handler may have installed another one
            signal.signal(signal.SIGINT, before)
    held.let_through()
