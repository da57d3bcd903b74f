"""One door: nothing but the noise source draws random numbers, nothing but the release sums examples.

Two kinds of proof: a walk over the package's syntax trees, and a watch over a real training run.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dpmac
from conftest import make_problem
from dpmac.mac import AdamCoordinates, FixedPrediction
from dpmac.privacy import Normalise, Plan, SeededNoise, SystemNoise
from dpmac.training import Trainer

PACKAGE = Path(dpmac.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

DRAWS = {
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"),
    *("multinomial", "poisson", "normal_", "uniform_", "bernoulli_", "exponential_", "random_", "geometric_"),
    *("log_normal_", "cauchy_", "dropout", "urandom", "getrandom", "token_bytes", "default_rng", "RandomState"),
    *("manual_seed", "seed", "Generator", "SystemRandom", "getrandbits", "standard_normal", "shuffle", "choice"),
    *("trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "gauss"),
}
# source.normal(...) and source.uniform(...) are the protocol itself: asking the source, not drawing.
ASKING = {"source", "self", "noise", "draw", "self.source", "self.sampler"}
MAY_DRAW = {"privacy/noise.py"}
EXCUSED = {("estimators.py", "randint")}  # a caller's own RandomState is asked for a seed


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr, ast.unparse(node.func.value)
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id, ""


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def illegal_draws(name, source):
    tree = ast.parse(source)
    found = [
        f"{name}: import {a.name}"
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for a in n.names
        if a.name.split(".")[0] in ("random", "secrets")
    ]
    for _node, function, owner in calls(tree):
        asking = function in ("normal", "uniform") and (owner in ASKING or owner.startswith("source.spawn("))
        if function in DRAWS and not asking and (name, function) not in EXCUSED:
            found.append(f"{name}: {owner}.{function}()")
    return found


def test_the_walk_sees_the_whole_package():
    assert len(MODULES) > 25
    assert {"privacy/release.py", "training/trainer.py", "mac/coordinates.py"} <= {name_of(p) for p in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_but_the_noise_source_draws(path):
    if name_of(path) not in MAY_DRAW:
        assert not illegal_draws(name_of(path), path.read_text())


def test_the_walk_would_catch_a_draw():
    for line in (
        "torch.randn(3)",
        "x.normal_()",
        "np.random.default_rng(0)",
        "os.urandom(8)",
        "torch.normal(0, 1, (3,))",
    ):
        assert illegal_draws("x.py", line), line
    assert illegal_draws("x.py", "import random")
    assert illegal_draws("privacy/noise.py", (PACKAGE / "privacy/noise.py").read_text())


# --- sums over examples ---------------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum",
    "mean",
    "std",
    "var",
    "median",
    "max",
    "min",
    "amax",
    "amin",
    "norm",
    "vector_norm",
    "prod",
    "any",
    "all",
    "cumsum",
    "logsumexp",
    "quantile",
    "nansum",
    "nanmean",
    "einsum",
    "bmm",
    "mm",
    "matmul",
    "addmm",
}
# Modules on the way of a mini-batch: everything that sees per-example tensors during training.
ON_THE_WAY = [
    "mac/coordinates.py",
    "mac/error_coordinates.py",
    "mac/gauss_newton.py",
    "mac/projected.py",
    "baselines/dpsgd.py",
    "privacy/thresholds.py",
    "features/pca.py",
    "mac/expansion.py",
    "mac/layers.py",
    "nets/losses.py",
    "nets/activations.py",
    "privacy/bound.py",
    "privacy/parts.py",
    "privacy/sampling.py",
    "training/trainer.py",
]
MAY_CALL_TOTAL = {"privacy/release.py"}
# (module, function inside which it stands, reduction): looked at one by one; each reduces partitions or released sums.
LOOKED_AT = {
    ("privacy/bound.py", "joint_norms", "vector_norm"),  # over partitions, per example
    ("training/trainer.py", "_record", "vector_norm"),  # of released slopes
    ("mac/projected.py", "polynomials", "sum"),  # of released coefficients
    ("privacy/thresholds.py", "_read", "cumsum"),  # over the bins of a released histogram
    ("features/pca.py", "__post_init__", "all"),  # over the public centre
}


def functions(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def keeps_rows(call):
    """True if a reduction names a dimension other than the first."""
    for keyword in call.keywords:
        if keyword.arg == "dim":
            return isinstance(keyword.value, ast.Constant) and keyword.value.value not in (0, None)
    return False


def illegal_sums(name, source):
    found = []
    tree = ast.parse(source)
    for function in functions(tree):
        if name == "privacy/parts.py" and function.name == "total":
            continue  # the sum itself, which only the release may call (checked below)
        for call, called, owner in calls(function):
            if called in REDUCTIONS and owner and owner not in ("math", "np") and not keeps_rows(call):
                found.append((name, function.name, called))
        for node in ast.walk(function):
            transposed = (
                isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and ".T" in ast.unparse(node.left)
            )
            if transposed:
                found.append((name, function.name, "transpose @"))
    return [f for f in found if f not in LOOKED_AT]


@pytest.mark.parametrize("name", ON_THE_WAY)
def test_nothing_on_the_way_reduces_over_examples(name):
    assert not illegal_sums(name, (PACKAGE / name).read_text())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_release_asks_for_a_total(path):
    asked = [owner for _c, function, owner in calls(ast.parse(path.read_text())) if function == "total"]
    assert not asked or name_of(path) in MAY_CALL_TOTAL


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_release_spends_a_batch(path):
    spent = [owner for _c, function, owner in calls(ast.parse(path.read_text())) if function == "spend"]
    assert not spent or name_of(path) == "privacy/release.py"


def test_the_walk_would_catch_a_sum():
    for body in ("x.sum()", "x.mean(dim=0)", "x.sum(dim=dims)", "left.T @ right", "torch.einsum('ni->i', x)"):
        assert illegal_sums("x.py", f"def f(x):\n    return {body}"), body
    assert not illegal_sums("x.py", "def f(x):\n    return x.sum(dim=1)")


# --- a real run, watched --------------------------------------------------------------------------------------------

REDUCING_OPS = ("mm", "addmm", "sum", "mean", "bmm", "dot", "mv", "addmv")


class Watch(TorchDispatchMode):
    """Notes which of our modules draws, and which makes something without a row per example out of something with."""

    ROWS = 64  # the rows of a block, and no layer's width
    TABLE = 13  # rows of the table: they fit into one block

    def __init__(self):
        super().__init__()
        self.draws: set[str] = set()
        self.sums: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.draws.add(self._our_module())
        if func._schema.name.removeprefix("aten::") in REDUCING_OPS:
            inputs = [a for a in args if isinstance(a, torch.Tensor)]
            by_example = any(self.ROWS in a.shape for a in inputs)
            if by_example and isinstance(result, torch.Tensor) and self.ROWS not in result.shape:
                self.sums.add(self._our_module())
        return result

    @staticmethod
    def _our_module():
        frame = sys._getframe(2)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if PACKAGE in path.parents:
                return name_of(path)
            frame = frame.f_back
        return "elsewhere"


@pytest.mark.parametrize("zstep", [AdamCoordinates(steps=3), FixedPrediction()])
@pytest.mark.parametrize("source", [SeededNoise(0), SystemNoise()], ids=repr)
def test_a_watched_run_draws_and_sums_only_where_it_may(zstep, source):
    problem = make_problem(rows=Watch.TABLE)
    plan = Plan(Watch.TABLE, Watch.TABLE, 3, 1.0, 1e-5)  # rate 1: every batch is the whole table
    trainer = Trainer(problem.network, problem.loss, plan, zstep, Normalise(), source=source)
    with Watch() as watch:
        trainer.fit(problem.x, problem.y)
    assert watch.draws <= {"privacy/noise.py"}
    assert watch.sums == {"privacy/parts.py"}  # Part.total, which only the release calls


def test_the_watch_would_catch_a_leak():
    x = torch.zeros(Watch.ROWS, 3)
    with Watch() as watch:
        _ = x.sum(dim=0)
        _ = x.T @ x
        torch.rand(2)
    assert watch.sums == {"elsewhere"}
    assert watch.draws == {"elsewhere"}
