"""The number of threads of a fit: by default torch uses every core, even if other programs are busy on them.

Two threads that synchronise after every small product are fast on idle cores, and can be ten times slower than one
thread if another program uses one of the cores. So a fit takes one thread if a step is small, and otherwise as many as
there are idle cores according to the system's load.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch

from dpmac.checks import integer

MOST = 1024  # threads: if a system cannot start as many as requested, the process dies
SMALL = 4e8  # floating-point operations of a step below which a second thread gains at most a tenth


def threads_for(work: float) -> int:
    """The number of threads for steps of ``work`` floating-point operations, at most torch's setting."""
    if work < SMALL:
        return 1
    return max(1, min(torch.get_num_threads(), _cores() - round(_busy())))


def step_work(sizes: tuple[int, ...], rows: float) -> float:
    """The approximate cost of a step of a dense network of these sizes: three products for each layer."""
    return 6.0 * rows * sum(a * b for a, b in pairwise(sizes))


@contextmanager
def using(threads: int) -> Iterator[None]:
    """Set the number of torch's threads, and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(integer("threads", threads, f"give a number of threads, 1 to {MOST}, or None", high=MOST))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    if affinity is None:
        return os.cpu_count() or 1
    return len(affinity(0))


def _busy() -> float:
    """The average number of running programs in the last minute; 0 if the system does not provide it."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
