"""Cases of torch modules: an embedding whose tokens come up again, attention, a recurrent layer, convolutions,
parameters that no rule covers, and LoRA. Tiny ones, so that a release takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from dpmac.audit.cases import RATE, Case, Row, Setting
from dpmac.audit.steps import OUTRAGE, released_answer
from dpmac.modules import ModuleStep, Task, settled, with_lora
from dpmac.privacy import JointClip
from dpmac.randomness import SeededNoise

WORDS, LENGTH, WIDTH = 3, 4, 2
SHARE = 0.2  # of the draws: a module's step takes several times that of a tiny network
QUICK = ("embedding",)  # in a quick audit; the others wait for a full one


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().flatten(1).sum(dim=1)


class Sequence(nn.Module):
    """Words, a layer over them, and two outputs."""

    def __init__(self, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.table, self.inner, self.out = nn.Embedding(WORDS, WIDTH), inner, nn.Linear(WIDTH, 2)

    def forward(self, words: Tensor) -> Tensor:
        x = self.table(words)
        if isinstance(self.inner, nn.RNNBase):
            x = self.inner(x)[0]
        elif self.inner is not None:
            x = self.inner(x)
        found: Tensor = self.out(x.sum(dim=1))
        return found


class OwnParameters(nn.Module):
    """Distances to centres, as no rule knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.centres = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.zeros(2, WIDTH))

    def forward(self, words: Tensor) -> Tensor:
        where: Tensor = self.table(words).sum(dim=1)
        return (where.unsqueeze(1) - self.centres).square().sum(dim=2)


class Patches(nn.Module):
    """Words as a small image under a grouped convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(2, 2, 2, groups=2), nn.Linear(2, 2)

    def forward(self, words: Tensor) -> Tensor:
        image = torch.stack([words.float(), 1.0 - words.float()], dim=1)
        found: Tensor = self.out(torch.tanh(self.conv(image)).sum(dim=2))
        return found


def attention() -> nn.Module:
    return Sequence(nn.TransformerEncoderLayer(WIDTH, 1, 2, dropout=0.0, batch_first=True))


def lora() -> nn.Module:
    """Adapters beside frozen words and a frozen layer; the head is trained as it is."""
    return with_lora(Sequence(nn.Linear(WIDTH, WIDTH)), 1, layers=["table", "inner"], whole=["out"])


MODULES: dict[str, Callable[[], nn.Module]] = {
    "embedding": Sequence,
    "attention": attention,
    "recurrent": lambda: Sequence(nn.GRU(WIDTH, WIDTH, batch_first=True)),
    "convolution": Patches,
    "own parameters": OwnParameters,
    "LoRA": lora,
}


def module_setting(make: Callable[[], nn.Module]) -> Setting:
    """One step of DP-SGD on four rows: a canary whose target is outrageous, and three that are not."""
    module = make()
    source = SeededNoise(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(source.normal(parameter.shape))
    words = [torch.tensor(row) for row in ((1, 1, 1, 1), (1, 1, 2, 2), (0, 1, 2, 1))]
    targets = [torch.tensor([OUTRAGE, -OUTRAGE]), torch.tensor([OUTRAGE, OUTRAGE])]
    candidates: list[Row] = [(row, target) for row in words for target in targets]
    others: list[Row] = [(torch.tensor([k % 3, 0, 2, k % 2]), torch.tensor([0.1 * k, -0.2])) for k in (1, 2, 3)]
    columns = tuple(torch.stack(column) for column in zip(*others, strict=True))
    step = ModuleStep(settled(Task(module, squared), columns), JointClip(1.0))
    return Setting(released_answer(step.query()), candidates, others)


def module_cases() -> Iterator[Case]:
    """On all rows, and on a sample."""
    for name, make in MODULES.items():
        case = partial(module_setting, make)
        yield Case(f"module, {name}", case, share=SHARE, quick=name in QUICK)
        yield Case(f"module, {name}, sampled", case, RATE, share=SHARE, quick=False)
