"""torch's optimisers, by their quickest kernel.

Adam, the default, is called by its functional form. The first ``torch.optim.Optimizer`` of a process imports torch's
compiler, with a thousand modules: about a second, which no training here has a use for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

ONE_PASS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
BETAS, EPSILON = (0.9, 0.999), 1e-8  # torch.optim.Adam's own
_OWN_CHOICE = {"fused", "foreach", "differentiable", "capturable"}
_PLAIN_ADAM = {"lr", "betas", "eps", "weight_decay"}  # the options that PlainAdam has


class Descent(Protocol):
    """What is asked of an optimiser: one of torch's, or :class:`PlainAdam`."""

    param_groups: list[dict[str, Any]]

    def step(self) -> Any: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


def optimizer_for(kind: Callable[..., torch.optim.Optimizer], parameters: Iterable[Tensor], **options: Any) -> Descent:
    """``kind(parameters, **options)``, in one pass over the numbers where torch can ("fused").

    The formula is the same and so are the numbers, but for rounding; options that choose a kernel are kept.
    """
    numbers = list(parameters)
    fusible = all(p.device.type in ("cpu", "cuda") for p in numbers)
    if kind is torch.optim.Adam and fusible and options.keys() <= _PLAIN_ADAM:
        return PlainAdam(numbers, **options)
    if kind in ONE_PASS and not _OWN_CHOICE & options.keys() and fusible:
        options["fused"] = True
    return kind(numbers, **options)


class PlainAdam:
    """``torch.optim.Adam`` without what surrounds its kernel; its state is kept in the same form."""

    def __init__(
        self,
        parameters: list[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = BETAS,
        eps: float = EPSILON,
        weight_decay: float = 0.0,
    ) -> None:
        group = {"params": parameters, "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups: list[dict[str, Any]] = [group]
        self._state: dict[int, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        group = self.param_groups[0]
        moved = [(place, p) for place, p in enumerate(group["params"]) if p.grad is not None]
        for place, p in moved:
            if place not in self._state:
                self._state[place] = _fresh(p)
        states = [self._state[place] for place, _ in moved]
        adam(
            [p for _, p in moved],
            [p.grad for _, p in moved],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            maximize=False,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.param_groups[0]["params"]:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        group = self.param_groups[0]
        numbered = {**group, "params": list(range(len(group["params"])))}
        return {"state": {place: dict(state) for place, state in self._state.items()}, "param_groups": [numbered]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of this class or of ``torch.optim.Adam``."""
        group, (kept,) = self.param_groups[0], state_dict["param_groups"]
        if kept["params"] != list(range(len(group["params"]))):
            raise ValueError("the state is of another number of parameters")
        group |= {name: kept[name] for name in _PLAIN_ADAM}
        numbers = group["params"]
        self._state = {place: _like(numbers[place], state) for place, state in state_dict["state"].items()}


def _fresh(parameter: Tensor) -> dict[str, Tensor]:
    zeros = torch.zeros_like(parameter, memory_format=torch.preserve_format)
    taken = torch.zeros((), dtype=torch.float32, device=parameter.device)  # steps, where the kernel wants them
    return {"step": taken, "exp_avg": zeros, "exp_avg_sq": zeros.clone()}


def _like(parameter: Tensor, state: dict[str, Any]) -> dict[str, Tensor]:
    """A copy of a state on the parameter's device, in its precision."""
    steps = torch.as_tensor(state["step"], dtype=torch.float32, device=parameter.device).clone()
    moments = {name: state[name].to(parameter, copy=True) for name in ("exp_avg", "exp_avg_sq")}
    return {"step": steps, **moments}
