"""One release, packages whose imports point one way, and an argument that is short.

Nothing but the noise source draws random numbers, nothing but the release sums examples. Two kinds of proof: a walk
over the package's syntax trees, and a watch over real runs. Which code is private is not a list that someone keeps: it
is what runs inside the queries of all askers.
"""

from __future__ import annotations

import ast
import importlib
import re
import statistics
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dpmac.nets.feature_maps
from askers import ASKERS, ROWS, SUPERVISED, UNSUPERVISED, labels, numbers
from contracts import asked_by
from dpmac.audit import Effort, WholeRun, all_cases
from dpmac.mac import AdamCoordinates, FixedPrediction
from dpmac.nets.layers import LAYERS
from dpmac.privacy import Normalise, Plan, PrivateRows, gaussian_release
from dpmac.privacy.accounting import UNIT
from dpmac.randomness import SeededNoise, SystemNoise
from dpmac.training import Trainer
from walking import (
    MODULES,
    PACKAGE,
    Private,
    calls,
    handed_over,
    loaded,
    name_of,
    packages_graph,
    room_of,
    sums_in,
    tree_of,
)

ROOT = Path(__file__).parents[1]

# --- packages ---------------------------------------------------------------------------------------------------------

LAYERS_OF_PACKAGES = [
    {"checks", "cells", "files", "limits", "old_names", "showing"},
    {"kernels"},
    {"randomness"},
    {"privacy"},
    {"planning"},
    {"extensions", "bounds"},
    {"nets"},
    {"mac", "analytic", "tables", "pictures"},
    {"methods", "modules", "priors"},
    {"training"},
    {"estimators", "audit", "data"},
    {"disclosure", "evaluation"},
    {"saving", "report"},
    {"cli"},
]


def test_imports_point_one_way():
    """No cycle between packages, and no step back to a later one."""
    graph = packages_graph()
    level = {package: number for number, layer in enumerate(LAYERS_OF_PACKAGES) for package in layer}
    assert set(graph) <= set(level)
    back = {(one, other) for one, others in graph.items() for other in others if level[other] > level[one]}
    assert not back
    tuple(TopologicalSorter(graph).static_order())  # raises on a cycle


# --- the argument -----------------------------------------------------------------------------------------------------

ARGUMENT = [path for path in MODULES if room_of(name_of(path)) == "privacy"] + [PACKAGE / "randomness" / "sources.py"]
MOST_LINES, MOST_OF_THE_REFERENCE = 1500, 120


def lines_of(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_argument_can_be_read_in_an_afternoon():
    """All lines count: code, docstrings, blanks. Only ``__init__`` does not, which re-exports and does nothing else."""
    reference = PACKAGE / "privacy" / "reference.py"
    assert lines_of(reference) <= MOST_OF_THE_REFERENCE
    assert sum(lines_of(path) for path in ARGUMENT if path.name != "__init__.py" and path != reference) <= MOST_LINES
    for node in tree_of(PACKAGE / "privacy" / "__init__.py").body:
        naming = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        assert isinstance(node, ast.ImportFrom | ast.Expr) or naming


def test_the_page_of_what_to_read_has_the_right_numbers_of_lines():
    """Every row of its tables: files, and how many lines they have together."""
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|\n]*\|((?: `[a-z_/]+\.py`,?)+) \| (\d+) \|$", page, re.MULTILINE)
    assert len(rows) >= 20
    for files, said in rows:
        found = sum(lines_of(PACKAGE / file) for file in re.findall(r"`([a-z_/]+\.py)`", files))
        assert int(said) == found, f"docs/trust.md says {said} of {files}: they have {found} lines"
    arithmetic = sum(int(said) for files, said in rows if "`kernels/" in files)
    for path in (ROOT / "README.md", ROOT / "docs" / "guarantee.md"):
        (told,) = re.findall(r"(\d,\d{3})\s+of\s+arithmetic", path.read_text(encoding="utf-8"))
        assert 0 <= int(told.replace(",", "")) - arithmetic <= 100, f"{path.name}: kernels have {arithmetic} lines"


def test_the_argument_loads_itself_and_kernels_only():
    for path in ARGUMENT:
        if path.name != "__init__.py":
            packages = {module.split(".")[1] for module in loaded(path)}
            assert packages <= {"privacy", "kernels", "randomness", "checks"}, name_of(path)


def test_where_the_argument_hands_over_to_an_extension_is_known():
    found = {(path.name, module) for path in ARGUMENT for module in handed_over(path)}
    assert found == {
        ("private_rows.py", "dpmac.extensions.feature_maps"),  # behind(feature_map)
        ("private_rows.py", "dpmac.extensions.persons"),  # groups=
        ("private_rows.py", "dpmac.extensions.stores"),  # rows that are not in memory
        ("private_rows.py", "dpmac.extensions.world"),  # world, for whoever asks
    }


def test_kernels_load_nothing_of_the_argument_and_say_what_they_owe():
    for path in (PACKAGE / "kernels").glob("*.py"):
        assert {module.split(".")[1] for module in loaded(path)} <= {"kernels", "checks"}, path.name
        said = ast.get_docstring(tree_of(path)) or ""
        assert any(f"K{number}" in said for number in (1, 2, 3, 4, 5)), f"{path.name} names no obligation"


