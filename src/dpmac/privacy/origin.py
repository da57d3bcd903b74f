"""Where something that looks public came from: a network, a front or a threshold that private rows have shaped.

Whatever leaves a release is public in the sense of its ledger, and of no other: used again on the same rows under an
empty ledger, it would make a statement too small. So what is made of released numbers carries the names of the
releases (every entry of a ledger has the name of its run), and whoever asks rows anew with it compares: the ledger in
use must hold them (:func:`check_origin`). Copies, pickles, files and ``state_dict`` keep it. A bare tensor cannot: what
is rebuilt from numbers by hand has no origin, and is taken for public.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor, nn

from dpmac.checks import ArgumentError
from dpmac.privacy.accounting import Mechanism, epsilon_of, merged

if TYPE_CHECKING:
    from dpmac.privacy.entry import Entry
    from dpmac.privacy.ledger import Ledger

_KEY = "dpmac.origin"  # in a state_dict's metadata
_MOST = 10_000  # objects that are looked into
_BARE = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, Tensor, np.ndarray, BuiltinFunctionType)
_BOOKS = ("dpmac.privacy.ledger", "dpmac.privacy.entry", "dpmac.privacy.chain")  # books of releases
_EMPTY = CellType()  # a variable that a function closes over and that has no value yet
Runs = Mapping[str, tuple[Mechanism, ...]]
_HELD: WeakKeyDictionary[Ledger, set[Origin]] = WeakKeyDictionary()  # what a ledger was found to hold


@dataclass(frozen=True)
class Origin:
    """The releases that have shaped something: for each run of a ledger, what was released until then.

    Equal to another by value, and falsy if no release is known. ``declared`` are reasons, given by the user, why
    something that was shaped is public with respect to the rows to come (:meth:`Shaped.as_public`).
    """

    runs: tuple[tuple[str, tuple[Mechanism, ...]], ...] = ()
    declared: tuple[str, ...] = ()

    @classmethod
    def of(cls, ledger: Ledger, *before: Origin) -> Origin:
        """Everything that ``ledger`` holds now (what is more than needed costs nothing), and what ``before`` had."""
        counts = Counter((_name(e), e.noise_multiplier, e.sample_rate, e.label, e.overflow) for e in ledger.entries)
        found: dict[str, list[Mechanism]] = {}
        for (run, noise, rate, label, overflow), count in counts.items():
            found.setdefault(run, []).append(Mechanism(noise, rate, count, label, overflow))
        return cls.together(cls(_sorted({run: tuple(made) for run, made in found.items()})), *before)

    @classmethod
    def together(cls, *origins: Origin) -> Origin:
        """All that any of them knows."""
        runs: dict[str, tuple[Mechanism, ...]] = {}
        for run, made in (item for origin in origins for item in origin.runs):
            if _count(made) > _count(runs.get(run, ())):  # a run is only ever added to: more of it holds the less
                runs[run] = made
        return cls(_sorted(runs), tuple(dict.fromkeys(why for origin in origins for why in origin.declared)))

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __len__(self) -> int:
        """The number of releases."""
        return sum(_count(made) for _, made in self.runs)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        return merged(m for _, made in self.runs for m in made)

    def within(self, ledger: Ledger) -> bool:
        """Whether ``ledger`` holds all of these releases. (Once it does, it always will: that is remembered.)"""
        book: Ledger = getattr(ledger, "_whole", ledger)  # of a run that makes its releases again, the one it is of
        known = _HELD.setdefault(book, set())
        if self not in known:
            held = Counter(_name(entry) for entry in book.entries)
            if not all(held[run] >= _count(made) for run, made in self.runs):
                return False
            known.add(self)
        return True

    def called_public(self, why: str) -> Origin:
        """No release at all, on the user's word."""
        if not isinstance(why, str) or not why.strip():
            raise ArgumentError("why", why, "say why no row to come has shaped it, such as 'rows of other people'")
        return Origin(declared=(*self.declared, " ".join(why.split()).rstrip(".;")))

    def notes(self) -> tuple[str, ...]:
        """For a statement: what it takes on the user's word."""
        return tuple(f"what had shaped the model before, which the user called public: {why};" for why in self.declared)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a file's header."""
        return {"runs": {run: [asdict(m) for m in made] for run, made in self.runs}, "declared": list(self.declared)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any] | None) -> Origin:
        """What :meth:`to_dict` wrote; None for files that know of none."""
        if raw is None:
            return cls()
        runs = {str(run): merged(Mechanism(**one) for one in made) for run, made in raw["runs"].items()}
        return cls(_sorted(runs), tuple(str(why) for why in raw["declared"]))


