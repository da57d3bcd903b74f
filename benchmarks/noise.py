"""What random numbers cost, side by side in one run: ours, from a cipher, and the usual generators, which are none.

    python benchmarks/noise.py [--gaussians 235000] [--uniforms 60000] [--rounds 41]

235,000 Gaussians are about what one release of the paper's USPS autoencoder adds (ours are rounded to a grid, exactly,
as a release adds them), 60,000 uniforms are the Poisson sample of one step on MNIST. "os.urandom" is how version 0.1
did it: every word from the kernel, and the same transform. With a CUDA device there are tables for it as well. One
thread; rounds are interleaved, and the first decile is shown, which a busy machine disturbs least; read the ratios, not
the milliseconds.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread for all: ours never takes more

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from dpmac.randomness import SeededNoise, SystemNoise

Contenders = dict[str, Callable[[], object]]
OURS = "SystemNoise"


def kernel_uniforms(count: int) -> Tensor:
    words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    return torch.from_numpy((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def kernel_gaussians(count: int) -> Tensor:
    half = (count + 1) // 2
    tiny = kernel_uniforms(half) + 2.0**-53 * (kernel_uniforms(half) + 2.0**-53)
    radius = torch.sqrt(-2.0 * torch.log(torch.clamp(tiny, max=1.0)))
    angle = 2.0 * math.pi * kernel_uniforms(half)
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)])[:count]


def on_the_cpu(gaussians: int, uniforms: int) -> dict[str, Contenders]:
    source, seeded = SystemNoise(), SeededNoise(0)
    return {
        f"{gaussians:,} Gaussians": {
            OURS: lambda: next(source.steps([gaussians], 21)),
            "SystemNoise, not exact": lambda: source.normal((gaussians,)),
            "os.urandom": lambda: kernel_gaussians(gaussians),
            "SeededNoise (NumPy's Philox)": lambda: seeded.normal((gaussians,)),
            "torch.randn, double": lambda: torch.randn(gaussians, dtype=torch.float64),
            "torch.randn, single": lambda: torch.randn(gaussians),
        },
        f"{uniforms:,} uniforms": {
            OURS: lambda: source.uniform(uniforms),
            "os.urandom": lambda: kernel_uniforms(uniforms),
            "SeededNoise (NumPy's Philox)": lambda: seeded.uniform(uniforms),
            "torch.rand, double": lambda: torch.rand(uniforms, dtype=torch.float64),
        },
        "10 Gaussians": {
            OURS: lambda: next(source.steps([10], 21)),
            "os.urandom": lambda: kernel_gaussians(10),
            "SeededNoise (NumPy's Philox)": lambda: seeded.normal((10,)),
            "torch.randn, double": lambda: torch.randn(10, dtype=torch.float64),
        },
    }


def on_a_device(gaussians: int) -> dict[str, Contenders]:
    source = SystemNoise()
    return {
        f"{gaussians:,} Gaussians on {torch.cuda.get_device_name()}": {
            OURS: lambda: next(source.steps([gaussians], 21, "cuda")),
            "SystemNoise, made on the CPU": lambda: next(source.steps([gaussians], 21)).to("cuda"),
            "torch.randn, double": lambda: torch.randn(gaussians, dtype=torch.float64, device="cuda"),
            "torch.randn, single": lambda: torch.randn(gaussians, device="cuda"),
        }
    }


def seconds(contenders: Contenders, rounds: int) -> dict[str, float]:
    """The first decile of each one's times, rounds interleaved, after two that do not count."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(rounds + 2):
        for name, draw in contenders.items():
            wait()
            start = time.perf_counter()
            draw()
            wait()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.quantiles(times[2:], n=10)[0] for name, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaussians", type=int, default=235_000)
    parser.add_argument("--uniforms", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    cases = on_the_cpu(options.gaussians, options.uniforms)
    if torch.cuda.is_available():
        cases |= on_a_device(options.gaussians) | on_a_device(3_000_000)
    for title, contenders in cases.items():
        table = Table(title=title, title_justify="left")
        for heading in ("", "milliseconds", f"times {OURS}"):
            table.add_column(heading, justify="right" if heading else "left")
        taken = seconds(contenders, options.rounds)
        for name, time_taken in taken.items():
            table.add_row(name, f"{1e3 * time_taken:.3f}", f"{time_taken / taken[OURS]:.2f}")
        Console().print(table)


if __name__ == "__main__":
    main()
