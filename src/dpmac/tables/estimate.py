"""Ranges that nobody knows, estimated privately: one release, in the ledger, never silently.

Every numeric column is counted into public bins, ten to a decade on both sides of zero. A row adds at most one count to
one bin of each of K columns, so all histograms together have sensitivity sqrt(K), and go out in one Gaussian release on
all rows. What is read off the noisy counts is post-processing: a bin, or two, four or eight neighbours together, counts
as occupied if noise alone would hardly ever reach it, and the range spans what is occupied, out to the edges.

A category's values cannot be found this way: a value that one person alone has would be shown or not by whether that
person is there, which costs a failure probability that no Gaussian entry of a ledger can state. They must be listed.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError, number
from dpmac.extensions.persons import USUAL
from dpmac.planning.calibration import calibrate
from dpmac.planning.plan import check_delta
from dpmac.privacy import Ledger, Mechanism, OuterPart, Part, Partition, Persons, PrivateRows, Query, release
from dpmac.privacy.accounting import check_multiplier
from dpmac.privacy.parts import SLACK
from dpmac.randomness import NoiseSource, SystemNoise
from dpmac.tables.cell_format import PLAIN, CellFormat
from dpmac.tables.coding import Reader
from dpmac.tables.frames import cells, names_of
from dpmac.tables.kinds import Category, ColumnKind, Number
from dpmac.tables.stored import Files, files_of
from dpmac.tables.texts import did_you_mean

RANGES = "ranges"
NOWHERE = (-1.0, 1.0)  # the range of a column in which nothing was found
_DECADE = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")  # preferred numbers: steps of about 1.26
_POSITIVE = [float(f"{step}e{power}") for power in range(-6, 12) for step in _DECADE] + [1e12]
EDGES = (*(-edge for edge in reversed(_POSITIVE)), 0.0, *_POSITIVE)
BINS = len(EDGES) - 1
WIDTHS = (1, 2, 4, 8)
_MOST = 1e100  # of a count: sums of such are finite
FALSE_ALARM = 0.01  # the chance that noise alone widens any range of a release
_SHAPE = (math.ceil(BINS / 20), 20)  # in which a histogram is counted: an outer product of two one-hot codes is cheap

Found = tuple[float, float] | None


@dataclass(frozen=True)
class PrivateRanges:
    """A differentially private histogram of each column, and the ranges read off it.

    ``quantile`` of what was found is left outside at each end, where it lies in bins of its own: a few outliers, seen
    or not, do not stretch a range. A range reaches at most one step of about 1.26 beyond what it is to hold, or eight
    where values are sparse. Values beyond +-1e12 count at the outermost edge, missing and infinite cells nowhere.
    """

    noise_multiplier: float
    quantile: float = 0.005

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", check_multiplier(self.noise_multiplier))
        fix = "give the share of rows that may lie outside at each end, from 0 to below 0.5"
        object.__setattr__(self, "quantile", number("quantile", self.quantile, fix, low=0.0, high=0.499999))

    def mechanism(self) -> Mechanism:
        """What the release is to the accountant: put it into ``Plan.before``."""
        return Mechanism(self.noise_multiplier, 1.0, 1, RANGES)

    def of(self, rows: PrivateRows, names: Sequence[str], source: NoiseSource, ledger: Ledger) -> dict[str, Found]:
        """Release the histograms and read a range (low, high) off each; None where nothing stands out of the noise."""
        counts = release(
            rows.everything(),
            self.query(names),
            noise_multiplier=self.noise_multiplier,
            source=source,
            ledger=ledger,
        )
        return {name: self.read(counts[name].flatten()[:BINS].tolist(), len(names)) for name in names}

    def query(self, names: Sequence[str]) -> Query:
        """One histogram for each of ``names``, the columns of a row in order."""
        scale = math.sqrt(len(names)) / (1.0 - SLACK)

        def parts(rows: Tensor) -> list[Part]:
            return [_one_count(rows[:, place].double().contiguous()) for place in range(len(names))]

        return Query(RANGES, tuple(Partition(name, _SHAPE, scale) for name in names), parts)

    def read(self, counts: Sequence[float], columns: int) -> Found:
        """The range that noisy ``counts``, one of ``columns`` histograms, speak for; post-processing of any."""
        counts = [min(max(count, -_MOST), _MOST) for count in counts]
        tries = columns * sum(math.ceil(BINS / width) for width in WIDTHS)
        deviation = self.noise_multiplier * math.sqrt(columns) / (1.0 - SLACK)
        found = sorted(occupied(counts, deviation * NormalDist().inv_cdf(1 - FALSE_ALARM / tries)))
        if not found:
            return None
        outside = self.quantile * math.fsum(mass for _, _, mass in found)
        kept = _without_first(_without_first(found, outside)[::-1], outside)
        return EDGES[kept[-1][0]], EDGES[kept[0][1]]


def occupied(counts: Sequence[float], limit: float) -> list[tuple[int, int, float]]:
    """Disjoint runs of bins (start, stop, count) whose count passes ``limit`` by sqrt(bins): the noise of such a sum.

    Narrow runs first; a wider one is tried only where no narrower within it has passed.
    """
    found: list[tuple[int, int, float]] = []
    taken = [False] * len(counts)
    for width in WIDTHS:
        for start in range(0, len(counts), width):
            stop = min(start + width, len(counts))
            mass = math.fsum(counts[start:stop])
            if not any(taken[start:stop]) and mass > limit * math.sqrt(width):
                found.append((start, stop, mass))
                taken[start:stop] = [True] * (stop - start)
    return found


def estimated_columns(
    table: Any,
    epsilon: float,
    delta: float,
    categories: Mapping[str, ColumnKind | Sequence[Any]],
    target: str | None = None,
    *,
    ledger: Ledger | None = None,
    source: NoiseSource | None = None,
    quantile: float = 0.005,
    groups: Any = None,
    max_rows: int = USUAL,
    estimated: Mapping[str, ColumnKind] | None = None,
    form: CellFormat = PLAIN,
) -> tuple[dict[str, ColumnKind], str]:
    """The columns of a schema for ``table``, and what they cost in words; the whole of ``Schema.estimate``.

    All columns but ``categories`` (name: its public values, or a whole column) must hold numbers, or be of the kind
    that ``estimated`` says (name: a column, whose own range is not looked at); their ranges cost ``epsilon`` at
    ``delta``, one entry "ranges" in ``ledger``. Fit with the same ledger, or the total will not include it. What is
    wrong with the arguments raises before anything is spent. Whether cells are missing is not looked at, which would
    tell of rows: every column but the target may be. ``epsilon=inf`` estimates without privacy, and says so.

    ``table`` may be in files (:class:`dpmac.tables.Files`, or a path), and is then read batch by batch.
    ``groups`` says whose each row is, an id for each or the name of their column, which is then left out of the schema:
    the unit of privacy is a person, as of the estimators.
    """
    files = files_of(table)
    if files is not None:
        table = files
    names = [name for name in names_of(table) if not isinstance(groups, str) or name != groups]
    listed = _listed_categories(categories, names)
    numeric = [name for name in names if name not in listed]
    if not numeric:
        raise ArgumentError("categories", list(listed), "no numeric column is left to estimate: write Schema(...)")
    if target is not None and target not in names:
        raise ArgumentError("target", target, f"the table has no such column{did_you_mean(target, names)}")
    readers = _readers(estimated or {}, numeric)
    private = _private(table, readers, groups, max_rows, form)
    if private.n < 2:
        raise ArgumentError("groups", f"{private.n} person", "give rows of at least 2; a guarantee needs a crowd")
    check_delta(delta, private.n)
    method = PrivateRanges(_noise_for(epsilon, delta), quantile)
    if ledger is None:
        ledger = Ledger()
    if source is None:
        source = SystemNoise()
    ranges = method.of(private, numeric, source.spawn(RANGES), ledger)
    columns: dict[str, ColumnKind] = {}
    for name in names:
        if name in listed:
            columns[name] = listed[name]
        else:
            columns[name] = readers[name].with_range(*(ranges[name] or NOWHERE), missing=name != target)
    nowhere = [name for name in numeric if ranges[name] is None]
    if nowhere:
        given = [columns[name].fields() for name in nowhere]
        message = f"no range stood out of the noise for {nowhere}: they were given {given}. Write in what you know"
        warnings.warn(message, stacklevel=3)
    price = f"epsilon {float(epsilon):g} at delta {float(delta):g}, noise multiplier {method.noise_multiplier:.6g}"
    whose = "rows"
    if groups is not None:
        whose = "persons"
    return columns, f"ranges of {len(numeric)} columns estimated from {private.n} {whose}, for {price}"


def _readers(estimated: Mapping[str, ColumnKind], numeric: Sequence[str]) -> dict[str, ColumnKind]:
    """How the cells of each column are read: as numbers, unless ``estimated`` has a column of another kind."""
    for name, column in estimated.items():
        if name not in numeric:
            fix = f"the table has no such column that is to be estimated{did_you_mean(name, numeric)}"
            raise ArgumentError("estimated", name, fix)
        if type(column).unbounded({}) is None:
            raise ArgumentError(f"estimated.{name}", column, "this kind of column has no range to be estimated")
    return {name: estimated[name].with_missing() if name in estimated else Number.unbounded({}) for name in numeric}


def _private(
    table: Any, readers: Mapping[str, ColumnKind], groups: Any, max_rows: int, form: CellFormat
) -> PrivateRows:
    """The columns of a table whose range is estimated, read; of one in files batch by batch."""
    if isinstance(table, Files):
        _check_crowd(table.n)
        if isinstance(groups, str):
            read = table.read(Reader(readers, form=form), ids=groups)
            whose: Persons | None = Persons.of(read.ids, max_rows, groups)
        else:
            read = table.read(Reader(readers, form=form))
            whose = _persons(table, groups, max_rows)
        return PrivateRows(*read.columns, groups=whose)
    found = cells(table, list(readers))
    codes = [reader.coded(name, form.read(reader, found[name])) for name, reader in readers.items()]
    rows = torch.from_numpy(np.stack(codes, axis=1))
    _check_crowd(len(rows))
    return PrivateRows(rows, groups=_persons(table, groups, max_rows))


def _check_crowd(rows: int) -> None:
    if rows < 2:
        raise ArgumentError("table", f"{rows} rows", "give at least 2 rows; a guarantee needs a crowd")


def _persons(table: Any, groups: Any, max_rows: int) -> Persons | None:
    if isinstance(groups, str):
        return Persons.of(cells(table, [groups])[groups], max_rows, groups)
    if groups is None:
        return None
    return Persons.of(groups, max_rows)


def _one_count(values: Tensor) -> OuterPart:
    """One count for each row, in the bin of its value; none for one that is missing."""
    edges = torch.tensor(EDGES, dtype=torch.float64, device=values.device)
    places = (torch.bucketize(values, edges, right=True) - 1).clamp(0, BINS - 1)
    places = torch.where(torch.isfinite(values), places, -_SHAPE[1])  # below zero: at no place
    return OuterPart(_one_hot(places // _SHAPE[1], _SHAPE[0]), _one_hot(places % _SHAPE[1], _SHAPE[1]))


def _one_hot(places: Tensor, count: int) -> Tensor:
    return (places[:, None] == torch.arange(count, device=places.device)).double()


def _without_first(runs: list[tuple[int, int, float]], mass: float) -> list[tuple[int, int, float]]:
    """The runs without the first few, as many as hold ``mass`` together; at least one is kept."""
    spent = 0.0
    for place, (_, _, count) in enumerate(runs):
        spent += count
        if spent > mass:
            return runs[place:]
    return runs[-1:]


def _listed_categories(categories: Any, names: Sequence[str]) -> dict[str, ColumnKind]:
    if not isinstance(categories, Mapping):
        fix = "list the values, {'sex': ['F', 'M']}: private counts cannot find values that one person alone may have"
        raise ArgumentError("categories", categories, fix)
    for name in categories:
        if name not in names:
            raise ArgumentError("categories", name, f"the table has no such column{did_you_mean(name, names)}")
    given = categories.items()
    return {name: one if isinstance(one, ColumnKind) else Category(one, missing=True) for name, one in given}


@functools.lru_cache(maxsize=64)
def _noise_for(epsilon: float, delta: float) -> float:
    """The least noise multiplier of one release on all rows that costs at most ``epsilon`` at ``delta``."""
    number("epsilon", epsilon, "give a number above 0, or inf for no privacy", low=5e-324)
    if math.isinf(epsilon):
        return 0.0
    return calibrate(lambda s: [Mechanism(s, 1.0, 1, RANGES)], epsilon, delta)
