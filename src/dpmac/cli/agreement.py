"""Rows and schema that disagree, on the command line: a warning, or with ``--strict`` the end of the command."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpmac.cli.ending import NOTHING_SPENT, Failed

STRICT = "Stop where nearly all cells of a column are clipped, 'other' or missing; else that is a warning."


@contextmanager
def noticing() -> Iterator[list[str]]:
    """Yields the disagreements of rows and schema that were warned of inside."""
    from dpmac.tables.agreement import SchemaWarning

    found = list[str]()
    with warnings.catch_warnings():
        written = warnings.showwarning

        def kept(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, SchemaWarning):
                found.append(str(message))
            written(message, category, *place, **more)

        warnings.showwarning = kept
        yield found


@contextmanager
def strictly(strict: bool) -> Iterator[None]:
    """Inside, with ``strict``, a disagreement of rows and schema ends the command before anything is spent.

    It is noticed as rows are read, which is before the first release of any training.
    """
    from dpmac.tables.agreement import SchemaWarning

    if not strict:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", SchemaWarning)
        try:
            yield
        except SchemaWarning as warning:
            raise Failed(f"--strict: {warning}", code=NOTHING_SPENT) from None
