"""Start and end the processes of one training, which communicate through torch.distributed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import distributed

from dpmac.checks import ArgumentError
from dpmac.extensions.processes import ProcessGroup
from dpmac.extensions.world import SINGLE_PROCESS, World

PATIENCE = 1800.0  # seconds that a process waits for a slow one


@contextmanager
def together(device: str = "cpu", patience: float = PATIENCE) -> Iterator[World]:
    """The processes that ``torchrun`` has started, as one world; :data:`SINGLE_PROCESS` if there is only this one.

    CPUs communicate by gloo, GPUs by NCCL (each process takes the GPU of its local rank). A group that was started
    elsewhere is used, and left open. ``patience`` is how many seconds a process waits for the others before it gives
    up; a process that has died, or has left this context by an error, is detected at once. The world ends with the
    context.
    """
    begun = distributed.is_available() and not distributed.is_initialized()
    if not distributed.is_available() or (begun and int(os.environ.get("WORLD_SIZE", 1)) < 2):
        yield SINGLE_PROCESS
        return
    kind = torch.device(device).type
    if kind == "cuda":
        _check_gpus()
        torch.cuda.set_device(_local())
    wait = timedelta(seconds=patience)
    if begun:
        backend = "gloo"
        if kind == "cuda":
            backend = "nccl"
        distributed.init_process_group(backend, timeout=wait)
    try:
        world = ProcessGroup(None, distributed.new_group(backend="gloo", timeout=wait))
        try:
            yield world
        finally:
            world.leave()
    finally:
        if begun:
            distributed.destroy_process_group()


def _local() -> int:
    return int(os.environ.get("LOCAL_RANK", 0))


def _check_gpus() -> None:
    there = torch.cuda.device_count()
    if _local() >= there:
        fix = f"there are {there} GPUs on this machine: start as many processes (torchrun --nproc-per-node {there})"
        raise ArgumentError("LOCAL_RANK", _local(), fix)
