"""What one private training step costs, side by side in one run: DP-MAC, Opacus's DP-SGD, and torch without privacy.

Each contender takes the same number of steps of the paper's MNIST network (60-300-10, batch 1000) and of its USPS
autoencoder (256-300-100-20-100-300-256, batch 500). A DP-MAC step is whole: it draws its Poisson sample from all rows
(60,000 and 5,000) by cryptographic randomness, and computes on the places kept free for a larger sample as well. Opacus
and torch are handed one batch of exactly that size: their sampling is not in their time. Rounds are interleaved and
the median is taken, so a noisy machine disturbs all alike; read the ratios, not the milliseconds.

    make bench        or        python benchmarks/step_cost.py [--rounds 25]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpmac.mac import AdamCoordinates, FirstOrder, FixedPrediction, OptimizerStep, ZStep
from dpmac.nets import DenseNetwork, Loss, loss
from dpmac.privacy import Ledger, PerLayerClip, PoissonSampler, PrivateRows, release
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step

CASES = {
    "MNIST classifier 60-300-10, batch 1000": ((60, 300, 10), "softmax", 1000, 60_000),
    "USPS autoencoder 256-300-100-20-100-300-256, batch 500": (
        (256, 300, 100, 20, 100, 300, 256),
        "squared",
        500,
        5_000,
    ),
}
SIGMA, THETA = 1.0, 0.3


def dp_mac(network: DenseNetwork, g: Loss, x: Tensor, y: Tensor, batch: int, zstep: ZStep) -> Callable[[], None]:
    way = Step(network, g, zstep, FirstOrder(), PerLayerClip(THETA))
    updater = OptimizerStep(lr=1e-3).start(network, 1000)
    rows, ledger, source = PrivateRows(x, y), Ledger(), SystemNoise()
    sampler = PoissonSampler(len(x), batch / len(x), source)

    def step() -> None:
        answer = release(
            rows.sample(sampler), way.query(), noise_multiplier=SIGMA, source=source, ledger=ledger, divisor=batch
        )
        updater.apply(way.polynomials(answer))

    return step


def objective(g: Loss, u: Tensor, y: Tensor) -> Tensor:
    return g.weight * g.value(u, y).sum() / len(y)


def opacus(module: nn.Module, g: Loss, x: Tensor, y: Tensor, mode: str) -> Callable[[], None]:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(module, loss_reduction="mean", batch_first=True)
    optimizer = DPOptimizer(
        torch.optim.Adam(wrapped.parameters(), lr=1e-3),
        noise_multiplier=SIGMA,
        max_grad_norm=THETA,
        expected_batch_size=len(x),
        secure_mode=mode == "secure",
    )

    def step() -> None:
        optimizer.zero_grad()
        objective(g, wrapped(x), y).backward()
        optimizer.step()

    return step


def opacus_ghost(module: nn.Module, g: Loss, x: Tensor, y: Tensor) -> Callable[[], None] | None:
    """Opacus's fastest mode. None for squared error: its ghost clipping refuses a loss of many numbers an example."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    if g.name == "squared":
        return None
    wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=THETA, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.Adam(wrapped.parameters(), lr=1e-3),
        noise_multiplier=SIGMA,
        max_grad_norm=THETA,
        expected_batch_size=len(x),
    )
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="mean"), "mean")

    def step() -> None:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return step


def plain(module: nn.Module, g: Loss, x: Tensor, y: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        objective(g, module(x), y).backward()
        optimizer.step()

    return step


def contenders(sizes: tuple[int, ...], name: str, batch: int, n: int) -> dict[str, Callable[[], None]]:
    draw = SeededNoise(0)
    g = loss(name)
    rows = draw.normal((n, sizes[0])).float()
    targets = rows if name == "squared" else torch.eye(sizes[-1])[(draw.uniform(n) * sizes[-1]).long()]
    x, y = rows[:batch], targets[:batch]

    def fresh() -> DenseNetwork:
        return DenseNetwork(sizes, "relu", source=SeededNoise(1))

    found = {
        "torch, not private": plain(fresh().plain(), g, x, y),
        "DP-MAC, fixed prediction": dp_mac(fresh(), g, rows, targets, batch, FixedPrediction()),
        "DP-MAC, 30 Adam Z-steps (paper)": dp_mac(fresh(), g, rows, targets, batch, AdamCoordinates()),
        "Opacus DP-SGD, ghost clipping": opacus_ghost(fresh().plain(), g, x, y),
        "Opacus DP-SGD, hooks": opacus(fresh().plain(), g, x, y, "fast"),
        "Opacus DP-SGD, hooks, secure_mode": opacus(fresh().plain(), g, x, y, "secure"),
    }
    return {name: step for name, step in found.items() if step is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25, help="timed rounds of every contender (default 25)")
    rounds = parser.parse_args().rounds
    for title, case in CASES.items():
        steps = contenders(*case)
        times: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(rounds + 2):
            for name, step in steps.items():
                start = time.perf_counter()
                step()
                if turn >= 2:  # two rounds to warm up
                    times[name].append(time.perf_counter() - start)
        medians = {name: statistics.median(values) for name, values in times.items()}
        print(f"\n{title}  (torch {torch.__version__}, {torch.get_num_threads()} threads, median of {rounds})")
        for name, value in medians.items():
            ratio = value / medians["DP-MAC, fixed prediction"]
            print(f"  {name:34s} {1e3 * value:9.2f} ms   {ratio:6.2f} x DP-MAC fixed prediction")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns about its own hooks and its random generator
        main()
