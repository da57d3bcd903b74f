"""Every row's gradient of a layer's weights, without hooks: calls of torch's functions are watched while a module runs.

A call such as ``F.linear(x, W, b)`` in which W is a trainable parameter is made with W detached, and its output goes
through :class:`Tap`, an identity whose backward pass notes the gradient of the output. The inputs and that gradient are
all that a rule (:mod:`dpmac.modules.rules`) needs to give every row's gradient of W. So autograd never computes a
gradient of weights, which would be summed over the rows; and nothing is put on the user's module, or left behind there.

Which calls are tapped is settled beforehand on made-up rows (:mod:`dpmac.modules.gradients`): a list of calls, each
with its function, its parameters and how many entries of its output's first dimension belong to one row. A block of
rows for which the module makes other calls is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dpmac.kernels.positions import KEPT_MEMORY
from dpmac.modules.shares import Share

ALL_PARTS = 1 << 30  # bytes of built shares of all parts together that are kept at a time
LOW = (torch.bfloat16, torch.float16)  # precisions in which a module may compute, but shares are never kept
Rule = Callable[..., Any]
Shares = Callable[[Tensor], Mapping[str, Share]]  # gradient of the output -> role of a parameter -> its share


def seen(input: Tensor, gradient: Tensor) -> Tensor:
    """An input of a call without its graph, in the precision of the gradient."""
    return input.detach().to(gradient.dtype)


def _device_of(parameters: Mapping[str, Tensor]) -> torch.device:
    return next((tensor.device for tensor in parameters.values()), torch.device("cpu"))


class Tap(torch.autograd.Function):
    """The identity, with a backward pass that notes the gradient. ``anchor`` makes the output part of the graph."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor, note: Callable[[Tensor], None]) -> Tensor:  # noqa: ARG004
        ctx.note = note
        ctx.mark_dirty(output)  # so that it is no copy, and no view: it may be changed in place afterwards
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        ctx.note(gradient)
        return gradient, None, None


@dataclass(frozen=True)
class Call:
    """One call that uses trainable parameters: ``names`` has the parameter in each role, or None."""

    function: str
    names: tuple[str | None, ...]
    length: int  # of the output's first dimension
    each: int | None = None  # entries of it that belong to one row; None: the call is not tapped

    @property
    def what(self) -> tuple[str, tuple[str | None, ...]]:
        return self.function, self.names

    def __str__(self) -> str:
        return f"{self.function}({', '.join(name for name in self.names if name)})"


@dataclass(eq=False)
class Tapped:
    """A call that was tapped: what it read, and the gradient of its output once that is known."""

    call: Call
    shares: Shares
    roles: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    versions: tuple[int, ...]
    gradient: list[Tensor] = field(default_factory=list)

    def found(self) -> Mapping[str, Share]:
        """The shares by role; nothing where no gradient came back. Raises if an input was changed since the call."""
        if not self.gradient:
            return {}
        if tuple(tensor._version for tensor in self.inputs) != self.versions:
            raise RuntimeError(
                f"an input of {self.call} was changed in place after the call, so its gradient is lost: make that "
                "operation one that gives a new tensor (x = x + y in place of x += y)"
            )
        gradient = self.gradient[0]
        if gradient.dtype in LOW:
            gradient = gradient.float()
        return self.shares(gradient)


class Watch(TorchFunctionMode):
    """Runs a module's calls by the rules. Without a ``plan`` it only lists them; with one it taps what that says."""

    def __init__(
        self,
        rules: Mapping[Any, Rule],
        parameters: Mapping[str, Tensor],
        rows: int,
        plan: Sequence[Call] | None = None,
        untapped: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self._rules, self._names = rules, {id(tensor): name for name, tensor in parameters.items()}
        self.rows, self._plan, self._untapped = rows, plan, untapped
        self.calls: list[Call] = []
        self.taps: list[Tapped] = []
        # on the device of the parameters: a copy from the CPU would wait for a GPU, and cannot be recorded
        self.anchor = torch.zeros((), device=_device_of(parameters), requires_grad=True)
        self.memory = ALL_PARTS

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = self._rules.get(func)
        if rule is None:
            return func(*args, **(kwargs or {}))
        return rule(self, func, *args, **(kwargs or {}))

    def name_of(self, tensor: Any) -> str | None:
        """The name of a trainable parameter; None for any other tensor."""
        return self._names.get(id(tensor))

    def knows(self, *tensors: Any) -> bool:
        """Whether one of them is a trainable parameter."""
        return any(id(tensor) in self._names for tensor in tensors)

    def run(
        self,
        function: str,
        parameters: Mapping[str, Tensor | None],
        compute: Callable[..., Tensor],
        shares: Shares,
        *inputs: Tensor,
    ) -> Tensor:
        """``compute(*parameters)``, tapped if the plan says so. ``shares`` reads ``inputs``, which must stay as they
        are until the gradients are known."""
        given = tuple(parameters.values())
        names = tuple(self.name_of(tensor) for tensor in given)
        if not any(names):
            return compute(*given)
        if self._plan is None:
            output = compute(*given)
            self.calls.append(Call(function, names, output.shape[0] if output.dim() else 0))
            return output
        call = self._next(function, names)
        tapped = [name is not None and name not in self._untapped for name in names]
        if call.each is None or not any(tapped):
            return compute(*given)
        detached = [p.detach() if tap and p is not None else p for p, tap in zip(given, tapped, strict=True)]
        output = compute(*detached)
        if output.shape[0] != call.each * self.rows:
            raise RuntimeError(
                f"{call} gave {output.shape[0]} rows for a block of {self.rows}: expected {call.each} each"
            )
        roles = tuple(parameters)
        tap = Tapped(call, shares, roles, inputs, tuple(tensor._version for tensor in inputs))
        self.taps.append(tap)
        fresh = output.clone() if output._is_view() else output
        result: Tensor = Tap.apply(fresh, self.anchor.to(output.device), tap.gradient.append)  # type: ignore[no-untyped-call]
        return result

    def _next(self, function: str, names: tuple[str | None, ...]) -> Call:
        assert self._plan is not None
        place = len(self.calls)
        call = self._plan[place] if place < len(self._plan) else None
        if call is None or call.what != (function, names):
            made = Call(function, names, 0)
            expected = "no further call" if call is None else str(call)
            raise RuntimeError(
                f"the module calls {made} where it had {expected} for made-up rows: which layers it uses must not "
                "depend on the rows"
            )
        self.calls.append(call)
        return call

    def taken(self, numbers: int) -> bool:
        """Whether so many numbers of single precision may be built and kept; if so, they count as taken."""
        fits = 4 * numbers <= min(KEPT_MEMORY, self.memory)
        if fits:
            self.memory -= 4 * numbers
        return fits

    def collected(self) -> dict[str, list[Share]]:
        """The shares of every tapped parameter, call by call, once the backward pass is through."""
        found: dict[str, list[Share]] = {}
        for tap in self.taps:
            shares = tap.found()
            for role, name in zip(tap.roles, tap.call.names, strict=True):
                if name is not None and name not in self._untapped and role in shares:
                    found.setdefault(name, []).append(shares[role])
        return found
