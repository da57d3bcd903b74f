"""What one private training step costs, side by side in one run: dpmac, every mode of Opacus, torch, and the floor.

Each contender takes steps of the same network at the same batch size. A step of dpmac is whole: it draws its Poisson
sample from all rows and its noise from a cipher keyed by the operating system, checks every bound, writes the ledger
and moves the weights; it computes on the places kept free for a larger sample as well. Opacus and torch are handed one
batch of exactly that size: their sampling is not in their time. The floor is the matrix products alone. Rounds are
interleaved and medians taken, so a noisy machine disturbs all alike: read the ratios to torch, not the milliseconds.
"Ghost clipping, batch drawn" is the like-for-like comparison: Opacus's fastest mode with a step as whole as ours, which
draws a Poisson sample of all rows (torch's own generator, one comparison a row) and gathers it.

    make bench        or        python benchmarks/step_cost.py [--rounds 15] [--device cuda] [--threads 2] [--out FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dpmac.mac import AdamCoordinates, OptimizerStep, ZStep
from dpmac.mac.zsteps import FixedPrediction
from dpmac.methods import Gradients
from dpmac.nets import DenseNetwork, Loss, loss
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows, release
from dpmac.randomness import NoiseSource, SeededNoise, SystemNoise
from dpmac.training import Step
from dpmac.training.samples import Samples

AUTOENCODER = (256, 300, 100, 20, 100, 300, 256)
CASES: dict[str, tuple[tuple[int, ...], str, int, int]] = {  # sizes, loss, batch, rows
    "60-300-10, batch 1000": ((60, 300, 10), "softmax", 1000, 60_000),
    "784-300-10, batch 1000": ((784, 300, 10), "softmax", 1000, 60_000),
    "784-300-10, batch 4096": ((784, 300, 10), "softmax", 4096, 60_000),
    "autoencoder, batch 500": (AUTOENCODER, "squared", 500, 5_000),
    "4 x 1024, batch 256": ((784, 1024, 1024, 1024, 1024, 10), "softmax", 256, 60_000),
    "table 253-64-2, batch 2000": ((253, 64, 2), "softmax", 2000, 39_000),
}
SIGMA, THETA = 1.0, 0.3
PER_EXAMPLE = tuple(  # modes that build every example's gradient
    f"Opacus, {mode}"
    for mode in ("fast gradient clipping", "hooks", "hooks, secure_mode", "expanded weights", "functorch")
)
SLOW = (*PER_EXAMPLE, "dpmac, 30 Adam Z-steps (paper)")
ROOM = 2e9  # bytes for every example's gradient on a CPU: more, of which torch takes several copies, is not tried
Stepper = Callable[[], None]
Rows = tuple[Tensor, Tensor]


def dpmac(network: DenseNetwork, g: Loss, x: Tensor, y: Tensor, batch: int, zstep: ZStep, s: NoiseSource) -> Stepper:
    way = Step(network, g, zstep, Gradients(), JointClip(THETA))
    updater = OptimizerStep(lr=1e-3).start(network, 10**6)
    rows, ledger = PrivateRows(x, y), Ledger()
    samples = Samples(rows, Plan(len(x), batch, 1000, SIGMA, 1e-5).sampler(s))  # as a training draws them

    def step() -> None:
        batch_drawn = samples.take(more=True)
        how: dict[str, Any] = {"divisor": batch, "dtype": way.dtype}  # as a trainer asks
        answer = release(batch_drawn, way.query(), noise_multiplier=SIGMA, source=s, ledger=ledger, **how)
        updater.apply(way.polynomials(answer))

    return step


def objective(g: Loss, u: Tensor, y: Tensor) -> Tensor:
    return g.weight * g.value(u, y).sum() / len(y)


def opacus(module: nn.Module, g: Loss, x: Tensor, y: Tensor, mode: str) -> Stepper:
    from opacus.grad_sample import GradSampleModule, GradSampleModuleExpandedWeights
    from opacus.optimizers import DPOptimizer

    kind = GradSampleModuleExpandedWeights if mode == "expanded weights" else GradSampleModule
    more: dict[str, Any] = {"force_functorch": True} if mode == "functorch" else {}
    wrapped = kind(module, loss_reduction="mean", batch_first=True, **more)
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


def opacus_ghost(module: nn.Module, g: Loss, batch: int, give: Callable[[], Rows], ghost: bool) -> Stepper | None:
    """Fast gradient clipping, with or without ghost norms; refuses a loss of many numbers an example."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    if g.name == "squared":
        return None
    wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=THETA, use_ghost_clipping=ghost)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.Adam(wrapped.parameters(), lr=1e-3),
        noise_multiplier=SIGMA,
        max_grad_norm=THETA,
        expected_batch_size=batch,
    )
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="mean"), "mean")

    def step() -> None:
        x, y = give()
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return step


def plain(module: nn.Module, g: Loss, x: Tensor, y: Tensor) -> Stepper:
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        objective(g, module(x), y).backward()
        optimizer.step()

    return step


