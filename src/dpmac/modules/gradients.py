"""Every row's gradient of every trainable parameter of a module, as parts for a release.

How it is found is settled on made-up rows, before any private row is read (:meth:`RowGradients.of`):

1. *Which calls use which parameters*: two blocks of different lengths go through the module. A call can be tapped
   (:mod:`dpmac.modules.taps`) if the length of its output is the same whole multiple of the number of rows in both.
2. *What the taps do not see*: a parameter to which autograd still finds a way is used elsewhere, too. It is left to
   :mod:`dpmac.modules.whole_rows`, with all its uses.
3. *Whether it is right*: every row's gradients are compared with those of autograd for that row alone. A parameter
   whose taps disagree is left to ``whole_rows`` as well (its entries are not in the order of the rows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpmac.kernels.built import BuiltPart
from dpmac.kernels.gathering import Columns
from dpmac.modules.rules import RULES
from dpmac.modules.shares import Positions, part_of, shape_of
from dpmac.modules.taps import Call, Watch
from dpmac.modules.task import Task, differentiating
from dpmac.modules.whole_rows import by_vmap, one_by_one
from dpmac.privacy.parts import Part

ALIKE = 1e-3  # of the largest gradient of a parameter: rounding is far below, and a wrong rule is far above
NOISE = 64  # units of rounding of the largest gradient of all: a gradient that is zero in truth comes to a few


@dataclass(frozen=True, eq=False)
class RowGradients:
    """``parts(*columns)`` gives one part for each trainable parameter, in their order; row n depends on row n alone."""

    task: Task
    plan: tuple[Call, ...]
    whole: tuple[str, ...] = ()  # parameters that are differentiated row by row
    vmapped: bool = True
    steady: bool = False  # whether forward passes change nothing of the module, so that it may be recorded

    @classmethod
    def of(cls, task: Task, few: Columns, more: Columns) -> RowGradients:
        """Settled on two blocks of made-up rows, of different lengths. Raises what the module raises for them."""
        lists = [_calls(task, block) for block in (few, more)]
        if [call.what for call in lists[0]] != [call.what for call in lists[1]]:
            raise RuntimeError("the module makes other calls for a block of another length")
        lengths = (few[0].shape[0], more[0].shape[0])
        plan = tuple(
            replace(one, each=_entries_each(one.length, other.length, lengths))
            for one, other in zip(*lists, strict=True)
        )
        found = cls(task, plan)
        found = replace(found, whole=tuple(found._used_elsewhere(few)))
        found = replace(found, whole=found._in_order({*found.whole, *found._disagreeing(few)}))
        return replace(found, vmapped=found._can_vmap(few))

    def parts(self, *columns: Tensor) -> list[Part]:
        """The unbounded parts of a block of rows."""
        parameters, rows = self.task.parameters, columns[0].shape[0]
        watch = self._passed(columns)
        shares = watch.collected()
        whole = self._whole(columns)
        parts: list[Part] = []
        for name, parameter in parameters.items():
            if name in whole:
                parts.append(BuiltPart(whole[name].reshape(rows, *shape_of(parameter))))
                continue
            found = shares.pop(name, [])
            # on a CPU they are built again, which costs some 3 % of a transformer's step and saves half of its memory
            to_build = parameter.is_cuda and any(isinstance(share, Positions) for share in found)
            keep = to_build and watch.taken(rows * parameter.numel())
            parts.append(part_of(parameter, found, rows, keep))
        return parts

    def _passed(self, columns: Columns) -> Watch:
        """The forward and the backward pass, which fire all taps."""
        parameters = self.task.parameters
        watch = Watch(RULES, parameters, columns[0].shape[0], self.plan, frozenset(self.whole))
        if len(self.whole) == len(parameters):
            return watch
        tapped = {name: p for name, p in parameters.items() if name not in self.whole}
        with differentiating():
            with watch:
                losses = self.task.losses(columns)
            wanted = [watch.anchor, *tapped.values()]
            found = torch.autograd.grad(losses, wanted, torch.ones_like(losses), allow_unused=True)
        for name, gradient in zip(tapped, found[1:], strict=True):
            if gradient is not None:
                raise RuntimeError(f"parameter {name!r} was used in another way than for made-up rows")
        return watch

    def _whole(self, columns: Columns) -> dict[str, Tensor]:
        """Gradients that no rule covers, in the module's own precision: torch's ``vmap`` and autocast do not mix."""
        exact = replace(self.task, autocast=None)
        if not self.whole:
            return {}
        if self.vmapped:
            return by_vmap(exact, self.whole, columns)
        return one_by_one(exact, self.whole, columns, total=True)

    def _used_elsewhere(self, columns: Columns) -> list[str]:
        """Parameters to which autograd finds a way beside the taps."""
        parameters = self.task.parameters
        watch = Watch(RULES, parameters, columns[0].shape[0], self.plan)
        with differentiating():
            with watch:
                losses = self.task.losses(columns)
            wanted = [watch.anchor, *parameters.values()]
            found = torch.autograd.grad(losses, wanted, torch.ones_like(losses), allow_unused=True)
        return [name for name, gradient in zip(parameters, found[1:], strict=True) if gradient is not None]

    def _disagreeing(self, columns: Columns) -> list[str]:
        """Parameters whose tapped gradients are not those of every row alone."""
        names = [name for name in self.task.parameters if name not in self.whole]
        if not names:
            return []
        watch = self._passed(columns)
        shares, rows = watch.collected(), columns[0].shape[0]
        alone = one_by_one(self.task, names, columns)
        noise = noise_of(alone)
        wrong = []
        for name in names:
            parameter = self.task.parameters[name]
            mine = part_of(parameter, shares.get(name, []), rows).explicit()
            if not alike(mine, alone[name].reshape(mine.shape), noise):
                wrong.append(name)
        return wrong

    def _can_vmap(self, columns: Columns) -> bool:
        """Whether ``vmap`` works for this module, and gives what autograd does."""
        if not self.whole:
            return True
        try:
            quick = by_vmap(self.task, self.whole, columns)
        except Exception:  # whatever torch cannot vectorise; then it is done row after row
            return False
        slow = one_by_one(self.task, self.whole, columns)
        return all(alike(quick[name], slow[name], noise_of(slow)) for name in self.whole)

    def _in_order(self, names: set[str]) -> tuple[str, ...]:
        return tuple(name for name in self.task.parameters if name in names)


def alike(one: Tensor, other: Tensor, noise: float = 0.0) -> bool:
    """Whether two tensors are equal but for rounding, and for ``noise``; what is not finite must not be so in both."""
    a, b = one.double(), other.double()
    same = (a == b) | (~torch.isfinite(a) & ~torch.isfinite(b))
    allowed = ALIKE * _largest(b) + noise
    return bool((same | ((a - b).abs() <= allowed)).all())


def noise_of(gradients: Mapping[str, Tensor]) -> float:
    """What gradients that are zero in truth may come to by rounding, beside the largest of these."""
    if not gradients:
        return 0.0
    largest = max(_largest(gradient.double()) for gradient in gradients.values())
    return NOISE * torch.finfo(next(iter(gradients.values())).dtype).eps * largest


def _largest(values: Tensor) -> float:
    finite = torch.where(torch.isfinite(values), values.abs(), 0.0)
    return float(finite.max()) if values.numel() else 0.0


def _calls(task: Task, columns: Columns) -> Sequence[Call]:
    """The calls that use trainable parameters, for a block of made-up rows."""
    watch = Watch(RULES, task.parameters, columns[0].shape[0])
    with differentiating(), watch:
        task.losses(columns)
    return watch.calls


def _entries_each(one: int, other: int, rows: tuple[int, int]) -> int | None:
    """Entries of an output's first dimension for each row; None where its length does not follow the rows'."""
    whole = one % rows[0] == 0 and other % rows[1] == 0
    return one // rows[0] if whole and one // rows[0] == other // rows[1] > 0 else None
