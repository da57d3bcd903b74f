"""What only whoever trained a model knows: whether hyper-parameters were searched, and where public ranges came from.

No program can find out either. So both are asked, the answers are kept with the model, and they stand among what the
guarantee does not cover, as somebody's word. That nobody has answered stands there as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dpmac.checks import ArgumentError, public_text
from dpmac.privacy import Ledger
from dpmac.privacy.statement import noun
from dpmac.tables import Schema

SEARCHED_PRIVATELY = (
    "other searches of hyper-parameters: the private search that chose this model is an entry of this ledger, and the "
    "figure covers it;"
)
NOBODY_SAID = "whether hyper-parameters were searched was asked, and nobody has answered;"
SEARCHED: Mapping[str, str] = {
    "no": "hyper-parameters were not searched, on the caller's word: they are the defaults, or were set beforehand;",
    "public": (
        "hyper-parameters were searched on public rows, or on rows of other people, on the caller's word that these "
        "hold nobody of the rows trained on;"
    ),
    "ledger": (
        "hyper-parameters were searched on the rows trained on, and every trial was paid for in this ledger, on the "
        "caller's word that none is missing ({others});"
    ),
    "private": (
        "HYPER-PARAMETERS WERE SEARCHED on the rows trained on, and the trials are not in this ledger: what their "
        "choice tells of a {one} is not covered by the figure at all;"
    ),
}
"""The answers, and the line that each adds to a statement's list of what is not covered."""
CHOICES = ", ".join(SEARCHED)
_UNKNOWN = f"say whether hyper-parameters were searched: one of {CHOICES} (dpmac train --help explains them)"


@dataclass(frozen=True)
class Declared:
    """The answers; None where nobody has answered. ``ranges_from`` names a source, such as a code book."""

    searched: str | None = None
    ranges_from: str | None = None

    def __post_init__(self) -> None:
        if self.searched is not None and self.searched not in SEARCHED:
            raise ArgumentError("searched", self.searched, _UNKNOWN)
        if self.ranges_from is not None:
            text = public_text("ranges_from", self.ranges_from, "name the source, such as 'code book of 2024, page 12'")
            object.__setattr__(self, "ranges_from", text)

    def __bool__(self) -> bool:
        return self != Declared()

    def to_dict(self) -> dict[str, str]:
        """Plain values for JSON: the answers that were given."""
        return {name: text for name, text in asdict(self).items() if text is not None}

    @classmethod
    def from_dict(cls, raw: Any) -> Declared:
        """Read what :meth:`to_dict` wrote; a ValueError says what is wrong."""
        known = {field.name for field in fields(cls)}
        if not isinstance(raw, Mapping) or not set(raw) <= known:
            raise ValueError(f"it is no object with the keys {', '.join(sorted(known))}")
        return cls(**raw)

    def over(self, before: Declared) -> Declared:
        """These answers, and those of ``before`` where there is none here."""
        return Declared(self.searched or before.searched, self.ranges_from or before.ranges_from)


def declared_notes(declared: Declared, schema: Schema | None, ledger: Ledger, feature_range: Any) -> tuple[str, ...]:
    """The lines that the answers add to what is not covered: of hyper-parameters one, of ranges those that apply."""
    return _on_search(declared, ledger), *_on_ranges(declared, schema, ledger, feature_range)


def _on_search(declared: Declared, ledger: Ledger) -> str:
    if declared.searched is None:
        return NOBODY_SAID
    if declared.searched == "ledger" and any(entry.search is not None for entry in ledger.entries):
        return SEARCHED_PRIVATELY
    last = ledger.entries[-1].run if len(ledger) else ""
    others = sum(entry.run != last for entry in ledger.entries)
    held = f"it holds {others:,} releases of other runs"
    if not others:
        held = "but it holds no release of another run"
    return SEARCHED[declared.searched].format(others=held, one=noun(ledger.unit))


def _on_ranges(declared: Declared, schema: Schema | None, ledger: Ledger, feature_range: Any) -> list[str]:
    """Where ranges and values came from: estimated and paid for, a code book, or the caller's word alone."""
    if schema is None and feature_range is None:
        return []
    what = "ranges and values of the columns"
    if schema is None:
        what = "the range of the columns (feature_range)"
    if schema is not None and schema.origin:
        count = len(schema.origin)
        releases = "one release"
        if count > 1:
            releases = f"{count:,} releases"
        paid = f"estimated ranges of columns were paid for in this ledger ({releases})"
        if not schema.origin.within(ledger):
            paid = f"estimated ranges of columns were paid for in ANOTHER ledger ({releases}), and not in this one"
        return [f"{paid}; {_source('values that were listed', declared)}"]
    said = _source(what, declared)
    if schema is not None and schema.origin.declared:
        said = (
            said.removesuffix(";") + f"; they were estimated, and called public: {'; '.join(schema.origin.declared)};"
        )
    return [said]


def _source(what: str, declared: Declared) -> str:
    if declared.ranges_from is None:
        return f"{what} are public on the caller's word, and nobody has said where they came from;"
    return f"{what} come from “{declared.ranges_from}”, and not from the rows, on the caller's word;"
