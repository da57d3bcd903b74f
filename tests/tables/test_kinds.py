"""The contract of every registered kind of column: a kind that is added to ``KINDS`` is tried here at once."""

from __future__ import annotations

import ast
import json
import math

import numpy as np
import pyarrow as pa
import pytest
import torch

from dpmac import ArgumentError, Schema
from dpmac.cells import flat
from dpmac.tables import Category, Number, TableEncoder
from dpmac.tables.coding import Reader
from dpmac.tables.decoder import cells_near
from dpmac.tables.described import unfinished
from dpmac.tables.files import guessed_kind, open_column
from dpmac.tables.kinds import KINDS
from walking import MODULES, name_of

COLUMNS = [(name, column) for name, kind in KINDS.items() for column in kind.samples()]
EVERY = pytest.mark.parametrize("column", [pytest.param(one, id=f"{name}-{one}") for name, one in COLUMNS])
KIND = pytest.mark.parametrize("kind", list(KINDS.values()), ids=list(KINDS))
ODD = [math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0, 0.5, 1.0, 2.0, 54.0, 9131.0, 1e17, 1e300, -1e300, 5e-324]
NOTHING = [None, math.nan, "", "  ", np.datetime64("NaT"), np.float32("nan")]
UNIFORM = np.linspace(0.0, 1.0, 257, endpoint=False)


def bits(array):
    """Numbers that can be compared one by one, NaN included."""
    return np.nan_to_num(np.asarray(array, dtype=np.float64), nan=-7.25).view(np.int64).tolist()


def gone_of(codes):
    """Which codes are missing: of a wide one all of it is, or nothing."""
    gone = np.isnan(codes).reshape(len(codes), -1)
    assert (gone.all(axis=1) == gone.any(axis=1)).all()
    return gone[:, 0].tolist()


# --- cells to codes ---------------------------------------------------------------------------------------------------


@EVERY
def test_a_code_depends_on_its_cell_alone(column):
    cells = [*column.sample_cells()[0], *column.drawn(UNIFORM[::64])]
    together = bits(column.coded("a", flat(cells)))
    assert together == [bits(column.coded("a", flat([cell])))[0] for cell in cells]
    assert together[::-1] == bits(column.coded("a", flat(cells[::-1])))
    assert not np.isnan(column.coded("a", flat(cells))).any()


@EVERY
def test_a_missing_cell_is_nan_where_it_may_be_and_an_error_elsewhere(column):
    cells = [column.drawn(UNIFORM)[1], *NOTHING, column.absent]
    if column.missing:
        assert gone_of(column.coded("a", flat(cells))) == [False] + [True] * (len(cells) - 1)
    else:
        with pytest.raises(ArgumentError, match=r"column 'a', row 1=None: the cell is missing: .*7 of 8 cells"):
            column.coded("a", flat(cells))


@EVERY
def test_a_bad_cell_is_an_error_with_column_row_cell_and_fix(column):
    good, bad = column.sample_cells()
    for cell in bad:
        with pytest.raises(ArgumentError) as caught:
            column.coded("born", flat([*good, cell, *good]))
        assert caught.value.name == f"column 'born', row {len(good)}"
        assert caught.value.value in (cell, f"a {type(cell).__name__}")  # of a list only what it is
        assert len(caught.value.fix) > 20


@EVERY
def test_an_arrow_array_has_the_codes_of_its_cells(column):
    ranged = type(column).unbounded({}) is not None
    wider = column.with_range(-5e4, 5e4, column.missing) if ranged else column  # what lies outside is not clipped here
    cells = [*wider.drawn(UNIFORM), *([None] if column.missing else [])]
    array = pa.array([None if cell is None else np.asarray(cell).item() for cell in cells])
    quick = bits(Reader({"a": column}).codes("a", array, 0))
    assert quick == bits(column.coded("a", flat(cells)))
    assert quick == bits(Reader({"a": column}).codes("a", array.to_pylist(), 0))
    texts = [cell for cell in column.sample_cells()[0] if isinstance(cell, str)]
    assert texts
    assert bits(Reader({"a": column}).codes("a", pa.array(texts), 0)) == bits(column.coded("a", flat(texts)))
    assert bits(column.coded("a", flat(column.typed(texts)))) == bits(column.coded("a", flat(texts)))


