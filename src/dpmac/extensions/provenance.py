"""The origin of things that look public: a network, a feature map or a threshold that was computed from private rows.

Released numbers are public with respect to the ledger of their release, and to no other: if they were used again on the
same rows with an empty ledger, the stated epsilon would be too small. So whatever is computed from released numbers
carries the names of the releases (every entry of a ledger has the name of its run). The trainer, the estimators and the
methods check before they access rows that the ledger in use contains these releases (:func:`check_origin`);
:func:`release` itself does not look into a query. Copies, pickles, files and ``state_dict`` keep the origin. A bare
tensor cannot: what is rebuilt from numbers by hand has no origin, and is treated as public.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from torch import nn

from dpmac.checks import ArgumentError, public_text
from dpmac.extensions.contents import held_by, is_inert, is_opaque, module_of
from dpmac.extensions.entries import mechanism_from
from dpmac.extensions.runs import counted, listed, released
from dpmac.kernels.moments import merged
from dpmac.kernels.selection import plain_of
from dpmac.privacy.accounting import Mechanism, epsilon_of

if TYPE_CHECKING:
    from dpmac.privacy.ledger import Releases

_KEY = "dpmac.origin"  # in a state_dict's metadata
_MOST = 100_000  # maximal number of objects that are inspected in one thing
_BOOKS = tuple(  # modules of ledgers, which are not inspected
    f"dpmac.{name}"
    for name in (
        *("extensions.ledgers", "extensions.split_ledgers", "extensions.ledger_file", "privacy.ledger"),
        "privacy.entry",
    )
)
_HELD: WeakKeyDictionary[Releases, set[Origin]] = WeakKeyDictionary()  # origins that a ledger is known to contain


@dataclass(frozen=True)
class Origin:
    """The releases that something was computed from: for each run of a ledger, the releases until then.

    Origins are compared by value; one without releases is falsy. ``declared`` are the user's reasons why something that
    was computed from private rows is public with respect to future rows (:meth:`Shaped.as_public`). ``unseen`` are the
    classes of objects that took part and could not be inspected.
    """

    runs: tuple[tuple[str, tuple[Mechanism, ...]], ...] = ()
    declared: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @classmethod
    def of(cls, ledger: Releases, *before: Origin | None) -> Origin:
        """All releases in ``ledger`` now (more than necessary does no harm), and those in ``before``."""
        return cls.merged(cls(listed(released(ledger))), *before)

    def check(self, ledger: Releases) -> None:
        """Raise :class:`ArgumentError` unless ``ledger`` contains these releases."""
        check_origin(ledger, feature_map=self)

    @classmethod
    def merged(cls, *known: Origin | None) -> Origin:
        """The union of several origins.

        Of each kind of release in a run, the larger count: a run only grows, so the longer list contains the shorter.
        Two splits may share the name of a run. Then nobody's rows were in both, and the larger count holds for either.
        """
        origins = [origin for origin in known if origin is not None]
        runs: dict[str, Counter[Mechanism]] = {}
        for run, made in (item for origin in origins for item in origin.runs):
            runs[run] = runs.get(run, Counter()) | counted(made)
        declared = dict.fromkeys(why for origin in origins for why in origin.declared)
        unseen = dict.fromkeys(kind for origin in origins for kind in origin.unseen)
        return cls(listed(runs), tuple(declared), tuple(unseen))

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __len__(self) -> int:
        """The number of releases."""
        return sum(m.count for _, made in self.runs for m in made)

    def mechanisms(self) -> tuple[Mechanism, ...]:
        return merged(m for _, made in self.runs for m in made)

    def within(self, ledger: Releases) -> bool:
        """Whether ``ledger`` contains all of these releases. (Once it does, it always will, so this is cached.)"""
        book = _whole(ledger)
        known = _HELD.setdefault(book, set())
        if self not in known:
            if self.beyond(book):
                return False
            known.add(self)
        return True

    def beyond(self, ledger: Releases) -> Origin:
        """The runs with releases that ``ledger`` lacks."""
        return self.missing_in(_whole(ledger))

    def of_other_splits(self, ledger: Releases) -> Origin:
        """The runs with releases that the data set's ledger holds and a split's does not: those of other splits."""
        nowhere = self.beyond(ledger).runs
        return Origin(tuple(one for one in self.missing_in(ledger).runs if one not in nowhere))

    def missing_in(self, ledger: Releases) -> Origin:
        """The runs with releases that are not among the ledger's own entries: of a split, its own and those of all.

        Every kind of release must be there as often, not only as many in number: a run's name may stand in two splits.
        """
        held = released(ledger)
        return Origin(tuple((run, made) for run, made in self.runs if counted(made) - held.get(run, Counter())))

    def called_public(self, why: str) -> Origin:
        """An origin without releases, declared public by the user."""
        text = public_text("why", why, "say why no row to come has shaped it, such as 'rows of other people'")
        return Origin(declared=(*self.declared, text))

    def notes(self) -> tuple[str, ...]:
        """Lines for a statement: what relies on the user's declarations."""
        said = [f"what had shaped the model before, which the user called public: {why};" for why in self.declared]
        hidden = "which took part and could not be looked into: private rows may have shaped it before;"
        return (*said, *(f"what an object of {kind} holds, {hidden}" for kind in self.unseen))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a file's header."""
        runs = {run: [plain_of(m) for m in made] for run, made in self.runs}
        raw: dict[str, Any] = {"runs": runs, "declared": list(self.declared)}
        if self.unseen:
            raw["unseen"] = list(self.unseen)
        return raw

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any] | None) -> Origin:
        """Read what :meth:`to_dict` wrote; None in files without an origin."""
        if raw is None:
            return cls()
        runs = {str(run): counted(map(mechanism_from, made)) for run, made in raw["runs"].items()}
        declared, unseen = ([str(item) for item in items] for items in (raw["declared"], raw.get("unseen", ())))
        return cls(listed(runs), tuple(declared), tuple(unseen))


