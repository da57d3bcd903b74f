"""A progress bar that appears only if the work takes long enough to need one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from dpmac.checks import ArgumentError

_PATIENCE = 0.5  # seconds before a bar is shown


@contextmanager
def progress_bar(
    what: str, show: bool | Literal["auto"] = "auto", unit: str = "steps", patience: float | None = None
) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a callback (steps done, total steps) that draws on standard error, or None if nothing is to be drawn.

    ``"auto"`` draws only on a terminal. The bar shows how many of ``unit`` are done, and how many per second.
    """
    if show not in (True, False, "auto"):
        raise ArgumentError("progress", show, "choose True, False or 'auto'")
    if show is False or (show == "auto" and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    many, quick = TextColumn(unit), TextColumn("{task.fields[speed]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), many, quick)
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True))
    task = bar.add_task(what, total=None, speed="")
    if patience is None:
        patience = _PATIENCE
    started, patient = time.monotonic(), patience
    running = False

    def on_step(done: int, total: int) -> None:
        nonlocal running
        if not running and time.monotonic() - started > patient:
            bar.start()
            running = True
        speed = done / max(time.monotonic() - started, 1e-9)
        bar.update(task, completed=done, total=total, speed=f"{speed:,.0f} {unit}/s")

    try:
        yield on_step
    finally:
        if running:
            bar.stop()
