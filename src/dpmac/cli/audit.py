"""``dpmac audit``: tries to prove the claims of this build wrong, and says how close it came."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.cli.ending import Failed

if TYPE_CHECKING:
    from dpmac.audit import Audit, Effort, Finding

LINES = 5.0  # seconds between lines, off a terminal
SHARE_OF_CANARIES = 25  # draws for each canary of the one run, where --draws is given


def audit(
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="All cases with 50,000 draws each, for a release; or a minute's worth."),
    ] = False,
    only: Annotated[str, typer.Option(help="Only cases with these words in their name.")] = "",
    confidence: Annotated[
        float,
        typer.Option(help="The chance, at least, that no lower bound is above the truth, over all cases together."),
    ] = 0.99,
    draws: Annotated[int | None, typer.Option(help="Releases of each case, instead of the default number.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the cases; left out, one for each core.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Audit this build: lower bounds on epsilon, from its real code and its default noise, beside what it claims.

    Made-up rows go the way that yours go: sample, bound, release, ledger. One of them, a canary, is chosen so as to be
    seen as well as any row can be. Each case releases again and again with the canary there and with its place blank,
    and two attackers say which it was: one knows the canary's exact share, the other learns how to tell from draws of
    its own. How often they are right proves a lower bound on epsilon, by exact binomial bounds, corrected for the
    number of looks. No file and no ledger of yours is touched.

    The table has, for every bound, order, layer and method: the epsilon that the ledger claims (at delta 1e-05), the
    one that was proved, and their ratio in noise: 0.95 means that the same attack would have refuted a claim of 5 %
    more noise. [bold]A ratio above 1 means that the build leaks more than it says[/bold]: exit code 1. A correct build
    is accused in 1 of 100 audits at most (1 - confidence). "reach" is how much of what its bound allows the canary
    uses: nothing above it can be proved of a correct build.

    More draws prove more: about 0.75 with --quick, 0.95 with --full. Many canaries in one run prove a fifth. An audit
    cannot show that a claim is true.

    [bold]Examples[/bold]

      dpmac audit

      dpmac audit --full --json > audit.json

      dpmac audit --only "bound clip" --draws 400
    """
    from dpmac.audit import FULL, QUICK, Effort, chosen_cases
    from dpmac.audit import audit as audited

    if full:
        effort = FULL
    else:
        effort = QUICK
    if draws is not None:
        effort = Effort(f"{draws} draws", draws, max(10, min(draws // SHARE_OF_CANARIES, FULL.canaries)))
    if workers is None:
        workers = os.cpu_count() or 1
    with _shown(len(chosen_cases(effort, only))) as told:
        found = audited(effort, confidence=confidence, only=only, workers=workers, told=told)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), allow_nan=False))
    else:
        _print(found, effort)
    if found.exceeded:
        names = ", ".join(dict.fromkeys(finding.case for finding in found.exceeded))
        raise Failed(
            f"more leaks than is claimed: {names}. Do not use this build, and report it (SECURITY.md). "
            f"A correct build is accused in {1 - confidence:.2g} of all audits at most: run it again to be sure"
        )


def _print(found: Audit, effort: Effort) -> None:
    from rich.console import Console
    from rich.table import Table

    from dpmac.privacy.statement import round_up

    looks = f"{len(found.findings)} looks, all bounds hold with a chance of {found.confidence}"
    deltas = ", ".join(f"{delta:g}" for delta in sorted({one.delta for one in found.findings}, reverse=True))
    caption = f"{effort.draws:,} draws a case; {looks}; delta {deltas}"
    if ", " in deltas:
        caption += " of many canaries"
    table = Table(title="Claims, and what was proved", caption=caption)
    table.add_column("case")
    for head in ("epsilon claimed", "proved", "ratio", "reach"):
        table.add_column(head, justify="right")
    for name, one in found.cases().items():
        style = ""
        if one.exceeded:
            style = "bold red"
        cells = (round_up(one.claimed_epsilon, 2), _down(one.epsilon), _down(one.ratio), _down(one.reach))
        table.add_row(name, *cells, style=style)
    Console().print(table)
    if not found.exceeded:
        count = len(found.cases())
        typer.echo(f"No claim was proved wrong: {count} case{'s' * (count != 1)}, {found.seconds:.0f} s.")


def _down(value: float) -> str:
    """Two decimals, never more than the truth."""
    if math.isinf(value):
        return "no bound"
    return f"{math.floor(value * 100) / 100:.2f}"


@contextmanager
def _shown(total: int) -> Iterator[Callable[[str, list[Finding]], None]]:
    """What to call with every case that is done: a bar on a terminal, a line every few seconds off one."""
    if not sys.stderr.isatty():
        yield _Lines(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (TextColumn("auditing"), BarColumn(), MofNCompleteColumn(), TextColumn("cases"))
    last = TextColumn("{task.fields[last]}")
    with Progress(*columns, TimeElapsedColumn(), last, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, last="")
        yield lambda name, found: bar.update(task, advance=1, last=_words(name, found))


class _Lines:
    def __init__(self, total: int) -> None:
        self._total, self._done, self._last = total, 0, time.monotonic()

    def __call__(self, name: str, found: list[Finding]) -> None:
        self._done += 1
        if time.monotonic() - self._last >= LINES or any(one.exceeded for one in found):
            self._last = time.monotonic()
            sys.stderr.write(f"case {self._done} of {self._total}, {_words(name, found)}\n")
            sys.stderr.flush()


def _words(name: str, found: list[Finding]) -> str:
    return f"{name}: {_down(max(one.ratio for one in found))} of the claim"
