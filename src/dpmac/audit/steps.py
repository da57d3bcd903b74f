"""Cases of training steps: every bound, order, Z-step and kind of layer that the package lists, sampled and not.

A new piece is audited the moment it is in its package's list. Networks are tiny, so that 100,000 releases take minutes;
two layers of equal shape stand in most, because noise that two layers share is seen best there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dpmac import analytic, mac, methods
from dpmac.audit.cases import RATE, Ask, Case, Row, Setting
from dpmac.mac import Z_STEPS, Expansion, FirstOrder, FixedPrediction, ZStep
from dpmac.nets import Dense, DenseNetwork, Flatten, Network, loss
from dpmac.nets.layers import LAYERS, WeightLayer
from dpmac.privacy import (
    BOUNDS,
    Analytic,
    Bound,
    JointClip,
    LeastEnergy,
    Ledger,
    PerLayerClip,
    PoissonSampler,
    PrivateRows,
    Query,
    Unbounded,
    release,
)
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step

EXPANSIONS: dict[str, Expansion] = mac.EXPANSIONS | analytic.EXPANSIONS | methods.EXPANSIONS
OUTRAGE = 1000.0  # a canary's target: so far off that every bound is reached
SIZES = (0.0, 1.0, 10.0)  # of a canary's inputs; 0 leaves nothing but the bias
SHARE_OF_PROVEN = 0.1  # of the draws: proven sensitivities take 30 ms a step


def released_answer(query: Query) -> Ask:
    """Ask ``query`` as a training step or a method does, and give the sums back."""
    source = SystemNoise()

    def ask(table: PrivateRows, rate: float, sigma: float, ledger: Ledger) -> dict[str, Tensor]:
        if rate == 1.0:
            batch = table.everything()
        else:
            batch = table.sample(PoissonSampler(table.n, rate, source))
        divisor = rate * table.n
        answer = release(batch, query, noise_multiplier=sigma, source=source, ledger=ledger, divisor=divisor)
        return {name: noisy * divisor for name, noisy in answer.items()}

    return ask


def small_network(layers: int = 2) -> Network:
    return DenseNetwork([2] * (layers + 1), "tanh", source=SeededNoise(1))


def network_with(kind: str) -> Network:
    """A layer of that kind, with an activation if it has weights, and a dense layer of two outputs behind it."""
    made, shape = LAYERS[kind].sample()
    after = made.shape_after(shape)
    stack: list[Any] = [made]
    if isinstance(made, WeightLayer):
        stack.append("tanh")
    if len(after) > 1:
        stack.append(Flatten())
    return Network([*stack, Dense(math.prod(after), 2)], input_shape=shape, source=SeededNoise(1))


def step_setting(network: Network, zstep: ZStep, expansion: Expansion, bound: Bound) -> Setting:
    """One training step on four rows: a canary whose target is outrageous, and three that are not."""
    step = Step(network, loss("squared"), zstep, expansion, bound)
    shape = network.input_shape
    pattern = torch.linspace(-1.0, 1.0, math.prod(shape)).reshape(shape)
    targets = [torch.tensor([OUTRAGE, -OUTRAGE]), torch.tensor([OUTRAGE, OUTRAGE]), torch.tensor([0.0, OUTRAGE])]
    candidates: list[Row] = [(size * pattern, target) for size in SIZES for target in targets]
    others: list[Row] = [(torch.roll(pattern, k) * 0.3 * k, torch.tensor([0.1 * k, -0.2])) for k in (1, 2, 3)]
    return Setting(released_answer(step.query()), candidates, others)


def _step(
    zstep: ZStep | None = None, expansion: Expansion | None = None, bound: Bound | None = None, layer: str = ""
) -> Setting:
    if layer:
        network = network_with(layer)
    elif isinstance(bound, Analytic):
        network = small_network(1)
    else:
        network = small_network(2)
    return step_setting(network, zstep or FixedPrediction(), expansion or FirstOrder(), bound or JointClip(1.0))


def _pieces() -> Iterator[tuple[str, partial[Setting], bool]]:
    """Name, setting, and whether it has proven sensitivities."""
    for name, bound in BOUNDS.items():
        if not isinstance(bound, Unbounded):
            proven = isinstance(bound, Analytic)
            expansion: Expansion = FirstOrder()
            if proven:
                expansion = analytic.EXPANSIONS["projected"]
            yield f"bound {name}", partial(_step, expansion=expansion, bound=bound), proven
    yield "bound clip, least energy", partial(_step, bound=PerLayerClip(1.0, LeastEnergy())), False
    for name, expansion in EXPANSIONS.items():
        if name in ("first", "projected"):
            continue  # these were in the cases of bounds
        proven = name in analytic.EXPANSIONS
        said = f"order {name}"
        if name == "gradients":
            said = "DP-SGD"
        yield said, partial(_step, expansion=expansion, bound=Analytic() if proven else JointClip(1.0)), proven
    for name, zstep in Z_STEPS.items():
        if not isinstance(zstep, FixedPrediction):
            yield f"Z-step {name}", partial(_step, zstep=zstep), False
    for kind in LAYERS:
        yield f"layer {kind}", partial(_step, layer=kind), False


def step_cases() -> Iterator[Case]:
    """On all rows, and on a sample. Where only layers, order or Z-step differ, the sample waits for a full audit."""
    for name, make, proven in _pieces():
        if proven:
            share, quick = SHARE_OF_PROVEN, False
        else:
            share, quick = 1.0, name.startswith(("bound", "DP-SGD"))
        yield Case(f"step, {name}", make, share=share, quick=not proven or name.startswith("bound"))
        yield Case(f"step, {name}, sampled", make, RATE, share=share, quick=quick)
