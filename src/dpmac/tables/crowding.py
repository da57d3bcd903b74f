"""Categories with more values than a budget supports: a warning that follows from public numbers alone.

Every value has weights of its own, and the noise on them is the same however few rows have the value. So the noise
hides rare values. As a rule of thumb a value needs 40 rows (or persons) times epsilon: about 10 of what
:mod:`dpmac.training.defaults` calls clarity.
"""

from __future__ import annotations

from dpmac.checks import how_many
from dpmac.tables.schema import Schema

EACH = 40.0  # rows times epsilon that a value wants
FEW = 50  # values that are always taken as they are
FIX = (
    "list the commonest alone, by public knowledge; cut them (kind prefix), or put them into buckets (kind hash); or "
    "take the column out, and compare on public rows"
)


class CrowdedWarning(UserWarning):
    """A category has more values than its budget supports: the weights of most are noise."""


def crowded(schema: Schema, n: int, epsilon: float) -> dict[str, int]:
    """The features with too many values for ``n`` rows or persons at ``epsilon``, and how many they have."""
    heard = max(FEW, n * epsilon / EACH)
    apart = {
        name: len(column.examples(1))
        for name, column in schema.features.items()
        if not column.ordered and not column.dense
    }
    return {name: count for name, count in apart.items() if count > heard}


def crowding(schema: Schema, n: int, epsilon: float, one: str) -> str | None:
    """What to say of them; None if there are none. ``one`` is the unit, "row" or "person"."""
    found = crowded(schema, n, epsilon)
    if not found:
        return None
    names = ", ".join(f"{name!r} has {count:,}" for name, count in found.items())
    heard = max(FEW, int(n * epsilon / EACH))
    return f"many values: {names}, and {how_many(n, one)} at epsilon {epsilon:g} can teach about {heard:,}: {FIX}"
