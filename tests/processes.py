"""Real processes for tests: each runs one function with its world, and says what came of it.

They are forked from a server that has imported everything once, so a process costs a tenth of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["dpmac.estimators", "dpmac.saving", "pytest", "sympy"])  # the last: for torch.func
PATIENCE = 60.0  # seconds after which a test has failed


def forked(work: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """A process that runs ``work(connection, *arguments)``, and the other end of that connection, which ends it when it
    is closed.

    It may start processes itself.
    """
    mine, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(theirs, *arguments))
    process.start()
    theirs.close()
    return process, mine


@dataclass(frozen=True)
class Ended:
    """How a process ended: with ``value``, or with an ``error`` (its class and its words); a killed one has neither."""

    value: Any = None
    error: str = ""
    words: str = ""
    code: int | None = None


def together_run(
    size: int,
    work: Callable[..., Any],
    *arguments: Any,
    during: Callable[[Sequence[BaseProcess]], None] | None = None,
    bare: bool = False,
) -> list[Ended]:
    """``work(world, *arguments)`` in ``size`` processes, and how each ended. ``during`` is called while they run.

    A ``bare`` one is handed its number, and makes its world by itself.
    """
    port, pipes, processes = _free_port(), [], []
    for rank in range(size):
        mine, theirs = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(target=_child, args=(rank, size, port, theirs, work, arguments, bare), daemon=True)
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    try:
        if during is not None:
            during(processes)
        found = _heard(pipes)
        for process in processes:
            process.join(PATIENCE)
        return [Ended(**said, code=process.exitcode) for said, process in zip(found, processes, strict=True)]
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()


def values(ended: Sequence[Ended]) -> list[Any]:
    """What every process gave; a failure of one fails the test, with its words."""
    for rank, one in enumerate(ended):
        assert (one.error, one.code) == ("", 0), f"process {rank}: {one.words or one.code}"
    return [one.value for one in ended]


def _heard(pipes: Sequence[Connection]) -> list[dict[str, Any]]:
    """What every process says at its end; {} of one that says nothing."""
    found: dict[int, dict[str, Any]] = {}
    end = time.monotonic() + PATIENCE
    while len(found) < len(pipes):
        left = [pipe for place, pipe in enumerate(pipes) if place not in found]
        ready = wait(left, timeout=max(0.0, end - time.monotonic()))
        assert ready, f"only processes {sorted(found)} have ended: {found}"
        for pipe in ready:
            place = next(place for place, one in enumerate(pipes) if one is pipe)
            try:
                found[place] = pipes[place].recv()
            except EOFError:
                found[place] = {}
    return [found[place] for place in range(len(pipes))]


def _child(
    rank: int, size: int, port: int, pipe: Connection, work: Callable[..., Any], arguments: Sequence[Any], bare: bool
) -> None:
    import torch

    from dpmac.training import together

    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    try:
        if bare:
            said = {"value": work(rank, *arguments)}
        else:
            with together(patience=PATIENCE) as world:
                said = {"value": work(world, *arguments)}
                world.everyone(None)  # nobody leaves while others talk
    except BaseException as error:
        said = {"error": type(error).__name__, "words": f"{error}\n{traceback.format_exc()[-4000:]}"}
    pipe.send(said)
    pipe.close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
