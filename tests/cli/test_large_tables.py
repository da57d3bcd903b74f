"""Tables in files, from the command line: Parquet and folders of it are never read whole, and the model is the same."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.torch import load_file

from dpmac.cli import jobs
from dpmac.cli.jobs import Job
from dpmac.tables import Files
from dpmac.tables import stored as opening
from dpmac.tables.files import read_table
from dpmac.tables.schema import Schema

SETTINGS = ["--epsilon", "2", "--seed", "1", "--epochs", "1", "--hidden", "none", "--quiet"]


@pytest.fixture(scope="module")
def census(adult, tmp_path_factory):
    """The table of the fixture ``adult`` as a folder of Parquet files, with an id for every two rows."""
    where = tmp_path_factory.mktemp("census")
    table = read_table(adult.folder / "adult.csv", Schema.load(adult.folder / "adult.schema.json"))
    rows = pa.table({**table, "patient": [f"p{row // 2}" for row in range(len(table["age"]))]})
    (where / "rows").mkdir()
    for part in range(2):
        parquet.write_table(rows.slice(part * 500, 500), where / "rows" / f"{part}.parquet", row_group_size=100)
    (where / "schema.json").write_bytes((adult.folder / "adult.schema.json").read_bytes())
    return where


@pytest.fixture
def whole_columns_are_not_read(monkeypatch):
    monkeypatch.setattr(Files, "__getitem__", lambda _, name: pytest.fail(f"the column {name} was read whole"))


def weights(folder):
    """The model's numbers; its file also says which ledger it is of, and each run has its own."""
    return {name: found.numpy().tobytes() for name, found in load_file(folder / "model.safetensors").items()}


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
@pytest.mark.usefixtures("whole_columns_are_not_read")
@pytest.mark.parametrize("groups", [[], ["--groups", "patient"]], ids=["rows", "persons"])
def test_a_folder_of_parquet_gives_the_same_model_however_it_is_kept(run, census, tmp_path, monkeypatch, groups):
    monkeypatch.setattr(jobs, "MIB", 2**14)  # a table of a thousand rows is then larger than one of them
    ways = {"memory": [], "disk": ["--memory", 1, "--scratch", "."], "files": ["--memory", 1, "--scratch", "none"]}
    for name, more in ways.items():
        done = run(
            "train", census / "rows", "--schema", census / "schema.json", "--out", name, *SETTINGS, *groups, *more
        )
        assert done.code == 0, done.err
    assert weights(tmp_path / "memory") == weights(tmp_path / "disk") == weights(tmp_path / "files")


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
def test_it_is_the_model_of_the_csv_file(run, adult, census, tmp_path):
    for name, rows in (("csv", adult.folder / "adult.csv"), ("parquet", census / "rows")):
        assert run("train", rows, "--schema", census / "schema.json", "--out", name, *SETTINGS).code == 0
    assert weights(tmp_path / "csv") == weights(tmp_path / "parquet")


@pytest.mark.usefixtures("whole_columns_are_not_read")
def test_schemas_of_folders_are_begun_checked_and_estimated(run, census, tmp_path):
    begun = run("schema", "init", census / "rows")
    kinds = {name: column["kind"] for name, column in json.loads(begun.out)["columns"].items()}
    assert (kinds["age"], kinds["sex"]) == ("number", "category")
    assert "patient" not in kinds  # ids are left out
    assert run("schema", "check", census / "schema.json", census / "rows", "--groups", "patient").code == 0
    half = Schema.read(census / "schema.json")
    half["columns"]["age"] |= {"low": None, "high": None}
    (tmp_path / "half.json").write_text(json.dumps(half))
    words = ["--schema", "half.json", "--epsilon", "1", "--ledger", "l", "--out", "whole.json", "--groups", "patient"]
    done = run("schema", "estimate", census / "rows", *words)
    assert done.code == 0, done.err
    assert Schema.load(tmp_path / "whole.json").columns["age"].high <= 126


def test_a_column_that_does_not_fit_is_named_by_its_first_row(run, census, tmp_path):
    table = Files(census / "rows")
    ages = table["age"]
    parquet.write_table(
        pa.table({**dict(table), "age": [*map(str, ages[:800]), "old", *map(str, ages[801:])]}), "t.parquet"
    )
    done = run("schema", "check", census / "schema.json", "t.parquet")
    assert done.code == 2
    assert "column 'age', row 800" in done.err


@pytest.mark.filterwarnings("ignore::dpmac.checks.PrivacyWarning")
def test_a_large_csv_file_is_read_batch_by_batch(run, adult, tmp_path, monkeypatch):
    words = ["--schema", adult.folder / "adult.schema.json", *SETTINGS]
    assert run("train", adult.folder / "adult.csv", *words, "--out", "whole").code == 0
    monkeypatch.setattr(opening, "LARGE", 1)
    monkeypatch.setattr(Files, "__getitem__", lambda *_: pytest.fail("it was read whole"))
    assert run("train", adult.folder / "adult.csv", *words, "--out", "batches").code == 0
    assert weights(tmp_path / "whole") == weights(tmp_path / "batches")
    done = run("train", adult.folder / "adult.csv", *words, "--out", "refused", "--scratch", "none")
    assert done.code == 2
    assert "rewrite it as Parquet" in done.err


def test_a_job_says_where_rows_are_kept_and_older_ones_load(tmp_path):
    job = Job(file="rows", schema={}, ledger="l", epsilon=1.0, memory=5, scratch="none")
    (tmp_path / "new").mkdir()
    job.save(tmp_path / "new")
    assert Job.load(tmp_path / "new") == job
    raw = json.loads((tmp_path / "new" / "job.json").read_text())
    del raw["memory"], raw["scratch"]
    (tmp_path / "new" / "job.json").write_text(json.dumps(raw))
    older = Job.load(tmp_path / "new")
    assert (older.memory, older.scratch) == (None, None)


def test_a_file_of_a_folder_that_was_written_to_is_noticed(tmp_path):
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    before = Job.written_at(tmp_path)
    with (tmp_path / "t.parquet").open("r+b") as handle:
        handle.write(b"P")
    assert Job.written_at(tmp_path) > before
    assert Job.written_at(tmp_path / "nothing") is None


def test_predictions_of_a_folder_are_those_of_its_rows(run, adult, census, tmp_path):
    for name, rows in (("csv", adult.folder / "adult.csv"), ("folder", census / "rows")):
        done = run("predict", adult.run, rows, "--out", f"{name}.csv")
        assert done.code == 0, done.err
    assert (tmp_path / "csv.csv").read_text() == (tmp_path / "folder.csv").read_text()
