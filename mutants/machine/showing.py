"""Scores and survivors for people: a table on the screen, and the page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mutants.machine.mutation import Mutation
from mutants.machine.scoring import Score, explanations
from mutants.machine.targets import group_of
from mutants.mutant import PACKAGE

COLUMNS = ("mutants", "killed", "survived", "uncovered", "explained", "earlier", "open", "score")
PAGE = """# Mutation by machine: does a test look at every line?

`make mutate` puts every simple bug, one at a time, into every line of the code that must be trusted:

- `<` for `<=`, `-` for `+`, `max` for `min`;
- a constant that is one larger or twice as large;
- a condition that is always or never true;
- a statement, a `not` or a keyword argument that is forgotten;
- a wrong return value, or a slice that is off by one.

For each mutant it runs the tests that execute the changed line, until one fails. A mutant that no test notices is a gap
in the tests, unless it changes nothing that matters; then one sentence below explains why. (Privacy bugs that people
have made or could make are in [another table](mutants.md).)

    make mutate                                             # all of them; a stopped run can be continued
    python -m mutants.machine run --files extensions/ledger_file.py  # one file, or a group: --files ledger
    python -m mutants.machine run --asked COMMIT            # only functions that changed since all were asked there
    python -m mutants.machine show --files ledger           # what survived, with the line that changes

The score is killed / (killed + not noticed). This page was written by
`{command}`.

{summary}

These were the scores when the tool was first run, before the tests that it led to and before anything was explained:
85.7 % of the 351 mutants of the ledger, 68.2 % of the first 107 of the account, and 84.5 % of 1,626 mutants, most of
them of the argument.

## By group

| group | {columns} |
|---|{rule}|
{groups}

## By file

| file | {columns} |
|---|{rule}|
{files}

## Not noticed

{survivors}

## Explained

{explained}
"""

EARLIER = """

{earlier} further mutants count as "earlier". They were asked on commit {asked}, where none was left open or unnoticed,
and the function that each is in has not changed since (the tests may have). In all other code they were asked as it is
now. `make mutate` asks those again, too, wherever it has no verdicts of that time."""


def cells(score: Score) -> list[str]:
    """The columns of a score."""
    parts = (score.killed, score.alive, score.uncovered, score.explained, score.earlier, score.open)
    return [str(score.total), *(str(len(part)) for part in parts), score.words()]


def by_group(scores: Mapping[str, Score]) -> dict[str, Score]:
    """The sum over each group's files, and over everything."""
    found: dict[str, Score] = {}
    group = group_of()
    for file, score in scores.items():
        found[group[file]] = found.get(group[file], Score()) + score
    found["all"] = sum(scores.values(), Score())
    return found


def show(scores: Mapping[str, Score], console: Console, *, quiet: bool = False) -> None:
    """A table, and below it every mutant that survived."""
    table = Table(title="Mutation by machine")
    table.add_column("", min_width=26)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for name, score in (*scores.items(), *by_group(scores).items()):
        table.add_row(name, *cells(score), style="" if name.endswith(".py") else "bold")
    if not quiet:
        for mutation in (each for score in scores.values() for each in score.survivors):
            describe(mutation, console)
    console.print(table)


def describe(mutation: Mutation, console: Console) -> None:
    """Where it is, and the line that changes."""
    old, new = mutation.lines()
    place = f"{PACKAGE / mutation.file}:{mutation.line}"
    text = f"{mutation.key}  {place}  {mutation.function}  {mutation.operator}\n    - {old}\n    + {new}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def write_page(scores: Mapping[str, Score], path: Path, asked: str | None = None) -> None:
    """The page of the documentation; ``asked`` is the commit on which all were asked, if one was given."""
    total = by_group(scores)["all"]
    reasons = explanations()
    summary = (
        f"{total.total} mutants: {len(total.killed)} killed, {len(total.survivors)} not noticed, "
        f"{len(total.explained)} explained, {len(total.open)} not asked yet. Score: {total.words()}."
    )
    command = "python -m mutants.machine show --markdown docs/results/machine.md"
    if asked is not None:
        command += f" --asked {asked}"
        summary += EARLIER.format(earlier=len(total.earlier), asked=asked)
    survivors = [f"- {_line(mutation)}" for score in scores.values() for mutation in score.survivors]
    explained = [
        f"- {_line(mutation)}: {reasons[mutation.name]}" for score in scores.values() for mutation in score.explained
    ]
    page = PAGE.format(
        command=command,
        summary=summary,
        columns=" | ".join(COLUMNS),
        rule="|".join("--:" for _ in COLUMNS),
        groups="\n".join(f"| {name} | {' | '.join(cells(score))} |" for name, score in by_group(scores).items()),
        files="\n".join(f"| `{name}` | {' | '.join(cells(score))} |" for name, score in scores.items()),
        survivors="\n".join(survivors) or "None.",
        explained="\n".join(explained) or "None.",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _line(mutation: Mutation) -> str:
    """A mutant in a list; no line number, which would change with the next edit."""
    return f"`{mutation.file}`, `{mutation.function}`: {_code(mutation.before)} becomes {_code(mutation.after)}"


def _code(text: str) -> str:
    return f"``{text}``" if "`" in text else f"`{text}`"
