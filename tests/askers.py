"""Everything that asks the rows something: every query there is, and every method from end to end.

The contracts (contracts.py), the walk over private code (test_architecture.py) and the literal deletions
(test_neighbours.py) all go over these lists. test_architecture.py finds every module of the package that calls
``release``, and fails if one of them is not among the askers here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dpmac.analytic
import dpmac.mac
import dpmac.methods
import dpmac.pictures  # its feature maps list themselves
from dpmac.evaluation.classes import Classes
from dpmac.evaluation.numbers import Numbers
from dpmac.mac import Z_STEPS, FirstOrder, FixedPrediction
from dpmac.methods import (
    DPPCA,
    BaseRates,
    Calibration,
    ClosedForm,
    DPMean,
    NormHistogram,
    ResidualScale,
    Score,
    linear_classifier,
)
from dpmac.methods.merits import MERITS
from dpmac.methods.ridge import statistics
from dpmac.methods.scores import Scores, Tally
from dpmac.modules import ModuleStep, Task, settled
from dpmac.nets import (
    AvgPool2d,
    Conv2d,
    Dense,
    DenseNetwork,
    Flatten,
    Loss,
    MaxPool2d,
    MultiLabelCrossEntropy,
    Network,
    WeightedClasses,
    loss,
)
from dpmac.nets.feature_maps import FEATURE_MAPS, Affine, Ball, LowFrequencies, Projection
from dpmac.nets.layers import LAYERS, WeightLayer
from dpmac.privacy import BOUNDS, Analytic, JointClip, Ledger, Normalise, PerLayerClip, Plan, PrivateRows, Query
from dpmac.randomness import NoiseSource, SeededNoise
from dpmac.tables.estimate import PrivateRanges
from dpmac.training import Step, Trainer, costs_before, fit_with_learned_thresholds

EXPANSIONS = dpmac.mac.EXPANSIONS | dpmac.analytic.EXPANSIONS | dpmac.methods.EXPANSIONS
TABULAR = {"curvature": "released", "normalise": False, "threshold": None, "norm": 3.0}  # of the closed form
ROWS = 67  # no layer's width, and more than one would look at by hand
WEIGHTS = (1.0, 0.1, 30.0, 0.0)  # public ones of four classes, or of four labels where they are on
OFF = (0.5, 1.0, 0.0, 3.0)  # and where they are off
LOSSES: dict[str, Loss] = {
    **{name: loss(name) for name in ("softmax", "squared", "sigmoid", "multilabel")},
    "weighted classes": WeightedClasses(loss("softmax"), WEIGHTS),
    "weighted labels": MultiLabelCrossEntropy(on=WEIGHTS, off=OFF),
}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return SeededNoise(seed, "/asker").normal(shape).float()


def labels(rows: int, classes: int) -> Tensor:
    return torch.eye(classes)[torch.arange(rows) % classes]


def dense(hidden: str = "relu", classes: int = 4) -> Network:
    network = DenseNetwork([5, 7, 6, classes], hidden, source=SeededNoise(1))
    with torch.no_grad():
        for layer in network.weight_layers:
            layer.bias.copy_(0.3 * SeededNoise(2).normal(layer.bias.shape))
    return network


def convolutional(pool: type = MaxPool2d) -> Network:
    stack = [Conv2d(1, 3, 3, stride=2, padding=1), "relu", pool(2, stride=1), Conv2d(3, 4, 2), "tanh", Flatten()]
    return Network([*stack, Dense(4 * 2 * 2, 4)], input_shape=(1, 8, 8), source=SeededNoise(1))


@dataclass(frozen=True)
class Asked:
    """A query, and a table that it can be asked of."""

    query: Query
    columns: tuple[Tensor, ...]


def step(network=None, zstep=None, expansion=None, bound=None, feature_map=None, loss_name="softmax", x=None) -> Asked:
    network = network or dense()
    x = numbers(ROWS, *network.input_shape) if x is None else x
    made = Step(
        network,
        LOSSES[loss_name],
        zstep or FixedPrediction(),
        expansion or FirstOrder(),
        bound or Normalise(),
        feature_map,
    )
    return Asked(made.query(), (x, labels(ROWS, 4)))


def bound_for(name: str):
    return Analytic() if name.startswith("projected") else JointClip(1.0)


def expansion_for(bound: str):
    return EXPANSIONS["projected"] if bound == "analytic" else FirstOrder()


def feature_map_before_a_network(kind: str) -> Asked:
    feature_map, shape = FEATURE_MAPS[kind].sample()
    network = DenseNetwork([math.prod(feature_map.shape_after(shape)), 6, 4], "relu", source=SeededNoise(1))
    return step(network, feature_map=feature_map, x=numbers(ROWS, *shape))


def network_with(kind: str) -> Network:
    """A layer of that kind, with an activation if it has weights, and a dense layer behind it."""
    made, shape = LAYERS[kind].sample()
    after = made.shape_after(shape)
    stack = [made, *(["relu"] if isinstance(made, WeightLayer) else []), *([Flatten()] if len(after) > 1 else [])]
    return Network([*stack, Dense(math.prod(after), 4)], input_shape=shape, source=SeededNoise(1))


def closed_form_step(**more) -> Asked:
    method = ClosedForm(code=3, features=8, **more)
    rows = numbers(ROWS, 6).double()
    model = method.fit(rows, 0.0, SeededNoise(3), Ledger())
    return Asked(method.query(model), (rows,))


def histogram_query() -> Asked:
    made = step()
    unbounded = Step(dense(), loss("softmax"), FixedPrediction(), FirstOrder(), Normalise()).unbounded
    query = NormHistogram(1.0).query(unbounded, [p.name for p in made.query.partitions])
    return Asked(query, made.columns)


def calibration_query(classes: int, **more) -> Asked:
    """``more``: several labels a row (then some rows have two of them), weights."""
    theta = torch.tensor([1.2, 0.1] if classes == 2 and not more.get("several") else [1.2], dtype=torch.float64)
    query = Calibration(1.0).query(dense(classes=classes), theta, classes, **more)
    targets = labels(ROWS, classes)
    if more.get("several"):
        targets = torch.maximum(targets, targets.roll(5, dims=0))
    return Asked(query, (numbers(ROWS, 5), targets))


def base_rates_query(classes: int, **more) -> Asked:
    targets = labels(ROWS, classes)
    if more.get("several"):
        targets = torch.maximum(targets, targets.roll(5, dims=0))
    return Asked(BaseRates(1.0).query(dense(classes=classes), classes, **more), (numbers(ROWS, 5), targets))


def scores_query(classes: int) -> Asked:
    """Of two classes, of more, or (0) of a number; with subgroups."""
    groups = {"ward": ("a", "b", "other")}
    kind = Classes(LOSSES["softmax"].predict, classes, 1 if classes == 2 else None, groups)
    targets = labels(ROWS, classes or 1)
    if not classes:
        kind, targets = Numbers(-1.0, 1.0, 0.3, groups), numbers(ROWS, 1, seed=5).clamp(-1, 1)
    codes = (torch.arange(ROWS) % 3).unsqueeze(1)
    query = Scores(1.0, kind.tallies()).query(dense(classes=classes or 1))
    return Asked(query, (numbers(ROWS, 5), torch.cat([targets, codes], dim=1)))


def _tallies(classes: int) -> tuple[Tally, ...]:
    return tuple(Classes(LOSSES["softmax"].predict, classes, None, {}).tallies())


def score_query(merit: str) -> Asked:
    return Asked(Score(1.0, merit).query(dense()), (numbers(ROWS, 5), labels(ROWS, 4)))


class Words(nn.Module):
    """Weighted words, attention or a recurrent layer over them, and own parameters that only autograd can treat."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.table = kind, nn.Embedding(9, 6)
        self.places = nn.Parameter(numbers(5, 6, seed=3))
        if kind == "attention":
            self.inner: nn.Module = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        elif kind == "recurrent":
            self.inner = nn.GRU(6, 6, batch_first=True)
        else:
            self.inner, self.width = nn.Linear(6, 6), nn.Parameter(torch.tensor(0.3))
        self.out = nn.Linear(6, 4)

    def forward(self, weights: Tensor, words: Tensor) -> Tensor:
        x = self.table(words) * weights.unsqueeze(2) + self.places
        x = self.inner(x)[0] if self.kind == "recurrent" else self.inner(x)
        x = torch.tanh(x).mean(dim=1)
        return self.out(torch.exp(-x.square() * torch.sigmoid(self.width)) if self.kind == "own" else x)


