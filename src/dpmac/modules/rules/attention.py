"""Multi-head attention, taken apart into its linear maps, which are tapped, and the attention itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.modules.rules.linear import linear
from dpmac.modules.shares import Built, Positions, Share
from dpmac.modules.taps import Watch, seen


def multi_head_attention(
    watch: Watch,
    func: Any,  # noqa: ARG001
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,  # noqa: ARG001 - a hint; the mask is given as well
) -> tuple[Tensor, Tensor | None]:
    """As ``F.multi_head_attention_forward``, whose inputs are (length, rows, width)."""
    _refuse(out_proj_weight, watch, bias_k, bias_v, add_zero_attn, dropout_p if training else 0.0, static_k, static_v)
    if query.dim() != 3:
        fix = "attention needs rows: give it (rows, length, width) with batch_first=True"
        raise ArgumentError("query", f"shape {tuple(query.shape)}", fix)
    inputs = tuple(_rows_first(tensor) for tensor in _same_if_same(query, key, value))
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _separate(watch, inputs, weights, in_proj_bias)
    else:
        assert in_proj_weight is not None
        q, k, v = _packed(watch, inputs, in_proj_weight, in_proj_bias, embed_dim_to_check)
    q, k, v = (in_heads(tensor, num_heads) for tensor in (q, k, v))
    mask = joint_mask(q, k, key_padding_mask, attn_mask)
    found, weights_found = attended(q, k, v, mask, need_weights)
    joined = found.transpose(1, 2).flatten(2)
    output = linear(watch, F.linear, joined, out_proj_weight, out_proj_bias)
    if weights_found is not None and average_attn_weights:
        weights_found = weights_found.mean(dim=1)
    return output.transpose(0, 1), weights_found


def _refuse(
    out_weight: Tensor,
    watch: Watch,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout: float,
    static_k: Tensor | None,
    static_v: Tensor | None,
) -> None:
    name = (watch.name_of(out_weight) or "attention").removesuffix(".out_proj.weight")
    if bias_k is not None or bias_v is not None or add_zero_attn or static_k is not None or static_v is not None:
        fix = "use attention without add_bias_kv, add_zero_attn, static_k and static_v"
        raise ArgumentError(name, "MultiheadAttention", fix)
    if dropout > 0:
        raise ArgumentError(f"{name}.dropout", dropout, "use dropout=0, or put the attention into eval()")


def _same_if_same(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """One tensor where all three are one."""
    return (query,) if query is key and key is value else (query, key, value)


def _rows_first(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1)


def in_heads(tensor: Tensor, heads: int) -> Tensor:
    """(rows, length, heads x width) to (rows, heads, length, width)."""
    return tensor.reshape(*tensor.shape[:2], heads, -1).transpose(1, 2)


def _packed(
    watch: Watch, inputs: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, width: int
) -> tuple[Tensor, ...]:
    """Queries, keys and values from one weight (3 width, width)."""
    if len(inputs) == 1:
        return tuple(torch.split(linear(watch, F.linear, inputs[0], weight, bias), width, dim=2))
    return tuple(_slice(watch, x, weight, bias, third * width, width) for third, x in enumerate(inputs))


def _slice(watch: Watch, x: Tensor, weight: Tensor, bias: Tensor | None, start: int, size: int) -> Tensor:
    """A linear map by the units from ``start`` on: the others' gradients are zero."""
    flat = x.reshape(-1, x.shape[-1])
    units = weight.shape[0]

    def compute(w: Tensor, b: Tensor | None) -> Tensor:
        return F.linear(flat, w[start : start + size], None if b is None else b[start : start + size])

    def shares(gradient: Tensor) -> dict[str, Share]:
        wide = F.pad(gradient, (start, units - start - size)).reshape(watch.rows, -1, units)
        right = seen(flat, gradient).reshape(watch.rows, -1, flat.shape[-1])
        return {"weight": Positions(wide, right), "bias": Built(wide.sum(dim=1))}

    output = watch.run("linear of a slice", {"weight": weight, "bias": bias}, compute, shares, flat)
    return output.reshape(*x.shape[:-1], size)


def _separate(
    watch: Watch, inputs: tuple[Tensor, ...], weights: tuple[Tensor | None, ...], bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Queries, keys and values from a weight each, and one bias for all."""
    given = inputs * 3 if len(inputs) == 1 else inputs
    found = []
    for third, (x, weight) in enumerate(zip(given, weights, strict=True)):
        assert weight is not None
        mapped = linear(watch, F.linear, x, weight)
        if bias is not None:
            mapped = _shifted(watch, mapped, bias, third * weight.shape[0])
        found.append(mapped)
    return tuple(found)


def _shifted(watch: Watch, x: Tensor, bias: Tensor, start: int) -> Tensor:
    size = x.shape[-1]

    def shares(gradient: Tensor) -> dict[str, Share]:
        wide = F.pad(gradient, (start, bias.shape[0] - start - size))
        return {"bias": Built(wide.reshape(watch.rows, -1, bias.shape[0]).sum(dim=1))}

    return watch.run("a slice of a bias", {"bias": bias}, lambda b: x + b[start : start + size], shares)


def joint_mask(q: Tensor, k: Tensor, padding: Tensor | None, attention: Tensor | None) -> Tensor | None:
    """Both masks as one that is added to the scores: (rows or 1, heads or 1, length, keys); None without any."""
    rows, heads, length, keys = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    added = None
    if attention is not None:
        added = _additive(attention, q)
        added = added.reshape(rows, heads, length, keys) if added.dim() == 3 else added.reshape(1, 1, length, keys)
    if padding is not None:
        ignored = _additive(padding, q).reshape(rows, 1, 1, keys)
        added = ignored if added is None else added + ignored
    return added


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A mask of True where nothing is to be seen, as minus infinity there."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -math.inf)


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, need_weights: bool) -> tuple[Tensor, Tensor | None]:
    """What is seen, and the weights if they are asked for."""
    if not need_weights:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), None
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
    return weights @ v, weights
