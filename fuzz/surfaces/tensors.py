"""Safetensors files: networks, feature maps, components, closed forms and checkpoints, with spoilt headers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpmac import Network
from dpmac.methods.pca import ReleasedPCA
from dpmac.nets.feature_maps import load_feature_map
from dpmac.saving.closed_form import load_closed_form
from dpmac.training.checkpoint import NAME, Checkpoints
from fuzz.cases import Action, Case
from fuzz.mutations import as_json, spoilt_bytes, spoilt_tree
from fuzz.surfaces.starts import checkpoint, saved

READERS: dict[str, Callable[[Path], Any]] = {
    "array/model.safetensors": lambda path: Network.load(path),
    "classifier/front.safetensors": load_feature_map,
    "array/front.safetensors": load_feature_map,
    "pca/model.safetensors": ReleasedPCA.load,
    "autoencoder/model.safetensors": load_closed_form,
    "checkpoint": lambda path: Checkpoints(path.parent).read(),
}
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X", "", None, 3)


def prepare(case: Case) -> Action:
    """A file whose header or bytes are spoilt."""
    name = case.one_of(sorted(READERS))
    case.note(name)
    folder, _, file = name.partition("/")
    raw = checkpoint().read_bytes() if name == "checkpoint" else (saved(folder) / file).read_bytes()
    for _ in case.times():
        raw, said = _spoilt(case, raw)
        case.note(said)
    path = case.folder / (NAME if name == "checkpoint" else "model.safetensors")
    path.write_bytes(raw)
    return lambda: READERS[name](path)


def _spoilt(case: Case, raw: bytes) -> tuple[bytes, str]:
    choice = case.random.randrange(5)
    if choice == 0 or len(raw) < 8:
        return spoilt_bytes(case.random, raw)
    if choice == 1:
        length = case.one_of([0, 1, 7, 2**32, 2**63, 2**64 - 1, len(raw), len(raw) - 8])
        return struct.pack("<Q", length) + raw[8:], f"a header of {length}"
    (length,) = struct.unpack("<Q", raw[:8])
    try:
        header = json.loads(raw[8 : 8 + length])
        return _new_header(case, header, raw[8 + length :])
    except (ValueError, AttributeError, KeyError, TypeError, IndexError, RecursionError):
        return spoilt_bytes(case.random, raw)


def _new_header(case: Case, header: Any, body: bytes) -> tuple[bytes, str]:
    """The header of the tensors (dtype, shape, offsets), or ours inside it, with something wrong."""
    if case.random.random() < 0.6:
        ours = json.loads(header["__metadata__"]["dpmac"])
        ours, said = spoilt_tree(case.random, ours)
        header["__metadata__"]["dpmac"] = json.dumps(ours)
    else:
        name = case.one_of([name for name in header if name != "__metadata__"])
        key = case.one_of(["dtype", "shape", "data_offsets", None])
        if key == "dtype":
            header[name]["dtype"] = case.one_of(DTYPES)
        elif key == "shape":
            header[name]["shape"] = case.one_of([[], [0], [-1], [2**40, 2**40], [1, 2, 3], header[name]["shape"][::-1]])
        elif key == "data_offsets":
            first, last = header[name]["data_offsets"]
            header[name]["data_offsets"] = case.one_of(
                [[last, first], [0, len(body)], [first, last + 8], [2**63, 2**63], []]
            )
        else:
            header, _ = spoilt_tree(case.random, header)
        said = f"{key} of {name}"
    text = as_json(header)
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body, said
