"""What each Z-step gives the layers to learn from, and what it costs: the "vanishing updates", measured.

The network is the paper's USPS autoencoder, 256-300-100-20-100-300-256 with squared error, at its initial weights and
after some training without privacy. For every Z-step the table shows

    layer 1 .. 6   median over the examples of the norm of their update of that layer: the slope part times the loss's
                   weight, and times mu in the hidden layers of Z-steps that have one, as in MAC's objective
    last/first     layer 6 over layer 1. Back-propagation's is what the network itself does; far above it the first
                   layers starve
    cosine         of the layer's update summed over the examples with back-propagation's, layers 1 to 6
    time           of one solve of all rows, as a multiple of FixedPrediction's (rounds interleaved, median)

FixedPrediction is back-propagation (its cosines are 1), so its row is the one to compare with.

    python benchmarks/z_steps.py [--rows 200] [--steps 100] [--hidden relu tanh] [--scale 0 1]

The rows are real USPS images from $DPMAC_DATA/usps/usps_all.mat or ../shared/data/usps/usps_all.mat; where neither is
there, scikit-learn's digits with a 64-...-64 network. No privacy: this looks straight at per-example numbers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dpmac.mac import (
    AdamCoordinates,
    Coordinates,
    ErrorCoordinates,
    FirstOrder,
    FixedPrediction,
    GaussNewton,
    OptimizerStep,
    ZStep,
)
from dpmac.mac.coordinates import problems_of
from dpmac.nets import DenseNetwork, Network, SquaredError
from dpmac.privacy import Plan, Unbounded
from dpmac.randomness import SeededNoise
from dpmac.training import Trainer

HIDDEN = (300, 100, 20, 100, 300)
LOSS = SquaredError()
SGD = torch.optim.SGD
Z_STEPS: dict[str, ZStep] = {
    "FixedPrediction (back-propagation)": FixedPrediction(),
    "paper: 30 Adam steps, 1e-3": AdamCoordinates(steps=30, lr=1e-3),
    "5 plain gradient steps, 0.1": AdamCoordinates(steps=5, lr=0.1, optimizer=SGD),
    "equilibrium: 500 plain steps, 0.1": AdamCoordinates(steps=500, lr=0.1, optimizer=SGD),
    "ErrorCoordinates (10 Adam steps, 3e-3)": ErrorCoordinates(),
    "ErrorCoordinates (5 plain steps, 0.01)": ErrorCoordinates(steps=5, lr=0.01, optimizer=SGD),
    "GaussNewton, mu 0.1": GaussNewton(0.1),
    "GaussNewton, mu 1": GaussNewton(1.0),
    "GaussNewton, mu 100": GaussNewton(100.0),
}


def images(rows: int, low: float, high: float) -> tuple[str, Tensor]:
    """``rows`` images, classes in turn, scaled from their public range (8-bit greys, or 0 to 16) to [low, high]."""
    places = [os.environ.get("DPMAC_DATA"), Path(__file__).resolve().parents[2] / "shared" / "data"]
    found = [p for p in (Path(place) / "usps" / "usps_all.mat" for place in places if place) if p.is_file()]
    if found:
        from scipy.io import loadmat

        pixels = torch.from_numpy(loadmat(found[0])["data"].astype("float32")) / 255  # (256, 1100 a class, 10)
        table = pixels.permute(1, 2, 0).reshape(-1, 256)  # classes take turns
        name = "USPS"
    else:
        from sklearn.datasets import load_digits

        table = torch.from_numpy(load_digits().data.astype("float32")) / 16
        name = "scikit-learn's digits (no usps_all.mat found)"
    return name, (low + (high - low) * table[:rows]).contiguous()


def trained(network: Network, x: Tensor, steps: int) -> Network:
    """The network after ``steps`` steps on all rows, by back-propagation's directions and without noise."""
    plan = Plan(n=len(x), batch_size=len(x), steps=steps, noise_multiplier=0.0, delta=0.1 / len(x))
    wstep = OptimizerStep(lr=1e-3)
    trainer = Trainer(
        network, LOSS, plan, zstep=FixedPrediction(), bound=Unbounded(), wstep=wstep, source=SeededNoise(1)
    )
    return trainer.fit(x, x).model


