"""A dense network: plain linear layers and activations in a plain ``nn.Sequential``.

Nothing is wrapped, hooked or hung on tensors. ``state_dict()`` has the keys of the ``nn.Sequential`` that any torch
user would write by hand (``0.weight``, ``0.bias``, ``2.weight``, ...), and :meth:`DenseNetwork.plain` gives that
module. The network ends at the last layer's pre-activation; what it means is the loss's business.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError, integer
from dpmac.nets.activations import Activation, activation
from dpmac.privacy.noise import NoiseSource

FORMAT = "dpmac-network-1"


class DenseNetwork(nn.Module):
    """Layers of ``sizes[0] -> sizes[1] -> ... -> sizes[-1]`` units with bias; ``hidden`` names the activations.

    ``hidden`` is one activation for all hidden layers or one for each. Weights are drawn from N(0, 2 / (d_in + d_out))
    and biases start at 0, from ``source``, so a seeded source gives the same network everywhere.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        hidden: str | Activation | Sequence[str | Activation] = "tanh",
        *,
        source: NoiseSource,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            raise ArgumentError("sizes", sizes, "give at least the number of inputs and of outputs")
        self.sizes = tuple(integer("sizes", s, "every layer needs a whole number of units, at least 1") for s in sizes)
        count = len(self.sizes) - 2
        names = [hidden] * count if isinstance(hidden, str | Activation) else list(hidden)
        if len(names) != count:
            raise ArgumentError("hidden", hidden, f"give one activation, or one for each of the {count} hidden layers")
        self.activations = tuple(activation(name) for name in names)
        for index, module in enumerate(_modules(self.sizes, self.activations)):
            self.add_module(str(index), module)  # the names that nn.Sequential would give
        with torch.no_grad():
            for layer in self.linears:
                deviation = math.sqrt(2.0 / (layer.in_features + layer.out_features))
                layer.weight.copy_(deviation * source.normal(layer.weight.shape))
                layer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """The output layer's pre-activation (logits, or a reconstruction)."""
        for module in self.children():
            x = module(x)
        return x

    @property
    def linears(self) -> list[nn.Linear]:
        """The weight layers, input side first."""
        return [module for module in self.children() if isinstance(module, nn.Linear)]

    @property
    def layer_names(self) -> list[str]:
        """Public names of the weight layers, used in ledgers and histories."""
        return [f"layer {k}" for k in range(1, len(self.sizes))]

    @property
    def device(self) -> torch.device:
        return self.linears[0].weight.device

    def plain(self) -> nn.Sequential:
        """A copy as a bare ``nn.Sequential`` that needs nothing of this package."""
        module = nn.Sequential(*_modules(self.sizes, self.activations)).to(self.linears[0].weight)
        module.load_state_dict(self.state_dict())
        return module

    def save(self, path: str | Path) -> None:
        """Write weights and architecture to one safetensors file."""
        from safetensors.torch import save_file

        header = {"format": FORMAT, "sizes": list(self.sizes), "hidden": [a.name for a in self.activations]}
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        save_file(weights, str(path), metadata={"dpmac": json.dumps(header)})

    @classmethod
    def load(cls, path: str | Path) -> DenseNetwork:
        """Read what :meth:`save` wrote. No code is ever executed from the file."""
        from safetensors import safe_open

        from dpmac.privacy.noise import SeededNoise

        with safe_open(str(path), framework="pt") as handle:
            header = json.loads((handle.metadata() or {}).get("dpmac", "{}"))
            if header.get("format") != FORMAT:
                raise ValueError(f"{path} is not a dpmac network (no {FORMAT} header): it was not written by save()")
            weights: dict[str, Tensor] = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
        network = cls(header["sizes"], header["hidden"], source=SeededNoise(0))
        network.load_state_dict(weights)
        return network


def _modules(sizes: Sequence[int], activations: Sequence[Activation]) -> list[nn.Module]:
    modules: list[nn.Module] = [_empty_linear(sizes[0], sizes[1])]
    for act, d_in, d_out in zip(activations, sizes[1:-1], sizes[2:], strict=True):
        modules += [act.module(), _empty_linear(d_in, d_out)]
    return modules


def _empty_linear(d_in: int, d_out: int) -> nn.Linear:
    """A linear layer whose weights are still to be written: torch's own initial draw is skipped."""
    return nn.Linear(d_in, d_out, device="meta").to_empty(device="cpu")
