"""How many threads a fit takes: torch's own choice is every core, whoever else is busy on them.

Two threads that wait for each other at every small product are quick on idle cores and can be ten times as slow as one
when another program holds one of them. So a fit takes one thread where a step is small, and otherwise as many as there
are cores without work by the system's own count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch

from dpmac.checks import integer

MOST = 1024  # threads: a system that cannot make as many as it is asked for ends the process
SMALL = 4e8  # floating-point operations of a step below which a second thread gains a tenth at best


def threads_for(work: float) -> int:
    """Threads for steps of ``work`` floating-point operations: never more than torch is set to."""
    if work < SMALL:
        return 1
    return max(1, min(torch.get_num_threads(), _cores() - round(_busy())))


def step_work(sizes: tuple[int, ...], rows: float) -> float:
    """About what a step of a dense network of these sizes costs: three products for each layer."""
    return 6.0 * rows * sum(a * b for a, b in pairwise(sizes))


@contextmanager
def using(threads: int) -> Iterator[None]:
    """torch at so many threads, and as it was afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(integer("threads", threads, f"give a number of threads, 1 to {MOST}, or None", high=MOST))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _busy() -> float:
    """How many programs were running in the last minute, on average; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