def images() -> nn.Module:
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, 3, 2, groups=2)]
    return nn.Sequential(*layers, nn.LayerNorm([4, 3, 3]), nn.Flatten(), nn.Linear(36, 4))


def module_step(kind: str, bound=None) -> Asked:
    """A step of a torch module; its weights are torch's own, with a seed."""
    state = torch.get_rng_state()
    torch.manual_seed(3)
    module = images() if kind == "images" else Words(kind)
    torch.set_rng_state(state)
    targets = torch.arange(ROWS) % 4
    words = (torch.arange(ROWS * 5).reshape(ROWS, 5) * 7 + 1) % 9
    columns = (numbers(ROWS, 1, 8, 8), targets) if kind == "images" else (numbers(ROWS, 5), words, targets)
    task = Task(module, partial(F.cross_entropy, reduction="none"))
    return Asked(ModuleStep(settled(task, columns, SeededNoise(5)), bound or JointClip(1.0)).query(), columns)


MODULES = ("images", "attention", "recurrent", "own")
ASKERS: dict[str, Callable[[], Asked]] = {
    **{f"step, Z-step {name}": lambda z=z: step(zstep=z) for name, z in Z_STEPS.items()},
    **{f"step, Z-step {name}, convolution": lambda z=z: step(convolutional(), z) for name, z in Z_STEPS.items()},
    "step, average pooling": lambda: step(convolutional(AvgPool2d), bound=PerLayerClip(0.5)),
    **{f"step, {name}": lambda e=e, n=name: step(expansion=e, bound=bound_for(n)) for name, e in EXPANSIONS.items()},
    **{
        f"step, bound {name}": lambda b=b, n=name: step(bound=b, expansion=expansion_for(n))
        for name, b in BOUNDS.items()
    },
    **{f"step, loss {name}": lambda n=name: step(loss_name=n) for name in LOSSES if name != "softmax"},
    **{f"step, feature map {kind}": lambda k=kind: feature_map_before_a_network(k) for kind in FEATURE_MAPS},
    **{f"step, layer {kind}": lambda k=kind: step(network_with(k)) for kind in LAYERS},
    "DP-PCA": lambda: Asked(DPPCA(2, 1.0).query(Ball(torch.zeros(5), 2.0)), (numbers(ROWS, 5),)),
    "DP-PCA, normalised": lambda: Asked(DPPCA(2, 1.0).query(Ball(torch.zeros(5), 2.0, True)), (numbers(ROWS, 5),)),
    "closed form": closed_form_step,
    "closed form, released curvature": lambda: closed_form_step(**TABULAR),
    "mean": lambda: Asked(DPMean(1.0).query(Ball(torch.zeros(5), 2.0)), (numbers(ROWS, 5),)),
    "ridge": lambda: Asked(statistics(6, 4), (numbers(ROWS, 5), labels(ROWS, 4))),
    "norm histogram": histogram_query,
    "calibration, two classes": lambda: calibration_query(2),
    "calibration, more classes": lambda: calibration_query(4),
    "calibration, weighted classes": lambda: calibration_query(4, weights=torch.tensor(WEIGHTS)),
    "calibration, two labels": lambda: calibration_query(2, several=True),
    "calibration, several labels": lambda: calibration_query(4, several=True),
    "calibration, weighted labels": lambda: calibration_query(4, several=True, weights=torch.tensor([OFF, WEIGHTS]).T),
    "base rates": lambda: base_rates_query(4),
    "base rates, two classes": lambda: base_rates_query(2),
    "base rates, weighted classes": lambda: base_rates_query(4, weights=torch.tensor(WEIGHTS)),
    "base rates, several labels": lambda: base_rates_query(4, several=True),
    "base rates, weighted labels": lambda: base_rates_query(4, several=True, weights=torch.tensor([OFF, WEIGHTS]).T),
    "residual scale": lambda: Asked(ResidualScale(1.0).query(dense(classes=1)), (numbers(ROWS, 5), numbers(ROWS, 1))),
    "scores, two classes": lambda: scores_query(2),
    "scores, more classes": lambda: scores_query(4),
    "scores of numbers": lambda: scores_query(0),
    **{
        f"score, {n}": lambda n=n: Asked(Score(1.0, n).query(dense()), (numbers(ROWS, 5), labels(ROWS, 4)))
        for n in MERITS
    },
    "private ranges": lambda: Asked(PrivateRanges(1.0).query("abcde"), (numbers(ROWS, 5),)),
    **{f"module, {kind}": lambda k=kind: module_step(k) for kind in MODULES},
    "module, every parameter by itself": lambda: module_step("attention", Normalise()),
}

