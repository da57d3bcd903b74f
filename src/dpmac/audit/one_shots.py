"""Cases of methods that release once, on all rows: DP-PCA, histogram, mean, ridge, closed form, calibration, others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from dpmac.audit.cases import Case, Row, Setting
from dpmac.audit.steps import OUTRAGE, released_answer, small_network
from dpmac.mac import FirstOrder, FixedPrediction
from dpmac.methods import DPPCA, BaseRates, Calibration, ClosedForm, DPMean, NormHistogram, ResidualScale, Score
from dpmac.methods.calibration import REACH
from dpmac.methods.pca import MOMENT
from dpmac.methods.ridge import statistics
from dpmac.methods.scores import Scores, counts, numbers
from dpmac.nets import loss
from dpmac.nets.feature_maps import Ball
from dpmac.privacy import Ledger, Normalise, PrivateRows
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.tables.estimate import PrivateRanges
from dpmac.training import Step

WIDTH = 3


def _numbers(*cells: float) -> Tensor:
    return torch.tensor(cells)


def _long_rows(width: int = WIDTH) -> list[Row]:
    """Candidates that every ball is too small for, in a few directions; and some that are short."""
    pattern = torch.linspace(-1.0, 1.0, width)
    return [(size * way,) for size in (0.5, 1.0, 30.0) for way in (pattern, pattern.abs(), torch.eye(width)[0])]


def _short_rows(width: int = WIDTH) -> list[Row]:
    return [(0.2 * torch.roll(torch.linspace(-1.0, 1.0, width), k),) for k in (1, 2, 3)]


def pca() -> Setting:
    """By the method itself, from the table to what it gives back."""

    def ask(table: PrivateRows, rate: float, sigma: float, ledger: Ledger) -> dict[str, Tensor]:  # noqa: ARG001
        return {MOMENT: DPPCA(1, sigma).fit(table, SystemNoise(), ledger).moment}

    return Setting(ask, _long_rows(), _short_rows())


def mean() -> Setting:
    query = DPMean(1.0).query(Ball(torch.zeros(WIDTH), 1.0))
    return Setting(released_answer(query), _long_rows(), _short_rows())


def ridge() -> Setting:
    labels = torch.eye(2)
    candidates = [(x, label) for (x,) in _long_rows() for label in labels]
    others = [(x, labels[k % 2]) for k, (x,) in enumerate(_short_rows())]
    return Setting(released_answer(statistics(WIDTH + 1, 2)), candidates, others)


def histogram() -> Setting:
    step = Step(small_network(), loss("squared"), FixedPrediction(), FirstOrder(), Normalise())
    query = NormHistogram(1.0, bins=6).query(step.unbounded, [p.name for p in step.query().partitions])
    candidates = [(size * _numbers(-1.0, 1.0), _numbers(target, -target)) for size in (0.0, 1.0) for target in (0.1, 9)]
    others = [(_numbers(0.3 * k, 0.1), _numbers(0.1, 0.5)) for k in (1, 2, 3)]
    return Setting(released_answer(query), candidates, others)


def closed_form(**more: object) -> Callable[[], Setting]:
    """The output layer's release, given a DP-PCA that public rows have shaped."""

    def make() -> Setting:
        method = ClosedForm(code=2, features=4, norm=1.0, threshold=0.5, **more)  # type: ignore[arg-type]
        source = SeededNoise(3)
        public = source.normal((50, WIDTH)).double()
        model = method.fit(public, 0.0, source, Ledger())
        candidates = [(row.double(),) for (row,) in _long_rows()]
        return Setting(released_answer(method.query(model)), candidates, [(row.double(),) for (row,) in _short_rows()])

    return make


def calibration(classes: int, several: bool = False) -> Callable[[], Setting]:
    """One round, at the slope and offset that it begins with, of logits that are the rows themselves."""

    def make() -> Setting:
        start = [1.0]
        if classes == 2 and not several:
            start = [1.0, 0.0]
        theta = torch.tensor(start, dtype=torch.float64)
        query = Calibration(1.0).query(lambda x: x, theta, classes, several=several)
        way = torch.linspace(-1.0, 1.0, classes)
        if several:
            targets = [torch.zeros(classes), torch.ones(classes)]
        else:
            targets = list(torch.eye(classes))
        sizes = (-1.0, -0.5, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.5, 1.0)
        logits = [size * REACH * one for size in sizes for one in (way, torch.ones(classes))]
        candidates = [(logit, target) for logit in logits for target in targets]
        others = [(0.1 * k * way, targets[k % len(targets)]) for k in (1, 2, 3)]
        return Setting(released_answer(query), candidates, others)

    return make


