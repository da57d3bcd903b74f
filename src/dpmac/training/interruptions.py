"""Ctrl-C between steps: a training that keeps checkpoints ends a step and writes it down before it stops."""

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
    """An interruption that waits; ``came`` says whether there is one."""

    _handler: Callable[[int, FrameType | None], Any]
    _waiting: list[tuple[int, FrameType | None]] = field(default_factory=list)

    @property
    def came(self) -> bool:
        return bool(self._waiting)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Hold the first back; whoever asks a second time is not kept waiting."""
        self._waiting.append((number, frame))
        if len(self._waiting) > 1:
            self._handler(number, frame)

    def let_through(self) -> None:
        """Hand what came to whom it was meant for, which raises KeyboardInterrupt as a rule."""
        if self._waiting:
            self._handler(*self._waiting.pop())


@contextmanager
def held_back() -> Iterator[HeldBack]:
    """Inside, SIGINT waits until it is let through; at the end it is, whatever happened. Only Python's main thread gets
    signals, so in any other there is nothing to hold back."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield HeldBack(lambda *_: None)
        return
    held = HeldBack(before)
    signal.signal(signal.SIGINT, held.receive)
    try:
        yield held
    finally:
        if signal.getsignal(signal.SIGINT) == held.receive:  # whom it was let through to may have set another
            signal.signal(signal.SIGINT, before)
    held.let_through()