# --- methods, from raw rows to a model, without noise: (table, source) -> nothing; test_neighbours watches the door -

Method = Callable[[PrivateRows, NoiseSource], object]


def trained(network=None, *, rate=1.0, steps=3, n=64, loss_name="softmax", **more) -> Method:
    """A whole training without noise, but with its bound."""

    def run(table: PrivateRows, source: NoiseSource) -> object:
        plan = Plan(table.n, rate * table.n, steps, 0.0, 1e-5)
        pieces = {"zstep": FixedPrediction(), "bound": JointClip(1.0)} | more
        return Trainer(network or dense(), LOSSES[loss_name], plan, source=source, **pieces).fit(table)

    return run


def after_pca(table: PrivateRows, source: NoiseSource) -> object:
    """DP-PCA codes, put on the sphere, into a ReLU network: as in the paper's MNIST experiment."""
    ledger = Ledger()
    inputs_only = table._with(table._columns[:1], table._rows)
    pca = DPPCA(3, 0.0, normalise=True).fit(inputs_only, source, ledger)
    plan = Plan(table.n, table.n, 2, 0.0, 1e-5, (pca.mechanism(),))
    network = DenseNetwork([3, 6, 4], "relu", source=SeededNoise(1))
    trainer = Trainer(network, loss("softmax"), plan, FixedPrediction(), PerLayerClip(0.3), source=source)
    trainer.feature_map = pca.feature_map(length=2.0)
    return trainer.fit(table, ledger=ledger)