PUBLIC = Origin()


class Shaped(nn.Module):
    """A module that knows its :class:`Origin`: PUBLIC, unless it was made of released numbers."""

    origin: Origin = PUBLIC

    def as_public(self, why: str) -> Self:
        """A copy that is public to the rows to come, on your word: ``why``, such as "trained on rows of other people".

        The word goes into the statement of whatever is trained from it, among what the guarantee does not cover. If any
        of the rows to come have shaped it, the statement's epsilon is too small.
        """
        known = origin_of(self).called_public(why)
        copied = copy.deepcopy(self)
        for module in copied.modules():
            if isinstance(module, Shaped):
                module.origin = PUBLIC
        copied.origin = known
        return copied

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[no-untyped-call]
        if self.origin != PUBLIC and hasattr(destination, "_metadata"):  # beside the weights: the keys stay torch's
            destination._metadata.setdefault(prefix[:-1], {})[_KEY] = json.dumps(self.origin.to_dict())

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *more: Any) -> None:
        if _KEY in local_metadata:
            self.origin = Origin.together(self.origin, Origin.from_dict(json.loads(local_metadata[_KEY])))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *more)  # type: ignore[no-untyped-call]


def origin_of(*things: Any) -> Origin:
    """What has shaped any of these, and all that they hold: modules, objects, lists, what functions close over.

    What is a bare tensor, or hidden in a variable of a program's own, is not found.
    """
    found: list[Origin] = []
    seen: dict[int, Any] = {}  # by id, and kept, so that none is used twice
    waiting = list(things)
    while waiting and len(seen) < _MOST:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _BARE) or type(thing).__module__ in _BOOKS:
            continue
        seen[id(thing)] = thing
        mine = getattr(thing, "origin", None)
        found += [mine] if isinstance(mine, Origin) else []
        waiting += _held_by(thing)
    return Origin.together(*found)


def _held_by(thing: Any) -> list[Any]:
    if hasattr(thing, "fetch"):  # a store holds rows, not what shapes them, and reading it takes long
        return []
    if isinstance(thing, list | tuple | set | frozenset):
        return [*thing, *getattr(thing, "__dict__", {}).values()]
    if isinstance(thing, Mapping):
        return list(thing.values())
    if isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if cell != _EMPTY]
        return [*cells, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    if isinstance(thing, MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, nn.Module):
        return [*thing.children(), *(v for k, v in vars(thing).items() if k not in ("_parameters", "_buffers"))]
    return list(getattr(thing, "__dict__", {}).values())


def check_origin(ledger: Ledger, delta: float | None = None, **things: Any) -> None:
    """Raise :class:`ArgumentError` for the first of ``things`` that releases have shaped which ``ledger`` lacks."""
    for name, thing in things.items():
        origin = origin_of(thing)
        if origin and not origin.within(ledger):
            cost = "" if delta is None else f", epsilon {epsilon_of(origin.mechanisms(), delta):.4g} at delta {delta:g}"
            fix = (
                f"private rows have shaped it ({len(origin)} releases{cost}), and the ledger does not hold that: pass "
                "the ledger that does (ledger=run.ledger, and plan with before=run.ledger.mechanisms()), or start from "
                f"fresh numbers. If they were rows of other people, say so: {name}.as_public('rows of other people')"
            )
            raise ArgumentError(name, f"<{type(thing).__name__}>", fix)


def _name(entry: Entry) -> str:
    """What an entry is told apart by: its run, or where a file of version 0.2 names none, what it says of itself."""
    if entry.run:
        return entry.run
    said = (entry.mechanism().describe(), entry.date[:10], entry.purpose, entry.model)
    return f"unnamed {hashlib.sha256(repr(said).encode()).hexdigest()[:16]}"


def _count(made: tuple[Mechanism, ...]) -> int:
    return sum(m.count for m in made)


def _sorted(runs: Runs) -> tuple[tuple[str, tuple[Mechanism, ...]], ...]:
    return tuple(sorted(runs.items(), key=lambda item: item[0]))