def floor(sizes: tuple[int, ...], batch: int, device: str) -> Stepper:
    """The products of one forward and one backward pass, and nothing else."""
    weights = [torch.randn(b, a, device=device) for a, b in itertools.pairwise(sizes)]
    inputs = [torch.randn(batch, a, device=device) for a in sizes]

    def step() -> None:
        for k, w in enumerate(weights):
            _ = inputs[k] @ w.T
            _ = inputs[k + 1].T @ inputs[k]
            if k:
                _ = inputs[k + 1] @ w

    return step


def poisson_batches(rows: Tensor, targets: Tensor, batch: int) -> Callable[[], Rows]:
    """A fresh Poisson sample at every call, drawn and gathered as quickly as plain torch does it."""

    def give() -> Rows:
        drawn = torch.nonzero(torch.rand(len(rows), device=rows.device) < batch / len(rows)).flatten()
        return rows.index_select(0, drawn), targets.index_select(0, drawn)

    return give


def contenders(sizes: tuple[int, ...], name: str, batch: int, n: int, device: str, slow: bool) -> dict[str, Stepper]:
    draw, g = SeededNoise(0), loss(name)
    rows = draw.normal((n, sizes[0])).float().to(device)
    targets = rows if name == "squared" else torch.eye(sizes[-1], device=device)[(draw.uniform(n) * sizes[-1]).long()]
    x, y = rows[:batch], targets[:batch]

    def fresh() -> DenseNetwork:
        return DenseNetwork(sizes, "relu", source=SeededNoise(1)).to(device)

    fixed = FixedPrediction()
    found: dict[str, Stepper | None] = {
        "torch, not private": plain(fresh().plain(), g, x, y),
        "floor: products alone": floor(sizes, batch, device),
        "dpmac": dpmac(fresh(), g, rows, targets, batch, fixed, SystemNoise()),
        "dpmac, seeded noise": dpmac(fresh(), g, rows, targets, batch, fixed, SeededNoise(2)),
        "Opacus, ghost clipping": opacus_ghost(fresh().plain(), g, batch, lambda: (x, y), True),
        "Opacus, ghost clipping, batch drawn": opacus_ghost(
            fresh().plain(), g, batch, poisson_batches(rows, targets, batch), True
        ),
    }
    if slow:
        found |= {
            "Opacus, fast gradient clipping": opacus_ghost(fresh().plain(), g, batch, lambda: (x, y), False),
            "Opacus, hooks": opacus(fresh().plain(), g, x, y, "hooks"),
            "Opacus, hooks, secure_mode": opacus(fresh().plain(), g, x, y, "secure"),
            "Opacus, expanded weights": opacus(fresh().plain(), g, x, y, "expanded weights"),
            "Opacus, functorch": opacus(fresh().plain(), g, x, y, "functorch"),
            "dpmac, 30 Adam Z-steps (paper)": dpmac(fresh(), g, rows, targets, batch, AdamCoordinates(), SystemNoise()),
        }
    bytes_each = 4.0 * batch * sum(a * b for a, b in itertools.pairwise(sizes))
    if device == "cpu" and bytes_each > ROOM:
        found = {name: step for name, step in found.items() if name not in PER_EXAMPLE}
    return {name: step for name, step in found.items() if step is not None}


def timed(
    steps: dict[str, Stepper], rounds: int, device: str, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median milliseconds of each, over interleaved rounds; one that fails is named and left out."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 2):
        for name, step in list(steps.items()):
            if name in SLOW and turn > 4:  # two orders slower: three timed rounds will do
                continue
            start = clock()
            try:
                step()
            except Exception as error:
                print(f"  {name} fails: {str(error).splitlines()[0][:90]}")
                del steps[name]
                continue
            if device != "cpu":
                torch.cuda.synchronize()
            if turn >= 2:  # two rounds to warm up
                times[name].append(clock() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items() if values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of every contender (default 15)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, help="of torch; its own choice otherwise")
    parser.add_argument(
        "--cpu-time", action="store_true", help="seconds of the processor, for a busy machine; one thread"
    )
    parser.add_argument("--quick", action="store_true", help="only torch, the floor, dpmac and ghost clipping")
    parser.add_argument("--cases", nargs="+", help="parts of the cases' names; all otherwise")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    clock = time.perf_counter
    if given.cpu_time:  # the processor time of several threads counts what they wait for each other
        torch.set_num_threads(1)
        clock = time.process_time
    found: dict[str, dict[str, float]] = {}
    for title, case in CASES.items():
        if given.cases and not any(part in title for part in given.cases):
            continue
        medians = timed(contenders(*case, given.device, not given.quick), given.rounds, given.device, clock)
        print(f"\n{title}  (torch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads)")
        for name, value in medians.items():
            print(f"  {name:36s} {value:9.2f} ms   {value / medians['torch, not private']:7.2f} x torch", flush=True)
        found[title] = medians
    if given.out:
        where = {"torch": torch.__version__, "device": given.device, "threads": torch.get_num_threads()}
        given.out.write_text(json.dumps({**where, "rounds": given.rounds, "milliseconds": found}, indent=1) + "\n")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns about its own hooks and its random generator
        main()