def frozen(outputs: int):
    """A network as a function of rows, without a graph."""
    network = dense(classes=outputs)
    return torch.no_grad()(network)


def algorithm_two(table: PrivateRows, source: NoiseSource) -> object:
    first, histogram = Plan(table.n, table.n / 2, 2, 0.0, 1e-5), NormHistogram(0.0)
    plan = Plan(table.n, table.n / 2, 2, 0.0, 1e-5, costs_before(first, histogram))
    trainer = Trainer(dense(), loss("softmax"), plan, FixedPrediction(), PerLayerClip(0.3), source=source)
    return fit_with_learned_thresholds(trainer, first, histogram, table)


SUPERVISED: dict[str, Method] = {
    **{f"Z-step {name}": trained(zstep=z) for name, z in Z_STEPS.items()},
    **{f"Z-step {name}, sampled": trained(zstep=z, rate=0.4) for name, z in Z_STEPS.items()},
    **{name: trained(expansion=e, bound=bound_for(name), steps=2) for name, e in EXPANSIONS.items()},
    **{f"bound {name}": trained(bound=b) for name, b in BOUNDS.items() if name not in ("none", "analytic")},
    "micro-batches": trained(micro_batch=7),
    "a feature map in every step": trained(feature_map=Affine(0.1, 3.0)),
    "a feature map computed once": trained(
        DenseNetwork([3, 6, 4], "relu", source=SeededNoise(1)),
        feature_map=Projection(torch.eye(3, 5), torch.zeros(5), 1.0, normalise=True, length=3.0),
    ),
    "DP-PCA, then a network": after_pca,
    "Algorithm 2": algorithm_two,
    "ridge": lambda table, source: linear_classifier(table, None, 0.0, 1.0, source, Ledger()),
    **{f"loss {name}": trained(loss_name=name) for name in ("multilabel", "weighted classes", "weighted labels")},
    "calibration": lambda table, source: Calibration(0.0, rounds=2).fit(table, frozen(4), source, Ledger()),
    "calibration, several labels": lambda table, source: Calibration(0.0, rounds=2).fit(
        table, frozen(4), source, Ledger(), several=True
    ),
    "calibration, weighted labels": lambda table, source: Calibration(0.0, rounds=2).fit(
        table, frozen(4), source, Ledger(), several=True, weights=torch.tensor([OFF, WEIGHTS]).T
    ),
    "base rates": lambda table, source: BaseRates(0.0).fit(table, frozen(4), source, Ledger()),
    "base rates, weighted classes": lambda table, source: BaseRates(0.0).fit(
        table, frozen(4), source, Ledger(), weights=torch.tensor(WEIGHTS)
    ),
    "base rates, weighted labels": lambda table, source: BaseRates(0.0).fit(
        table, frozen(4), source, Ledger(), several=True, weights=torch.tensor([OFF, WEIGHTS]).T
    ),
    "scores": lambda table, source: Scores(0.0, _tallies(4)).fit(table, frozen(4), source, Ledger()),
    "score": lambda table, source: Score(0.0).of(table, frozen(4), source, Ledger()),
    "residual scale": lambda table, source: ResidualScale(0.0).fit(table, frozen(4), source, Ledger()),
}
UNSUPERVISED: dict[str, Method] = {
    "DP-PCA": lambda table, source: DPPCA(3, 0.0).fit(table, source, Ledger()),
    "DP-PCA, normalised": lambda table, source: DPPCA(3, 0.0, normalise=True).fit(table, source, Ledger()),
    "private ranges": lambda table, source: PrivateRanges(0.0).of(table, "abcdefghi", source, Ledger()),
    "closed form": lambda table, source: ClosedForm(code=3, features=20).fit(table, 0.0, source, Ledger()),
    "closed form, released curvature": lambda table, source: ClosedForm(code=3, features=20, **TABULAR).fit(
        table, 0.0, source, Ledger()
    ),
    "mean": lambda table, source: DPMean(0.0).fit(table, source, Ledger()),
    "closed form, low frequencies": lambda table, source: ClosedForm(
        feature_map=LowFrequencies(3, 6, 0.1), code=2, features=20
    ).fit(table, 0.0, source, Ledger()),
    "autoencoder": trained(
        DenseNetwork([9, 6, 9], "relu", source=SeededNoise(1)), loss_name="squared", feature_map=Affine(0.1)
    ),
}


def trained_module(**more) -> Method:
    """A torch module without noise, but with its bound."""

    def run(table: PrivateRows, source: NoiseSource) -> object:
        state = torch.get_rng_state()
        torch.manual_seed(3)
        module = images()
        torch.set_rng_state(state)
        plan = Plan(table.n, table.n / 2, 3, 0.0, 1e-5)
        loss_of_one = partial(F.cross_entropy, reduction="none")
        return Trainer.dp_sgd(module, loss_of_one, plan, JointClip(1.0), source=source, **more).fit(table)

    return run


IMAGES: dict[str, Method] = {
    "module": trained_module(),
    "module, micro-batches": trained_module(micro_batch=10),
    "convolution": trained(convolutional()),
    "convolution, sampled, average pooling": trained(convolutional(AvgPool2d), rate=0.4),
    "convolution, micro-batches, clipped": trained(convolutional(), micro_batch=10, bound=PerLayerClip(0.2)),
}