# --- codes to inputs --------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("bins", [0, 1, 5])
def test_inputs_are_a_rows_own_within_range_and_as_many_as_their_names(column, bins):
    odd = np.repeat(np.array(ODD)[:, None], column.code_width, axis=1)
    odd[:, 1:] = np.roll(odd[:, 1:], 3, axis=0)  # numbers of a code need not go together
    known = column.candidates(9)[0].reshape(-1, column.code_width)
    codes = torch.from_numpy(np.concatenate([odd, known]))
    made = column.inputs(codes, bins)
    names = column.labels("a", bins)
    assert made.shape == (len(codes), len(names))
    assert len(set(names)) == len(names)
    assert all(name.startswith("a") for name in names)
    assert float(made.abs().max()) <= 1.0  # and so no NaN
    assert all(torch.equal(made[k], column.inputs(codes[k : k + 1], bins)[0]) for k in range(len(codes)))


@EVERY
def test_a_missing_cell_is_zeros_and_its_flag(column):
    made = column.inputs(torch.tensor([[math.nan], [0.5]], dtype=torch.float64).expand(2, column.code_width), 3)
    flag = 1.0 if column.missing else 0.0
    assert made[0].tolist() == [0.0] * (made.shape[1] - 1) + [flag]
    if column.missing:
        assert made[1, -1] == 0.0


# --- cells of nobody --------------------------------------------------------------------------------------------------


@EVERY
def test_drawn_cells_and_examples_are_read_and_lie_within_what_is_public(column):
    drawn, examples = column.drawn(UNIFORM), column.examples(17)
    assert len(drawn) == len(UNIFORM)
    assert len(set(drawn.tolist())) > 1
    assert drawn.dtype == examples.dtype == np.dtype(column.dtype)
    codes = column.coded("a", examples)
    assert len(np.unique(codes, axis=0)) == len(examples)
    found = column.coded("a", drawn)
    if column.code_width == 1:
        assert codes.min() <= found.min()
        assert found.max() <= codes.max()
    assert all(column.label(cell) for cell in examples)
    if column.ordered:
        assert bits(column.positions(examples)) == bits(codes)
        assert column.tick(float(codes[0]), str)


@EVERY
@pytest.mark.parametrize("bins", [0, 4])
def test_examples_come_back_from_their_inputs(column, bins):
    encoder = TableEncoder(Schema({"a": column}), bins)
    cells = column.examples(17)
    again = cells_near(encoder, encoder(encoder.codes({"a": cells})))["a"]
    near = np.abs(column.coded("a", again) - column.coded("a", cells))
    assert near.max() <= np.ptp(column.coded("a", cells)) / 2048
    assert again.dtype == np.dtype(column.dtype)
    if column.missing:
        gone = cells_near(encoder, encoder(torch.full((1, encoder.code_width), math.nan, dtype=torch.float64)))["a"]
        assert np.isnan(column.coded("a", gone)).all()


@EVERY
@pytest.mark.parametrize("bins", [0, 4])
def test_no_input_is_longer_than_the_longest(column, bins):
    cells = flat([*column.drawn(UNIFORM), *column.examples(17), *column.sample_cells()[0]])
    inputs = TableEncoder(Schema({"a": column}), bins)
    norms = torch.linalg.vector_norm(inputs(inputs.codes({"a": cells})), dim=1)
    assert float(norms.max()) <= column.longest(bins) * (1 + 1e-12)
    assert column.longest(bins) <= math.sqrt(len(column.labels("a", bins)))


# --- in files, templates and schemas ----------------------------------------------------------------------------------


