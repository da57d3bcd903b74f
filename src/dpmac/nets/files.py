"""Safetensors files with a header of ours: one way to write them, one way to read them. Nothing in them is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def write_tensors(path: str | Path, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors`` under a JSON ``header``, which names its format under "format"."""
    from safetensors.torch import save_file

    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    kept = kept or {"nothing": torch.zeros(0)}  # a file of no tensors has no header either
    Path(path).touch()  # with the user's own permissions, which safetensors would narrow
    mode = Path(path).stat().st_mode
    save_file(kept, str(path), metadata={"dpmac": json.dumps(header)})
    Path(path).chmod(mode)


def read_tensors(path: str | Path, known: str, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file of format ``known``; a ValueError names a file that is cut short or another's."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file; give the path of {what}")
    try:
        with safe_open(str(path), framework="pt") as handle:
            header = json.loads((handle.metadata() or {}).get("dpmac", "{}"))
            tensors: dict[str, Tensor] = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}): it is damaged, cut short, or no safetensors file") from None
    if not isinstance(header, dict) or header.get("format") != known:
        raise ValueError(f"{path} is not {what} (no {known} header): it was not written by save")
    return header, tensors
