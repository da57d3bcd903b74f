"""``dpmac ledger init``: open an account, a total that holds for everything that is ever released from a data set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmac.checks import ArgumentError
from dpmac.cli.ledger import AsJson

if TYPE_CHECKING:
    from dpmac.privacy import Ledger


def init(
    ledger: Annotated[Path, typer.Argument(help="The ledger's file: a new one, or one without a total.")],
    total_epsilon: Annotated[float, typer.Option(help="What all releases from these rows may add up to.")],
    delta: Annotated[float, typer.Option(help="Chance that the total does not cover; below 1/n of the rows.")] = 1e-5,
    unit: Annotated[
        str, typer.Option(help="Whose privacy is counted: row, or person with all their rows.", metavar="row|person")
    ] = "row",
    data_set: Annotated[str, typer.Option(help="What you call the rows.", metavar="NAME")] = "",
    as_json: AsJson = False,
) -> None:
    """Open an account: a total that every later release into this ledger is held to, without being told again.

    It holds on the command line and in Python, for every training, whoever starts it; one that would exceed it is
    refused before it spends anything, and told what would still fit. The total is sealed with the ledger's first line
    and stays: it can be neither raised nor lowered. (train [bold]--total-epsilon[/bold] may ask for less.)

    A ledger that has releases but no total gets one, unless it holds more already. Finish interrupted trainings first:
    they cannot be resumed with a ledger that was sealed anew.

    [bold]Examples[/bold]

      dpmac ledger init patients.ledger --total-epsilon 4 --delta 1e-6 --unit person --data-set "visits 2024"

      dpmac ledger init hospital.ledger --total-epsilon 10
    """
    from dpmac.cli.places import LONGEST, check_ledger, check_text
    from dpmac.extensions.accounts import Account
    from dpmac.privacy import Ledger

    check_text("--data-set", data_set, LONGEST)
    try:
        Account(total_epsilon, delta, unit)
    except ArgumentError as error:
        raise ArgumentError(f"--{error.name.replace('_', '-')}", error.value, error.fix) from None
    check_ledger(ledger)
    ledger.absolute().parent.mkdir(parents=True, exist_ok=True)
    book = Ledger.init(ledger, total_epsilon=total_epsilon, delta=delta, unit=unit, data_set=data_set)
    if as_json:
        typer.echo(json.dumps({"ledger": str(ledger), "data_set": book.data_set, **account_of(book)}))
        return
    typer.echo(f"{ledger}: {standing(book, delta)}\nnext:  dpmac train ... --ledger {ledger}")


def account_of(book: Ledger) -> dict[str, object]:
    """The account as JSON says it; empty without one."""
    if book.account is None:
        return {}
    return {"account": book.account.to_dict(), "remaining": book.remaining()}


def standing(book: Ledger, delta: float) -> str:
    """What was spent and of how much: "3 models, epsilon 3.10 of 4 spent at delta 1e-06"."""
    from dpmac.privacy.statement import not_less, round_up

    if book.account is None:
        if not len(book):
            return "new, without a total (dpmac ledger init opens it with one)"
        spent = f"epsilon {round_up(book.epsilon(delta), 2)} spent at delta {not_less(delta)}"
        return f"{_models(book)}, {spent}, without a total"
    spent = f"epsilon {round_up(book.epsilon(book.account.delta), 2)} of {book.account.total_epsilon:g} spent"
    return f"{_models(book)}, {spent} at delta {not_less(book.account.delta)}"


@contextmanager
def held(ledger: Path, shared: bool) -> Iterator[None]:
    """Inside, nobody else writes a ledger that others may use; a run's own is held with its folder."""
    from dpmac.extensions.writers import sole_writer

    if not shared:
        yield
        return
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with sole_writer(ledger, refusing=True):
        yield


def _models(book: Ledger) -> str:
    """How many models were made: trainings by their runs, or by the names that they were given."""
    from dpmac.tables.estimate import RANGES

    made = len({(entry.run, entry.model) for entry in book.entries if entry.label != RANGES})
    if not made and not len(book):
        return "new"
    if made == 1:
        return "1 model"
    return f"{made} models"
