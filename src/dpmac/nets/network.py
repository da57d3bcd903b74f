"""A network: a stack of layers and activations, as any torch user would write it in an ``nn.Sequential``.

Nothing is wrapped, hooked or hung on tensors. ``state_dict()`` has the keys of that ``nn.Sequential`` (``0.weight``,
``0.bias``, ``2.weight``, ...), and :meth:`Network.plain` gives it. The network ends at the last layer's pre-activation;
what it means is the loss's business. MAC sees the stack as stages (:mod:`dpmac.nets.stages`), one for each weight
layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.checks import ArgumentError, integer
from dpmac.extensions.provenance import PUBLIC, Origin, Shaped, mark, origin_of
from dpmac.limits import NUMBERS, STACK
from dpmac.nets.activations import ACTIVATIONS, IDENTITY, Activation, activation
from dpmac.nets.files import read_tensors, rebuilding, write_tensors
from dpmac.nets.layers import LAYERS, Beside, Dense, Layer, ReLUBeyond, Shape, WeightLayer
from dpmac.nets.stages import Stage
from dpmac.randomness import NoiseSource, SystemNoise

FORMAT = "dpmac-network-2"


class Network(Shaped):
    """A stack of layers for rows of ``input_shape``; weights are drawn from ``source`` (see ``WeightLayer.draw``), or
    left at zero if that is None: whoever says so fills them in.

    ``stack`` lists layers and activations (by name or as objects). Each activation stands right behind a weight layer,
    and the stack ends with a weight layer. A seeded source gives the same network everywhere. ``origin`` says which
    releases have shaped it (:mod:`dpmac.extensions.provenance`): none, until it has been trained.
    """

    def __init__(
        self, stack: Sequence[Layer | Activation | str], *, input_shape: Sequence[int], source: NoiseSource | None
    ) -> None:
        super().__init__()
        self.input_shape: Shape = tuple(integer("input_shape", s, "give whole numbers") for s in input_shape)
        self._stack = tuple(item if isinstance(item, Layer) else activation(item) for item in stack)
        for index, item in enumerate(self._stack):  # the names that nn.Sequential would give
            self.add_module(str(index), item if isinstance(item, Layer) else item.module())
        self._shapes = _shapes(self._stack, self.input_shape)
        self._stages = self._cut()
        if source is not None:
            for layer in self.weight_layers:
                layer.draw(source)

    def forward(self, x: Tensor) -> Tensor:
        """The output layer's pre-activation (logits, or a reconstruction)."""
        for module in self.children():
            x = module(x)
        return x

    @property
    def stages(self) -> list[Stage]:
        """The stack as MAC sees it, input side first."""
        return list(self._stages)

    def _cut(self) -> tuple[Stage, ...]:
        """The stack cut up behind every weight layer and its activation."""
        found: list[Stage] = []
        carriers: list[Layer] = []
        for index, item in enumerate(self._stack):
            if isinstance(item, WeightLayer):
                act, after = IDENTITY, self._stack[index + 1 :]
                if after and isinstance(after[0], Activation):
                    act = after[0]
                name = f"layer {len(found) + 1}"
                found.append(Stage(name, tuple(carriers), item, act, self._shapes[index]))
                carriers = []
            elif isinstance(item, Layer):
                carriers.append(item)
        return tuple(found)

    @property
    def weight_layers(self) -> list[WeightLayer]:
        return [item for item in self._stack if isinstance(item, WeightLayer)]

    @property
    def layer_names(self) -> list[str]:
        """Public names of the weight layers, used in ledgers and histories."""
        return [stage.name for stage in self.stages]

    @property
    def output_shape(self) -> Shape:
        return self._shapes[-1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of an input, and units of every weight layer."""
        return (math.prod(self.input_shape), *(stage.units for stage in self.stages))

    @property
    def device(self) -> torch.device:
        return self.weight_layers[0].weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.weight_layers[0].weight.dtype

    def __setattr__(self, name: str, value: Any) -> None:
        """Layers have the network's origin: each may be used in another one."""
        super().__setattr__(name, value)
        if name == "origin":
            for item in self._stack:
                if isinstance(item, Layer):
                    item.origin = value

    def plain(self) -> nn.Sequential:
        """A copy as a bare ``nn.Sequential`` that computes without this package. It still knows what has shaped it."""
        modules = [item.plain() if isinstance(item, Layer) else item.module() for item in self._stack]
        made = nn.Sequential(*modules).to(self.weight_layers[0].weight)
        if self.origin != PUBLIC:
            mark(made, self.origin)
        return made

    def save(self, path: str | Path) -> None:
        """Write weights and architecture to one safetensors file; activations go by their names."""
        named: dict[str, Activation] = {}
        for stage in self.stages:
            act = stage.activation
            if named.setdefault(act.name, act) != act:
                raise ArgumentError("activation", act.name, "two different ones have this name: rename one of them")
        header: dict[str, Any] = {"format": FORMAT, "input_shape": list(self.input_shape)}
        header["stack"] = [_named(item) for item in self._stack]
        known = origin_of(self, name="network")  # and of all that it holds
        if known != PUBLIC:
            header["origin"] = known.to_dict()
        write_tensors(path, header, self.state_dict())

    @classmethod
    def load(cls, path: str | Path, activations: Sequence[Activation] = ()) -> Network:
        """Read what :meth:`save` wrote. No code is ever executed from the file.

        An activation of your own is in the file by its name alone: hand it in again in ``activations``.
        """
        header, weights = read_tensors(path, FORMAT, "a dpmac network")
        own = {act.name: act for act in activations}
        with rebuilding(path, "network"):
            _check_claims(header["stack"], weights, path)
            stack = [_rebuilt(item, own, path) for item in header["stack"]]
            network = Network(stack, input_shape=header["input_shape"], source=None)
            if max(map(math.prod, network._shapes)) > NUMBERS:
                raise ValueError(f"an example would have more than {NUMBERS:,} numbers on its way")
            network.to(next(iter(weights.values())).dtype).load_state_dict(weights)
            network.origin = Origin.from_dict(header.get("origin"))
        return network


class DenseNetwork(Network):
    """Dense layers of ``sizes[0] -> sizes[1] -> ... -> sizes[-1]`` units with bias; ``hidden`` names the activations.

    ``hidden`` is one activation for all hidden layers or one for each. The first weights are drawn from ``source``, the
    operating system if it is None.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        hidden: str | Activation | Sequence[str | Activation] = "tanh",
        *,
        source: NoiseSource | None = None,
    ) -> None:
        if len(sizes) < 2:
            raise ArgumentError("sizes", sizes, "give at least the number of inputs and of outputs")
        count = len(sizes) - 2
        if isinstance(hidden, str | Activation):
            names = [hidden] * count
        else:
            names = list(hidden)
        if len(names) != count:
            raise ArgumentError("hidden", hidden, f"give one activation, or one for each of the {count} hidden layers")
        fix = "every layer needs a whole number of units, at least 1"
        whole = [integer("sizes", size, fix) for size in sizes]
        stack: list[Layer | Activation | str] = [Dense(*whole[:2])]
        for name, d_in, d_out in zip(names, whole[1:-1], whole[2:], strict=True):
            stack += [name, Dense(d_in, d_out)]
        super().__init__(stack, input_shape=whole[:1], source=source or SystemNoise())


class WideNetwork(Network):
    """One hidden layer of ``hidden`` ReLU units beside the inputs: the outputs are linear in both."""

    def __init__(self, inputs: int, hidden: int, outputs: int, *, source: NoiseSource) -> None:
        stack = [Beside(inputs, hidden), ReLUBeyond(inputs, hidden), Dense(inputs + hidden, outputs)]
        super().__init__(stack, input_shape=[inputs], source=source)


def _shapes(stack: Sequence[Layer | Activation], shape: Shape) -> list[Shape]:
    """The shape after every item; raises where the stack cannot be."""
    shapes: list[Shape] = []
    before: Layer | Activation | None = None
    for item in stack:
        if isinstance(item, Activation):
            if not isinstance(before, WeightLayer):
                fix = "an activation stands right behind a weight layer: put it there (before pooling)"
                raise ArgumentError("stack", item, fix)
        else:
            shape = item.shape_after(shape)
        shapes.append(shape)
        before = item
    if not isinstance(before, WeightLayer):
        raise ArgumentError("stack", before, "a network ends with a weight layer, such as Dense(inputs, outputs)")
    if len(shape) != 1:
        raise ArgumentError("stack", before, "a network ends with rows of numbers: end it with Dense(inputs, outputs)")
    return shapes


def _named(item: Layer | Activation) -> dict[str, Any]:
    if isinstance(item, Activation):
        return {"activation": item.name, "own": ACTIVATIONS.get(item.name) != item}
    return {"layer": item.kind, **item.config()}


def _check_claims(items: Sequence[dict[str, Any]], weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise ValueError unless the layers that a header claims have the shapes of the tensors beside it.

    The layers are made without memory for this (torch's device "meta"): a header may claim more than there is.
    """
    if len(items) > STACK:
        raise ValueError(f"a stack of {len(items):,} layers, and {STACK:,} are the most")
    for place, item in enumerate(items):
        if "activation" in item:
            continue
        with torch.device("meta"):
            claimed = _rebuilt(item, {}, path).state_dict()  # type: ignore[union-attr]
        for name, tensor in claimed.items():
            found = weights.get(f"{place}.{name}")
            if found is None or found.shape != tensor.shape:
                there = "none"
                if found is not None:
                    there = str(tuple(found.shape))
                raise ValueError(
                    f"layer {place} claims a {name} of shape {tuple(tensor.shape)}, and the file has {there}"
                )


def _rebuilt(item: dict[str, Any], own: dict[str, Activation], path: str | Path) -> Layer | Activation:
    if "activation" in item:
        name = item["activation"]
        if not item["own"]:
            return activation(name)
        if name not in own:
            fix = f"{path} has an activation of your own: hand it in, Network.load(path, activations=[...])"
            raise ArgumentError("activations", name, fix)
        return own[name]
    arguments = {key: tuple(v) if isinstance(v, list) else v for key, v in item.items() if key != "layer"}
    if item["layer"] not in LAYERS:
        raise ValueError(f"{path} has a layer of kind {item['layer']!r}, which this version does not know")
    return LAYERS[item["layer"]](**arguments)
