"""The constructor's arguments in a folder's manifest, and how they come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpmac.estimators.machine import Machine
from dpmac.estimators.module_arguments import PREFIX
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.rows import OnRows
from dpmac.nets import Activation
from dpmac.privacy import Ledger
from dpmac.saving.module_model import name_of
from dpmac.saving.plain import OwnObjectError, packed, unpacked

OF_MACHINE = ("device", "micro_batch_size", "threads", "memory", "progress")
"""What is kept of the machine: not its processes, and no places of files, which are nobody's business."""


def arguments_of(estimator: OnRows) -> dict[str, Any]:
    """The arguments in plain values. An object of the user's own is kept by its name alone, and so is the place of the
    ledger. What the machine was told stands beside the others by its own name, as version 0.2 wrote it."""
    given: dict[str, Any] = estimator.get_params(deep=False)
    machine = given.pop("machine")
    if machine is not None:
        given |= {name: getattr(machine, name) for name in OF_MACHINE} | {"device": str(machine.device)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "module" and value is not None:
            found[name] = {"own": name_of(value)}
            continue
        if name == "ledger" and value is not None:
            found[name] = {"ledger": None}
            place = value
            if isinstance(value, Ledger):
                place = value.path
            if place is not None:
                found[name] |= {"name": Path(place).name}
            continue
        try:
            found[name] = packed(value)
        except OwnObjectError as error:
            found[name] = {"own": str(error)}
    return found


def arguments_from(kind: type[OnRows], raw: Mapping[str, Any], ledger: Ledger, own: Sequence[Activation]) -> Any:
    """The arguments; one that was kept by its name alone is a text, which ``fit`` will ask to replace.

    A ledger comes back as the folder's own copy, which refuses to record anything: whoever fits again names the file
    of the ledger to use. A path in a folder is never taken for one of this machine, whoever wrote it there.
    """
    known = {*kind._get_param_names(), *OF_MACHINE, "checkpoint"} - {"machine"}
    if issubclass(kind, ModuleEstimator):
        known |= {name for name in raw if name.startswith(PREFIX)}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise ValueError(f"{kind.__name__} has no argument {unknown[0]!r} in this version")
    named = {act.name: act for act in own}
    found: dict[str, Any] = {}
    for name, value in raw.items():
        match name, value:
            case "ledger", None:
                found[name] = None
            case "ledger", _:  # a name beside None; version 0.2 wrote the path
                found[name] = ledger
            case "checkpoint", _:
                pass  # version 0.2 wrote it; it was that run's, on another machine
            case "random_state", {"own": str()}:
                found[name] = None
            case _, {"own": str()} if name in OF_MACHINE:
                pass  # its default will do
            case _, {"own": str(text)}:
                found[name] = text
            case _:
                found[name] = unpacked(value, named)
    machine = {name: found.pop(name) for name in OF_MACHINE if name in found}
    if machine:
        found["machine"] = Machine(**machine)
    return found
