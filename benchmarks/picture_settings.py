r"""Settings of DPMACImageClassifier on held-out *training* rows, by simulated private trainings: several side by side.

    python benchmarks/picture_settings.py fashion --data FOLDER --epsilon 2 --batch 2048 --steps 800 \
        --directions 2000 4000 --rate 0.01 --threshold 0.05 0.1

All combinations of directions, rates and thresholds (in mean lengths of a drawing) are trained at once on the same
batches, each with noise of its own: that of the plan that the estimator would make, drawn by torch. Batches are windows
of shuffled rows and products are taken in bfloat16, which is quick and no private release. 10,000 training rows (a
quarter of the digits) are held out and scored. Features come from benchmarks/images.py, and are kept where it keeps
them. Give one thread, OMP_NUM_THREADS=1, on a machine that is busy.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import images
import numpy as np
import torch
from torch import Tensor

from dpmac.methods import Calibration
from dpmac.planning.plan import Plan
from dpmac.training.pictures import LENGTH

HELD_OUT = 10_000
AVERAGE = 0.95
CLASSES = 10


@dataclass
class Settings:
    """Combinations side by side: ``scale`` (settings, directions) brings codes to the length of each, 0 leaves out."""

    names: list[tuple[int, float, float]]
    scale: Tensor
    rate: Tensor
    threshold: Tensor


def main() -> None:
    asked = _arguments()
    asked.held_out = True
    codes, labels = images._codes(asked, "train")
    widest = max(asked.directions)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(asked.seed))
    x = torch.cat([torch.tensor(codes[at : at + 8_192, :widest]).bfloat16() for at in range(0, len(codes), 8_192)])
    y = torch.from_numpy(labels).long()
    held = min(HELD_OUT, len(y) // 4)
    if asked.name == "digits":
        x, y = x[order], y[order]
    x, y, others, right = x[:-held], y[:-held], x[-held:], y[-held:]
    if asked.name != "digits":
        shuffled = order[order < len(x)]
        x, y = x[shuffled], y[shuffled]
    settings = _settings(asked)
    noise = _noise(asked, len(x))
    right_of = _trained(asked, settings, noise, x, y)(others).argmax(2) == right.unsqueeze(1)
    for name, score in zip(settings.names, right_of.double().mean(0).tolist(), strict=True):
        print(f"{asked.name}, epsilon {asked.epsilon:g}, {name[0]} directions, rate {name[1]:g}, ", end="")
        print(f"threshold {name[2]:g}, {asked.steps} batches of {asked.batch} (noise {noise:.3f}): {score:.4f}")


def _settings(asked: argparse.Namespace) -> Settings:
    names = list(itertools.product(asked.directions, asked.rate, asked.threshold))
    scale = torch.zeros(len(names), max(asked.directions))
    images._kept(asked, 2, 1.0)  # drawings' codes, if they are not there
    drawn = np.load(asked.out / "drawn-codes.npy")
    for place, (kept, _, _) in enumerate(names):
        scale[place, :kept] = float(LENGTH / np.linalg.norm(drawn[:, :kept], axis=1).mean())
    rates = torch.tensor([rate for _, rate, _ in names]).view(-1, 1, 1)
    return Settings(names, scale, rates, LENGTH * torch.tensor([threshold for *_, threshold in names]))


def _noise(asked: argparse.Namespace, n: int) -> float:
    """The multiplier that the estimator's plan has, with a calibration of 5 % of the budget."""
    if math.isinf(asked.epsilon):
        return 0.0
    after = (Calibration.for_share(0.05, asked.epsilon, images.DELTA, 6).mechanism(),)
    known = {"epsilon": asked.epsilon, "delta": images.DELTA, "n": n, "before": after}
    return Plan.for_budget(**known, batch_size=min(asked.batch, n), steps=asked.steps).noise_multiplier


@torch.no_grad()
def _trained(
    asked: argparse.Namespace, settings: Settings, noise: float, x: Tensor, y: Tensor
) -> Callable[[Tensor], Tensor]:
    """Adam with half a cosine on clipped, noisy gradients; the averaged model as a function of codes."""
    count, width = settings.scale.shape
    draw = torch.Generator().manual_seed(asked.seed)
    weights = [torch.zeros(count, width, CLASSES), torch.zeros(count, 1, CLASSES)]
    mean, square, kept = ([torch.zeros_like(weight) for weight in weights] for _ in range(3))
    blocks = torch.split(x, 2_048)
    lengths = torch.cat([block.float().square() @ settings.scale.square().T for block in blocks]).add_(1.0).sqrt_()
    wanted = torch.nn.functional.one_hot(y, CLASSES).float()

    live = (settings.scale > 0).unsqueeze(2), torch.ones(1)

    def logits(rows: Tensor, by: list[Tensor]) -> Tensor:
        turned = (settings.scale.unsqueeze(2) * by[0]).permute(1, 0, 2).flatten(1)
        return (rows @ turned.bfloat16()).float().view(len(rows), count, CLASSES) + by[1].view(1, count, CLASSES)

    batch = min(asked.batch, len(x))
    for step in range(asked.steps):
        first = int(torch.randint(len(x) - batch + 1, (1,), generator=draw))
        here = slice(first, first + batch)
        wrong = torch.softmax(logits(x[here], weights), 2) - wanted[here].unsqueeze(1)
        norms = wrong.norm(dim=2) * lengths[here]
        wrong *= (settings.threshold / norms.clamp(min=1e-9)).clamp(max=1.0).unsqueeze(2)
        slope = (x[here].T @ wrong.flatten(1).bfloat16()).float().view(width, count, CLASSES).permute(1, 0, 2)
        gradients = [settings.scale.unsqueeze(2) * slope, wrong.sum(0).unsqueeze(1)]
        rate = settings.rate * 0.5 * (1.0 + math.cos(math.pi * step / asked.steps))
        decay = min(AVERAGE, (step + 1) / (11.0 + step))
        for part, gradient in enumerate(gradients):
            spread = noise * settings.threshold.view(-1, 1, 1) * torch.randn(gradient.shape, generator=draw)
            found = (gradient + spread * live[part]) / batch
            mean[part].lerp_(found, 0.1)
            square[part].lerp_(found.square(), 0.001)
            up, down = mean[part] / (1 - 0.9 ** (step + 1)), square[part] / (1 - 0.999 ** (step + 1))
            weights[part] -= rate * up / (down.sqrt() + 1e-8)
            kept[part].lerp_(weights[part], 1.0 - decay)
    return lambda rows: logits(rows, kept)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=images.NAMES)
    parser.add_argument("--data", type=Path, help="the folder of the idx files")
    parser.add_argument("--out", type=Path, default=Path("runs/images"))
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--batch", type=int, default=2_048)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--directions", type=int, nargs="+", default=[2_000])
    parser.add_argument("--rate", type=float, nargs="+", default=[0.01])
    parser.add_argument("--threshold", type=float, nargs="+", default=[0.1])
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
