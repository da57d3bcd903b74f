"""An estimator in several processes, each with its own rows: what they must agree on, and what they tell each other.

Arguments must be the same everywhere. A person's rows must be in one process, or the guarantee would be for a part of
them: processes compare keyed digests of ids, under a key that is drawn afresh for each fit. The set of classes, where
nobody has given it, is that of all rows; it is treated as public, as ever, and the statement says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpmac.checks import ArgumentError
from dpmac.privacy.world import World
from dpmac.randomness import SystemNoise
from dpmac.training.following import agreed

Array = np.ndarray[Any, Any]
OWN = {"world", "ledger", "checkpoint", "progress", "device", "random_state"}
"""Arguments that a process may have of its own: the leader's ledger, checkpoint and seed are those that count."""
_DIGEST = 16  # bytes: no two of all ids that there are share one by chance


def agree_on(world: World, estimator: Any) -> None:
    """Raise in every process unless all were given the same arguments."""
    if world.size > 1:
        given = {name: value for name, value in estimator.get_params(deep=False).items() if name not in OWN}
        agreed(world, {"the estimator": type(estimator).__name__, **given})


def check_whole(world: World, ids: Iterable[Any]) -> None:
    """Raise in every process if some person's rows, which ``ids`` tell (None is nobody), are in more than one."""
    different = {one.item() if isinstance(one, np.generic) else one for one in ids if one is not None}
    world.agree("the kind of groups", sorted({type(one).__name__ for one in different}))
    key = bytes.fromhex(world.leaders(SystemNoise().uniform(4).numpy().tobytes().hex()))
    mine = "".join(hashlib.blake2b(repr(one).encode(), digest_size=_DIGEST, key=key).hexdigest() for one in different)
    theirs = world.everyone(mine)
    width = 2 * _DIGEST
    every = [text[start : start + width] for text in theirs for start in range(0, len(text), width)]
    if len(set(every)) < len(every):
        fix = "some persons have rows in more than one, and the guarantee is for all rows of a person: give them to one"
        raise ArgumentError("groups", f"{world.size} processes", fix)


def all_classes(world: World, y: Array, known: Any = None) -> Any:
    """The classes that are ``known``, or those that stand in the rows of all processes; None with this one alone."""
    if world.size == 1 or known is not None:
        return known
    kind = "text" if y.dtype.kind in "UO" else y.dtype.kind
    world.agree("the kind of y", kind)
    try:
        mine = [_plain(one) for one in np.unique(y).tolist()]
    except TypeError:
        mine = None
    every = world.everyone(mine)
    if None in every:
        raise ArgumentError("classes", None, "labels of this kind cannot be compared between processes: give classes")
    found = sorted({one for few in every for one in few})
    return np.array(found, dtype=None if y.dtype.kind == "U" else y.dtype)


def _plain(label: Any) -> Any:
    if not isinstance(label, str | int | float):
        raise TypeError(type(label).__name__)
    return label
