"""Where something that looks public came from: a network, a feature map or a threshold that private rows have shaped.

Whatever leaves a release is public in the sense of its ledger, and of no other: used again on the same rows under an
empty ledger, it would make a statement too small. So what is made of released numbers carries the names of the
releases (every entry of a ledger has the name of its run). The trainer, the estimators and the methods compare before
they ask rows: the ledger in use must hold them (:func:`check_origin`); :func:`release` by itself does not look into a
query. Copies, pickles, files and ``state_dict`` keep it. A bare tensor cannot: what
is rebuilt from numbers by hand has no origin, and is taken for public.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from torch import nn

from dpmac.checks import ArgumentError
from dpmac.extensions.contents import held_by, is_inert, is_opaque, module_of
from dpmac.privacy.accounting import Mechanism, epsilon_of, merged

if TYPE_CHECKING:
    from dpmac.privacy.entry import Entry
    from dpmac.privacy.ledger import Releases

_KEY = "dpmac.origin"  # in a state_dict's metadata
_MOST = 100_000  # objects of one thing that are looked into
_BOOKS = tuple(  # modules of books of releases
    f"dpmac.{name}" for name in ("extensions.ledgers", "privacy.ledger", "privacy.entry", "extensions.ledger_file")
)
Runs = Mapping[str, tuple[Mechanism, ...]]
_HELD: WeakKeyDictionary[Releases, set[Origin]] = WeakKeyDictionary()  # what a ledger was found to hold


@dataclass(frozen=True)
class Origin:
    """The releases that have shaped something: for each run of a ledger, what was released until then.

    Equal to another by value, and falsy if no release is known. ``declared`` are reasons, given by the user, why
    something that was shaped is public with respect to the rows to come (:meth:`Shaped.as_public`). ``unseen`` are the
    classes of objects that took part and could not be looked into.
    """

    runs: tuple[tuple[str, tuple[Mechanism, ...]], ...] = ()
    declared: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @classmethod
    def of(cls, ledger: Releases, *before: Origin | None) -> Origin:
        """Everything that ``ledger`` holds now (what is more than needed costs nothing), and what ``before`` had."""
        counts = Counter((_name(e), e.noise_multiplier, e.sample_rate, e.label, e.overflow) for e in ledger.entries)
        found: dict[str, list[Mechanism]] = {}
        for (run, noise, rate, label, overflow), count in counts.items():
            found.setdefault(run, []).append(Mechanism(noise, rate, count, label, overflow))
        return cls.merged(cls(_sorted({run: tuple(made) for run, made in found.items()})), *before)

    def check(self, ledger: Releases) -> None:
        """Raise :class:`ArgumentError` unless ``ledger`` holds these releases."""
        check_origin(ledger, feature_map=self)

    @classmethod
    def merged(cls, *known: Origin | None) -> Origin:
        """All that any of them knows."""
        origins = [origin for origin in known if origin is not None]
        runs: dict[str, tuple[Mechanism, ...]] = {}
        for run, made in (item for origin in origins for item in origin.runs):
            if _count(made) > _count(runs.get(run, ())):  # a run is only ever added to: more of it holds the less
                runs[run] = made
        declared = dict.fromkeys(why for origin in origins for why in origin.declared)
        unseen = dict.fromkeys(kind for origin in origins for kind in origin.unseen)
        return cls(_sorted(runs), tuple(declared), tuple(unseen))

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __len__(self) -> int:
        """The number of releases."""
        return sum(_count(made) for _, made in self.runs)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        return merged(m for _, made in self.runs for m in made)

    def within(self, ledger: Releases) -> bool:
        """Whether ``ledger`` holds all of these releases. (Once it does, it always will: that is remembered.)"""
        book = _whole(ledger)
        known = _HELD.setdefault(book, set())
        if self not in known:
            if self.beyond(book):
                return False
            known.add(self)
        return True

    def beyond(self, ledger: Releases) -> Origin:
        """The runs of which ``ledger`` lacks a release."""
        held = Counter(_name(entry) for entry in _whole(ledger).entries)
        return Origin(tuple((run, made) for run, made in self.runs if held[run] < _count(made)))

    def called_public(self, why: str) -> Origin:
        """No release at all, on the user's word."""
        if not isinstance(why, str) or not why.strip():
            raise ArgumentError("why", why, "say why no row to come has shaped it, such as 'rows of other people'")
        return Origin(declared=(*self.declared, " ".join(why.split()).rstrip(".;")))

    def notes(self) -> tuple[str, ...]:
        """For a statement: what it takes on the user's word."""
        said = [f"what had shaped the model before, which the user called public: {why};" for why in self.declared]
        hidden = "which took part and could not be looked into: private rows may have shaped it before;"
        return (*said, *(f"what an object of {kind} holds, {hidden}" for kind in self.unseen))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a file's header."""
        runs = {run: [asdict(m) for m in made] for run, made in self.runs}
        unseen = {"unseen": list(self.unseen)} if self.unseen else {}
        return {"runs": runs, "declared": list(self.declared), **unseen}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any] | None) -> Origin:
        """What :meth:`to_dict` wrote; None for files that know of none."""
        if raw is None:
            return cls()
        runs = {str(run): merged(Mechanism(**one) for one in made) for run, made in raw["runs"].items()}
        declared, unseen = ([str(item) for item in items] for items in (raw["declared"], raw.get("unseen", ())))
        return cls(_sorted(runs), tuple(declared), tuple(unseen))


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
            self.origin = Origin.merged(self.origin, Origin.from_dict(json.loads(local_metadata[_KEY])))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *more)  # type: ignore[no-untyped-call]


