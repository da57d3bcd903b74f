"""Safetensors files with a header of ours: one way to write them, one way to read them. Nothing in them is executed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpmac.checks import ArgumentError


def write_tensors(path: str | Path, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors`` under a JSON ``header``, which names its format under "format"; all of it or nothing.

    The file is written beside its place under a name of ours, so that whoever was killed at it can be tidied up after
    (safetensors' own writer takes a name that nobody knows).
    """
    from safetensors.torch import save

    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    kept = kept or {"nothing": torch.zeros(0)}  # a file of no tensors has no header either
    place = Path(path)
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        part.write_bytes(save(kept, metadata={"dpmac": json.dumps(header)}))
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


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
        raw = Path(path).read_bytes()
        tensors: dict[str, Tensor] = load(raw)
        whole = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])  # which load has looked over
        header = json.loads(whole.get("__metadata__", {}).get("dpmac", "{}"))
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
