"""``dpmac data``: in this process through the entry point, with another catalogue where the network would be needed."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from dpmac import cli
from dpmac.cli.data import data_app
from dpmac.data import CATALOGUE, fetching
from dpmac.data.catalogue import DataFile
from dpmac.tables import Schema, TableEncoder
from dpmac.tables.files import guessed_kind, read_table

COMMENTS = "e1f354b915461b50"
CONTENT = b"not really a MATLAB file"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """``dpmac data`` with these words, and no place to look in but ``tmp_path``: exit code, output, errors."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DPMAC_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def given(*words):
        monkeypatch.setattr(sys, "argv", ["dpmac", "data", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        seen = capsys.readouterr()
        return end.value.code or 0, seen.out, seen.err

    return given


@pytest.fixture
def one_file(monkeypatch, tmp_path):
    """``usps`` becomes a small file, with no mirror; all places are under ``tmp_path``."""
    file = DataFile("usps_all.mat", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    monkeypatch.setitem(CATALOGUE, "usps", replace(CATALOGUE["usps"], files=(file,), mirrors=()))
    for name in [n for n in CATALOGUE if n != "usps"]:
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], mirrors=(), npm=None))
    monkeypatch.setenv("DPMAC_DATA", str(tmp_path / "env"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "500")  # no path is folded
    monkeypatch.setattr(fetching, "DEBIAN", tmp_path / "debian")
    return file


def test_list_shows_every_set_and_how_to_get_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMAC_DATA", str(tmp_path))
    code, out, err = run("list")
    assert (code, err) == (0, "")
    lines = {name: next(line for line in out.splitlines() if f" {name} " in line) for name in CATALOGUE}
    assert "8,000 + 2,000" in lines["adult"]
    assert "dpmac/data/tables" in lines["adult"]
    assert "1,437 + 360" in lines["digits"]
    assert "sklearn/datasets/data" in lines["digits"]
    assert "60,000 + 10,000" in lines["mnist"]
    assert "not here: dpmac data fetch mnist" in lines["mnist"]
    assert "not here: dpmac data fetch usps" in lines["usps"]
    for listing in CATALOGUE.values():
        assert listing.licence.split()[0] in out
    assert list(tmp_path.iterdir()) == []  # looking changes nothing


def test_path_of_digits_and_of_nothing(run, tmp_path):
    code, out, _ = run("path", "digits")
    assert code == 0
    assert out.strip().endswith("data")
    code, out, err = run("path", "mnist")
    assert (code, out) == (2, "")
    assert err.startswith("dpmac: mnist: missing train-images-idx3-ubyte, ")
    assert CATALOGUE["mnist"].files[0].sha256 in err
    assert f"looked in: {tmp_path}/dpmac/mnist" in err
    assert "dpmac data fetch mnist" in err


@pytest.mark.parametrize("command", ["path", "fetch"])
def test_an_unknown_name_ends_with_one_clear_line(command, run):
    wanted = "dpmac: name='imagenet': give one of adult, digits, mnist, fashion-mnist, usps\n"
    assert run(command, "imagenet") == (2, "", wanted)


def test_path_list_and_fetch_see_a_good_and_a_damaged_copy(one_file, tmp_path):
    runner, folder = CliRunner(), tmp_path / "env" / "usps"
    folder.mkdir(parents=True)
    (folder / one_file.name).write_bytes(CONTENT)
    for command in ("path", "fetch"):
        done = runner.invoke(data_app, [command, "usps"])
        assert (done.exit_code, done.stdout.strip()) == (0, str(folder))
    assert str(folder) in runner.invoke(data_app, ["list"]).stdout.replace("\n", "")
    (folder / one_file.name).write_bytes(CONTENT[::-1])
    assert "damaged: " in runner.invoke(data_app, ["list"]).stdout
    for command in ("path", "fetch"):
        done = runner.invoke(data_app, [command, "usps"])
        assert done.exit_code == 2
        assert f"dpmac: usps: {folder / one_file.name} is altered" in done.stderr
        assert f"expected SHA-256, unpacked: {one_file.sha256}" in done.stderr
        assert f"found: SHA-256 {hashlib.sha256(CONTENT[::-1]).hexdigest()}" in done.stderr


def test_fetch_to_a_folder(one_file, monkeypatch, tmp_path):
    monkeypatch.setitem(CATALOGUE, "usps", replace(CATALOGUE["usps"], mirrors=("https://a.invalid/",)))

    def answer(mirror, packing, temporary, bar, file):
        (temporary / file.name).write_bytes(CONTENT)
        return temporary / file.name

    monkeypatch.setattr(fetching, "_from_mirror", answer)
    done = CliRunner().invoke(data_app, ["fetch", "usps", "--to", str(tmp_path / "to")])
    assert (done.exit_code, done.stdout.strip()) == (0, str(tmp_path / "to" / "usps"))
    assert [p.name for p in (tmp_path / "to" / "usps").iterdir()] == [one_file.name]


def test_fetch_that_fails_says_what_was_tried(one_file, tmp_path):
    done = CliRunner().invoke(data_app, ["fetch", "usps"])
    assert done.exit_code == 2
    assert "could not fetch usps_all.mat" in done.stderr
    assert one_file.sha256 in done.stderr
    assert "DPMAC_DATA=FOLDER" in done.stderr


def test_write_makes_comments_that_are_the_same_everywhere(run, tmp_path):
    """And a schema that fits them, whose vectors lie beside it."""
    code, out, err = run("write", "--text", str(tmp_path / "made"))
    assert (code, err) == (0, "")
    names = {"comments.csv", "new-comments.csv", "comments.vectors.txt", "comments.schema.json"}
    assert {path.name for path in (tmp_path / "made").iterdir()} == names
    assert len(out.splitlines()) == len(names)
    found = hashlib.sha256(b"".join((tmp_path / "made" / name).read_bytes() for name in sorted(names))).hexdigest()
    assert found[:16] == COMMENTS
    schema = Schema.load(tmp_path / "made" / "comments.schema.json")
    table = read_table(tmp_path / "made" / "comments.csv", schema)
    codes = TableEncoder(schema).codes(table)
    assert len(codes) == 3_000
    assert float(codes[:, -1].mean()) < 0.2  # few words that the vectors lack
    assert guessed_kind(table["comment"]) == "text"
    code, _, err = run("write", "--text", str(tmp_path / "made"))
    assert code != 0
    assert "it is there already" in err