def mark(module: nn.Module, origin: Origin) -> None:
    """Say that these releases have shaped ``module`` and all modules in it, each of which may be used elsewhere.

    A module that is not ours keeps it under a name of ours. Copies and pickles keep it; its ``state_dict`` does not.
    """
    if isinstance(module, Shaped):
        module.origin = origin
        return
    for part in module.modules():
        if isinstance(part, Shaped):
            part.origin = origin
        else:
            part.dpmac_origin = origin  # type: ignore[assignment]


def as_public(module: nn.Module, why: str) -> nn.Module:
    """A copy of any module that is public to the rows to come, on your word: see :meth:`Shaped.as_public`."""
    if isinstance(module, Shaped):
        return module.as_public(why)
    known = origin_of(module).called_public(why)
    copied = copy.deepcopy(module)
    mark(copied, known)
    return copied


def origin_of(*things: Any, name: str = "thing") -> Origin:
    """What has shaped any of these, and all that they hold (:mod:`dpmac.extensions.contents`).

    What cannot be looked into is named in ``unseen``. A bare tensor, a file, and a variable that is looked up by a name
    made at run time (``globals()[...]``) tell nothing. Raises :class:`ArgumentError`, under ``name``, for a thing that
    holds too many objects to look at all of them.
    """
    seen: dict[int, Any] = {}  # by id, and kept, so that no id is used twice
    return Origin.merged(*(found for thing in things for found in _origins_in(thing, seen, name)))


def _origins_in(thing: Any, seen: dict[int, Any], name: str) -> list[Origin]:
    found: list[Origin] = []
    waiting, most = [thing], len(seen) + _MOST
    while waiting:
        one = waiting.pop()
        kind: Any = type(one)
        if id(one) in seen or is_inert(kind) or module_of(kind) in _BOOKS:
            continue
        if len(seen) >= most:
            fix = (
                f"it holds more than {_MOST:,} objects, too many to find out whether private rows have shaped one of "
                "them: keep numbers in tensors or arrays, each of which is one object, and leave out what is not used"
            )
            raise ArgumentError(name, f"<{type(thing).__name__}>", fix)
        seen[id(one)] = one
        if kind is Origin:
            found.append(one)
        if is_opaque(kind):
            found.append(Origin(unseen=(f"{module_of(kind)}.{kind.__qualname__}",)))
        waiting += held_by(one)
    return found


def check_origin(ledger: Releases, delta: float | None = None, **things: Any) -> Origin:
    """What has shaped ``things``; :class:`ArgumentError` for the first that releases have shaped which ``ledger``
    lacks, or that holds too much to be looked through."""
    known = {name: origin_of(thing, name=name) for name, thing in things.items()}
    for name, origin in known.items():
        if origin and not origin.within(ledger):
            cost = "" if delta is None else f", epsilon {epsilon_of(origin.mechanisms(), delta):.4g} at delta {delta:g}"
            own = name if hasattr(type(things[name]), "as_public") else "the network, feature map or schema in it"
            said = f"{own}.as_public('rows of other people')"
            if isinstance(things[name], nn.Module) and not isinstance(things[name], Shaped):
                said = f"dpmac.modules.as_public({name}, 'rows of other people')"
            fix = (
                f"private rows have shaped it ({len(origin)} releases{cost}), and the ledger does not hold that: pass "
                "the ledger that does (ledger=run.ledger, and plan with before=run.ledger.mechanisms()), or start from "
                f"fresh numbers. If they were rows of other people, say so: {said}"
            )
            raise ArgumentError(name, f"<{type(things[name]).__name__}>", fix)
    return Origin.merged(*known.values())


def _whole(ledger: Releases) -> Releases:
    """Of a run that makes its releases again, the ledger that it is of."""
    book: Releases = getattr(ledger, "_whole", ledger)
    return book


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
