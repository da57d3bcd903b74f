"""Peak memory of one private step against the batch size: dpmac, Opacus by ghost clipping and by hooks, and torch.

Every measurement is made in a process of its own. The rows are there (60,000), the libraries are loaded and a tiny step
of the same kind has been made; what counts is the peak above that over three steps: network, optimiser, the batch
itself, and all that the step needs. dpmac draws a Poisson sample and keeps places free for a larger one; the others get
a batch of exactly the size. On a CPU it is the resident memory as the system counts it (Linux), on a GPU what torch's
allocator handed out. A step that would need more than --limit gigabytes is refused by the system, and said so.

    python benchmarks/memory.py [--batches 256 1024 4096 16384] [--cases 784-300-10 ...] [--device cuda] [--out FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peers import fresh
from step_cost import SIGMA, THETA, opacus, opacus_ghost, plain
from torch import Tensor

from dpmac.mac import FixedPrediction, OptimizerStep
from dpmac.methods import Gradients
from dpmac.nets import DenseNetwork, loss
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows, release
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Step

CASES: dict[str, tuple[int, ...]] = {
    "784-300-10": (784, 300, 10),
    "4 x 1024": (784, 1024, 1024, 1024, 1024, 10),
}
BATCHES = (256, 1024, 4096, 16_384)
ROWS, STEPS, MICRO = 60_000, 3, 1024
CONTENDERS = (
    "torch, not private",
    "dpmac",
    f"dpmac, micro_batch={MICRO}",
    "Opacus, ghost clipping",
    "Opacus, hooks",
)
Steps = Callable[[], None]


def dpmac(network: DenseNetwork, x: Tensor, y: Tensor, batch: int, micro_batch: int | None) -> Steps:
    """As the trainer does it, less the trainer's own look at all rows."""
    source, ledger = SystemNoise(), Ledger()
    step = Step(network, loss("softmax"), FixedPrediction(), Gradients(), JointClip(THETA))
    updater = OptimizerStep(lr=1e-3).start(network, STEPS)
    rows, sampler = PrivateRows(x, y), Plan(len(x), batch, 1000, 1.0, 1e-5).sampler(source)

    def once() -> None:
        drawn = rows.sample(sampler)
        answer = release(
            drawn, step.query(), noise_multiplier=SIGMA, source=source, ledger=ledger, divisor=batch,
            micro_batch=micro_batch,
        )  # fmt: skip
        updater.apply(step.polynomials(answer))

    return once


def stepper(contender: str, sizes: tuple[int, ...], rows: Tensor, labels: Tensor, batch: int) -> Steps:
    network = DenseNetwork(sizes, "relu", source=SeededNoise(1)).to(rows.device)
    if contender.startswith("dpmac"):
        return dpmac(network, rows, labels, batch, MICRO if "micro" in contender else None)
    chosen = torch.randperm(len(rows), device=rows.device)[:batch]
    x, y, module, g = rows[chosen], labels[chosen], network.plain(), loss("softmax")
    if contender == "Opacus, hooks":
        return opacus(module, g, x, y, "hooks")
    if contender == "Opacus, ghost clipping":
        ghost = opacus_ghost(module, g, len(x), lambda: (x, y), True)
        assert ghost is not None, "softmax has one loss an example"
        return ghost
    return plain(module, g, x, y)


def table(sizes: tuple[int, ...], n: int, device: str) -> tuple[Tensor, Tensor]:
    draw = SeededNoise(0)
    rows = draw.normal((n, sizes[0])).float().to(device)
    return rows, torch.eye(sizes[-1], device=device)[(draw.uniform(n) * sizes[-1]).long().to(device)]


class Watch:
    """Bytes in use now, and the peak since ``reset``."""

    def __init__(self, device: str) -> None:
        self.cuda = device != "cpu"

    def reset(self) -> None:
        gc.collect()
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        else:
            ctypes.CDLL(None).malloc_trim(0)  # what the set-up freed is not room for the step
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")

    def now(self) -> int:
        return torch.cuda.memory_allocated() if self.cuda else said_by_system("VmRSS")

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated() if self.cuda else said_by_system("VmHWM")


def said_by_system(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def limited(limit: float, device: str) -> None:
    """No more than ``limit`` bytes beyond what is in use: the machine has other work."""
    if device == "cpu":
        most = int(said_by_system("VmSize") + limit)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    else:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + limit) / whole))


def measured(contender: str, case: str, batch: int, device: str, limit: float, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    small = (6, 5, 4)
    warm = stepper(contender, small, *table(small, 200, device), 20)
    warm()
    del warm
    rows, labels = table(CASES[case], ROWS, device)
    watch = Watch(device)
    watch.reset()
    before = watch.now()
    limited(limit, device)
    try:
        step = stepper(contender, CASES[case], rows, labels, batch)
        for _ in range(STEPS):
            step()
    except (MemoryError, RuntimeError) as error:
        if "memory" in str(error) or isinstance(error, MemoryError):
            return {"refused": f"more than {limit / 1e9:g} GB", "why": str(error).splitlines()[0][:160]}
        raise
    return {"megabytes": round((watch.peak() - before) / 1e6, 1), "before": round(before / 1e6, 1)}


def all_figures(given: argparse.Namespace) -> None:
    """Measure what ``--out`` does not hold yet, and write it after every measurement."""
    found = json.loads(given.out.read_text(encoding="utf-8"))["memory"] if given.out and given.out.exists() else []
    done = {(row["case"], row["contender"], row["batch"]) for row in found}
    refused = {(row["case"], row["contender"]) for row in found if "refused" in row}
    for case, contender, batch in itertools.product(given.cases, given.contenders, sorted(given.batches)):
        if (case, contender, batch) in done or (case, contender) in refused:  # a larger batch needs more
            continue
        asked = {"contender": contender, "case": case, "batch": batch, "device": given.device}
        asked |= {"limit": 1e9 * given.limit, "threads": given.threads}
        answer = fresh.answer(__file__, asked, given.threads)
        said = answer.get("megabytes") or answer.get("refused") or answer["failed"]
        print(f"{case}, batch {batch:6d}  {contender:28s} {said}", flush=True)
        if "failed" in answer:
            continue
        if "refused" in answer:
            refused.add((case, contender))
        found.append({"case": case, "contender": contender, "batch": batch} | answer)
        if given.out:
            write(found, given)


def write(found: list[dict[str, Any]], given: argparse.Namespace) -> None:
    about = {"machine": fresh.machine(given.device), "device": given.device, "torch": torch.__version__}
    about |= {"threads": given.threads, "command": " ".join(["python", *sys.argv])}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row) for row in found)
    given.out.write_text(json.dumps(about, indent=1)[:-2] + f',\n "memory": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=12.0, help="gigabytes that a step may take (default 12)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too; what is there is not measured again")
    given = parser.parse_args()
    if given.device == "cpu" and not sys.platform.startswith("linux"):
        sys.exit("memory is left out: the peak of a process's memory is read from Linux's /proc")
    all_figures(given)


if __name__ == "__main__":
    if (question := fresh.asked_of_child()) is not None:
        print(json.dumps(measured(**question)))
    else:
        main()
