"""Code that lets rows have a say in each other, caught before anything private is touched.

A release counts on every row's parts being a function of that row alone. Contract tests hold our own pieces to that; a
loss, a Z-step, a feature map or a bound of a user's own is tried here, when it is used: made-up rows go through it,
then the same with a few of them changed, plainly and outrageously, and no other row's numbers may move beyond rounding.
The rows are random numbers of several sizes, so nothing is learned of anybody, and nothing is spent. A batch's mean,
its largest entry or a running sum moves all rows and is found; what happens only for rows of a special kind may not be.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.randomness import NoiseSource, SystemNoise

ROWS = 32
SIZES = (1.0, 30.0, 0.03)  # of the made-up numbers
WILD = 1e30
ROUNDING = 1e-5  # of a row's largest number: kernels may round by what stands beside, and a mix moves rows by far more
MIXES = "lets rows have a say in each other: with other numbers in some rows, the rest came out differently"
REMEMBERS = "is no function of the rows: given the same ones twice, it came out differently"
FIX = "no guarantee holds for that; treat every row by itself, without sums, means or extremes over the batch"
Function = Callable[..., Any]
Columns = tuple[Tensor, ...]


@dataclass(frozen=True)
class Trial:
    """Made-up rows, and the same with some of them changed, in several ways, each with which rows were left alone."""

    rows: Columns
    changed: tuple[tuple[Columns, Tensor], ...]


def trials(
    blank: Columns, one_hot: bool = False, source: NoiseSource | None = None, tokens: bool = False
) -> list[Trial]:
    """Rows of the shapes and kinds of ``blank`` (ROWS of each column); ``one_hot`` for targets that are classes.

    With ``tokens`` whole numbers are the names of something, such as a word or a class: 0 or 1, which there always are.
    Once all rows but three become others (so that any extreme over them does, too), once three become outrageous: the
    first, the last, and one in between.
    """
    draw = SystemNoise() if source is None else source
    three = torch.zeros(ROWS, dtype=torch.bool)
    three[[0, int(draw.uniform(1) * (ROWS - 2)) + 1, ROWS - 1]] = True
    wild = tuple(_wild(column, one_hot and number > 0, tokens) for number, column in enumerate(blank))
    made = []
    for size in SIZES:
        rows, fresh = (_made(blank, size, one_hot, draw, tokens) for _ in range(2))
        changed = (_put(rows, fresh, ~three), three), (_put(rows, wild, three), ~three)
        made.append(Trial(rows, changed))
    return made


def fault_of(function: Function, made: Sequence[Trial]) -> str | None:
    """What is wrong with ``function`` of a block's columns, MIXES or REMEMBERS; None if nothing was found.

    What raises for made-up rows is not judged by them; if it always raises, a warning says that it was not tried.
    """
    tried = False
    with _same_draws() as again:
        for trial in made:
            before = _result(function, trial.rows, again)
            for rows, left in trial.changed if before is not None else ():
                after = _result(function, rows, again)
                tried = tried or after is not None
                if before is None or after is None or not _moved(before, after, left):
                    continue
                repeated = _result(function, trial.rows, again)
                return MIXES if repeated is not None and not _moved(before, repeated) else REMEMBERS
    if not tried:
        said = "some code that sees private rows could not be tried: it raised for all rows that were made up"
        warnings.warn(said, RuntimeWarning, stacklevel=2)
    return None


def check_row_independence(name: str, function: Function, blank: Columns) -> None:
    """Raise :class:`ArgumentError`, naming the piece, if ``function`` treats rows otherwise than each by itself."""
    fault = fault_of(function, trials(blank))
    if fault is not None:
        raise blamed(name, function, fault)


def blamed(name: str, piece: Any, fault: str) -> ArgumentError:
    """What to raise for a piece that :func:`fault_of` found something wrong with."""
    text = repr(piece)
    return ArgumentError(name, piece if len(text.splitlines()) == 1 else type(piece).__name__, f"it {fault}: {FIX}")


def _wild(column: Tensor, target: bool, tokens: bool) -> Tensor:
    """An outrageous number everywhere; the least there is, of whole numbers."""
    if tokens and not column.dtype.is_floating_point:
        return torch.ones_like(column)
    if not column.dtype.is_floating_point:
        return torch.full_like(column, 0 if column.dtype == torch.bool else torch.iinfo(column.dtype).min)
    return torch.full_like(column, 1.0 if target else -WILD)


def _made(blank: Columns, size: float, one_hot: bool, draw: NoiseSource, tokens: bool) -> Columns:
    made = []
    for number, column in enumerate(blank):
        values = draw.normal(column.shape)
        if tokens and not column.dtype.is_floating_point:
            made.append((values > 0).to(column))
            continue
        if number and one_hot and column.dim() == 2:
            values = torch.nn.functional.one_hot(values.argmax(dim=1), column.shape[1]).double()
        made.append((values if number and one_hot else size * values).to(column))
    return tuple(made)


def _put(rows: Columns, other: Columns, where: Tensor) -> Columns:
    """``rows`` with those of ``where`` taken from ``other``."""
    pairs = zip(rows, other, strict=True)
    return tuple(torch.where(where.to(a.device).reshape(-1, *[1] * (a.dim() - 1)), b, a) for a, b in pairs)


def _result(function: Function, rows: Columns, again: Callable[[], None]) -> list[Tensor] | None:
    again()
    try:
        with torch.no_grad():
            return list(_tensors(function(*(column.clone() for column in rows))))
    except Exception:
        return None


def _tensors(result: Any) -> Iterator[Tensor]:
    """All tensors with a number, or several, for each row: of parts, coordinates, lists of them."""
    if isinstance(result, Tensor):
        if result.dim() and len(result) == ROWS:
            yield result.detach()
    elif isinstance(result, list | tuple):
        for item in result:
            yield from _tensors(item)
    elif is_dataclass(result):
        for part in fields(result):
            if not part.name.startswith("_"):
                yield from _tensors(getattr(result, part.name))


def _moved(before: Sequence[Tensor], after: Sequence[Tensor], where: Tensor | None = None) -> bool:
    """Whether any number of the rows ``where`` (all, without it) is another, by more than rounding."""
    if [t.shape for t in before] != [t.shape for t in after]:
        return True
    for one, other in zip(before, after, strict=True):
        kept = slice(None) if where is None else where.to(one.device)
        a, b = (t[kept].double().reshape(-1, t[0].numel()) for t in (one, other))
        same = (a == b) | (a.isnan() & b.isnan())
        if bool(same.all()):
            continue
        off = torch.where(same, 0.0, (a - b).abs())
        finite = torch.maximum(a.abs(), b.abs()).nan_to_num(0.0, posinf=0.0)  # an infinity would allow everything
        allowed = ROUNDING * finite.amax(dim=1, keepdim=True)
        if not bool((off <= allowed).all()):
            return True
    return False


@contextmanager
def _same_draws() -> Iterator[Callable[[], None]]:
    """A function that takes torch's own generators back to where they are now; at the end they are there again."""
    there = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cpu, gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all() if there else []

    def again() -> None:
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)

    try:
        yield again
    finally:
        again()
