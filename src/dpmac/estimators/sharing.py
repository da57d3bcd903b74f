"""An estimator in several processes, each with its own rows: what they must agree on, and what they tell each other.

Arguments must be the same everywhere, and rows must not: a row that two processes have would stand in the table twice.
Digests of some rows are compared, under a key that is drawn afresh for each fit. (Of persons, see
:meth:`dpmac.privacy.Persons.whole_in`.) The set of classes, where nobody has given it, is that of all rows; it is
treated as public, as ever, and the statement says so.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.extensions.persons import shared_key
from dpmac.extensions.world import World
from dpmac.training.distributed_sync import agreed

Array = np.ndarray[Any, Any]
OWN = {"machine", "ledger", "random_state"}
"""Arguments that a process may have of its own: the leader's ledger, checkpoint and seed are those that count."""
SAME = ("micro_batch_size", "threads")  # of the machine: sums are rounded by how many numbers are added at a time
_SHOWN = 256  # rows that a process' part is known by


def agree_on(world: World, estimator: Any) -> None:
    """Raise in every process unless all were given the same arguments."""
    if world.size > 1:
        given = {name: value for name, value in estimator.get_params(deep=False).items() if name not in OWN}
        given |= {name: getattr(estimator._machine, name) for name in SAME}
        agreed(world, {"the estimator": type(estimator).__name__, **given})


def check_own_rows(world: World, few: Tensor) -> None:
    """Raise in every process if two were given the same rows: each row would then stand in the table twice.

    A table is known by some of its rows, in their order. That two parts of a table share all of them by chance takes
    rows that are all alike, and those are not compared.
    """
    if world.size == 1:
        return
    places = torch.linspace(0, len(few) - 1, min(len(few), _SHOWN), dtype=torch.float64)  # which has all whole numbers
    shown = few[places.long()].double().contiguous()
    mine = hashlib.blake2b(shown.cpu().numpy().tobytes(), key=shared_key(world)).hexdigest()
    told = f"{len(few)} {mine}"
    if bool((shown == shown[:1]).all()):  # rows that are all alike say nothing
        told = ""
    said = world.everyone(told)
    same = [rank for rank, one in enumerate(said) if one and said.count(one) > 1]
    if same:
        fix = "they were given the same rows: give each its own part, X[rank::size] or Files(path).part(rank, size)"
        raise ArgumentError("X", f"processes {same[0]} and {same[1]}", fix)


def all_classes(world: World, y: Array, known: Any = None) -> Any:
    """The classes that are ``known``, or those that stand in the rows of all processes; None with this one alone."""
    if world.size == 1 or known is not None:
        return known
    kind = y.dtype.kind
    if kind in "UO":
        kind = "text"
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
