"""What a Z-step that descends costs over its own matrix products, on the networks of ``step_cost.py``.

Columns, medians of interleaved rounds:

    products   what the Z-step cannot do without: the forward pass, for each step the products forward and back of every
               layer above the first, and the forward products at the end, each written into a buffer that is there
    Adam       as many steps of torch's fused Adam kernel alone on as many numbers as there are coordinates
    Z-step     ``solve`` as training calls it; its ratio is to the products
    at least   (products + Adam) / products: where the ratio would be if all else took no time

    python benchmarks/z_step_cost.py [--threads 1] [--rounds 15] [--device cuda] [--zstep adam|error] [--hidden relu]

Rows are the batch, rounded up to a multiple of 64. On a machine with other work give one thread and ``--cpu-time``,
which counts the thread's own time only.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import torch
from step_cost import CASES
from torch import Tensor

from dpmac.mac import AdamCoordinates, ErrorCoordinates
from dpmac.mac.zsteps.moves import moves
from dpmac.nets import DenseNetwork, loss
from dpmac.randomness import SeededNoise

Z_STEPS: dict[str, AdamCoordinates | ErrorCoordinates] = {"adam": AdamCoordinates(), "error": ErrorCoordinates()}
Runner = Callable[[], object]


def products(sizes: tuple[int, ...], rows: int, steps: int, device: str) -> Runner:
    weights = [torch.randn(b, a, device=device) for a, b in itertools.pairwise(sizes)]
    biases = [torch.randn(b, device=device) for b in sizes[1:]]
    values = [torch.randn(rows, a, device=device) for a in sizes]
    out = [torch.empty_like(value) for value in values]

    def forward(first: int) -> None:
        for k in range(first, len(weights)):
            torch.addmm(biases[k], values[k], weights[k].T, out=out[k + 1])

    def run() -> None:
        forward(0)
        for _ in range(steps):
            forward(1)
            for k in range(1, len(weights)):
                torch.mm(values[k + 1], weights[k], out=out[k])
        forward(1)

    return run


def adam_alone(sizes: tuple[int, ...], rows: int, steps: int, device: str) -> Runner:
    numbers = torch.randn(rows * sum(sizes[1:-1]), device=device)
    gradient = torch.randn_like(numbers)

    def run() -> None:
        for move in moves(torch.optim.Adam, numbers, gradient, 1e-3, steps):
            move()

    return run


def contenders(case: tuple[tuple[int, ...], str, int, int], name: str, hidden: str, device: str) -> dict[str, Runner]:
    sizes, loss_name, batch, _ = case
    rows, draw, zstep = 64 * -(-batch // 64), SeededNoise(0), Z_STEPS[name]
    x = draw.normal((rows, sizes[0])).float().to(device)
    y: Tensor = x if loss_name == "squared" else torch.eye(sizes[-1])[(draw.uniform(rows) * sizes[-1]).long()]
    network, g, y = DenseNetwork(sizes, hidden, source=SeededNoise(1)).to(device), loss(loss_name), y.to(device)
    return {
        "products": torch.no_grad()(products(sizes, rows, zstep.steps, device)),
        "Adam": torch.no_grad()(adam_alone(sizes, rows, zstep.steps, device)),
        "Z-step": lambda: zstep.solve(network, g, x, y),
    }


def timed(runners: dict[str, Runner], rounds: int, device: str, clock: Callable[[], float]) -> dict[str, float]:
    """Median milliseconds of each; two rounds before the first that counts."""
    times: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(rounds + 2):
        for name, run in runners.items():
            start = clock()
            run()
            if device != "cpu":
                torch.cuda.synchronize()
            if turn >= 2:
                times[name].append(clock() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds (default 15)")
    parser.add_argument("--threads", type=int, help="of torch; its own choice otherwise")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--zstep", choices=sorted(Z_STEPS), default="adam")
    parser.add_argument("--hidden", default="relu", help="the hidden layers' activation (default relu)")
    parser.add_argument("--cpu-time", action="store_true", help="the thread's own time; for one thread on a CPU")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    if given.cpu_time and (torch.get_num_threads() > 1 or given.device != "cpu"):
        parser.error("--cpu-time is for --threads 1 on a CPU")
    steps = Z_STEPS[given.zstep].steps
    print(
        f"{steps} steps, {given.hidden}; torch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads\n"
    )
    print("| | products, ms | Adam, ms | Z-step, ms | Z-step / products | at least |\n|---|--:|--:|--:|--:|--:|")
    for title, case in CASES.items():
        runners = contenders(case, given.zstep, given.hidden, given.device)
        clock = time.thread_time if given.cpu_time else time.perf_counter
        p, a, z = timed(runners, given.rounds, given.device, clock).values()
        print(f"| {title} | {p:.1f} | {a:.1f} | {z:.1f} | {z / p:.2f} | {(p + a) / p:.2f} |", flush=True)


if __name__ == "__main__":
    main()
