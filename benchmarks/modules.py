"""What one private training step of a torch module costs: dpmac, every mode of Opacus that takes it, and torch.

A step of dpmac is whole: it draws its Poisson sample, checks every bound, writes the ledger, draws its noise from a
cipher keyed by the operating system and moves the weights; it computes on the places kept free for a larger sample as
well. Opacus and torch are handed one batch of exactly that size. Rounds are interleaved, and the figure is the median
over rounds of the ratio to torch's step in the same round: a noisy machine disturbs all alike.

    python benchmarks/modules.py [--rounds 15] [--device cuda] [--threads 1] [--cpu-time] [--out FILE]
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.mac import OptimizerStep
from dpmac.modules import ModuleStep, Task, TrainedModule, settled
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows, release
from dpmac.randomness import SystemNoise
from dpmac.training.objective import StepObjective

SIGMA, THETA, ROWS = 1.0, 0.3, 20_000
CROSS_ENTROPY = partial(F.cross_entropy, reduction="none")
Stepper = Callable[[], None]


class Transformer(nn.Module):
    """Words, learned positions, encoder layers, and a class for each text. Opacus takes its own attention only."""

    def __init__(self, width: int = 64, layers: int = 2, length: int = 32, words: int = 1000, private: bool = False):
        super().__init__()
        self.table, self.positions = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(1, length, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True) for _ in range(layers)
        )
        self.out = nn.Linear(width, 10)
        if private:
            from opacus.layers import DPMultiheadAttention

            for layer in self.layers:
                attention = DPMultiheadAttention(width, 4, dropout=0.0, batch_first=True)
                attention.load_state_dict(layer.self_attn.state_dict())
                layer.self_attn = attention

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(dim=1))


def convolutions() -> nn.Module:
    first = (nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(512, 10))


def cases() -> dict[str, tuple[Callable[[bool], nn.Module], Callable[[int], Tensor], int]]:
    """A module (as Opacus needs it, if asked so), its inputs, and the batch."""
    return {
        "convolutions 1-16-32, batch 200": (lambda _: convolutions(), lambda n: torch.randn(n, 1, 28, 28), 200),
        "transformer 2 x 64, 32 words, batch 128": (
            lambda private: Transformer(private=private),
            lambda n: torch.randint(0, 1000, (n, 32)),
            128,
        ),
    }


def dpmac(module: nn.Module, x: Tensor, y: Tensor, batch: int) -> Stepper:
    source, ledger, table = SystemNoise(), Ledger(), PrivateRows(x, y)
    step = ModuleStep(settled(Task(module, CROSS_ENTROPY), table.blank(1)), JointClip(THETA))
    trained: Any = TrainedModule(module)
    objective = StepObjective(step, OptimizerStep(lr=1e-3).start(trained, 10**6))
    sampler = Plan(len(x), batch, 1000, SIGMA, 1e-5).sampler(source)

    def one() -> None:
        how: dict[str, Any] = {"divisor": batch, "dtype": objective.dtype, "ledger": ledger}
        query = objective.query()
        objective.apply(release(table.sample(sampler), query, noise_multiplier=SIGMA, source=source, **how))

    return one


def torch_step(module: nn.Module, x: Tensor, y: Tensor) -> Stepper:
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)

    def one() -> None:
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()

    return one


def opacus(module: nn.Module, x: Tensor, y: Tensor, mode: str) -> Stepper:
    from opacus.grad_sample import GradSampleModule, GradSampleModuleExpandedWeights
    from opacus.optimizers import DPOptimizer

    kind = GradSampleModuleExpandedWeights if mode == "expanded weights" else GradSampleModule
    more: dict[str, Any] = {"force_functorch": True} if mode == "functorch" else {}
    wrapped = kind(module, loss_reduction="mean", batch_first=True, **more)
    adam = torch.optim.Adam(wrapped.parameters(), lr=1e-3)
    optimizer = DPOptimizer(adam, noise_multiplier=SIGMA, max_grad_norm=THETA, expected_batch_size=len(x))

    def one() -> None:
        optimizer.zero_grad()
        F.cross_entropy(wrapped(x), y).backward()
        optimizer.step()

    return one


def opacus_clipping(module: nn.Module, x: Tensor, y: Tensor, ghost: bool) -> Stepper:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=THETA, use_ghost_clipping=ghost)
    adam = torch.optim.Adam(wrapped.parameters(), lr=1e-3)
    more = {"noise_multiplier": SIGMA, "max_grad_norm": THETA, "expected_batch_size": len(x)}
    optimizer = DPOptimizerFastGradientClipping(adam, **more)
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="mean"), "mean")

    def one() -> None:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return one


def contenders(
    make: Callable[[bool], nn.Module], rows: Callable[[int], Tensor], batch: int, device: str
) -> dict[str, Stepper]:
    """Those that can take a step of this module; what cannot is said."""
    torch.manual_seed(0)
    module, theirs = make(False).to(device), make(True).to(device)
    x, y = rows(ROWS).to(device), torch.randint(0, 10, (ROWS,)).to(device)
    some = x[:batch], y[:batch]
    wanted: dict[str, Callable[[], Stepper]] = {
        "torch": lambda: torch_step(copy.deepcopy(module), *some),
        "dpmac": lambda: dpmac(copy.deepcopy(module), x, y, batch),
        **{
            f"Opacus, {mode}": partial(lambda mode: opacus(copy.deepcopy(theirs), *some, mode), mode)
            for mode in ("hooks", "functorch", "expanded weights")
        },
        "Opacus, fast gradient clipping": lambda: opacus_clipping(copy.deepcopy(theirs), *some, False),
        "Opacus, ghost clipping": lambda: opacus_clipping(copy.deepcopy(theirs), *some, True),
    }
    found = {}
    for name, begin in wanted.items():
        try:
            step = begin()
            step()
            step()
        except Exception as error:
            print(f"  {name}: cannot ({type(error).__name__}: {str(error).splitlines()[0][:90]})")
            continue
        found[name] = step
    return found


def timed(step: Stepper, device: str, clock: Callable[[], float]) -> float:
    start = clock()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true", help="of the process: where others use the machine, too")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    warnings.simplefilter("ignore")
    clock = time.process_time if chosen.cpu_time else time.perf_counter
    results: dict[str, dict[str, dict[str, float]]] = {}
    for case, (make, rows, batch) in cases().items():
        print(case)
        steps = contenders(make, rows, batch, chosen.device)
        rounds = [
            {name: timed(step, chosen.device, clock) for name, step in steps.items()} for _ in range(chosen.rounds)
        ]
        results[case] = {}
        for name in steps:
            ratio = statistics.median(one[name] / one["torch"] for one in rounds)
            milliseconds = 1e3 * statistics.median(one[name] for one in rounds)
            results[case][name] = {"ratio": ratio, "milliseconds": milliseconds}
            print(f"  {name:32} {milliseconds:8.1f} ms   {ratio:6.2f} x torch")
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
