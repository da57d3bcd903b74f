"""Edits of a fitted additive model: terms made monotone, set or removed, by whom, when and why; and taken back.

An edit changes released numbers, so it costs no privacy and epsilon stays what it was: the guarantee holds for whatever
is made of a release without another look at the rows. Whoever looks at private rows to choose an edit puts what they
saw into the model, and no guarantee covers that; the statement says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Literal

import numpy as np
import torch

from dpmac.checks import ArgumentError, number, public_text
from dpmac.estimators.guarantee import Privacy
from dpmac.estimators.monotone import checked_directions, monotone_values
from dpmac.estimators.terms import AdditiveModel
from dpmac.nets import Network
from dpmac.tables import TermEncoder
from dpmac.tables.kinds import Array
from dpmac.tables.terms import Block
from dpmac.tables.texts import did_you_mean

ACTIONS = {"monotone": "made monotone", "set": "changed by hand", "remove": "removed"}
EDITED = "the choice of edits:"  # how the statement's line on them begins
MOST = 1_000  # edits of a model
LARGEST = 1e9  # of a value that is set by hand


@dataclass(frozen=True, eq=False)
class Edit:
    """One edit: what was done to which ``terms``, by ``who``, on the day ``when``, and ``why``. ``before`` has the
    terms' values as they were (outputs, points), which :meth:`Edited.undo` puts back."""

    action: Literal["monotone", "set", "remove"]
    terms: tuple[str, ...]
    who: str
    when: str
    why: str
    before: tuple[Array, ...]

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ArgumentError("action", self.action, f"choose one of {', '.join(ACTIONS)}")
        object.__setattr__(self, "who", public_text("who", self.who, "say who edits, such as 'A. Mills, actuary'"))
        object.__setattr__(self, "why", public_text("why", self.why, "say why, such as 'no effect is plausible'"))
        date.fromisoformat(self.when)
        if len(self.terms) != len(self.before) or not all(isinstance(name, str) for name in self.terms):
            raise ArgumentError("terms", self.terms, "each needs its values from before")

    def sentence(self) -> str:
        """The edit in words: half a sentence."""
        names = ", ".join(repr(name) for name in self.terms)
        return f"{names} {ACTIONS[self.action]} by {self.who} on {self.when}: {self.why}"