def test_modules_are_short_and_functions_do_not_shadow_them():
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert max(lengths.values()) <= 300, max(lengths, key=lengths.get)
    assert statistics.median(lengths.values()) <= 150
    for path in MODULES:
        if path.name == "__init__.py":
            package = importlib.import_module(".".join(("dpmac", *path.relative_to(PACKAGE).parts[:-1])))
            for module in path.parent.glob("[!_]*.py"):
                there = getattr(package, module.stem, None)
                assert there is None or type(there).__name__ == "module", f"{package.__name__}.{module.stem}"


def test_one_neighbour_relation_in_the_same_words_everywhere():
    texts = [*MODULES, ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "reproduction").rglob("*.md")]
    for path in texts:
        text = " ".join(path.read_text(encoding="utf-8").lower().split())
        for other in ("added or removed", "adding or removing", "add or remove one"):
            assert other not in text, f"{path} says {other!r}"
    for path in (ROOT / "README.md", ROOT / "docs" / "guarantee.md"):
        assert UNIT in " ".join(path.read_text(encoding="utf-8").split())


# --- draws ------------------------------------------------------------------------------------------------------------

DRAWS = {
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"),
    *("multinomial", "poisson", "normal_", "uniform_", "bernoulli_", "exponential_", "random_", "geometric_"),
    *("log_normal_", "cauchy_", "dropout", "urandom", "getrandom", "token_bytes", "default_rng", "RandomState"),
    *("manual_seed", "seed", "Generator", "SystemRandom", "getrandbits", "standard_normal", "shuffle", "choice"),
    *("trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "gauss"),
}
# source.normal(...) and source.uniform(...) are the protocol itself: asking the source, not drawing.
ASKING = {"source", "self", "noise", "draw", "self.source", "self.sampler"}
EXCUSED = {("estimators/budget.py", "randint")}  # a caller's own RandomState is asked for a seed


def illegal_draws(name, tree):
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


def test_no_module_but_the_noise_source_draws():
    assert len(MODULES) > 60
    drawing = {name_of(path) for path in MODULES if illegal_draws(name_of(path), tree_of(path))}
    assert drawing == {"randomness/seeded.py", "kernels/streams.py"}  # a seed, or keys of the operating system


@pytest.mark.parametrize(
    "line",
    ["torch.randn(3)", "x.normal_()", "np.random.default_rng(0)", "os.urandom(8)", "torch.normal(0, 1, (3,))"],
)
def test_the_walk_would_catch_a_draw(line):
    assert illegal_draws("x.py", ast.parse(line))
    assert illegal_draws("x.py", ast.parse("import random"))


# --- sums over examples -----------------------------------------------------------------------------------------------

# (module, function, reduction): looked at one by one; each reduces something else than rows.
LOOKED_AT = {
    ("methods/closed_form.py", "spread", "sum"),  # over released eigenvalues
    ("kernels/positions.py", "position_part", "bmm"),  # over positions, for each row
    ("kernels/positions.py", "_pieces", "bmm"),  # the same, a few rows at a time
    ("modules/rules/convolution.py", "_weight_share", "bmm"),  # the same, a few rows at a time
    ("modules/rules/arithmetic.py", "reduced", "sum"),  # over what a parameter was spread over, within each row
    ("mac/zsteps/links.py", "forward", "addmm"),  # over units, per example: rows of z times the weights
}


@pytest.fixture(scope="module")
def private():
    """The code that runs inside the queries of all askers."""
    asked = {name: asked_by(name) for name in ASKERS}  # built outside: what builds a query is public
    with Private() as watch:
        for one in asked.values():
            one.query.parts(*one.columns)
    return watch.functions()


def test_private_code_never_reduces_over_examples(private):
    found = {(*key, sum_) for key, function in private.items() for sum_ in sums_in(function)}
    assert found <= LOOKED_AT


def test_every_piece_takes_part_in_some_query(private):
    """So that what is private is all seen: each kind of layer, feature map, Z-step, expansion and bound has run."""
    modules = {module for module, _ in private}
    paddings = ("mac/zsteps", "nets/layers", "nets/feature_maps")
    helpers = {"mac/zsteps/base.py", "nets/feature_maps/saving.py"}
    for room in paddings:
        there = {name_of(path) for path in (PACKAGE / room).glob("*.py") if path.name != "__init__.py"}
        assert there - helpers - {f"{room}/base.py"} <= modules
    for module in (
        *("mac/expansions.py", "mac/second_order.py", "analytic/projected.py", "methods/dpsgd.py"),
        *("bounds/clipping.py", "bounds/adaptive.py", "kernels/outer.py", "kernels/gram.py", "kernels/positions.py"),
        *("methods/pca.py", "methods/closed_form.py", "methods/ridge.py", "methods/histogram.py"),
        *("training/step.py", "nets/losses.py", "nets/activations.py"),
        *("modules/gradients.py", "modules/whole_rows.py", "kernels/built.py", "kernels/tokens.py"),
        *(f"modules/rules/{name}.py" for name in ("linear", "convolution", "embedding", "normalisation")),
        *(f"modules/rules/{name}.py" for name in ("attention", "recurrent", "arithmetic")),
    ):
        assert module in modules
    assert {kind.kind for kind in LAYERS.values()} == set(LAYERS)
    assert {kind.kind for kind in dpmac.nets.feature_maps.FEATURE_MAPS.values()} == set(
        dpmac.nets.feature_maps.FEATURE_MAPS
    )


def test_only_the_release_asks_for_a_total_or_spends_a_batch():
    for path in MODULES:
        asked = {function for _c, function, _o in calls(tree_of(path))} & {"total", "spend", "summed"}
        # built shares are summed for their own part, or slice by slice for that of positions
        kernels = {name: {"summed"} for name in ("kernels/built.py", "kernels/positions.py")}
        allowed = {"privacy/gaussian_release.py": {"total", "spend"}, **kernels}
        assert asked <= allowed.get(name_of(path), set()), path


def test_every_module_that_releases_is_among_the_askers(monkeypatch):
    releasing = {
        name_of(path) for path in MODULES for _c, function, owner in calls(tree_of(path)) if function == "release"
    }
    seen, exact = set(), gaussian_release.ReleaseRequest.sums

    def watched(*arguments):
        frame = sys._getframe(1)
        while (path := Path(frame.f_code.co_filename)).name in ("gaussian_release.py",) or PACKAGE not in path.parents:
            frame = frame.f_back
        seen.add(name_of(path))
        return exact(*arguments)

    monkeypatch.setattr(gaussian_release.ReleaseRequest, "sums", watched)
    several = ("bound joint", "ridge", "Algorithm 2", "calibration", "base rates", "residual scale", "scores", "score")
    for name in several:
        SUPERVISED[name](PrivateRows(numbers(20, 5), labels(20, 4)), SeededNoise(0))
    for name in ("closed form", "private ranges", "mean"):
        UNSUPERVISED[name](PrivateRows(numbers(20, 9)), SeededNoise(0))
    for case in (*(all_cases()[name] for name in ("mean", "whole search", "splits")), WholeRun("run", steps=2)):
        case.judge(Effort("test", 40, 10), 0.5)
    assert seen == releasing


def test_the_walk_would_catch_a_sum():
    for body in ("x.sum()", "x.mean(dim=0)", "x.sum(dim=dims)", "left.T @ right", "torch.einsum('ni->i', x)"):
        assert sums_in(ast.parse(f"def f(x):\n    return {body}")), body
    assert sums_in(ast.parse("def f(x):\n    return x.transpose(0, 1) @ x.sum(dim=(0, 2))"))
    assert not sums_in(ast.parse("def f(x):\n    return x.sum(dim=1) + x.amax(dim=(1, 2))"))


# --- real runs, watched -----------------------------------------------------------------------------------------------

REDUCING_OPS = ("mm", "addmm", "sum", "mean", "bmm", "dot", "mv", "addmv")


class Watch(TorchDispatchMode):
    """Notes which of our modules draws, and which makes something without a row per example out of something with."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows  # of a block: no layer's width
        self.draws: set[str] = set()
        self.sums: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        without_dropout = "scaled_dot_product" in func._schema.name and (args[3:4] or (0.0,))[0] == 0.0
        if torch.Tag.nondeterministic_seeded in func.tags and not without_dropout:
            self.draws.add(self._our_module())
        if func._schema.name.removeprefix("aten::") in REDUCING_OPS:
            inputs = [a for a in args if isinstance(a, torch.Tensor)]
            by_example = any(self.rows in a.shape for a in inputs)
            kept = any(size % self.rows == 0 for size in result.shape)  # rows, or rows and positions in one dimension
            if by_example and not kept:
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


def test_no_watched_query_draws_or_sums():
    for name in ASKERS:
        asked = asked_by(name)
        with Watch(ROWS) as watch:
            asked.query.parts(*asked.columns)
        assert not watch.draws, name
        assert not watch.sums, name


@pytest.mark.parametrize("zstep", [AdamCoordinates(steps=3), FixedPrediction()])
@pytest.mark.parametrize("source", [SeededNoise(0), SystemNoise()], ids=repr)
def test_a_watched_run_draws_and_sums_only_where_it_may(zstep, source):
    from conftest import make_problem

    problem = make_problem(rows=13)
    plan = Plan(13, 13, 3, 1.0, 1e-5)  # rate 1: every batch is the whole table, in one block of 32 rows
    trainer = Trainer(problem.network, problem.loss, plan, zstep, Normalise(), source=source)
    with Watch(32) as watch:
        trainer.fit(problem.x, problem.y)
    assert watch.draws <= {"randomness/seeded.py"}
    assert watch.sums == {"kernels/chunks.py"}  # Part.total, which only the release calls


def test_the_watch_would_catch_a_leak():
    x = torch.zeros(32, 3)
    with Watch(32) as watch:
        _ = x.sum(dim=0)
        _ = x.T @ x
        torch.rand(2)
    assert watch.sums == {"elsewhere"}
    assert watch.draws == {"elsewhere"}
