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

A guarantee is only as good as the tests that would notice if it were broken. `make mutants` makes {count} small copies
of the package. Each has one privacy bug, in one to three lines, that somebody has made or could make. In each copy the
tests must fail. The command ends with 1 if a single mutant survives, or no longer fits the code. Every mutant names the
tests that must notice it, so a kill says *which* test protects against that bug. The default test suite checks that
every mutant still fits the code.

    make mutants                                  # all of them, two at a time; a stopped run can be continued
    python -m mutants --list                      # what there is
    python -m mutants --only noise-halved         # one

The mutants are in `mutants/bugs/`, one file for each part of the package. This page was written by
`python -m mutants --markdown docs/results/mutants.md`.

{verdict} Where the last column adds "the audit", `dpmac audit` also proved the claim of that copy wrong. The audit
knows nothing of the code, and judges by its draws alone. Bugs of several processes, such as sums that are noised twice
or never, are among the mutants.

## What it found

No test of the part concerned noticed the following mutants until one was written for them (each was run again without
that test). In no case was the bug itself in the code:

- a sampled sum divided by the number of rows really drawn;
- samples of a fixed size, if only those from the operating system have it, which is what users get;
- a mean divided by the private number of rows that are there (tests of neighbours looked at sums, before the division);
- a promise broken in any block but the last, and a promise that only a replayed CUDA graph breaks;
- a ledger that was cut, where no rollback guard lies beside it;
- a delta shown too small, and progress that shows the epsilon of the step before;
- two coordinates with the same noise, in releases small enough that their noise is still transformed, after large ones
  had begun to draw it by a table.

Other mutants were caught by chance, or by tests of something else, and now have a test of their own: one sample used
again in every step; equal Gaussians in a pair (they lie thousands of places apart); a row counted twice in layers so
wide that they are summed in a loop; a line of the ledger that nobody waits for.

Bugs that change nothing are left out, because a second check catches them: `no_grad` around a release (a batch has its
own); the trainer's check for a missing bound (the release has its own); shares of a tiny scale in single precision
(what underflows is far below the margin for rounding).

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
