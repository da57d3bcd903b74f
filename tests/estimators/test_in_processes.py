"""Estimators in two real processes, each with its rows: the model, the plan and the statement of one with all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpmac
from dpmac import (
    DPMACPCA,
    ArgumentError,
    DPMACAutoencoder,
    DPMACClassifier,
    DPMACModuleClassifier,
    DPMACModuleRegressor,
    DPMACRegressor,
    Ledger,
    Machine,
)
from dpmac.estimators import ESTIMATORS
from dpmac.extensions.world import SINGLE_PROCESS, SingleProcess, WorldError
from dpmac.tables import Category, Files, Number, Schema
from processes import together_run, values
from small_modules import SmallOfThree, SmallRegression

N = 600
QUICK = {"epsilon": 4.0, "batch_size": N, "epochs": 3, "feature_range": (-3, 3)}
SCHEMA = Schema({"a": Number(-3, 3), "b": Number(-3, 3), "ill": Category(["no", "yes"])}, target="ill", positive="yes")
CASES = {
    "classifier": (DPMACClassifier, {}),
    "table": (DPMACClassifier, {"schema": SCHEMA, "feature_range": None}),
    "regressor": (DPMACRegressor, {"target_range": (-3, 3)}),
    "module": (DPMACModuleClassifier, {"module": SmallOfThree}),
    "module of numbers": (DPMACModuleRegressor, {"module": SmallRegression, "target_range": (-3, 3)}),
    "pca": (DPMACPCA, {"n_components": 2}),
    "closed form": (DPMACAutoencoder, {"method": "closed-form", "code_size": 2}),
    "gradient": (DPMACAutoencoder, {"method": "gradient", "code_size": 2, "hidden_layer_sizes": (5,)}),
}


def rows():
    draw = np.random.RandomState(3)
    x = draw.normal(size=(N, 4)).clip(-3, 3)
    return x, x[:, 0] - x[:, 1] + 0.2 * draw.normal(size=N)


def whose(world, count=N):
    return slice(count * world.rank // world.size, count * (world.rank + 1) // world.size)


def made(kind, world, **other):
    names = kind._get_param_names()
    given = {**QUICK, "machine": Machine(threads=1, world=world), **other}
    return kind(**{name: value for name, value in given.items() if name in names})


def labels(y):
    """Three classes; the last of them stands in the second half of the rows alone."""
    found = np.where(y > 0, "up", "down").astype(object)
    found[-20:] = "zero"
    return found


def given(case, world):
    """The rows of this process, and targets, of a case."""
    mine = whose(world)
    x, y = rows()
    if case == "table":
        return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "ill": np.where(y > 0, "yes", "no")})[mine], None
    return x[mine], labels(y)[mine] if case in ("classifier", "module") else y[mine]


def told(model, case):
    """What a fitted model is, in plain values."""
    public, _ = given(case, SINGLE_PROCESS)
    used = model.predict(public[:50]) if hasattr(model, "predict") else model.transform(public[:50])
    ledger = model.privacy_.ledger
    return {
        "used": used.tolist(),
        "mechanisms": [str(one) for one in ledger.mechanisms()],
        "n": model.plan_.n if hasattr(model, "plan_") else None,
        "delta": model.privacy_.delta,
        "notes": list(model.privacy_.notes),
        "classes": [str(one) for one in getattr(model, "classes_", [])],
        "more": [getattr(model, name, None) for name in ("calibration_", "residual_std_")],
    }


def fitted(world, seed, cases=tuple(CASES)):
    found = {}
    for case in cases:
        kind, other = CASES[case]
        model = made(kind, world, random_state=seed, ledger=Ledger(), **other)
        found[case] = told(model.fit(*given(case, world)), case)
    return found


def alike(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    return abs(one - other) < 1e-4 if isinstance(one, float) else one == other


def test_every_estimator_fits_in_two_processes_what_it_fits_in_one():
    """Calibration, residuals, PCA and both autoencoders too; classes are those of all rows, and n is the table's."""
    alone = fitted(SINGLE_PROCESS, 0)
    first, second = values(together_run(2, fitted, 0))
    assert first == second
    for case in CASES:
        assert alike(first[case], alone[case]), (case, first[case], alone[case])
    assert first["classifier"]["classes"] == ["down", "up", "zero"]
    assert first["classifier"]["n"] == N
    assert first["classifier"]["more"][0] is not None
    assert first["regressor"]["more"][1] is not None


def test_without_a_seed_all_processes_end_with_one_model():
    first, second = values(together_run(2, fitted, None, ("closed form", "gradient")))
    assert first == second


