"""Inputs of networks, made on a GPU of what bundle.py has written: codes as TableEncoder makes them, and whitening.

Needs numpy and torch, and nothing of dpmac: a test compares with the package (tests/benchmarks/test_search.py).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

CODE = 0.5  # a quarter to each side, as in dpmac.tables
FLOOR, LENGTH = 1e-3, 6.0  # of a whitening, as in dpmac.priors
GONE = 65_535
BLOCK = 16_384


@dataclass(frozen=True)
class Data:
    """One table of the bundle on a device: rows to train on, rows to judge on, and what the prior has drawn."""

    about: dict[str, Any]
    codes: Tensor
    y: Tensor
    drawn: Tensor
    fit: Tensor
    held: Tensor


def load(folder: Path, name: str, device: str, split: int = 0, most_held: int = 30_000) -> Data:
    about = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(folder / f"{name}.npz") as file:
        codes, y = torch.from_numpy(np.ascontiguousarray(file["codes"])), torch.from_numpy(file["y"])
        drawn = unpacked(file["drawn"], about["columns"])
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1000 + split))
    many = len(order) // 5
    fit, held = order[many:].to(device), order[: min(many, most_held)].to(device)
    return Data(about, codes.to(device), y.to(device), drawn.to(device), fit, held)


def unpacked(kept: np.ndarray[Any, Any], columns: list[dict[str, Any]]) -> Tensor:
    """Drawn rows again as codes, float32."""
    rows = kept.astype(np.float64)
    for place, column in enumerate(columns):
        if "low" in column:
            share = (rows[:, place] / (GONE - 1)) ** 4
            rows[:, place] = column["low"] + share * (column["high"] - column["low"])
    rows[kept == GONE] = math.nan
    return torch.from_numpy(rows.astype(np.float32))


def encode(codes: Tensor, columns: list[dict[str, Any]], bins: int) -> Tensor:
    """The inputs of rows of codes (n, columns), in the precision of the codes."""
    found: list[Tensor] = []
    for place, column in enumerate(columns):
        code = codes[:, place : place + 1]
        there = torch.isfinite(code)
        value = torch.where(there, code, torch.zeros_like(code))
        if "low" in column:
            above, width = value.clamp(column["low"], column["high"]) - column["low"], column["high"] - column["low"]
            found += _range(above / width, there, bins)
            if column["wide"]:
                found += _range(torch.log1p(above) / math.log1p(width), there, bins)
        else:
            other = column["values"]
            place_of = torch.where((value >= 0) & (value < other), value, torch.full_like(value, other))
            found.append(((place_of == torch.arange(other + 1, device=code.device)) & there).to(code.dtype))
        if column["missing"]:
            found.append((~there).to(code.dtype))
    return torch.cat(found, dim=1)


def _range(place: Tensor, there: Tensor, bins: int) -> list[Tensor]:
    place, nothing = place.clamp(0.0, 1.0), torch.zeros_like(place)
    steps = torch.arange(bins, dtype=place.dtype, device=place.device)
    pieces = ((bins * place - steps).clamp(0.0, 1.0) - 0.5) * CODE
    return [torch.where(there, 2 * place - 1, nothing), torch.where(there, pieces, nothing)]


@dataclass(frozen=True)
class Moments:
    """Of drawn rows' inputs: what every power's whitening is made of."""

    centre: Tensor
    values: Tensor
    vectors: Tensor
    sample: Tensor  # centred inputs of drawn rows

    def matrix(self, power: float, keep: int | None) -> Tensor:
        """Turns centred inputs; ``keep`` directions only, or all and back again."""
        found = self.vectors * (self.values / self.values[0] + FLOOR) ** -power
        found = found @ self.vectors.T if keep is None else found[:, :keep]
        return found * (LENGTH / torch.linalg.vector_norm(self.sample @ found, dim=1).mean())


def moments(drawn: Tensor, columns: list[dict[str, Any]], bins: int) -> Moments:
    rows = encode(drawn.double(), columns, bins)
    centre = rows.mean(0)
    rows = rows - centre
    covariance = rows.T @ rows / len(rows)
    try:
        values, vectors = torch.linalg.eigh(covariance)
    except RuntimeError:  # a solver that does not converge on one device does so on another
        values, vectors = (found.to(rows.device) for found in torch.linalg.eigh(covariance.cpu()))
    return Moments(centre, values.flip(0).clamp(min=0.0), vectors.flip(1), rows[:4096])


def inputs(data: Data, bins: int, power: float, keep: int | None, of: Moments | None) -> Tensor:
    """Inputs of all rows, float32, and a last column of ones: its weights are the biases of the layer above."""
    blocks = []
    matrix = None if of is None or power == 0 else of.matrix(power, keep).float()
    for codes in torch.split(data.codes, BLOCK):
        rows = encode(codes.double() if matrix is None else codes, data.about["columns"], bins)
        if matrix is not None and of is not None:
            rows = (rows - of.centre.float()) @ matrix
        blocks.append(torch.cat([rows.float(), torch.ones_like(rows[:, :1], dtype=torch.float32)], dim=1))
    return torch.cat(blocks)
