"""``dpmac ledger``: everything that was ever released from a data set, what it adds up to, and what is left."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmac.cli.ending import Failed, add

if TYPE_CHECKING:
    from dpmac.privacy import Ledger
    from dpmac.report.spending import Group

ledger_app = typer.Typer(
    name="ledger",
    help="Everything that was released from a data set: what it adds up to, and what is left of a total.\n\n"
    "A ledger is a file that is only added to, each line sealed by all lines before it.\n\n[bold]Example[/bold]\n\n"
    "  dpmac ledger show hospital.ledger",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Argument(help="The ledger's file.", metavar="LEDGER")]
Delta = Annotated[
    float | None,
    typer.Option(help="Chance that the guarantee does not cover; below 1/n. Left out: the account's, or 1e-5."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def show(ledger: File, delta: Delta = None, as_json: AsJson = False) -> None:
    """Show what was released, when, for what and into which model, and the epsilon of all of it together.

    [bold]Examples[/bold]

      dpmac ledger show hospital.ledger

      dpmac ledger show hospital.ledger --delta 1e-6 --json
    """
    from dpmac.cli.accounts import account_of
    from dpmac.privacy.statement import unit_in_words
    from dpmac.report.spending import groups_of

    book = _read(ledger)
    groups = groups_of(book.entries)
    delta = _delta(book, delta)
    total = book.epsilon(delta)
    if as_json:
        finite = None
        if total < float("inf"):
            finite = total
        answer: dict[str, Any] = {"data_set": book.data_set, "releases": len(book), "epsilon": finite, "delta": delta}
        answer |= {"unit": unit_in_words(book.unit), "seeded": book.seeded, "groups": [_plain(one) for one in groups]}
        answer |= account_of(book)
        typer.echo(json.dumps(answer, allow_nan=False))
        return
    _show(ledger, book, groups, total, delta)


def remaining(
    ledger: File,
    epsilon: Annotated[
        float | None,
        typer.Option(help="What all releases from these rows may add up to. Left out: the account's total."),
    ] = None,
    delta: Delta = None,
    as_json: AsJson = False,
) -> None:
    """Show what is left of a total: the largest epsilon that one further release may have. Code 1 if nothing is left.

    Releases compose to less than the sum of their epsilons, so what is left can exceed the total minus what was spent.

    [bold]Examples[/bold]

      dpmac ledger remaining hospital.ledger --epsilon 10

      dpmac ledger remaining patients.ledger
    """
    from dpmac.checks import ArgumentError
    from dpmac.privacy.statement import not_less, round_up

    book = _read(ledger)
    delta = _delta(book, delta)
    if epsilon is None:
        if book.account is None:
            raise ArgumentError("--epsilon", epsilon, "the ledger has no total of its own: give one")
        epsilon = book.account.total_epsilon
    spent, left = book.epsilon(delta), book.remaining(epsilon, delta)
    if as_json:
        finite = None
        if spent < float("inf"):
            finite = spent
        typer.echo(json.dumps({"total": epsilon, "delta": delta, "spent": finite, "remaining": left}, allow_nan=False))
    elif left > 0:
        down = int(left * 1e4) / 1e4  # what is left is rounded down, what is spent up
        typer.echo(
            f"spent: epsilon {round_up(spent)} at delta {not_less(delta)}\n"
            f"left of a total of {epsilon:g}: one further release of epsilon {down:.4f}"
        )
    if left <= 0:
        raise Failed(f"{ledger}: nothing is left of a total of {epsilon:g}: it holds epsilon {round_up(spent)} already")


def verify(
    ledger: File,
    against: Annotated[
        str | None,
        typer.Option(
            help="A model's folder, a copy of the ledger, or a digest that verify printed: it must hold that.",
            metavar="FOLDER|FILE|DIGEST",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a ledger is complete: no line was edited, removed or cut off. Else code 1 and the line.

    This finds accidents and unnoticed edits, and an old copy that was restored without the file beside it (NAME.seen).
    It cannot find an old copy of both: keep the printed digest, or a model's folder, and give it as --against.

    [bold]Examples[/bold]

      dpmac ledger verify hospital.ledger

      dpmac ledger verify hospital.ledger --against runs/first
    """
    from dpmac.extensions.ledger_file import LedgerFile

    book = _read(ledger)
    heads = LedgerFile.open(ledger)[0].heads
    if against is not None:
        _check_against(ledger, book, heads, against)
    if as_json:
        known = {"releases": len(book), "data_set": book.data_set, "digest": heads[-1]}
        typer.echo(json.dumps({"whole": True, **known}))
    else:
        held = ""
        if against is not None:
            held = f", and it holds all of {against}"
        typer.echo(f"{ledger} is complete: {len(book):,} releases{held}\ndigest: {heads[-1]}")


def _check_against(path: Path, book: Ledger, heads: list[str], against: str) -> None:
    """Raise unless ``book`` goes on from what ``against`` is: a folder, a file, or a digest of its chain."""
    from dpmac.checks import ArgumentError
    from dpmac.extensions.entries import published
    from dpmac.saving import open_folder

    if not Path(against).exists():
        if len(against) < 8 or not set(against.lower()) <= set("0123456789abcdef"):
            raise ArgumentError("--against", against, "give a model's folder, a ledger's file, or a digest")
        if not any(head.startswith(against.lower()) for head in heads):
            raise Failed(f"{path}: no release has the digest {against}: it is an older copy, or another ledger")
        return
    if Path(against).is_dir():
        other = open_folder(against).ledger()
    else:
        other = _read(Path(against))
    theirs = [published(entry) for entry in other.entries]
    if [published(entry) for entry in book.entries[: len(theirs)]] != theirs:
        held = f"it has {len(book):,} releases, and {against} {len(theirs):,}"
        raise Failed(f"{path} does not hold all of {against}: it is an older copy, or another ledger ({held})")


def _delta(book: Ledger, given: float | None) -> float:
    """The delta that was asked for, or that of the ledger's account."""
    if given is not None:
        return given
    if book.account is not None:
        return book.account.delta
    return 1e-5


def _read(path: Path) -> Ledger:
    from dpmac.checks import ArgumentError
    from dpmac.privacy import Ledger

    if not path.is_file():
        raise ArgumentError("ledger", str(path), "there is no such file: dpmac ledger init opens one, with a total")
    return Ledger.read(path)


def _plain(group: Group) -> dict[str, Any]:
    """For a script."""
    words = asdict(group)
    return {**words, "from": words.pop("first"), "to": words.pop("last")}


def _show(path: Path, book: Ledger, groups: list[Group], total: float, delta: float) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dpmac.cli.accounts import standing
    from dpmac.privacy.statement import not_less, noun, round_up

    if book.data_set:
        title = f"{path}: {book.data_set}"
    else:
        title = str(path)
    spent = (
        f"All {len(book):,} together: epsilon {round_up(total)} at delta {not_less(delta)}, for one {noun(book.unit)}"
    )
    if book.account is not None:
        spent += f"\n{standing(book, delta)}"
    table = Table(title=Text(title), caption=spent)
    for name in ("date", "model", "purpose", "what"):
        table.add_column(name)
    for name in ("releases", "noise", "rate"):
        table.add_column(name, justify="right")
    for group in groups:
        what = group.what + (" (seeded)" if group.seeded else "")
        words = (group.date, group.model, group.purpose, what)
        numbers = (f"{group.count:,}", group.noise, f"{group.sample_rate:.4g}")
        table.add_row(*map(Text, (*words, *numbers)))
    Console().print(table)


for name, command in (("show", show), ("remaining", remaining), ("verify", verify)):
    add(ledger_app, name, command)