def base_rates(classes: int, several: bool = False) -> Callable[[], Setting]:
    """Of logits that are the rows themselves; a row is sure of its own class, or of another."""

    def make() -> Setting:
        query = BaseRates(1.0).query(lambda x: x, classes, several=several)
        targets = list(torch.eye(classes))
        if several:
            targets = [torch.zeros(classes), torch.ones(classes)]
        candidates = [(way * (2 * target - 1), target) for target in targets for way in (OUTRAGE, -OUTRAGE, 0.0)]
        others = [(0.1 * k * torch.ones(classes), targets[k % len(targets)]) for k in (1, 2, 3)]
        return Setting(released_answer(query), candidates, others)

    return make


def residuals() -> Setting:
    """Residuals of the whole range, of which a row's square is the largest, and the largest of an inner shell."""
    query = ResidualScale(1.0).query(lambda x: x)
    others = [(_numbers(0.1 * k), _numbers(0.0)) for k in (1, 2, 3)]
    candidates = [(_numbers(OUTRAGE), _numbers(-OUTRAGE)), (_numbers(0.25), _numbers(-0.25))]
    return Setting(released_answer(query), candidates, others)


def scores() -> Setting:
    """A histogram and two bounded sums, of outputs that are the rows themselves: every row has the largest length."""
    cells = counts("cells", 0.6, 4, lambda u, y: 2 * (u[:, 0] > 0) + (y[:, 0] > 0))
    sums = numbers("sums", 0.4, [lambda u, y: (u[:, 0] - y[:, 0]).abs(), lambda u, y: u[:, 0] * y[:, 0]])
    query = Scores(1.0, (cells, sums)).query(lambda x: x)
    others = [(_numbers(0.3 * k), _numbers(0.2)) for k in (1, 2, 3)]
    candidates = [(_numbers(size), _numbers(target)) for size in (-OUTRAGE, OUTRAGE) for target in (-1.0, 1.0)]
    return Setting(released_answer(query), candidates, others)


def score(merit: str) -> Callable[[], Setting]:
    """Of outputs that are the rows themselves, as good and as bad as they can be."""

    def make() -> Setting:
        query = Score(1.0, merit).query(lambda x: x)
        targets = list(torch.eye(2))
        candidates = [(OUTRAGE * (2 * target - 1), other) for target in targets for other in targets]
        return Setting(released_answer(query), candidates, [(0.1 * k * torch.ones(2), targets[0]) for k in (1, 2, 3)])

    return make


def ranges() -> Setting:
    query = PrivateRanges(1.0).query("ab")
    others = [(_numbers(0.5 * k, -k),) for k in (1, 2, 3)]
    return Setting(released_answer(query), [(_numbers(3.0, -700.0),), (_numbers(1e13, 0.0),)], others)


def one_shot_cases() -> Iterator[Case]:
    """Every method of the package that releases something besides training steps."""
    makers: Sequence[tuple[str, Callable[[], Setting]]] = (
        ("DP-PCA", pca),
        ("mean", mean),
        ("ridge", ridge),
        ("histogram", histogram),
        ("closed form", closed_form()),
        ("closed form, released curvature", closed_form(curvature="released", normalise=False)),
        ("calibration, two classes", calibration(2)),
        ("calibration, more classes", calibration(3)),
        ("calibration, several labels", calibration(3, several=True)),
        ("base rates, two classes", base_rates(2)),
        ("base rates, several labels", base_rates(3, several=True)),
        ("residual scale", residuals),
        ("scores", scores),
        ("score, accuracy", score("accuracy")),
        ("score, log-loss", score("log_loss")),
        ("private ranges", ranges),
    )
    for name, make in makers:
        yield Case(name, make)
