"""Whether a module computes the same thing at every call, so that a GPU may replay its steps from a recorded graph.

A recorded step (:mod:`dpmac.kernels.recording`) runs none of the module's Python code: numbers that this code would
have changed since stay as they were. That is no matter of privacy: a replay computes what was recorded, row by row, and
measures every share as ever. But the training would be another one. So a module is recorded only if its forward passes
on made-up rows changed nothing of it, and anew whenever one of its settings has been changed from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from torch import Tensor, nn

from dpmac.modules.task import Task

_PLAIN = (bool, int, float, str, type(None))
_TENSORS = ("_parameters", "_buffers", "_modules")  # listed by the module itself


def settings_of(task: Task) -> tuple[object, ...]:
    """Everything that Python keeps in the module and the loss, but for numbers in tensors; equal if nothing changed.

    What other objects keep inside is not looked at, only which ones they are and how much they hold.
    """
    return tuple(_seen(value) for value in _attributes(task))


def tensors_of(task: Task) -> tuple[Tensor, ...]:
    """All tensors of the module and the loss: parameters, buffers, and those that are plain attributes."""
    plain = [value for value in _attributes(task) if isinstance(value, Tensor)]
    return (*task.module.parameters(), *task.module.buffers(), *plain)


def _attributes(task: Task) -> Iterator[Any]:
    pieces = [*task.module.modules()]
    if isinstance(task.loss, nn.Module):
        pieces += task.loss.modules()
    for piece in pieces:
        yield from (value for name, value in vars(piece).items() if name not in _TENSORS)


def _seen(value: Any) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Tensor):
        return value.data_ptr()
    return id(value), len(value) if isinstance(value, Sized) else None
