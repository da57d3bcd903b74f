"""Safetensors files with a header of ours: one way to write them, one way to read them. Nothing in them is executed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError
from dpmac.files import whole_file
from dpmac.limits import JSON_BYTES, TENSOR_BYTES, parsed, read_bytes


def write_tensors(path: str | Path, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors`` under a JSON ``header``, which names its format under "format"; all of it or nothing.

    By our own hand: safetensors' writer takes a name that nobody knows, so nobody could tidy up after a kill.
    """
    from safetensors.torch import save

    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    kept = kept or {"nothing": torch.zeros(0)}  # a file of no tensors has no header either
    with whole_file(path, "wb") as handle:
        handle.write(save(kept, metadata={"dpmac": json.dumps(header)}))


def read_tensors(path: str | Path, known: str, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file of format ``known``; a ValueError names a file that is cut short or another's.

    The file is read once, and the tensors are copies. (``safe_open`` gives views of the file: whoever writes to it
    later would change a model in memory that was checked, and whoever cuts it would kill the process.)
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file; give the path of {what}")
    try:
        raw = read_bytes(Path(path), TENSOR_BYTES)
        size = int.from_bytes(raw[:8], "little")
        if size > JSON_BYTES:
            raise ValueError(f"it claims a header of {size:,} bytes")
        whole = parsed(raw[8 : 8 + size], longest=size)  # our own header is one text in it
        header = parsed(whole.get("__metadata__", {}).get("dpmac", "{}").encode())
        tensors: dict[str, Tensor] = load(raw)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read ({error}): it is damaged, cut short, or no safetensors file") from None
    if not isinstance(header, dict) or header.get("format") != known:
        raise ValueError(f"{path} is not {what} (no {known} header): it was not written by save")
    return header, tensors


@contextmanager
def rebuilding(path: str | Path, what: str) -> Iterator[None]:
    """Around the making of an object from a file: whatever does not fit is a ValueError that names the file.

    An :class:`ArgumentError` goes through: it names what is wrong, or asks for something.
    """
    try:
        yield
    except ArgumentError:
        raise
    except (
        *(KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError),
        *(RuntimeError, StopIteration, MemoryError),  # RuntimeError: torch's, and nesting that is too deep
    ) as error:
        raise ValueError(f"{path} does not hold a whole {what} ({(str(error).splitlines() or [''])[0]})") from None
