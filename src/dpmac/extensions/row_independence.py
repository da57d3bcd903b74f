"""Detect code that lets rows affect each other, before anything private is touched.

A release relies on every row's parts being a function of that row only. Contract tests check this for our own code; a
user's own loss, Z-step, feature map or bound is checked here, when it is used. Synthetic rows go through it, then the
same rows with a few of them changed, moderately and extremely, and no other row's numbers may change beyond rounding.
The rows are random numbers of several magnitudes, so the check reveals nothing about anybody and spends nothing. It
detects a batch mean, a maximum or a running sum, which change all rows; it may miss what happens only for special rows,
and what changes a row by less than ROUNDING of itself (docs/proof.md says what that would mean).
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
SIZES = (1.0, 30.0, 0.03)  # magnitudes of the synthetic numbers
WILD = 1e30
ROUNDING = 1e-5  # relative to a row's largest number: rounding may depend on other rows; mixing changes far more
MIXES = "lets rows influence each other: with other numbers in some rows, the rest came out differently"
REMEMBERS = "is no function of the rows: given the same ones twice, it came out differently"
FIX = "no guarantee holds for that; treat every row by itself, without sums, means or extremes over the batch"
Function = Callable[..., Any]
Columns = tuple[Tensor, ...]


@dataclass(frozen=True)
class Trial:
    """Synthetic rows, and several versions with some of them changed, each with a mask of the unchanged rows."""

    rows: Columns
    changed: tuple[tuple[Columns, Tensor], ...]


def trials(
    blank: Columns, one_hot: bool = False, source: NoiseSource | None = None, tokens: bool = False
) -> list[Trial]:
    """Rows with the shapes and dtypes of ``blank`` (ROWS of each column); ``one_hot`` for targets that are classes.

    With ``tokens`` integers name something, such as a word or a class: they are 0 or 1, which always exist.
    In one version all rows but three are replaced (so that any maximum over them changes); in another three rows become
    extreme: the first, the last, and one in between.
    """
    draw = source or SystemNoise()
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
    """What is wrong with a ``function`` of a block's columns, MIXES or REMEMBERS; None if nothing was found.

    Trials for which the function raises are skipped; if it always raises, a warning says that it was not checked.
    """
    tried = False
    with _same_draws() as again:
        for trial in made:
            before = _result(function, trial.rows, again)
            if before is None:
                continue
            for rows, left in trial.changed:
                after = _result(function, rows, again)
                tried = tried or after is not None
                if after is None or not _moved(before, after, left):
                    continue
                repeated = _result(function, trial.rows, again)
                if repeated is None or _moved(before, repeated):
                    return REMEMBERS
                return MIXES
    if not tried:
        said = "some code that sees private rows could not be tried: it raised for all rows that were made up"
        warnings.warn(said, RuntimeWarning, stacklevel=2)
    return None


def check_row_independence(name: str, function: Function, blank: Columns, tokens: bool = False) -> None:
    """Raise :class:`ArgumentError`, naming the argument, if ``function`` does not treat every row separately.

    Whole numbers are tried as numbers of any size and as tokens; with ``tokens``, only as these.
    """
    made = trials(blank, tokens=tokens)
    if not tokens and not all(column.dtype.is_floating_point for column in blank):
        made += trials(blank, tokens=True)
    fault = fault_of(function, made)
    if fault is not None:
        raise blamed(name, function, fault)


def blamed(name: str, piece: Any, fault: str) -> ArgumentError:
    """The error for a piece of code in which :func:`fault_of` found a fault."""
    shown = piece
    if len(repr(piece).splitlines()) != 1:
        shown = type(piece).__name__
    return ArgumentError(name, shown, f"it {fault}: {FIX}")


def _wild(column: Tensor, target: bool, tokens: bool) -> Tensor:
    """An extreme number everywhere: the smallest one for integers, unless they are ``tokens``."""
    if target and column.dtype.is_floating_point:
        return torch.full_like(column, 1.0)
    if column.dtype.is_floating_point:
        return torch.full_like(column, -WILD)
    if tokens:
        return torch.ones_like(column)
    if column.dtype == torch.bool:
        return torch.zeros_like(column)
    return torch.full_like(column, torch.iinfo(column.dtype).min)


def _made(blank: Columns, size: float, one_hot: bool, draw: NoiseSource, tokens: bool) -> Columns:
    made = []
    for number, column in enumerate(blank):
        values, target = draw.normal(column.shape), number > 0 and one_hot
        if tokens and not column.dtype.is_floating_point:
            made.append((values > 0).to(column))
            continue
        if target and column.dim() == 2:
            values = torch.nn.functional.one_hot(values.argmax(dim=1), column.shape[1]).double()
        if not target:
            values = size * values
        made.append(values.to(column))
    return tuple(made)


def _put(rows: Columns, other: Columns, where: Tensor) -> Columns:
    """``rows`` with those in ``where`` replaced by the rows of ``other``."""
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
    """All tensors with one or more numbers for each row, in parts, coordinates and lists of them."""
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
    """Whether any number of the rows ``where`` (None: of all rows) has changed by more than rounding."""
    if [t.shape for t in before] != [t.shape for t in after]:
        return True
    for one, other in zip(before, after, strict=True):
        a, b = (t.double().reshape(-1, t[0].numel()) for t in (one, other))
        if where is not None:
            a, b = a[where.to(a.device)], b[where.to(b.device)]
        same = (a == b) | (a.isnan() & b.isnan())
        if bool(same.all()):
            continue
        off = torch.where(same, 0.0, (a - b).abs())
        finite = torch.maximum(a.abs(), b.abs()).nan_to_num(0.0, posinf=0.0)  # an infinity would allow any change
        allowed = ROUNDING * finite.amax(dim=1, keepdim=True)
        if not bool((off <= allowed).all()):
            return True
    return False


@contextmanager
def _same_draws() -> Iterator[Callable[[], None]]:
    """A function that resets torch's own generators to their current state; they are also reset at the end."""
    cpu, gpus = torch.get_rng_state(), list[Tensor]()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        gpus = torch.cuda.get_rng_state_all()

    def again() -> None:
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)

    try:
        yield again
    finally:
        again()
