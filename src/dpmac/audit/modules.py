"""Cases of torch modules: a training step in which tokens are looked up, weighed by attention, and added up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from dpmac.audit.cases import RATE, Case, Row, Setting
from dpmac.audit.steps import OUTRAGE, released_answer
from dpmac.modules import ModuleStep, Task, settled
from dpmac.modules.outputs import OutputLoss
from dpmac.nets import LOSSES
from dpmac.privacy import Bound, JointClip, Normalise
from dpmac.randomness import SeededNoise, torch_draws_from

TOKENS, LENGTH = 5, 3


class Words(nn.Module):
    """An embedding, attention pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.score, self.last = nn.Embedding(TOKENS, 2), nn.Linear(2, 1), nn.Linear(2, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.table(tokens)
        weights = torch.softmax(self.score(vectors), dim=1)
        found: Tensor = self.last((weights * vectors).sum(dim=1))
        return found


def _words(bound: Bound) -> Setting:
    """A step on four rows: a canary whose target is outrageous, and three that are not."""
    with torch_draws_from(SeededNoise(1)):
        module = Words()
    targets = [torch.tensor([OUTRAGE, -OUTRAGE]), torch.tensor([0.0, OUTRAGE])]
    candidates: list[Row] = [(torch.tensor(few), target) for few in ([0, 1, 2], [3, 3, 3]) for target in targets]
    others: list[Row] = [(torch.arange(k, k + LENGTH) % TOKENS, torch.tensor([0.1 * k, -0.2])) for k in (1, 2, 3)]
    kinds = tuple(column.unsqueeze(0) for column in others[0])
    task = Task(module, OutputLoss(LOSSES["squared"], 2))
    step = ModuleStep(settled(task, kinds, SeededNoise(2)), bound)
    return Setting(released_answer(step.query()), candidates, others)


def module_cases() -> Iterator[Case]:
    """On all rows, and on a sample; the whole gradient bounded, and every parameter by itself."""
    for name, bound in (("joint", JointClip(1.0)), ("normalise", Normalise())):
        make = partial(_words, bound)
        yield Case(f"module, {name}", make)
        yield Case(f"module, {name}, sampled", make, RATE, quick=False)
