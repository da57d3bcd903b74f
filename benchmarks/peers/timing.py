"""Seconds of a fit: on the wall, where other programs disturb them, and of the processor, where they hardly do."""

from __future__ import annotations

import time
from collections.abc import Callable


class Seconds(float):
    """Seconds on the wall, as a number; ``cpu`` are those that this process spent computing, in all its threads."""

    cpu: float

    def __new__(cls, wall: float, cpu: float) -> Seconds:
        self = super().__new__(cls, wall)
        self.cpu = cpu
        return self


def started() -> Callable[[], Seconds]:
    """Starts both clocks; what it returns reads them."""
    wall, cpu = time.perf_counter(), time.process_time()
    return lambda: Seconds(time.perf_counter() - wall, time.process_time() - cpu)