def into(world, path):
    """All processes name the same ledger, and checkpoint."""
    machine = Machine(threads=1, world=world, checkpoint=f"{path}-kept")
    model = made(DPMACRegressor, world, target_range=(-3, 3), ledger=path, machine=machine)
    model.fit(*given("regressor", world))
    return len(model.privacy_.ledger)


def test_one_process_writes_the_ledger_that_all_name(tmp_path):
    first, second = values(together_run(2, into, str(tmp_path / "ledger")))
    assert first == second == len(Ledger.read(tmp_path / "ledger")) == 3 + 1
    assert not (tmp_path / "ledger-kept").exists()  # nothing is left to go on with


# --- persons ----------------------------------------------------------------------------------------------------------


def persons(world, split):
    x, y = rows()
    who = np.arange(N) // 3
    mine = whose(world)
    if split and world.rank == 1:
        who[-1] = 0
    model = made(DPMACRegressor, world, target_range=(-3, 3), batch_size=N / 3, random_state=0)
    ledger = model.ledger = Ledger()
    try:
        model.fit(x[mine], y[mine], groups=who[mine])
    except (ArgumentError, WorldError) as error:
        return type(error).__name__, str(error), len(ledger)
    return model.plan_.n, model.privacy_.ledger.unit, str(model.privacy_.statement())


def test_persons_are_counted_over_all_processes():
    first, second = values(together_run(2, persons, False))
    assert first == second == persons(SINGLE_PROCESS, False)
    assert first[:2] == (N // 3, "person")


def test_a_person_whose_rows_are_in_two_processes_is_refused_by_both_before_anything_is_spent():
    for kind, words, spent in values(together_run(2, persons, True)):
        assert kind == "ArgumentError"
        assert "some persons have rows in more than one" in words
        assert spent == 0


def persons_in_files(world, path):
    """Parts of a file; three processes would split persons, of whom each has two rows that follow each other."""
    model = made(DPMACClassifier, world, schema=SCHEMA, feature_range=None, batch_size=20, random_state=0)
    try:
        model.fit(Files(path).part(world.rank, world.size), groups="who")
    except ArgumentError as error:
        return str(error)
    return model.plan_.n, model.privacy_.ledger.unit


@pytest.mark.parametrize(("size", "split"), [(2, False), (3, True)])
def test_persons_of_a_table_in_files_are_compared_too(size, split, tmp_path):
    x, _ = rows()
    table = pd.DataFrame({"who": np.arange(40) // 2, "a": x[:40, 0], "b": x[:40, 1], "ill": ["no", "yes"] * 20})
    table.to_parquet(tmp_path / "t.parquet")
    for found in values(together_run(size, persons_in_files, str(tmp_path / "t.parquet"))):
        assert found == ((20, "person by who") if not split else found)
        assert not split or "some persons have rows in more than one" in found


# --- what must not differ ---------------------------------------------------------------------------------------------

ODD = {
    "epsilon": {"epsilon": 3.0},
    "schema": {"schema": SCHEMA, "feature_range": None},
    "calibrate": {"calibrate": False},
    "classes": {"classes": ("down", "up", "zero")},
    "feature_range": {"feature_range": (-2, 2)},
    "threads": {"machine__threads": 2},
    "micro_batch_size": {"machine__micro_batch_size": 50},
}


def odd(world):
    found = {}
    for name, other in ODD.items():
        model = made(DPMACClassifier, world, ledger=Ledger()).set_params(**(other if world.rank else {}))
        try:
            model.fit(*given("classifier", world))
        except WorldError as error:
            found[name] = str(error), len(model.ledger)
    return found


def test_arguments_that_differ_are_refused_by_all_before_anything_is_spent():
    for found in values(together_run(2, odd)):
        assert {name: spent for name, (_, spent) in found.items()} == dict.fromkeys(ODD, 0)
        for name, (words, _) in found.items():
            assert " of process 1 is " in words
            assert words.startswith(("feature_range", name)), words


# --- an argument like any other ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_world_is_only_kept_and_goes_with_a_clone(kind):
    world = SingleProcess()
    assert clone(kind(machine=Machine(world=world))).get_params()["machine__world"] is world


def test_a_saved_model_knows_of_no_world(tmp_path):
    model = made(DPMACPCA, SingleProcess(), random_state=0).fit(rows()[0])
    model.save(tmp_path / "model")
    assert dpmac.load(tmp_path / "model").machine.world is None
    assert "world" not in (tmp_path / "model" / "dpmac.json").read_text()


def test_what_is_no_world_is_refused():
    with pytest.raises(ArgumentError, match=r"world=4: give what dpmac\.training\.together"):
        Machine(world=4)
