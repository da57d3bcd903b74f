"""The training that tests run in several processes: small, with shards of unequal length."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpmac.extensions.world import World
from dpmac.methods import NormHistogram
from dpmac.nets import LOSSES, DenseNetwork
from dpmac.privacy import JointClip, Ledger, PerLayerClip, Plan
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Run, Trainer, costs_before, fit_with_learned_thresholds
from dpmac.training.checkpoint import Checkpoints

N, STEPS = 300, 12


def rows() -> tuple[Tensor, Tensor]:
    x = SeededNoise(5, "/rows").normal((N, 6)).float()
    return x, torch.eye(3)[(x[:, 0] > 0).long() + (x[:, 1] > 0).long()]


def shard(world: World) -> tuple[Tensor, Tensor]:
    """Uneven parts: the last process has most rows."""
    ends = [round(N * (rank / world.size) ** 1.3) for rank in range(world.size + 1)]
    x, y = rows()
    mine = slice(ends[world.rank], ends[world.rank + 1])
    return x[mine].contiguous(), y[mine].contiguous()


def trainer(world: World, **other: Any) -> Trainer:
    sigma, steps = other.pop("sigma", 1.0), other.pop("steps", STEPS)
    plan = Plan(n=N, batch_size=60, steps=steps, noise_multiplier=sigma, delta=1e-5)
    source = SystemNoise() if other.pop("unseeded", False) else SeededNoise(3)
    network = DenseNetwork([6, 8, 3], "relu", source=source.spawn("weights"))
    usual: dict[str, Any] = {"bound": JointClip(1.0), "source": source, "loss": LOSSES["softmax"]}
    return Trainer(network, plan=plan, world=world, **{**usual, **other})


def said(run: Run) -> dict[str, Any]:
    return {
        "weights": torch.cat([p.detach().flatten() for p in run.model.parameters()]).tolist(),
        "mechanisms": [str(m) for m in run.ledger.mechanisms()],
        "releases": len(run.ledger),
    }


def ledger_of(world: World, path: str | None) -> Ledger | None:
    return Ledger.at(path) if path is not None and world.leads else None


def trained(world: World, ledger: str | None, other: dict[str, Any], slow: int | None = None) -> dict[str, Any]:
    """A whole training; process ``slow`` dawdles."""
    pause = {"on_step": lambda *_: time.sleep(0.03)} if world.rank == slow else {}
    return said(trainer(world, **other, **pause).fit(*shard(world), ledger=ledger_of(world, ledger)))


def learned(world: World) -> dict[str, Any]:
    """The paper's Algorithm 2: a training, a histogram, and a training with the thresholds that it gave."""
    first, norms = Plan(n=N, batch_size=60, steps=4, noise_multiplier=1.0, delta=1e-5), NormHistogram(2.0)
    made = trainer(world, bound=PerLayerClip(1.0))
    made.plan = replace(made.plan, before=costs_before(first, norms))
    return said(fit_with_learned_thresholds(made, first, norms, *shard(world)))


def gone_on(world: World, folder: str, other: dict[str, Any], every: float = 0.0, pause: float = 0.0) -> dict[str, Any]:
    """A training with checkpoints, begun or continued; ``pause`` seconds after every step."""
    made = trainer(world, **other, on_step=lambda *_: time.sleep(pause))
    checkpoints = Checkpoints(f"{folder}/checkpoint", every)
    return said(made.fit(*shard(world), ledger=ledger_of(world, f"{folder}/ledger"), checkpoints=checkpoints))
