"""A progress bar for work deep inside a fit, such as mapping many pictures: whoever starts the fit says how it looks.

What it shows follows from public numbers alone: how many places or drawn rows there are, and how many are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

Tell = Callable[[int, int], None]
Bar = Callable[[str], AbstractContextManager[Tell | None]]
_bar: ContextVar[Bar | None] = ContextVar("bar", default=None)


@contextmanager
def showing(bar: Bar) -> Iterator[None]:
    """Within, work of which there is much is shown by ``bar``, which is called with what the work is."""
    before = _bar.set(bar)
    try:
        yield
    finally:
        _bar.reset(before)


@contextmanager
def shown(work: str) -> Iterator[Tell]:
    """Yields what to call with (rows done, rows in all): it shows nothing unless someone is :func:`showing`."""
    bar = _bar.get()
    if bar is None:
        yield _nothing
        return
    with bar(work) as tell:
        yield tell or _nothing


def _nothing(done: int, total: int) -> None:
    """Nobody looks."""
    del done, total
