"""New runs held against those in git: every row's mean, in the standard deviations that its runs in git have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reproduction.rows import TableRow
from reproduction.tables import aligned, decimals

FLOOR = 1e-3  # of the mean: the least yardstick


@dataclass(frozen=True)
class Comparison:
    """A row of new runs, and the same row as it is in git, or None if it is not there."""

    new: TableRow
    committed: TableRow | None

    @property
    def floored(self) -> bool:
        """Whether the runs in git hardly differ (or there is one), so that the yardstick is a part of their mean."""
        return self.committed is not None and (self.committed.std or 0.0) < FLOOR * abs(self.committed.mean)

    @property
    def difference(self) -> float | None:
        """Of the means, in standard deviations of the committed runs; positive if the new mean is larger."""
        if self.committed is None:
            return None
        yardstick = FLOOR * abs(self.committed.mean) if self.floored else self.committed.std or 0.0
        return (self.new.mean - self.committed.mean) / yardstick if yardstick else 0.0

    @property
    def is_off(self) -> bool:
        return self.difference is not None and not abs(self.difference) <= 1.0

    @property
    def other_recipe(self) -> bool:
        """Whether a field that both wrote down differs: then these are not runs of the same thing."""
        if self.committed is None:
            return False
        theirs = self.committed.recipe
        return any(theirs[name] != value for name, value in self.new.recipe.items() if name in theirs)


def compare(rows: Iterable[TableRow], committed: Iterable[TableRow]) -> list[Comparison]:
    """Every row of ``rows`` beside the one of the same name, settings and epsilon."""
    known = {row.key: row for row in committed}
    return [Comparison(row, known.get(row.key)) for row in rows]


def comparison_text(comparisons: Sequence[Comparison]) -> str:
    """A table of them, and what was found."""
    header = (
        "method",
        "settings",
        "table",
        "epsilon",
        "mean (runs)",
        "committed mean ± std (runs)",
        "off by",
        "remarks",
    )
    lines = aligned([header, *(_cells(c) for c in comparisons)])
    off = sum(c.is_off for c in comparisons)
    compared = sum(c.committed is not None for c in comparisons)
    notes = [f"{compared} of {len(comparisons)} rows compared; {off} off by more than one standard deviation."]
    if any(c.floored for c in comparisons):
        notes.append(
            f"* The committed runs spread by less than {FLOOR:g} of their mean: the yardstick is {FLOOR:g} of the mean."
        )
    return "\n".join([*lines, "", *notes, ""])


def _cells(comparison: Comparison) -> tuple[str, ...]:
    new, old, places = comparison.new, comparison.committed, decimals(comparison.new.table)
    mean = f"{new.mean:.{places}f} ({len(new.runs)})"
    start = (new.row, new.preset, new.table, f"{new.epsilon:g}", mean)
    if old is None or comparison.difference is None:
        return *start, "-", "-", "not in git"
    spread = "-" if old.std is None else f"{old.std:.{places}f}"
    difference = f"{comparison.difference:+.2f} std{'*' if comparison.floored else ''}"
    remarks = ["OFF"] * comparison.is_off + ["another recipe"] * comparison.other_recipe
    return *start, f"{old.mean:.{places}f} ± {spread} ({len(old.runs)})", difference, ", ".join(remarks)
