"""Commands on pictures: what a folder becomes, what is refused before anything is spent, and what is said."""

from __future__ import annotations

import csv
import json
import shutil
import signal

import numpy as np
import pytest

import dpmac
from cli.albums import KINDS, DrawingServer, drawn, write_album, write_pictures
from cli.commands import lines_of, wait_for
from dpmac.pictures import read_folder
from dpmac.privacy import Ledger
from dpmac.tables.files import csv_text

WORDS = ["--epsilon", "4", "--delta", "1e-5", "--epochs", "30", "--batch-size", "40", "--out", "run", "--seed", "1"]
TRAIN = ["train", "images", *WORDS]


def test_a_folder_becomes_a_model_that_predicts_and_is_judged(album, run):
    done = run(*TRAIN, "--ledger", "images.ledger", "--public-test", "test-images")
    assert done.code == 0, done.err
    assert "40 grey pictures of 16 x 16 pixels, epsilon 4; 2 classes, whose names are public: strokes, text" in done.out
    model = dpmac.load("run")
    assert model.privacy_.epsilon <= 4.0
    assert len(Ledger.read("images.ledger")) == len(model.privacy_.ledger)
    assert "the set of class labels" in str(model.privacy_.statement())
    assert json.loads((album / "run" / "evaluation.json").read_text())["rows"] == 20

    assert run("predict", "run", "new-images", "--out", "p.csv").code == 0
    with (album / "p.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["file"] for row in rows] == ["000.png", "001.png", "002.png", "more/000.png", "more/001.png"]
    pictures = np.concatenate([drawn("strokes", 3, 3), drawn("textures", 2, 3)])
    p = model.predict_proba(pictures)
    assert np.array_equal(np.array([[float(row[f"p_{kind}"]) for kind in KINDS] for row in rows]), p)
    assert [row["prediction"] for row in rows] == model.predict(pictures).tolist()
    one = run("predict", "run", "new-images/more/001.png").out.splitlines()
    assert one[1].startswith("001.png,")

    scores = run("evaluate", "run", "test-images", "--json").json()["scores"]
    x, y = read_folder("test-images")
    assert scores["accuracy"] == model.score(x, y)
    found = run("inspect", "run", "--json").json()
    assert (found["estimator"], found["rows"]) == ("DPMACImageClassifier", 40)


def test_private_scores_of_a_folder_and_of_a_table_of_persons(album, run):
    assert run(*TRAIN, "--quiet", "--ledger", "pictures.ledger").code == 0
    score = ["evaluate", "run", "test-images", "--ledger", "test-images.ledger", "--epsilon"]
    refused = run(*score, "1")
    assert refused.code == 2
    assert "it does not hold what the model's training has released" in refused.err
    book = ["--ledger", "pictures.ledger"]
    assert run("evaluate", "run", "test-images", "--epsilon", "1", *book, "--groups", "who").code == 2
    x, y = read_folder("test-images")
    exact = dpmac.load("run").score(x, y)
    before = len(Ledger.read("pictures.ledger"))
    found = run("evaluate", "run", "test-images", "--epsilon", "200", *book, "--json").json()
    assert found["rows"] == len(y)
    assert abs(found["scores"]["accuracy"] - exact) < 0.1
    lines = [(f"test-images/{kind}/{k:03}.png", kind) for kind in KINDS for k in range(10)]
    (album / "test.csv").write_text("\n".join(["path,kind", *map(",".join, lines)]) + "\n")
    named = ["evaluate", "run", "test.csv", "--images", "path", "--target", "kind", "--epsilon", "200", *book, "--json"]
    assert abs(run(*named).json()["scores"]["accuracy"] - exact) < 0.1
    assert len(Ledger.read("pictures.ledger")) == before + 2
    table = ["evaluate", "run", "test.csv", "--epsilon", "1", *book]
    assert run(*table, "--split", "test").code == 2
    assert len(Ledger.read("pictures.ledger")) == before + 2


def test_pictures_of_several_sizes_and_kinds_are_brought_to_one(album, run):
    write_pictures(album / "images" / "strokes", drawn("strokes", 3, 4, side=20))
    write_pictures(album / "images" / "textures", np.repeat(drawn("textures", 1, 4)[..., None], 3, axis=3))
    refused = run(*TRAIN)
    assert refused.code == 2
    assert "003.png" in refused.err
    assert "dpmac train --size 20x20" in refused.err
    assert "dpmac train --channels 1" in run(*TRAIN, "--size", "16x16").err
    assert run(*TRAIN, "--size", "16", "--channels", "1", "--quiet").code == 0
    assert dpmac.load("run").image_shape_ == (16, 16, 1)
    write_pictures(album / "new-images", drawn("strokes", 1, 5, side=40))
    assert run("predict", "run", "new-images").code == 0  # as they were trained


def test_a_model_of_one_size_takes_others_if_it_is_told_to(album, run):
    assert run(*TRAIN, "--quiet").code == 0
    write_pictures(album / "new-images" / "more", drawn("strokes", 1, 5, side=40))
    refused = run("predict", "run", "new-images")
    assert refused.code == 2
    assert "more/000.png" in refused.err
    assert "it has 40 x 40 pixels, and the model takes 16 x 16: --resize brings" in refused.err
    assert run("predict", "run", "new-images", "--resize").code == 0
    write_pictures(album / "test-images" / "strokes", drawn("strokes", 1, 5, side=40))
    assert run("evaluate", "run", "test-images").code == 2
    assert run("evaluate", "run", "test-images", "--resize").code == 0
    (album / "test-images" / "strokes").rename(album / "test-images" / "eels")
    assert (
        "it has pictures of 'eels', which is none of the classes strokes, text"
        in run("evaluate", "run", "test-images").err
    )
    assert "leave it out" in run("predict", "run", "new-images", "--id", "name").err


def test_classes_that_were_named_are_public(album, run):
    assert run(*TRAIN, "--classes", "strokes,textures,eels", "--quiet").code == 0
    model = dpmac.load("run")
    assert model.classes_.tolist() == ["eels", "strokes", "textures"]
    assert "the set of class labels" not in str(model.privacy_.statement())


def spoil(path, content=b"no picture"):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


SPOILT = {
    "not a picture": (lambda a: spoil(a / "images" / "strokes" / "x.png"), [], ["file=", "x.png", "it is none"]),
    "cut off": (
        lambda a: spoil(a / "images/strokes/x.png", (a / "images/strokes/001.png").read_bytes()[:80]),
        [],
        ["x.png", "repair or remove it"],
    ),
    "an empty class": (lambda a: (a / "images" / "eels").mkdir(), [], ["eels", "no picture in this folder"]),
    "one class": (lambda a: shutil.rmtree(a / "images" / "strokes"), [], ["1 classes", "in a folder each"]),
    "a file beside": (lambda a: spoil(a / "images" / "x.png"), [], ["x.png", "beside the folders"]),
    "an empty folder": (lambda a: shutil.rmtree(a / "images") or (a / "images").mkdir(), [], ["it is empty"]),
    "public ones of another size": (
        lambda a: [write_pictures(a / "test-images" / kind, drawn(kind, 10, 2, side=20)) for kind in KINDS],
        ["--public-test", "test-images"],
        ["--public-test=", "20 x 20 pixels, and those to train on 16 x 16"],
    ),
    "public ones of another class": (
        lambda a: write_pictures(a / "test-images" / "eels", drawn("strokes", 1, 1)),
        ["--public-test", "test-images"],
        ["--public-test=", "eels", "none of the classes"],
    ),
    "public ones among the others": (None, ["--public-test", "images/strokes"], ["these are rows that are trained on"]),
    "a ledger among them": (None, ["--ledger", "images/ledger"], ["--ledger=", "the folder of the rows"]),
    "a ledger that is a folder": (None, ["--ledger", "new-images"], ["--ledger=", "this is a folder"]),
    "a total that is spent": (None, ["--ledger", "l", "--total-epsilon", "1"], ["total_epsilon=1.0"]),
    "a size that is none": (None, ["--size", "wide"], ["--size='wide'", "such as 64x48"]),
    "a size that is too small": (None, ["--size", "3"], ["size=", "pixels from 4"]),
    "channels": (None, ["--channels", "2"], ["channels=2"]),
    "classes": (None, ["--classes", "strokes,eels"], ["textures", "none of the classes strokes, eels"]),
    "one class named": (None, ["--classes", "strokes"], ["--classes=", "two classes or more"]),
    "a target": (None, ["--target", "kind"], ["--target='kind'", "leave it out"]),
    "groups": (None, ["--groups", "who"], ["--groups='who'", "leave it out"]),
    "an autoencoder": (None, ["--autoencoder"], ["--autoencoder=True", "leave it out"]),
    "epsilon": (None, ["--epsilon", "0"], ["--epsilon=0.0"]),
    "delta": (None, ["--delta", "0.5"], ["delta=0.5"]),
}


@pytest.mark.parametrize("name", SPOILT)
def test_nothing_is_spent_or_made_where_something_is_wrong(name, album, run):
    before, words, said = SPOILT[name]
    if before is not None:
        before(album)
    there = sorted(path for path in album.rglob("*") if path.is_file())
    done = run(*TRAIN, *words)
    assert done.code == (1 if "total" in name else 2), done.err
    assert all(words in done.err for words in said), done.err
    assert sorted(path for path in album.rglob("*") if path.is_file()) == there
    assert not (album / "run").exists()


def test_tables_and_pictures_are_told_apart(album, new_hospital, run):
    assert "there is no such file" in run("train", "nothing", "--schema", "none", *WORDS).err
    missing = run("train", "patients.csv", *WORDS)
    assert missing.code == 2
    assert "--schema=None: a table needs one: make a template with  dpmac schema init patients.csv" in missing.err
    both = run("train", "patients.csv", "--schema", "patients.schema.json", "--size", "28", *WORDS)
    assert "--size='28': it is for pictures" in both.err
    (album / "images" / "rows.parquet").touch()
    assert "--schema=None: a table needs one" in run(*TRAIN).err


def table_of(folder, root, name="pictures.csv", **more):
    """A CSV file beside ``folder`` that names the pictures in it."""
    files = sorted((folder / root).rglob("*.png"))
    columns = {"path": [str(file.relative_to(folder)) for file in files], "kind": [file.parent.name for file in files]}
    (folder / name).write_text(csv_text(columns | {key: make(len(files)) for key, make in more.items()}))


NAMED = ["train", "deep/pictures.csv", "--images", "path", "--target", "kind", *WORDS]


def test_a_table_of_paths_gives_what_the_folder_gives(album, run):
    assert run(*TRAIN, "--quiet").code == 0
    (album / "run").rename(album / "whole")
    (album / "deep").mkdir()  # paths are relative to the table, not to where one stands
    for name in ("images", "test-images"):
        (album / name).rename(album / "deep" / name)
    table_of(album / "deep", "images")
    table_of(album / "deep", "test-images", "test.csv")
    done = run(*NAMED, "--public-test", "deep/test.csv")
    assert done.code == 0, done.err
    kept = json.loads((album / "run" / "evaluation.json").read_text())
    assert run("predict", "run", "deep/test.csv", "--id", "kind", "--out", "p.csv").code == 0
    with (album / "p.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert rows[0]["file"] == "test-images/strokes/000.png"
    assert [row["kind"] for row in rows] == ["strokes"] * 10 + ["textures"] * 10
    one, other = dpmac.load("run"), dpmac.load("whole")
    assert one.table_columns_ == ("path", "kind")
    p = one.predict_proba("deep/test.csv")
    assert np.array_equal(p, other.predict_proba(read_folder("deep/test-images")[0]))
    assert [float(row["p_strokes"]) for row in rows] == p[:, 0].tolist()
    scores = run("evaluate", "run", "deep/test.csv", "--json").json()["scores"]
    assert scores == kept["scores"]
    assert run("evaluate", "whole", "deep/test.csv").code == 2  # which column?
    of_other = run("evaluate", "whole", "deep/test.csv", "--images", "path", "--target", "kind", "--json")
    assert of_other.json()["scores"] == scores


@pytest.mark.filterwarnings("default::dpmac.PrivacyWarning")
def test_whose_a_picture_is_says_a_column(album, run):
    table_of(album, "images", patient_id=lambda n: [f"p{row // 2}" for row in range(n)])
    words = ["train", "pictures.csv", "--images", "path", "--target", "kind", *WORDS]
    alone = run(*words, "--quiet", "--batch-size", "20")
    assert alone.code == 0
    assert alone.err.count("rows share the ids of column 'patient_id'") == 1
    shutil.rmtree(album / "run")
    done = run(*words, "--batch-size", "20", "--groups", "patient_id")
    assert done.code == 0, done.err
    assert "40 grey pictures of 20 persons of 16 x 16" in done.out
    assert "one person" in (album / "run" / "statement.txt").read_text()


ROWS = {
    "no target": (["--target"], None, "--target=None: name the column of the labels"),
    "no such column": ([], ("path,kind", "file,kind"), "no such column"),
    "no such file": (
        [],
        ("images/strokes/001.png", "images/strokes/x.png"),
        "row 1='images/strokes/x.png': there is",
    ),
    "no label": ([], ("strokes/002.png,strokes", "strokes/002.png,"), "column 'kind', row 2='': it is missing"),
}


@pytest.mark.parametrize("name", ROWS)
def test_nothing_is_spent_where_a_table_of_pictures_is_wrong(name, album, run):
    without, change, said = ROWS[name]
    table_of(album, "images")
    words = ["train", "pictures.csv", "--images", "path", *WORDS]
    if not without:
        words += ["--target", "kind"]
    if change is not None:
        text = (album / "pictures.csv").read_text()
        assert change[0] in text
        (album / "pictures.csv").write_text(text.replace(*change))
    done = run(*words)
    assert (done.code, said in done.err, (album / "run").exists()) == (2, True, False), done.err


@pytest.mark.long
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_goes_on_and_ends_as_the_uninterrupted_one(signum, tmp_path):
    write_album(tmp_path)
    server = DrawingServer()
    try:
        words = ["train", "images", "--epsilon", "4", "--epochs", "300", "--batch-size", "40", "--seed", "1", "--quiet"]
        assert server.run(*words, "--out", "whole", "--ledger", "a", folder=tmp_path).code == 0
        running = server.begin(*words, "--out", "run", "--ledger", "b", folder=tmp_path)
        wait_for(lambda: lines_of(tmp_path / "b") >= 60)
        running.send(signum)
        assert running.end().code != 0
        done = server.run("resume", "run", folder=tmp_path)
        assert done.code == 0, done.err
    finally:
        server.stop()
    pictures = drawn("strokes", 5, 9)
    one, other = (dpmac.load(tmp_path / name) for name in ("whole", "run"))
    assert np.array_equal(one.predict_proba(pictures), other.predict_proba(pictures))
    assert len(Ledger.read(tmp_path / "b")) == len(Ledger.read(tmp_path / "a"))
