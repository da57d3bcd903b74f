"""Low-rank adapters (LoRA, Hu et al. 2021): a few trained numbers beside frozen weights.

:func:`with_lora` gives a copy of a module in which chosen layers have adapters: a frozen weight W (outputs, inputs)
acts as W + factor * up @ down with ``down`` (rank, inputs) and ``up`` (outputs, rank). Only adapters, and what
``whole`` names, are trained; so only these are bounded, noised and in the ledger. ``up`` is zero at first: the copy
computes what the module computes. :func:`merge_lora` adds the adapters to the weights and gives back plain layers.

Adapters are made of calls that have rules (:mod:`dpmac.modules.rules`), so their rows' gradients take ghost norms.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

from torch import nn

from dpmac.checks import ArgumentError, integer, number
from dpmac.extensions.provenance import mark, origin_of
from dpmac.modules.adapters import Adapter, AttentionAdapter, EmbeddingAdapter, LinearAdapter
from dpmac.randomness import NoiseSource, SystemNoise

Choice = Sequence[str] | Callable[[str, nn.Module], bool]  # names of layers, or a function of name and layer
KINDS: dict[type[nn.Module], type[Adapter]] = {
    nn.Linear: LinearAdapter,
    nn.Embedding: EmbeddingAdapter,
    nn.MultiheadAttention: AttentionAdapter,
}
"""What can have an adapter. By default all but embeddings get one."""


def with_lora(
    module: nn.Module,
    rank: int = 4,
    alpha: float | None = None,
    layers: Choice | None = None,
    whole: Sequence[str] = (),
    source: NoiseSource | None = None,
) -> nn.Module:
    """A copy of ``module`` with adapters of ``rank`` in ``layers``, and everything else frozen.

    ``layers`` are names as in ``named_modules()``, or their ends (``"self_attn"`` is every layer of that name), or a
    function of a name and a layer; None means every ``Linear`` and every ``MultiheadAttention``, whose queries, keys,
    values and outputs get an adapter each. ``whole`` names what is trained as it is, with all that it holds, such as a
    new head; it gets no adapters. Adapters act with the factor ``alpha / rank``, 1 unless ``alpha`` is given. ``down``
    is drawn from ``source`` (operating-system entropy by default); a layer that stands in several places keeps one
    adapter. What private rows have shaped stays known: the copy has the module's origin.
    """
    rank = integer("rank", rank, "give the adapters' rank, at least 1")
    factor = 1.0
    if alpha is not None:
        factor = number("alpha", alpha, "give a number above 0, or None for the rank", low=1e-6, high=1e6) / rank
    copied = copy.deepcopy(module)
    untouched = {id(layer) for name in whole for _, layer in _named(copied, "whole", name).named_modules()}
    copied.requires_grad_(False)
    chosen = {id(layer) for name, layer in _candidates(copied, layers) if id(layer) not in untouched}
    if not chosen:
        raise ArgumentError("layers", layers, f"no layer was chosen: there are {_there(copied)}")
    draw = SystemNoise() if source is None else source
    adapted = _replaced(copied, lambda layer: _adapter_of(layer, rank, factor, draw) if id(layer) in chosen else None)
    for name in whole:
        _named(adapted, "whole", name).requires_grad_(True)
    return adapted


def merge_lora(module: nn.Module) -> nn.Module:
    """A copy of ``module`` whose adapters have become part of the weights: layers of the kinds there were before.

    Its parameters have the names and shapes that they had before :func:`with_lora`, and those of layers with adapters
    are frozen. A weight that was shared with a layer that has no adapter is shared no longer. The origin stays.
    """
    if not any(isinstance(layer, Adapter) for layer in module.modules()):
        raise ArgumentError("module", type(module).__name__, "it has no adapters: make some by with_lora(module)")
    known = origin_of(module, name="module")
    merged = _replaced(copy.deepcopy(module), lambda layer: layer.merged() if isinstance(layer, Adapter) else None)
    mark(merged, known)
    return merged


def _adapter_of(layer: nn.Module, rank: int, factor: float, draw: NoiseSource) -> Adapter:
    kind = next(made for base, made in KINDS.items() if isinstance(layer, base))
    return kind.of(layer, rank, factor, draw)


def _candidates(module: nn.Module, layers: Choice | None) -> Iterator[tuple[str, nn.Module]]:
    """The chosen layers; a name or a function that chooses something else is refused."""
    if isinstance(layers, str):
        raise ArgumentError("layers", layers, f"give a list of names: layers=[{layers!r}]")
    inside = {id(layer) for _, attention in _of_kind(module, nn.MultiheadAttention) for layer in attention.children()}
    there = [(name, layer) for name, layer in module.named_modules() if id(layer) not in inside]
    if layers is None:
        yield from ((name, layer) for name, layer in there if isinstance(layer, nn.Linear | nn.MultiheadAttention))
        return
    if callable(layers):
        found: list[tuple[str, nn.Module]] = [(name, layer) for name, layer in there if layers(name, layer)]
    else:
        found = [(name, layer) for end in layers for name, layer in _by_end(module, there, end)]
    for name, layer in found:
        if not isinstance(layer, tuple(KINDS)):
            kinds = ", ".join(kind.__name__ for kind in KINDS)
            raise ArgumentError("layers", f"{name} ({type(layer).__name__})", f"adapters are for {kinds}")
        yield name, layer


def _by_end(module: nn.Module, there: list[tuple[str, nn.Module]], end: str) -> list[tuple[str, nn.Module]]:
    found = [(name, layer) for name, layer in there if name == end or name.endswith(f".{end}")]
    if not found:
        raise ArgumentError("layers", end, f"no layer has that name: there are {_there(module)}")
    return found


def _there(module: nn.Module) -> str:
    names = [name or type(layer).__name__ for kind in KINDS for name, layer in _of_kind(module, kind)]
    return ", ".join(names) or "none that can have adapters"


def _of_kind(module: nn.Module, kind: type[nn.Module]) -> list[tuple[str, nn.Module]]:
    return [(name, layer) for name, layer in module.named_modules() if isinstance(layer, kind)]


def _named(module: nn.Module, argument: str, name: str) -> nn.Module:
    try:
        return module.get_submodule(name)
    except AttributeError:
        names = ", ".join(name for name, _ in module.named_children())
        raise ArgumentError(
            argument, name, f"there is no such module; there are {names}, and what these hold"
        ) from None


def _replaced(module: nn.Module, change: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """``module`` with every layer replaced for which ``change`` gives another one; each is asked once."""
    done: dict[int, nn.Module] = {}
    kept: list[nn.Module] = []  # alive, so that no id is used twice

    def visited(layer: nn.Module) -> nn.Module:
        if id(layer) not in done:
            kept.append(layer)
            made = change(layer)
            done[id(layer)] = layer if made is None else made
            if made is None:
                for name, child in list(layer._modules.items()):
                    if child is not None:
                        layer._modules[name] = visited(child)
        return done[id(layer)]

    return visited(module)
