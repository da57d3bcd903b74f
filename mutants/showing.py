"""Verdicts for people: a table on the screen, and the page of the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mutants.mutant import Mutant
from mutants.running import Verdict

PAGE = """# Mutants: would the tests notice?

A guarantee is as good as the tests that would notice its breach. `make mutants` makes {count} small copies of the
package, each with one privacy bug that somebody made, or could make, in one to three lines; and in each the tests must
fail. The command ends with 1 if a single one survives, or no longer fits the code. The tests that are to notice are
named, so that a kill says *which* test stands guard; the default suite checks that every mutant still fits.

    make mutants                                  # all of them, two at a time; a stopped run goes on
    python -m mutants --list                      # what there is
    python -m mutants --only noise-halved         # one

The mutants are in `mutants/bugs/`, one file for each room of the package. What stands here was written by
`python -m mutants --markdown docs/results/mutants.md`.

{verdict} Where the last column adds the audit, `dpmac audit`, which knows nothing of the code, proved
the claim of that copy wrong as well, by its draws alone. There is no code for several machines yet, so there is no
mutant of a distributed sum that is noised twice or never.

## What it found

These were seen by no test of their rooms until one was written for them (each was run again without it). In no case was
the bug itself in the code:

- a sampled sum divided by the rows really drawn;
- samples of a fixed size, if only those from the operating system have it, which is what users get;
- a mean divided by the private number of rows that are there: tests of neighbours looked at sums, before the division;
- a promise broken in any block but the last, and one that only a replayed CUDA graph breaks;
- a ledger that was cut, where no witness lies beside it;
- a delta shown too small, and progress that shows the epsilon of a step before.

Others were caught, but far away or by chance, and have a test of their own now: one sample used again in every step,
both Gaussians of a pair alike (they lie thousands of places apart), a row counted twice in layers so wide that they are
summed in a loop, a line of the ledger that nobody waits for.

Left out are bugs that change nothing, because something else stands behind them: `no_grad` around a release (a batch
has its own), the trainer's look at a missing bound (the door has its own), shares of a tiny scale in single precision
(what underflows is far below the room that is left).

## The table

| mutant | the bug | file | killed by |
|---|---|---|---|
{rows}
"""
COLOURS = {"killed": "green", "survived": "bold red", "stale": "yellow", "broken": "yellow"}


def show(verdicts: Mapping[Mutant, Verdict], console: Console) -> None:
    """A table: every mutant, what became of it, and by what."""
    table = Table(title="Mutants", caption=summary(verdicts.values()))
    for name in ("mutant", "file", "verdict", "by"):
        table.add_column(name, overflow="fold")
    table.add_column("s", justify="right")
    for mutant, verdict in verdicts.items():
        state = f"[{COLOURS[verdict.state]}]{verdict.state}[/]"
        table.add_row(mutant.name, mutant.file, state, verdict.by, f"{verdict.seconds:.0f}")
    console.print(table)


def summary(verdicts: Iterable[Verdict]) -> str:
    """How many of each."""
    counts = Counter(verdict.state for verdict in verdicts)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def write_page(verdicts: Mapping[Mutant, Verdict], path: Path) -> None:
    """The page of the documentation."""
    rows = "\n".join(_row(mutant, verdict) for mutant, verdict in verdicts.items())
    alive = [mutant.name for mutant, verdict in verdicts.items() if verdict.state != "killed"]
    all_of = f"All {len(verdicts)} were killed."
    some = f"{len(verdicts) - len(alive)} of {len(verdicts)} were killed; not {', '.join(alive)}."
    page = PAGE.format(count=len(verdicts), verdict=some if alive else all_of, rows=rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _row(mutant: Mutant, verdict: Verdict) -> str:
    """One line of the table; a test by its file's and its own name."""
    killer = verdict.by
    if "::" in killer:
        file, _, test = killer.partition("::")
        killer = f"`{Path(file).name}`: {test.partition('[')[0].removeprefix('test_').replace('_', ' ')}"
    what = killer + "; the audit" * verdict.audited if verdict.state == "killed" else verdict.state.upper()
    return f"| {mutant.name} | {mutant.bug} | `{mutant.file}` | {what.replace('|', '/')} |"
