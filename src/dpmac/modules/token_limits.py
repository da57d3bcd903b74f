"""Which inputs of a module go straight into an embedding, and how many tokens its table has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dpmac.kernels.gathering import Columns


class _Lookups(TorchFunctionMode):
    """Notes the tables that are read by a column itself."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self._columns = columns
        self.limits: dict[int, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func in (F.embedding, F.embedding_bag):
            tokens, table = _arguments(*args, **named)
            for place, column in enumerate(self._columns):
                if isinstance(tokens, Tensor) and tokens.data_ptr() == column.data_ptr():
                    self.limits[place] = min(len(table), self.limits.get(place, len(table)))
        return func(*args, **named)


def _arguments(input: Any, weight: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """The first two arguments of an embedding, by position or by name."""
    return input, weight


@torch.no_grad()
def token_limits(module: nn.Module, blank: Columns, names: tuple[str, ...] | None = None) -> dict[int, int]:
    """For each column that is read as tokens, by its place: the number of tokens that there are.

    ``blank`` are rows of zeros. A column that the module changes first is not found, and neither is anything in a
    module that raises for such rows; a token that is too large then makes its row blank.
    """
    watch = _Lookups(blank)
    try:
        with watch:
            if names is None:
                module(*blank)
            else:
                module(**dict(zip(names, blank, strict=True)))
    except Exception:  # what is wrong with the module is said when it is tried
        return {}
    return watch.limits
