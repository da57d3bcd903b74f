"""Layers with low-rank adapters: a frozen layer, and a small trained map whose output is added to the layer's."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.checks import ArgumentError
from dpmac.modules.rules.attention import attended, in_heads, joint_mask
from dpmac.randomness import NoiseSource


class LowRank(nn.Module):
    """rows -> factor * rows @ down^T @ up^T, with ``down`` (rank, inputs) and ``up`` (outputs, rank), zero at first."""

    def __init__(self, down: Tensor, outputs: int, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.down = nn.Parameter(down)
        self.up = nn.Parameter(down.new_zeros(outputs, len(down)))

    @classmethod
    def drawn(cls, like: Tensor, shape: tuple[int, int], rank: int, factor: float, draw: NoiseSource) -> LowRank:
        """For a weight of ``shape`` (outputs, inputs): ``down`` has variance 1 over the inputs."""
        outputs, inputs = shape
        _check_rank(rank, shape)
        return cls((draw.normal((rank, inputs)) / math.sqrt(inputs)).to(like), outputs, factor)

    def forward(self, rows: Tensor) -> Tensor:
        return F.linear(F.linear(rows, self.down), self.up) * self.factor

    @torch.no_grad()
    def matrix(self) -> Tensor:
        """What it adds to a weight (outputs, inputs), in double precision."""
        return self.up.double() @ self.down.double() * self.factor


def _check_rank(rank: int, shape: tuple[int, int]) -> None:
    if rank > min(shape):
        raise ArgumentError("rank", rank, f"a weight of shape {shape} has rank {min(shape)} at most")


class Adapter(nn.Module):
    """A layer with an adapter. ``base`` is the frozen layer."""

    base: nn.Module

    @classmethod
    def of(cls, base: nn.Module, rank: int, factor: float, draw: NoiseSource) -> Self:
        raise NotImplementedError

    def merged(self) -> nn.Module:
        """A layer of the base's kind that computes the same, up to rounding; frozen."""
        raise NotImplementedError


class LinearAdapter(Adapter):
    """``nn.Linear`` with an adapter."""

    def __init__(self, base: nn.Linear, added: LowRank) -> None:
        super().__init__()
        self.base, self.added = base, added

    @classmethod
    def of(cls, base: nn.Module, rank: int, factor: float, draw: NoiseSource) -> Self:
        assert isinstance(base, nn.Linear)
        shape = (base.out_features, base.in_features)
        return cls(base, LowRank.drawn(base.weight.detach(), shape, rank, factor, draw))

    @property
    def weight(self) -> Tensor:
        """The weight with the adapter in it, for code that reads it in place of calling the layer."""
        assert isinstance(self.base, nn.Linear)
        return self.base.weight + self.added.factor * (self.added.up @ self.added.down)

    @property
    def bias(self) -> Tensor | None:
        assert isinstance(self.base, nn.Linear)
        return self.base.bias

    def forward(self, rows: Tensor) -> Tensor:
        result: Tensor = self.base(rows) + self.added(rows)
        return result

    def merged(self) -> nn.Linear:
        assert isinstance(self.base, nn.Linear)
        made = copy.copy(self.base)  # its own parameters are not touched: a weight may be shared
        made._parameters = {**self.base._parameters, "weight": _sum(self.base.weight, self.added.matrix())}
        return made


class EmbeddingAdapter(Adapter):
    """``nn.Embedding`` with an adapter: a table of ``rank`` numbers for each token, mapped to the embedding's width.

    The embedding of a padding token stays as it is.
    """

    def __init__(self, base: nn.Embedding, table: Tensor, factor: float) -> None:
        super().__init__()
        self.base, self.factor = base, factor
        self.table = nn.Parameter(table)
        self.up = nn.Parameter(table.new_zeros(base.embedding_dim, table.shape[1]))

    @classmethod
    def of(cls, base: nn.Module, rank: int, factor: float, draw: NoiseSource) -> Self:
        assert isinstance(base, nn.Embedding)
        if base.max_norm is not None:
            raise ArgumentError("layers", "Embedding with max_norm", "a frozen table cannot be rescaled: leave it out")
        _check_rank(rank, (base.num_embeddings, base.embedding_dim))
        table = draw.normal((base.num_embeddings, rank)).to(base.weight.detach())
        if base.padding_idx is not None:
            table[base.padding_idx] = 0.0
        return cls(base, table, factor)

    def forward(self, tokens: Tensor) -> Tensor:
        assert isinstance(self.base, nn.Embedding)
        found = F.embedding(tokens, self.table, self.base.padding_idx)
        result: Tensor = self.base(tokens) + F.linear(found, self.up) * self.factor
        return result

    @torch.no_grad()
    def merged(self) -> nn.Embedding:
        assert isinstance(self.base, nn.Embedding)
        made = copy.copy(self.base)
        added = self.table.double() @ self.up.double().transpose(0, 1) * self.factor
        made._parameters = {**self.base._parameters, "weight": _sum(self.base.weight, added)}
        return made


