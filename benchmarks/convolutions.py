"""Small convolutional networks from scratch on MNIST, beside DPMACImageClassifier: what its drawn prior is worth.

    python benchmarks/convolutions.py --epsilon 2 --fits 1             # minutes of one core, in three versions

Two convolutions of 16 and 32 channels, group norm, tanh and a linear layer (8,042 weights), trained by
``Trainer.dp_sgd`` with weights averaged; then with standardised weights; then with views as well: a row's loss is the
mean over shifted copies of its picture, so that its gradient is one, and is clipped once. The shifts are fixed, for a
draw could not be made again when a training is resumed.

MNIST is looked for where ``dpmac data`` finds it, or in ``--data``. Results are kept in runs/convolutions, line by
line: what was fitted is not fitted again. ``--held-out`` fits on all training rows but 5,000 and scores these, for
choosing settings; test rows are not read.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac import Plan, Trainer
from dpmac.data import load
from dpmac.mac import OptimizerStep
from dpmac.mac.wsteps import Averaged, cosine
from dpmac.privacy import JointClip
from dpmac.training.progress import progress_bar

DELTA = 1e-5
HELD_OUT = 5_000
CHANNELS = (16, 32)
MICRO_BATCH = 512
SHIFTS = ((0, 0), (1, 1), (-1, -1), (1, -1))  # pixels down and right
VERSIONS = {  # standardised weights? and how many views of a row
    "group norm": (False, 1),
    "and standardised weights": (True, 1),
    "and four views": (True, 4),
}


class StandardisedConv2d(nn.Conv2d):
    """Every filter has mean 0 and length 1 when it is used."""

    def forward(self, input: Tensor) -> Tensor:
        centred = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        weight = centred * torch.rsqrt(centred.square().sum(dim=(1, 2, 3), keepdim=True) + 1e-4)
        return F.conv2d(input, weight, self.bias, self.stride, self.padding)


class ConvNet(nn.Module):
    """Gives the logits of every view of a row, (rows, views, classes); in evaluation the picture is the only view."""

    def __init__(self, standardised: bool = False, views: int = 1, side: int = 28) -> None:
        super().__init__()
        self.side, self.views = side, views
        conv = StandardisedConv2d if standardised else nn.Conv2d
        self.first = conv(1, CHANNELS[0], 5, stride=2, padding=2)
        self.first_norm = nn.GroupNorm(4, CHANNELS[0])
        self.second = conv(CHANNELS[0], CHANNELS[1], 3, stride=2, padding=1)
        self.second_norm = nn.GroupNorm(4, CHANNELS[1])
        self.out = nn.Linear(CHANNELS[1] * ((side // 4 - 3) // 2 + 1) ** 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        views = SHIFTS[: self.views] if self.training else SHIFTS[:1]
        pictures = self.shifted(x.view(-1, 1, self.side, self.side), views)
        inner = torch.tanh(self.first_norm(self.first(pictures)))
        inner = torch.tanh(self.second_norm(self.second(inner)))
        return self.out(F.avg_pool2d(inner, 3, stride=2).flatten(1)).unflatten(0, (-1, len(views)))

    def shifted(self, pictures: Tensor, views: tuple[tuple[int, int], ...]) -> Tensor:
        """(rows * views, 1, side, side): a row's views stand together."""
        if len(views) == 1:
            return pictures
        wide, side = F.pad(pictures, (1, 1, 1, 1)), self.side
        copies = [wide[:, :, 1 - d : 1 - d + side, 1 - r : 1 - r + side] for d, r in views]
        return torch.stack(copies, dim=1).flatten(0, 1)


def mean_over_views(logits: Tensor, labels: Tensor) -> Tensor:
    """One number a row: the mean of the cross-entropies of its views."""
    views = logits.shape[1]
    losses = F.cross_entropy(logits.flatten(0, 1), labels.repeat_interleave(views), reduction="none")
    return losses.view(-1, views).mean(dim=1)


def fit(asked: argparse.Namespace, version: str, epsilon: float) -> dict[str, Any]:
    """One training, and its accuracy. Noise comes from the operating system."""
    data = load("mnist", asked.data)
    x, y, others, right = data.x_train, data.y_train, data.x_test, data.y_test
    if asked.held_out:
        x, y, others, right = x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:]
    plan = Plan.for_budget(epsilon=epsilon, delta=DELTA, n=len(x), batch_size=asked.batch_size, epochs=asked.epochs)
    step = Averaged(OptimizerStep(lr=asked.rate, schedule=cosine), 0.95)
    began, cpu = time.monotonic(), time.process_time()
    with progress_bar(f"{version}, epsilon {epsilon:g}") as on_step:
        more = {"wstep": step, "micro_batch": MICRO_BATCH, "on_step": on_step}
        run = Trainer.dp_sgd(ConvNet(*VERSIONS[version]), mean_over_views, plan, JointClip(1.0), **more).fit(x, y)
    times = {"seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
    network = run.model.eval()
    with torch.no_grad():
        given = torch.cat([network(block)[:, 0].argmax(dim=1) for block in torch.split(others, 1000)])
    return {"accuracy": float((given == right).double().mean()), "stated": run.ledger.epsilon(DELTA), **times}


def main() -> None:
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    asked.out.mkdir(parents=True, exist_ok=True)
    where = asked.out / "mnist.jsonl"
    done = [json.loads(line) for line in where.read_text().splitlines()] if where.exists() else []
    settings = {name: getattr(asked, name) for name in ("batch_size", "epochs", "rate", "held_out")}
    for epsilon in asked.epsilon:
        for version in asked.version:
            same = {"version": version, "epsilon": epsilon, **settings}
            found = [one for one in done if all(one[key] == value for key, value in same.items())]
            for _ in range(len(found), asked.fits):
                found.append({**same, **fit(asked, version, epsilon)})
                with where.open("a") as handle:
                    handle.write(json.dumps(found[-1]) + "\n")
            scores = [one["accuracy"] for one in found[: asked.fits]]
            spent = max(one["stated"] for one in found[: asked.fits])
            cpu = sum(one["cpu"] for one in found[: asked.fits]) / len(scores)
            shown = f"{sum(scores) / len(scores):.4f}, {len(scores)} fits from {min(scores):.4f}"
            print(f"{version}, epsilon {epsilon:g} (stated {spent:.4f}): {shown}; {cpu:.0f} s of a core", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0])
    parser.add_argument("--version", nargs="+", choices=VERSIONS, default=list(VERSIONS))
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--held-out", action="store_true", help="score held-out training rows, not the test rows")
    parser.add_argument("--data", help="folder with MNIST, instead of where dpmac data finds it")
    parser.add_argument("--out", type=Path, default=Path("runs/convolutions"))
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
