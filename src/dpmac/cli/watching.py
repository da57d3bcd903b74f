"""How far a training is: read off its ledger, from beside, so that the loop is never held up.

Everything shown is public: the number of releases that the ledger holds, and what they cost. The epsilon is computed at
a few steps beforehand, and shown is that of the next such step: never below the truth.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmac.privacy import Entry, Ledger

POINTS = 10  # steps at which epsilon is computed
PATIENCE = 1.0  # seconds before anything is shown
LINES = 5.0  # seconds between lines, off a terminal
FRAMES = 0.2  # between frames, on one


class Watch:
    """The steps of one training: those of ``run`` in ``ledger`` from place ``before`` on, of ``total``; None is any."""

    def __init__(self, ledger: Ledger, before: int, total: int, delta: float, run: str | None = None) -> None:
        self.ledger, self.before, self.total, self.delta, self.run = ledger, before, total, delta, run
        self._curve: list[tuple[int, float]] = []
        self._start: tuple[float, int] | None = None  # when the first new step was seen, and how many there were

    def done(self) -> int:
        """Steps that the ledger holds of this training."""
        from dpmac.planning.plan import STEP

        return min(sum(entry.label == STEP for entry in self._own()), self.total)

    def _own(self) -> list[Entry]:
        """The releases of this training: a ledger may have got others while it was interrupted."""
        return [entry for entry in self.ledger.entries[self.before :] if self.run in (None, entry.run)]

    def may_stop(self) -> bool:
        """Whether an end loses nothing that was paid for: between the steps, or before any of them."""
        return not self._own() or 0 < self.done() < self.total

    def price(self) -> None:
        """Compute once what will have been spent at a few steps from here to the last; takes about a second."""
        from dpmac.kernels.moments import merged
        from dpmac.privacy.accounting import epsilon_of

        done, entries = self.done(), self.ledger.entries
        if self._curve or not 0 < done < self.total:
            return
        step = entries[-1].mechanism()
        spent = [entry.mechanism() for entry in entries]
        curve = []
        for point in range(1, POINTS + 1):
            more = round(point * (self.total - done) / POINTS)
            curve.append((done + more, epsilon_of(merged([*spent, *[step] * more]), self.delta)))
        self._curve = curve

    def epsilon(self, done: int) -> float | None:
        """At most this was spent after ``done`` steps, by the whole ledger; None before it is known."""
        place = bisect_left(self._curve, (done, 0.0))
        if place < len(self._curve):
            return self._curve[place][1]
        return None

    def words(self) -> dict[str, Any] | None:
        """What to show now; None until steps have been counted twice, which gives a speed."""
        done, now = self.done(), time.monotonic()
        if done == 0:
            return None
        if self._start is None:
            self._start = (now, done)
            return None
        since, first = self._start
        speed = (done - first) / max(now - since, 1e-9)
        from dpmac.privacy.statement import round_up

        seen = {"done": done, "spent": "", "speed": f"{speed:.2g} steps/s", "left": ""}
        spent = self.epsilon(done)
        if spent is not None and done != self.total:  # after the last step something else may be released, and count
            seen["spent"] = f"epsilon at most {round_up(spent, 3)}"
        if speed >= 10:
            seen["speed"] = f"{speed:,.0f} steps/s"
        if speed > 0:
            seen["left"] = _clock((self.total - done) / speed)
        return seen


@contextmanager
def shown(watch: Watch | None) -> Iterator[None]:
    """Around a training: a bar on a terminal, a line every few seconds off one, on standard error; None is quiet."""
    if watch is None:
        yield
        return
    over = threading.Event()
    if sys.stderr.isatty():
        draw = _bar
    else:
        draw = _lines
    beside = threading.Thread(target=draw, args=(watch, over), name="progress", daemon=True)
    beside.start()
    try:
        yield
    finally:
        over.set()
        beside.join(timeout=5.0)


def _lines(watch: Watch, over: threading.Event) -> None:
    if over.wait(PATIENCE):
        return
    watch.words()
    while not over.wait(LINES):
        watch.price()
        seen = watch.words()
        if seen is not None:
            parts = (seen["spent"], seen["speed"], seen["left"] and f"{seen['left']} left")
            sys.stderr.write(f"step {seen['done']:,} of {watch.total:,}, {', '.join(filter(None, parts))}\n")
            sys.stderr.flush()


def _bar(watch: Watch, over: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    if over.wait(PATIENCE):
        return
    while watch.done() == 0:  # what comes before the steps has a bar of its own
        if over.wait(FRAMES):
            return
    watch.words()
    texts = [TextColumn(f"{{task.fields[{key}]}}") for key in ("spent", "speed", "left")]
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"), *texts)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=watch.total, spent="", speed="", left="")
        while not over.wait(FRAMES):
            watch.price()
            seen = watch.words()
            if seen is not None:
                left = ""
                if seen["left"]:
                    left = f"{seen['left']} left"
                bar.update(task, completed=seen["done"], spent=seen["spent"], speed=seen["speed"], left=left)


@contextmanager
def work_shown(show: bool = True, unit: str = "pictures") -> Iterator[None]:
    """Within, long work (on pictures: reading, mapping, predicting) has a bar, or lines off a terminal."""
    from dpmac.showing import showing

    if not show:
        yield
        return
    with showing(partial(_work_bar, unit=unit)):
        yield


@contextmanager
def _work_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    from dpmac.training.progress import progress_bar

    if sys.stderr.isatty():
        with progress_bar(what, show=True, unit=unit, patience=PATIENCE) as tell:
            assert tell is not None
            yield tell
        return
    last = time.monotonic()

    def line(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINES:
            last = time.monotonic()
            sys.stderr.write(f"{what}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    yield line


def _clock(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
