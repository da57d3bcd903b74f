"""Contrastive training: two views of one drawing are to be alike, and unlike the views of all other drawings.

Everything of step t follows from (seed, t): which drawings, which views. So a training that was interrupted goes on
exactly where it was, and needs no state of a generator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.pictures.drawing import Canvas, pictures
from dpmac.pictures.encoder import WIDTHS, Encoder
from dpmac.pictures.numbers import Quick
from dpmac.pictures.views import Views, view
from dpmac.randomness import SeededNoise
from dpmac.randomness.seeded import torch_draws_from

_AHEAD = 8  # steps whose drawings are made at once: an accelerator spends its time on pictures then, not on starts


@dataclass(frozen=True)
class Recipe:
    """Everything that a trained encoder follows from, but for the machine."""

    channels: int = 1
    side: int = 28
    style: str = "shapes"
    widths: tuple[int, ...] = WIDTHS
    seed: int = 0
    steps: int = 6_000
    batch: int = 2_048
    temperature: float = 0.15
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    warm_up: int = 200
    views: Views = field(default_factory=Views)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rate_at(self, step: int) -> float:
        """A linear start, then half a cosine down to 0."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        part = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * min(1.0, part)))


class Learner(nn.Module):
    """An encoder and the head on its averaged stages that only training needs."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.encoder = Encoder(recipe.channels, recipe.widths)
        wide = sum(recipe.widths[2:])
        self.head = nn.Sequential(nn.Linear(wide, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, views: Tensor) -> Tensor:
        stages = self.encoder(views)
        pooled = [F.layer_norm(stage.mean(dim=(2, 3)).float(), stage.shape[1:2]) for stage in stages]
        return F.normalize(self.head(torch.cat(pooled, dim=1)).float(), dim=1)


class Training:
    """A training on one device, step by step."""

    def __init__(self, recipe: Recipe, device: torch.device | str = "cpu", compiled: bool = False) -> None:
        self.recipe, self.device, self.done = recipe, torch.device(device), 0
        self.canvas = Canvas(recipe.side, recipe.side, recipe.channels, recipe.style)
        self._source = SeededNoise(recipe.seed).spawn("drawn encoder")
        with torch_draws_from(self._source.spawn("weights")):
            learner = Learner(recipe)
        self.learner = learner.to(memory_format=torch.channels_last).to(self.device)  # type: ignore[call-overload]
        self._forward = self.learner.forward
        if compiled:
            self._forward = torch.compile(self.learner, dynamic=False)
        self._views: tuple[int, Tensor] = (-1, torch.empty(0))
        groups = [
            {"params": [p for p in self.learner.parameters() if p.dim() > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in self.learner.parameters() if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(
            groups, lr=recipe.learning_rate, betas=(0.9, 0.98), fused=self.device.type == "cuda"
        )

    def views_of(self, purpose: str, batches: int) -> Tensor:
        """Two views of each drawing: (batches, 2 batch, channels, side, side), in each batch the first ones first."""
        numbers, batch = Quick(self._source.spawn(purpose), self.device), self.recipe.batch
        drawn = pictures(numbers, batches * batch, self.canvas)
        both = [view(numbers, drawn, self.recipe.views).reshape(batches, batch, *drawn.shape[1:]) for _ in range(2)]
        return torch.cat(both, dim=1)

    def _batch(self) -> Tensor:
        """The views of the next step."""
        block, place = divmod(self.done, _AHEAD)
        if self._views[0] != block:
            self._views = (block, self.views_of(f"steps from {block * _AHEAD}", _AHEAD))
        return self._views[1][place].contiguous(memory_format=torch.channels_last)

    def step(self) -> Tensor:
        """One step of AdamW; gives back the loss before it, without waiting for the device."""
        views = self._batch()
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate_at(self.done)
        self.learner.train()
        self.optimiser.zero_grad(set_to_none=True)
        with half_where_quick(self.device):
            codes = self._forward(views)
        loss, _ = contrast(codes, self.recipe.temperature)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        self.optimiser.step()
        self.done += 1
        return loss.detach()

    @torch.no_grad()
    def tested(self) -> dict[str, float]:
        """Loss, and how often the other view is the nearest one, on drawings that training never sees."""
        self.learner.eval()
        with half_where_quick(self.device):
            codes = self.learner(self.views_of("held out", 1)[0])
        loss, found = contrast(codes, self.recipe.temperature)
        return {"loss": round(float(loss), 4), "found": round(float(found), 4)}

    def state(self) -> dict[str, Any]:
        return {"done": self.done, "learner": self.learner.state_dict(), "optimiser": self.optimiser.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.done = int(state["done"])
        self.learner.load_state_dict(state["learner"])
        self.optimiser.load_state_dict(state["optimiser"])


def contrast(codes: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The loss of codes (2 n, width) of length 1, of which i and n + i belong together; and how many are found."""
    count = len(codes) // 2
    alike = codes @ codes.T / temperature
    alike.fill_diagonal_(-torch.inf)
    other = (torch.arange(2 * count, device=codes.device) + count) % (2 * count)
    return F.cross_entropy(alike, other), (alike.argmax(dim=1) == other).float().mean()


@contextmanager
def half_where_quick(device: torch.device) -> Iterator[None]:
    """bfloat16 on an accelerator; single precision on a CPU, where it would be slower."""
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        yield
