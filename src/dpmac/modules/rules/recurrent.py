"""Recurrent layers, unrolled: torch's own kernels give no gradient at each step, and these linear maps are tapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.modules.rules.linear import linear
from dpmac.modules.taps import Watch

State = tuple[Tensor, ...]
Step = Callable[[Tensor, Tensor, State], State]  # what inputs and states bring to the gates, and the state before


def lstm_step(inputs: Tensor, hidden: Tensor, state: State) -> State:
    i, f, g, o = (inputs + hidden).chunk(4, dim=-1)
    cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def gru_step(inputs: Tensor, hidden: Tensor, state: State) -> State:
    (r, z, n), (hr, hz, hn) = inputs.chunk(3, dim=-1), hidden.chunk(3, dim=-1)
    update = torch.sigmoid(z + hz)
    fresh = torch.tanh(n + torch.sigmoid(r + hr) * hn)
    return ((1.0 - update) * fresh + update * state[0],)


def tanh_step(inputs: Tensor, hidden: Tensor, state: State) -> State:  # noqa: ARG001
    return (torch.tanh(inputs + hidden),)


def relu_step(inputs: Tensor, hidden: Tensor, state: State) -> State:  # noqa: ARG001
    return (torch.relu(inputs + hidden),)


def lstm(watch: Watch, func: Any, input: Tensor, hx: Any, *more: Any) -> Any:
    """As ``torch.lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)``."""
    _no_packing(hx)
    if len(more) != 7 or len(hx) != 2 or hx[0].shape != hx[1].shape:  # projections: as it is
        return func(input, hx, *more)
    output, (h, c) = _unrolled(watch, lstm_step, input, tuple(hx), *more)
    return output, h, c


def gru(watch: Watch, func: Any, input: Tensor, hx: Tensor, *more: Any) -> Any:  # noqa: ARG001
    return _one_state(watch, gru_step, input, hx, more)


def rnn_tanh(watch: Watch, func: Any, input: Tensor, hx: Tensor, *more: Any) -> Any:  # noqa: ARG001
    return _one_state(watch, tanh_step, input, hx, more)


def rnn_relu(watch: Watch, func: Any, input: Tensor, hx: Tensor, *more: Any) -> Any:  # noqa: ARG001
    return _one_state(watch, relu_step, input, hx, more)


def _one_state(watch: Watch, step: Step, input: Tensor, hx: Any, more: tuple[Any, ...]) -> Any:
    _no_packing(more[0])
    output, (h,) = _unrolled(watch, step, input, (hx,), *more)
    return output, h


def lstm_cell(
    watch: Watch,
    func: Any,  # noqa: ARG001
    input: Tensor,
    hx: Any,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Any:
    inputs = linear(watch, F.linear, input, w_ih, b_ih)
    return lstm_step(inputs, linear(watch, F.linear, hx[0], w_hh, b_hh), tuple(hx))


def gru_cell(
    watch: Watch,
    func: Any,  # noqa: ARG001
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Any:
    inputs = linear(watch, F.linear, input, w_ih, b_ih)
    (state,) = gru_step(inputs, linear(watch, F.linear, hx, w_hh, b_hh), (hx,))
    return state


def _no_packing(given: Any) -> None:
    """Packed sequences come with their lengths in place of a state, or of the list of weights."""
    if isinstance(given, Tensor):
        fix = "packed sequences mix the rows of a batch: give padded ones, (rows, length, width), and a mask"
        raise ArgumentError("input", "PackedSequence", fix)


def _unrolled(
    watch: Watch,
    step: Step,
    input: Tensor,
    states: State,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, State]:
    """All layers, one after the other, each in one or both directions; the last states of all are stacked."""
    if dropout > 0 and train and num_layers > 1:
        fix = "dropout between the layers draws by itself: use dropout=0, or put the layer into eval()"
        raise ArgumentError(watch.name_of(params[0]) or "dropout", dropout, fix)
    x = input if batch_first else input.transpose(0, 1)
    directions, each = 1 + bidirectional, 4 if has_biases else 2
    last: list[State] = []
    for layer in range(num_layers):
        found = []
        for direction in range(directions):
            place = layer * directions + direction
            weights = params[place * each : (place + 1) * each]
            start = tuple(state[place] for state in states)
            output, end = _one_layer(watch, step, x, start, weights, backwards=direction == 1)
            found.append(output)
            last.append(end)
        x = found[0] if directions == 1 else torch.cat(found, dim=-1)
    stacked = tuple(torch.stack(kind) for kind in zip(*last, strict=True))
    return x if batch_first else x.transpose(0, 1), stacked


def _one_layer(
    watch: Watch, step: Step, x: Tensor, state: State, weights: Sequence[Tensor], backwards: bool
) -> tuple[Tensor, State]:
    """One layer in one direction: (rows, length, width) to the outputs of all steps, and the last state."""
    w_ih, w_hh, *biases = weights
    b_ih, b_hh = biases or (None, None)
    inputs = linear(watch, F.linear, x, w_ih, b_ih)
    steps = range(x.shape[1])
    outputs = []
    for t in reversed(steps) if backwards else steps:
        state = step(inputs[:, t], linear(watch, F.linear, state[0], w_hh, b_hh), state)
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs, dim=1), state