PUBLIC = Origin()


class Shaped(nn.Module):
    """A module that knows its :class:`Origin`: PUBLIC, unless it was computed from released numbers."""

    origin: Origin = PUBLIC

    def as_public(self, why: str) -> Self:
        """A copy that you declare public for future rows; ``why`` is a reason: "trained on rows of other people".

        The reason appears in the statement of whatever is trained from the copy, among what the guarantee does not
        cover. If any of the future rows were used to compute it, the statement's epsilon is too small.
        """
        known = origin_of(self).called_public(why)
        copied = copy.deepcopy(self)
        for module in copied.modules():
            if isinstance(module, Shaped):
                module.origin = PUBLIC
            elif hasattr(module, "dpmac_origin"):
                module.dpmac_origin = PUBLIC  # type: ignore[assignment]
        copied.origin = known
        return copied

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[no-untyped-call]
        if self.origin != PUBLIC and hasattr(destination, "_metadata"):  # not among the keys, which are torch's
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
    """A copy of any module that you declare public to the rows to come: see :meth:`Shaped.as_public`."""
    if isinstance(module, Shaped):
        return module.as_public(why)
    known = origin_of(module).called_public(why)
    copied = copy.deepcopy(module)
    mark(copied, known)
    return copied


def origin_of(*things: Any, name: str = "thing") -> Origin:
    """The origin of these things and of everything that they hold (:mod:`dpmac.extensions.contents`).

    Objects that cannot be inspected are listed in ``unseen``. A bare tensor, a file and a variable that is looked up by
    a name computed at run time have none. Raises :class:`ArgumentError`, under ``name``, for a thing too large.
    """
    seen: dict[int, Any] = {}  # by id; the objects are kept alive so that no id is reused
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
        elif kind is dict and isinstance(one.get(_KEY), str):  # the metadata of a state_dict
            found.append(Origin.from_dict(json.loads(one[_KEY])))
        if is_opaque(kind):
            found.append(Origin(unseen=(f"{module_of(kind)}.{kind.__qualname__}",)))
        waiting += held_by(one)
    return found


def check_origin(ledger: Releases, delta: float | None = None, **things: Any) -> Origin:
    """The origin of ``things``; raises :class:`ArgumentError` for one that is too large, or of others' releases."""
    known = {name: origin_of(thing, name=name) for name, thing in things.items()}
    for name, origin in known.items():
        if origin and not origin.within(ledger):
            cost, own = "", "the network, feature map or schema in it"
            if delta is not None:
                cost = f", epsilon {epsilon_of(origin.mechanisms(), delta):.4g} at delta {delta:g}"
            if hasattr(type(things[name]), "as_public"):
                own = name
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


def check_split(ledger: Releases, origin: Origin) -> None:
    """Raise :class:`ArgumentError` if other splits have shaped a model that is to be made into a split's ledger.

    Its rows may be asked with what others have given. But the figure of its statement says nothing of the others' rows.
    """
    if origin.of_other_splits(ledger):
        fix = (
            "another split of the data set has shaped what this begins from, and this split's statement would leave "
            "that out: give the ledger of all rows, whose figure is for everybody, or start from fresh numbers"
        )
        raise ArgumentError("ledger", ledger, fix)


def _whole(ledger: Releases) -> Releases:
    """The underlying ledger of a run that repeats its releases, or of a split; otherwise the ledger itself."""
    book = ledger
    while (beneath := getattr(book, "_whole", None)) is not None:
        book = beneath
    return book