@EVERY
def test_a_column_comes_back_from_json_and_is_a_value(column):
    schema = Schema({"a": column, "b": Number(0, 1)})
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert again.columns["a"] == column
    assert hash(again.columns["a"]) == hash(column)
    assert column.with_missing().missing
    assert set(column.fields()) <= {*column.needed, *column.optional} - {"missing"}
    assert json.loads(json.dumps(column.as_input())) == column.as_input()
    assert column.described(repr)


@KIND
def test_a_template_is_open_until_its_keys_are_filled_in(kind):
    column = open_column(kind.kind)
    assert unfinished({"columns": {"a": column}}) == {"a": kind.to_write}
    with pytest.raises(ArgumentError, match="this is not filled in yet"):
        Schema.from_dict({"columns": {"a": column}})
    for one in kind.samples():
        filled = open_column(None) | {"kind": kind.kind, **one.fields()}
        assert Schema.from_dict({"columns": {"a": filled}}).columns["a"] == one.with_missing()
    with pytest.raises(ArgumentError, match="this key is not known here"):
        Schema.from_dict({"columns": {"a": {**kind.samples()[0].to_dict(), "colour": "red"}}})
    assert kind.help.startswith(f"{kind.kind}: ")


@EVERY
def test_a_columns_own_cells_are_guessed_to_be_of_its_kind(column):
    cells, kind = column.drawn(UNIFORM), column.kind
    if isinstance(column, Category):  # whether to cut or to hash its values is nothing that they show
        kind = "category"
    assert guessed_kind([None, *cells, ""]) == kind
    assert guessed_kind([str(cell) for cell in cells]) == kind


@EVERY
def test_a_range_is_what_an_estimate_says_or_there_is_none(column):
    reader = type(column).unbounded(column.to_dict())
    if reader is None:
        with pytest.raises(ArgumentError, match="a column of this kind has no range"):
            column.with_range(0.0, 1.0, missing=True)
        return
    cells = flat([*column.sample_cells()[0], None])
    assert bits(reader.coded("a", cells)) == bits(column.with_missing().coded("a", cells))
    made = reader.with_range(-3.0, 200.0, missing=False)
    assert (type(made), made.missing) == (type(column), False)
    codes = made.coded("a", made.examples(9))
    assert (codes.min(), codes.max()) == (-3.0, 200.0)
    for ends in ((-1e12, 1e12), (-1.0, 1.0), (0.0, 1e-6), (1e12, 2e12)):
        assert reader.with_range(*ends, missing=True).missing


@EVERY
def test_a_column_is_a_target_or_says_that_it_cannot_be(column):
    columns = {"a": column, "b": Number(0, 1)}
    if column.task is None:
        with pytest.raises(ArgumentError, match=f"target='a': a {column.kind} cannot be predicted"):
            Schema(columns, target="a")
        return
    assert Schema(columns, target="a").task == column.task
    assert (column.classes is None) == (column.task == "regression")
    assert (column.target_range is None) == (column.task == "classification")


# --- nobody asks which kind it is -------------------------------------------------------------------------------------

CLASSES = {kind.__name__ for kind in KINDS.values()}


def questions(text):
    """Lines of a module that ask whether something is of one kind: by its class, or by its name."""
    if not any(word in text for word in (*CLASSES, *(f'"{name}"' for name in KINDS))):
        return
    for node in ast.walk(ast.parse(text)):
        asked = set()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = CLASSES & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "kind":
            asked = set(KINDS) & {word.value for word in ast.walk(node) if isinstance(word, ast.Constant)}
        if asked:
            yield node.lineno


def test_no_module_asks_a_column_for_its_kind():
    outside = [path for path in MODULES if "kinds" not in path.parts]
    assert len(outside) > 200
    asking = {f"{name_of(path)}:{line}" for path in outside for line in questions(path.read_text(encoding="utf-8"))}
    assert asking == set()


@pytest.mark.parametrize(
    "line",
    ["isinstance(column, Category)", "isinstance(x, Number | Category)", 'column.kind == "number"'],
)
def test_such_a_question_would_be_found(line):
    assert list(questions(line))
    assert not list(questions("isinstance(cell, numbers.Number)"))
