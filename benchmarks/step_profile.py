"""Where the time of one private step goes: milliseconds in each piece, by clocks around its functions.

    python benchmarks/step_profile.py ["784-300-10, batch 1000" ...] [--steps 20] [--threads 2]

Rooms are nested: "sums" holds coordinates, bound, check, slopes and gathering; "noise and grid" holds the draw.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import step_cost
import torch

from dpmac.bounds.clipping import JointClip
from dpmac.extensions.ledgers import Ledger
from dpmac.kernels import mixture as mixture_kernel
from dpmac.kernels import rounded as rounded_kernel
from dpmac.kernels.outer import OuterPart
from dpmac.mac.wsteps.optimizer import OptimizerUpdater
from dpmac.mac.zsteps import FixedPrediction
from dpmac.privacy import PrivateRows, gaussian_release, sampling

PIECES: dict[str, tuple[Any, str]] = {
    "drawing the sample": (PrivateRows, "sample"),
    "sums": (gaussian_release, "_block_sums"),
    "  spots": (sampling, "shuffled"),
    "  gathering rows": (sampling, "gathered"),
    "  coordinates: forward and back": (FixedPrediction, "solve"),
    "  bound: norms and factors": (JointClip, "apply"),
    "  check of the promise": (gaussian_release, "_keep_promise"),
    "  summed slopes": (OuterPart, "total"),
    "ledger": (Ledger, "append"),
    "noise and grid": (gaussian_release, "perturbed"),
    "  draws by the transform": (rounded_kernel, "rounded"),
    "  draws by the table": (mixture_kernel, "fill"),
    "weights": (OptimizerUpdater, "apply"),
}


def clocked(spent: dict[str, float]) -> None:
    """Put a clock around every piece's function."""
    for piece, (home, name) in PIECES.items():
        setattr(home, name, _timed(getattr(home, name), piece, spent))


def _timed(inner: Callable[..., Any], piece: str, spent: dict[str, float]) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return inner(*given, **named)
        finally:
            spent[piece] += time.perf_counter() - start

    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(step_cost.CASES))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    spent: dict[str, float] = defaultdict(float)
    clocked(spent)
    for title in given.cases:
        step = step_cost.contenders(*step_cost.CASES[title], "cpu", False)["dpmac"]
        for _ in range(4):
            step()
        spent.clear()
        start = time.perf_counter()
        for _ in range(given.steps):
            step()
        print(f"\n{title}: {1e3 * (time.perf_counter() - start) / given.steps:.2f} ms, {given.threads} threads")
        for piece in PIECES:
            print(f"  {piece:34s} {1e3 * spent[piece] / given.steps:8.2f} ms")


if __name__ == "__main__":
    main()
