"""Schemas: by value, in files, and every error with file, key, value and fix."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from real_tables import SMALL, schema_files

from dpmac.checks import ArgumentError
from dpmac.tables import Category, Number, Schema


def built(**more):
    return Schema(
        {"age": Number(18, 99), "sex": Category(["F", "M"], missing=True), "death": Category([0, 1])},
        **({"target": "death"} | more),
    )


def test_a_schema_in_python():
    schema = built(positive=1, name="n")
    assert list(schema.features) == ["age", "sex"]
    assert schema.features["age"] == Number(18, 99)
    assert schema.target_column == Category(["0", "1"])
    assert (schema.task, schema.positive) == ("classification", "1")
    assert built(target="age").task == "regression"
    assert built(target=None).task is None
    assert list(built(target=None).features) == ["age", "sex", "death"]
    assert built(target=None).target_column is None


def test_equal_by_value_and_in_order():
    assert built() == built(task="classification") != built(name="other")
    assert len({built(), built(), built(target="age")}) == 2
    other_way = Schema(dict(reversed(built().columns.items())), target="death")
    assert other_way != built()
    assert built() != "a schema"


def test_frozen_copied_and_pickled():
    schema = built(positive="0")
    with pytest.raises(AttributeError):
        schema.target = "age"
    with pytest.raises(TypeError):
        schema.columns["more"] = Number(0, 1)
    for again in (copy.deepcopy(schema), copy.copy(schema), pickle.loads(pickle.dumps(schema))):
        assert again == schema
        assert hash(again) == hash(schema)
    assert "['age', 'sex']" in repr(schema)


def test_the_columns_are_ours_and_not_the_callers():
    columns = {"a": Number(0, 1)}
    schema = Schema(columns)
    columns["b"] = Number(0, 1)
    assert list(schema.columns) == ["a"]


# --- files ------------------------------------------------------------------------------------------------------------


def test_every_table_at_hand_loads_and_is_saved_as_it_was(tmp_path):
    for path in schema_files(tmp_path):
        schema = Schema.load(path)
        assert schema.name == path.name.split(".")[0]
        assert schema.target in schema.columns
        assert schema.target not in schema.features
        schema.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text().strip() == path.read_text().strip()
        assert Schema.load(tmp_path / "again.json") == schema


@pytest.mark.parametrize("schema", [built(), built(target=None, name="é", about="1 < 2"), built(target="age")])
def test_round_trip_by_dictionary_and_by_file(schema, tmp_path):
    plain = json.loads(json.dumps(schema.to_dict()))
    assert Schema.from_dict(plain) == schema
    assert Schema.from_dict(plain).to_dict() == plain
    schema.save(tmp_path / "s.json")
    assert Schema.load(tmp_path / "s.json") == schema


def test_bounds_are_kept_to_the_last_bit(tmp_path):
    schema = Schema({"a": Number(-0.1, 1 / 3), "b": Number(-1e300, 2**60), "c": Number(1e-5, 1)})
    schema.save(tmp_path / "s.json")
    assert Schema.load(tmp_path / "s.json") == schema
    assert '"high": 1\n' in (tmp_path / "s.json").read_text()


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": "deth"}, r"target='deth': .*\['age', 'sex', 'death'\]; did you mean 'death'\?"),
        ({"positive": "2"}, r"positive='2': give one of the target's values \['0', '1'\]"),
        ({"positive": "F", "target": "age"}, "positive='F': it needs a target that is a category"),
        ({"positive": "F", "target": None}, "positive='F': it needs a target"),
        ({"task": "regression"}, "task='regression': the target 'death' is a category, which makes it classification"),
        ({"task": "classification", "target": "age"}, "task='classification': the target 'age' is a number"),
        ({"task": "ranking"}, "task='ranking': give 'classification', 'regression'"),
        ({"task": "regression", "target": None}, "task='regression': it needs a target"),
        ({"name": 3}, "name=3: give a text"),
    ],
)
def test_errors_in_python(more, message):
    with pytest.raises(ArgumentError, match=message):
        built(**more)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one column beside the target"),
        ([("a", Number(0, 1))], "columns=.*give a mapping of names"),
        ({"a": (0, 1)}, r"columns\.a=\(0, 1\): give a mapping of names to Number"),
        ({"": Number(0, 1)}, "a column's name must be a text"),
        ({1: Number(0, 1)}, "columns=1: a column's name must be a text"),
    ],
)
def test_errors_of_columns(columns, message):
    with pytest.raises(ArgumentError, match=message):
        Schema(columns)


def test_a_target_alone_is_no_table():
    with pytest.raises(ArgumentError, match="at least one column beside the target"):
        Schema({"a": Number(0, 1)}, target="a")


def changed(*keys, to):
    raw = copy.deepcopy(SMALL)
    at = raw
    for key in keys[:-1]:
        at = at[key]
    if to is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = to
    return raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (changed("tagret", to="x"), r"schema\.tagret='x': this key is not known.*did you mean 'target'\?"),
        (changed("columns", to=None), r"schema\.columns=None: this key is needed"),
        (changed("columns", to=[1]), r"columns=\[1\]: give an object"),
        (changed("columns", "age", to=3), r"columns\.age=3: describe the column"),
        (changed("columns", "age", "kind", to="numbr"), r"columns\.age\.kind='numbr': .*did you mean 'number'\?"),
        (changed("columns", "age", "kind", to=None), r"columns\.age\.kind=None: give 'number'"),
        (changed("columns", "age", "kind", to=[]), r"columns\.age\.kind=\[\]: give 'number'"),
        (changed("columns", "age", "low", to=None), r"columns\.age\.low=None: this key is needed"),
        (changed("columns", "age", "low", to="18"), r"columns\.age\.low='18': give public, finite bounds"),
        (changed("columns", "age", "high", to=3), r"columns\.age\.low, high=\(18.0, 3.0\): give public"),
        (changed("columns", "age", "values", to=["a"]), r"columns\.age\.values=\['a'\]: this key is not known here"),
        (changed("columns", "sex", "values", to="FM"), r"columns\.sex\.values='FM': give a list"),
        (changed("columns", "sex", "missing", to="no"), r"columns\.sex\.missing='no': give true or false"),
        (changed("target", to="deaht"), r"target='deaht': .*did you mean 'death'\?"),
        (changed("positive", to="yes"), r"positive='yes': give one of the target's values"),
        ([SMALL], r"schema=\[.*give an object with the keys name, about"),
    ],
)
def test_a_bad_file_is_named_with_key_value_and_fix(raw, message, tmp_path):
    path = tmp_path / "bad.schema.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(ArgumentError, match=r"bad\.schema\.json: " + message):
        Schema.load(path)


def test_a_key_that_stands_twice_is_not_guessed_at(tmp_path):
    (tmp_path / "two.json").write_text('{"columns": {"a": {"kind": "number", "low": 0, "high": 1, "high": 2}}}')
    with pytest.raises(ArgumentError, match=r"two\.json: high=2: this key stands twice"):
        Schema.load(tmp_path / "two.json")


def test_a_file_that_is_not_json(tmp_path):
    (tmp_path / "x.json").write_text("{'a': 1}")
    with pytest.raises(ArgumentError, match=r"path='.*x\.json': this file is not JSON \(.*line 1"):
        Schema.load(tmp_path / "x.json")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Schema.load(tmp_path / "nowhere.json")
