"""A module's weights in a file that knows what has shaped them. The module itself is code, and is not in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from dpmac.extensions.provenance import PUBLIC, Origin, mark, origin_of
from dpmac.nets.files import read_tensors, rebuilding, write_tensors

FORMAT = "dpmac-module-1"


def save_weights(module: nn.Module, path: str | Path) -> None:
    """Write the ``state_dict`` of ``module`` to a safetensors file, and which releases have shaped it."""
    header: dict[str, Any] = {"format": FORMAT, "module": type(module).__name__}
    known = origin_of(module, name="module")
    if known != PUBLIC:
        header["origin"] = known.to_dict()
    write_tensors(path, header, module.state_dict())


def load_weights(module: nn.Module, path: str | Path) -> nn.Module:
    """Put the weights of a file into ``module``, which must have the same names and shapes, and give it back.

    It then carries the origin that the file states, and is refused for rows whose ledger does not hold that.
    """
    header, weights = read_tensors(path, FORMAT, "the weights of a module")
    with rebuilding(path, "module"):
        module.load_state_dict(weights)
        origin = Origin.from_dict(header.get("origin"))
    mark(module, Origin.merged(origin_of(module, name="module"), origin))
    return module