class AttentionAdapter(Adapter):
    """``nn.MultiheadAttention`` with an adapter each for queries, keys, values and outputs.

    Called as the layer is. Code that reads the weights (torch's transformer layers do, when nothing is trained) finds
    them under their usual names, with the adapters in them.
    """

    def __init__(
        self, base: nn.MultiheadAttention, queries: LowRank, keys: LowRank, values: LowRank, outputs: LowRank
    ) -> None:
        super().__init__()
        self.base, self.queries, self.keys, self.values, self.outputs = base, queries, keys, values, outputs

    @classmethod
    def of(cls, base: nn.Module, rank: int, factor: float, draw: NoiseSource) -> Self:
        assert isinstance(base, nn.MultiheadAttention)
        if base.bias_k is not None or base.add_zero_attn:
            fix = "adapters are for attention without add_bias_kv and add_zero_attn"
            raise ArgumentError("layers", "MultiheadAttention", fix)
        width, like = int(base.embed_dim), base.out_proj.weight.detach()
        inputs = (width, int(base.kdim), int(base.vdim), width)
        return cls(base, *(LowRank.drawn(like, (width, each), rank, factor, draw) for each in inputs))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,  # noqa: ARG002 - a hint; the mask is given as well
    ) -> tuple[Tensor, Tensor | None]:
        if query.dim() != 3:
            fix = "attention needs rows: give it (rows, length, width) with batch_first=True"
            raise ArgumentError("query", f"shape {tuple(query.shape)}", fix)
        given = [query, key, value]
        if not self.batch_first:
            given = [tensor.transpose(0, 1) for tensor in given]
        mapped = [
            F.linear(x, weight, bias) + added(x)
            for x, weight, bias, added in zip(given, self._weights(), self._biases(), self._added(), strict=True)
        ]
        q, k, v = (in_heads(x, self.num_heads) for x in mapped)
        found, weights = attended(q, k, v, joint_mask(q, k, key_padding_mask, attn_mask), need_weights)
        joined = found.transpose(1, 2).flatten(2)
        output = self._base.out_proj(joined) + self.outputs(joined)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not self.batch_first:
            output = output.transpose(0, 1)
        return output, weights

    def _added(self) -> tuple[LowRank, LowRank, LowRank]:
        return self.queries, self.keys, self.values

    def _weights(self) -> tuple[Tensor, ...]:
        """The frozen weights of queries, keys and values."""
        base = self._base
        if base.in_proj_weight is not None:
            return base.in_proj_weight.chunk(3)
        return base.q_proj_weight, base.k_proj_weight, base.v_proj_weight

    def _biases(self) -> tuple[Tensor | None, ...]:
        if self.in_proj_bias is None:
            return None, None, None
        return self.in_proj_bias.chunk(3)

    def merged(self) -> nn.MultiheadAttention:
        made = copy.copy(self._base)
        weights = {}
        if made.in_proj_weight is not None:
            matrix = torch.cat([added.matrix() for added in self._added()])
            weights["in_proj_weight"] = _sum(made.in_proj_weight, matrix)
        else:
            for name, added in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), self._added(), strict=True):
                weights[name] = _sum(getattr(made, name), added.matrix())
        made._parameters = {**made._parameters, **weights}
        made._modules = {**made._modules, "out_proj": self.out_proj.merged()}
        return made

    def merge_masks(self, *masks: Any) -> Any:
        """The layer's own, for torch's transformer layers."""
        return self._base.merge_masks(*masks)

    @property
    def _base(self) -> nn.MultiheadAttention:
        assert isinstance(self.base, nn.MultiheadAttention)
        return self.base

    @property
    def batch_first(self) -> bool:
        return bool(self._base.batch_first)

    @property
    def num_heads(self) -> int:
        return int(self._base.num_heads)

    @property
    def embed_dim(self) -> int:
        return int(self._base.embed_dim)

    @property
    def _qkv_same_embed_dim(self) -> bool:
        return bool(self._base._qkv_same_embed_dim)

    @property
    def in_proj_weight(self) -> Tensor | None:
        return self.merged().in_proj_weight

    @property
    def in_proj_bias(self) -> Tensor | None:
        return self._base.in_proj_bias

    @property
    def out_proj(self) -> LinearAdapter:
        return LinearAdapter(self._base.out_proj, self.outputs)


def _sum(weight: Tensor, added: Tensor) -> nn.Parameter:
    """A frozen parameter of its own."""
    return nn.Parameter((weight.detach().double() + added).to(weight.dtype), requires_grad=False)
