"""What one private training step of a torch module costs: dpmac, every mode of Opacus that takes it, and torch.

A step of dpmac is whole: it draws its Poisson sample, checks every bound, writes the ledger, draws its noise from a
cipher keyed by the operating system and moves the weights; it computes on the places kept free for a larger sample as
well. Opacus and torch are handed one batch of exactly that size. Rounds are interleaved, and the figure is the median
over rounds of the ratio to torch's step in the same round: a noisy machine disturbs all alike.

    python benchmarks/modules.py [--rounds 15] [--device cuda] [--threads 1] [--cpu-time] [--out FILE]
    python benchmarks/modules.py --large --device cuda     # larger convolutions, a transformer of 6 layers, LoRA on it
    python benchmarks/modules.py --memory [--large]        # the peak of a step, each in a process of its own
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from memory import Watch
from peers import fresh
from torch import Tensor, nn
from torch.nn import functional as F

from dpmac.mac import OptimizerStep
from dpmac.modules import ModuleStep, Task, TrainedModule, settled, with_lora
from dpmac.privacy import JointClip, Ledger, Plan, PrivateRows, release
from dpmac.randomness import SystemNoise
from dpmac.training.objective import StepObjective
from dpmac.training.samples import Samples

SIGMA, THETA, ROWS = 1.0, 0.3, 20_000
CROSS_ENTROPY = partial(F.cross_entropy, reduction="none")
Stepper = Callable[[], None]


class Transformer(nn.Module):
    """Words, learned positions, encoder layers, and a class for each text. Opacus takes its own attention only."""

    def __init__(self, width: int = 64, layers: int = 2, length: int = 32, words: int = 1000, private: bool = False):
        super().__init__()
        self.table, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
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
        places = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        x = self.table(tokens) + self.positions(places)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(dim=1))


class LowRank(nn.Module):
    """A frozen linear layer and two small ones beside it: LoRA in layers that Opacus knows."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


def adapted(private: bool, rank: int = 8) -> nn.Module:
    """LoRA of the feed-forward layers and a new head on a transformer: our own, or of layers that Opacus takes."""
    module = large_transformer(private)
    if not private:
        return with_lora(module, rank, layers=["linear1", "linear2"], whole=["out"])
    module.requires_grad_(False)
    for layer in module.layers:
        layer.linear1, layer.linear2 = LowRank(layer.linear1, rank), LowRank(layer.linear2, rank)
    module.out.requires_grad_(True)
    return module


def large_transformer(private: bool) -> Transformer:
    return Transformer(width=256, layers=6, length=128, private=private)


def convolutions(first: int = 16, second: int = 32) -> nn.Module:
    layers = (nn.Conv2d(1, first, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(first, second, 5), nn.ReLU())
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * second, 10))


def images(n: int) -> Tensor:
    return torch.randn(n, 1, 28, 28)


def texts(length: int, n: int) -> Tensor:
    return torch.randint(0, 1000, (n, length))


Case = tuple[Callable[[bool], nn.Module], Callable[[int], Tensor], int]


def cases(large: bool) -> dict[str, Case]:
    """A module (as Opacus needs it, if asked so), its inputs, and the batch."""
    if large:
        return {
            "convolutions 1-32-64, batch 512": (lambda _: convolutions(32, 64), images, 512),
            "transformer 6 x 256, 128 words, batch 256": (large_transformer, partial(texts, 128), 256),
            "LoRA of rank 8 on it": (adapted, partial(texts, 128), 256),
        }
    return {
        "convolutions 1-16-32, batch 200": (lambda _: convolutions(), images, 200),
        "transformer 2 x 64, 32 words, batch 128": (lambda p: Transformer(private=p), partial(texts, 32), 128),
    }


def dpmac(module: nn.Module, x: Tensor, y: Tensor, batch: int) -> Stepper:
    source, ledger, table = SystemNoise(), Ledger(), PrivateRows(x, y)
    step = ModuleStep(settled(Task(module, CROSS_ENTROPY), table.blank(1)), JointClip(THETA))
    trained: Any = TrainedModule(module)
    objective = StepObjective(step, OptimizerStep(lr=1e-3).start(trained, 10**6))
    samples = Samples(table, Plan(len(x), batch, 1000, SIGMA, 1e-5).sampler(source))

    def one() -> None:
        how: dict[str, Any] = {"divisor": batch, "dtype": objective.dtype, "ledger": ledger}
        query = objective.query()
        objective.apply(release(samples.take(more=True), query, noise_multiplier=SIGMA, source=source, **how))

    return one


def trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def torch_step(module: nn.Module, x: Tensor, y: Tensor) -> Stepper:
    optimizer = torch.optim.Adam(trained(module), lr=1e-3)

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
    adam = torch.optim.Adam(trained(wrapped), lr=1e-3)
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
    adam = torch.optim.Adam(trained(wrapped), lr=1e-3)
    more = {"noise_multiplier": SIGMA, "max_grad_norm": THETA, "expected_batch_size": len(x)}
    optimizer = DPOptimizerFastGradientClipping(adam, **more)
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss(reduction="mean"), "mean")

    def one() -> None:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return one


MODES = ("hooks", "functorch", "expanded weights")
CONTENDERS = (
    "torch",
    "dpmac",
    *(f"Opacus, {mode}" for mode in MODES),
    "Opacus, fast gradient clipping",
    "Opacus, ghost clipping",
)


def stepper(name: str, case: Case, device: str) -> Stepper:
    """A step of that contender."""
    make, rows, batch = case
    torch.manual_seed(0)
    module = make(name.startswith("Opacus")).to(device)
    x, y = rows(ROWS).to(device), torch.randint(0, 10, (ROWS,)).to(device)
    some = x[:batch], y[:batch]
    if name == "torch":
        return torch_step(module, *some)
    if name == "dpmac":
        return dpmac(module, x, y, batch)
    mode = name.removeprefix("Opacus, ")
    if mode in MODES:
        return opacus(module, *some, mode)
    return opacus_clipping(module, *some, mode == "ghost clipping")


def contenders(case: Case, device: str) -> dict[str, Stepper]:
    """Those that can take a step of this module; what cannot is said."""
    found = {}
    for name in CONTENDERS:
        try:
            step = stepper(name, case, device)
            step()
            step()
        except Exception as error:
            print(f"  {name}: cannot ({type(error).__name__}: {str(error).splitlines()[0][:90]})")
            continue
        found[name] = step
    return found


def measured(contender: str, case: str, device: str, large: bool) -> dict[str, float]:
    """The peak of a step above what was in use before the first, in megabytes."""
    warnings.simplefilter("ignore")
    step = stepper(contender, cases(large)[case], device)
    watch = Watch(device)
    watch.reset()
    before = watch.now()
    step()
    step()
    return {"megabytes": round((watch.peak() - before) / 1e6, 1)}


def all_memory(given: argparse.Namespace) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {case: {} for case in cases(given.large)}
    for case, contender in itertools.product(found, CONTENDERS):
        asked = {"contender": contender, "case": case, "device": given.device, "large": given.large}
        answer = fresh.answer(__file__, asked, given.threads)
        print(f"{case}  {contender:32} {answer.get('megabytes', 'cannot')}", flush=True)
        if "megabytes" in answer:
            found[case][contender] = answer["megabytes"]
    return found


def timed(step: Stepper, device: str, clock: Callable[[], float]) -> float:
    start = clock()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def all_times(given: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore")
    clock = time.process_time if given.cpu_time else time.perf_counter
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name_of_case, case in cases(given.large).items():
        print(name_of_case)
        steps = contenders(case, given.device)
        rounds = [{name: timed(step, given.device, clock) for name, step in steps.items()} for _ in range(given.rounds)]
        results[name_of_case] = {}
        for name in steps:
            ratio = statistics.median(one[name] / one["torch"] for one in rounds)
            milliseconds = 1e3 * statistics.median(one[name] for one in rounds)
            results[name_of_case][name] = {"ratio": ratio, "milliseconds": milliseconds}
            print(f"  {name:32} {milliseconds:8.1f} ms   {ratio:6.2f} x torch")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="larger modules, for a GPU")
    parser.add_argument("--memory", action="store_true", help="the peak of a step, in place of its time")
    parser.add_argument("--cpu-time", action="store_true", help="of the process: where others use the machine, too")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results: Any = all_memory(given) if given.memory else all_times(given)
    if given.out is not None:
        given.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    if (question := fresh.asked_of_child()) is not None:
        print(json.dumps(measured(**question)))
    else:
        main()