def updates(network: Network, zstep: ZStep, coordinates: Coordinates) -> tuple[list[float], list[Tensor]]:
    """Per layer: the median of the examples' update norms, and the sum of their updates."""
    mu = getattr(zstep, "mu", 1.0)
    factors = [mu * problem.loss.weight for problem in problems_of(network, LOSS)[:-1]] + [LOSS.weight]
    parts = FirstOrder().parts(network, LOSS, coordinates)
    medians = [factor * float(part.norms().median()) for factor, part in zip(factors, parts, strict=True)]
    return medians, [part.total() for part in parts]


def solved(network: Network, x: Tensor, rounds: int = 3) -> tuple[dict[str, Coordinates], dict[str, float]]:
    """Every Z-step's coordinates and median seconds: in turns, so that a noisy machine disturbs all alike."""
    found = {name: zstep.solve(network, LOSS, x, x) for name, zstep in Z_STEPS.items()}  # warms up, too
    times: dict[str, list[float]] = {name: [] for name in Z_STEPS}
    for _ in range(rounds):
        for name, zstep in Z_STEPS.items():
            start = time.perf_counter()
            zstep.solve(network, LOSS, x, x)
            times[name].append(time.perf_counter() - start)
    return found, {name: statistics.median(values) for name, values in times.items()}


def table(network: Network, x: Tensor) -> list[str]:
    """The Markdown table of all Z-steps."""
    found, seconds = solved(network, x)
    first = next(iter(Z_STEPS))
    _, reference = updates(network, Z_STEPS[first], found[first])
    layers = len(reference)
    head = ["Z-step", *(f"layer {k}" for k in range(1, layers + 1)), "last/first", f"cosine 1 .. {layers}", "time"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for name, zstep in Z_STEPS.items():
        medians, sums = updates(network, zstep, found[name])
        cosines = [
            float(torch.cosine_similarity(a.flatten(), b.flatten(), dim=0))
            for a, b in zip(sums, reference, strict=True)
        ]
        cells = [name, *(f"{m:.2g}" for m in medians), f"{medians[-1] / max(medians[0], 1e-300):.2g}"]
        cells += [" ".join(f"{c:.2f}" for c in cosines), f"{seconds[name] / seconds[first]:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", f"(FixedPrediction takes {1e3 * seconds[first]:.2f} ms.)"]


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200, help="images to look at and to train on (default 200)")
    parser.add_argument("--steps", type=int, default=100, help="training steps before the second table (default 100)")
    parser.add_argument(
        "--hidden", nargs="+", default=["relu", "tanh"], help="activations to try (default: relu tanh; also elu, gelu)"
    )
    parser.add_argument(
        "--scale", nargs=2, type=float, default=[0.0, 1.0], metavar=("LOW", "HIGH"), help="pixel range (default 0 1)"
    )
    found = parser.parse_args(arguments)
    if found.rows < 2 or found.steps < 1:
        parser.error("give at least 2 rows and 1 step")
    return found


def main() -> None:
    chosen = parsed()
    data, x = images(chosen.rows, *chosen.scale)
    sizes = (x.shape[1], *HIDDEN, x.shape[1])
    for hidden in chosen.hidden:
        network = DenseNetwork(sizes, hidden, source=SeededNoise(0))
        later = trained(network, x, chosen.steps)
        for when, net in (("at the start", network), (f"after {chosen.steps} steps", later)):
            with torch.no_grad():
                error = float(LOSS.weight * LOSS.value(net(x), x).mean())
            print(f"\n{'-'.join(map(str, sizes))}, {hidden}, {when} (error {error:.2f}), {len(x)} rows of {data}")
            print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
            print("\n".join(table(net, x)), flush=True)


if __name__ == "__main__":
    main()