class Edited:
    """A fitted estimator whose terms can be edited. Nothing here looks at a row, or releases anything."""

    edits_: tuple[Edit, ...]
    network_: Network
    feature_map_: Any
    privacy_: Privacy
    term_noise_: Any

    # --- editing ------------------------------------------------------------------------------------------------------

    def make_monotone(self, directions: Mapping[str, int], *, who: str, why: str) -> Any:
        """Project terms so that the prediction never falls (+1) or rises (-1) with these columns, as ``monotone`` does
        in a fit. Pairs with them are projected as well."""
        encoder, values = self._encoded(), self._values()
        known = checked_directions(encoder.schema, directions)
        if not known:
            raise ArgumentError("directions", directions, 'name a column at least, such as {"age": +1}')
        if self._additive_model().link == "softmax":
            raise ArgumentError("directions", directions, "of more than two classes no term makes a probability rise")
        names = [b.term for b in encoder.blocks if any(axis.column in known for axis in b.axes)]
        return self._edit("monotone", names, monotone_values(values, encoder, known), who, why)

    def set_term(self, name: str, values: Any, *, who: str, why: str) -> Any:
        """Give points of a term other values: a dict of points, by label or knot (of a pair by two of them), or the
        values of all points of its first part, as ``terms()[name].values`` has them. A part of a date's is named
        "month: Jan". Of several outputs each value is as many numbers."""
        encoder, model = self._encoded(), self._additive_model()
        blocks = _blocks_of(encoder, name)
        own = np.array(model.values)
        if isinstance(values, Mapping):
            for point, value in values.items():
                own[:, _place_of(name, blocks, point)] = _checked(name, value, len(model.outputs))
        else:
            block = blocks[0]
            wanted = terms_shape(block, len(model.outputs))
            try:
                given = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                given = np.empty(0)
            if given.shape not in (wanted, wanted[: -1 if len(model.outputs) == 1 else None]):
                fix = f"give a dict of points, or numbers of shape {wanted}, as terms()[{name!r}].values has them"
                raise ArgumentError("values", np.shape(given) or type(values).__name__, fix)
            numbers = given.reshape(-1, len(model.outputs)).T
            if not (np.abs(numbers) <= LARGEST).all():
                raise ArgumentError("values", "a number that is not finite, or too large", "give finite numbers")
            own[:, block.start : block.stop] = numbers
        return self._edit("set", [name], self._from_outputs(own), who, why)

    def remove_term(self, name: str, *, who: str, why: str) -> Any:
        """Take a term out of the sum: it is zero everywhere, as it is on average over its points already."""
        values = self._values()
        for block in _blocks_of(self._encoded(), name):
            values[:, block.start : block.stop] = 0.0
        return self._edit("remove", [name], values, who, why)

    def undo(self) -> Any:
        """Take back the last edit, bit for bit, and forget it; also of a model that was loaded."""
        encoder = self._encoded()
        if not self.edits_:
            raise ArgumentError("edits_", 0, "nothing was edited since the fit: there is nothing to take back")
        *before, last = self.edits_
        values = self._values()
        for name, kept in zip(last.terms, last.before, strict=True):
            place = 0
            for block in _blocks_of(encoder, name):
                points = block.stop - block.start
                values[:, block.start : block.stop] = kept[:, place : place + points]
                place += points
        self._write_values(values)
        self._tell(tuple(before))
        return self

    def _edit(self, action: Any, names: Sequence[str], values: Array, who: str, why: str) -> Any:
        encoder, old, terms = self._encoded(), self._values(), tuple(dict.fromkeys(names))
        if len(self.edits_) >= MOST:
            raise ArgumentError("edits_", len(self.edits_), f"{MOST:,} are the most: take some back")
        kept = tuple(np.concatenate([old[:, b.start : b.stop] for b in _blocks_of(encoder, n)], axis=1) for n in terms)
        made = Edit(action, terms, who, datetime.now(UTC).date().isoformat(), why, kept)
        self._write_values(values)
        self._tell((*self.edits_, made))
        return self

    def _tell(self, edits: tuple[Edit, ...]) -> None:
        """Keep the edits, and name them in the statement's notes."""
        self.edits_ = edits
        notes = tuple(note for note in self.privacy_.notes if not note.startswith(EDITED))
        if edits:
            said = "; ".join(edit.sentence() for edit in edits)
            one = f"{EDITED} {said} (if anybody looked at private rows to choose them);"
            notes = (*notes, one)
        self.privacy_ = replace(self.privacy_, notes=notes)

    # --- the numbers --------------------------------------------------------------------------------------------------

    def _encoded(self) -> TermEncoder:
        """The inputs of the terms; an error for a model that is not additive."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "privacy_")
        if not isinstance(self.feature_map_, TermEncoder) or not hasattr(self, "edits_"):
            raise ArgumentError("additive", False, "this model is no sum of terms: fit one with additive=True")
        return self.feature_map_

    def _values(self) -> Array:
        """The weights of the points (units, points), of two classes with zeros first."""
        found: Array = np.array(self.network_.weight_layers[-1].matrix()[:, :-1].detach().cpu().numpy())
        return found

    def _write_values(self, values: Array) -> None:
        layer = self.network_.weight_layers[-1]
        with torch.no_grad():
            matrix = layer.matrix().clone()
            matrix[:, :-1] = torch.from_numpy(values).to(matrix)
            layer.write(matrix)

    def _additive_model(self) -> AdditiveModel:
        """The model in the units of its outputs."""
        encoder, layer = self._encoded(), self.network_.weight_layers[-1].matrix().detach().cpu().numpy()
        values, intercept, noise = layer[:, :-1], layer[:, -1], np.asarray(self.term_noise_)
        by_hand = frozenset(name for edit in self.edits_ if edit.action != "monotone" for name in edit.terms)
        classes = getattr(self, "classes_", None)
        if classes is None:
            low, high = self.target_range_  # type: ignore[attr-defined]
            half = (high - low) / 2
            name = (encoder.schema.target or "prediction",)
            shifted = (intercept + 1) * half + low
            return AdditiveModel(encoder, half * values, shifted, half * noise, name, "number", (low, high), by_hand)
        names, link = tuple(str(label) for label in classes), "softmax"
        if getattr(self, "_indicator", None) is not None:
            link = "labels"
        elif len(names) == 2:
            values, intercept, noise = values[1:], intercept[1:], noise[1:]
            names, link = names[1:], "logistic"
        return AdditiveModel(encoder, values, intercept, noise, names, link, None, by_hand)

    def _from_outputs(self, values: Array) -> Array:
        """Values in the units of the outputs as weights."""
        if not hasattr(self, "classes_"):
            low, high = self.target_range_  # type: ignore[attr-defined]
            return np.asarray(values * (2 / (high - low)))
        if len(values) < len(self._values()):
            return np.concatenate([np.zeros_like(values), values])
        return values


def terms_shape(block: Block, outputs: int) -> tuple[int, ...]:
    """The shape of a part's values."""
    return (*block.shape, outputs)


def _blocks_of(encoder: TermEncoder, name: str) -> list[Block]:
    found = [block for block in encoder.blocks if block.term == name]
    if not found:
        names = list(dict.fromkeys(block.term for block in encoder.blocks))
        raise ArgumentError("term", name, f"there are {names}{did_you_mean(str(name), names)}")
    return found


def _place_of(name: str, blocks: Sequence[Block], point: Any) -> int:
    """The place of a point among all, by its label, or by its knot."""
    for block in blocks:
        given = point
        if block.name and block.name != "missing":
            prefix = f"{block.name}: "
            if not isinstance(point, str) or not point.startswith(prefix):
                continue
            given = point.removeprefix(prefix)
        if len(block.axes) == 1:
            given = (given,)
        if isinstance(given, tuple) and len(given) == len(block.axes):
            places = [_along(axis, one) for axis, one in zip(block.axes, given, strict=True)]
            if None not in places:
                return block.start + int(np.ravel_multi_index([p for p in places if p is not None], block.shape))
    known = list(blocks[0].axes[0].labels)
    raise ArgumentError(f"values of {name!r}", point, f"it is no point of this term; its first axis has {known}")


def _along(axis: Any, point: Any) -> int | None:
    if isinstance(point, str):
        if point in axis.labels:
            return int(axis.labels.index(point))
        return None
    if axis.knots is None or isinstance(point, bool):
        return None
    near = np.flatnonzero(np.abs(axis.knots - float(point)) <= 1e-6 * np.maximum(1.0, np.abs(axis.knots)))
    if len(near) != 1:
        return None
    return int(near[0])


def _checked(name: str, value: Any, outputs: int) -> Array:
    numbers = np.atleast_1d(np.asarray(value, dtype=object))
    if numbers.shape != (outputs,):
        raise ArgumentError(f"values of {name!r}", value, f"give {outputs} numbers for each point, one for each output")
    fix = f"give finite numbers, of size {LARGEST:g} at most"
    return np.array([number(f"values of {name!r}", one, fix, low=-LARGEST, high=LARGEST) for one in numbers])
