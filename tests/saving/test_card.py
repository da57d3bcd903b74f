"""The model card says what the folder holds and guarantees, for every kind of model."""

from __future__ import annotations

import re

import pytest
from saved_models import GRADIENT, MAKERS, PRIVATE, made, rows

from dpmac import DPMACClassifier, Schema
from dpmac.estimators import Privacy
from dpmac.saving.card import FILES, SEED
from dpmac.saving.manifest import FILES as KNOWN
from dpmac.tables import Category, Number


@pytest.mark.parametrize("name", MAKERS)
def test_the_card_tells_of_the_statement_the_files_and_the_use(name, tmp_path):
    model, _ = made(name)
    folder = model.save(tmp_path / "run")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert (folder / "statement.txt").read_text().strip() in text
    assert str(model.privacy_.statement()).partition("Not covered")[0] in text
    listed = set(re.findall(r"^- `([\w.]+)`: ", text.split("## What lies here")[1], flags=re.M))
    assert listed == {path.name for path in folder.iterdir()}
    assert "dpmac.load('run')" in text
    assert ("model.predict(" in text) == hasattr(model, "predict")
    assert text.count("```") % 2 == 0


def test_every_file_of_the_format_is_explained():
    assert set(FILES) == {*KNOWN, "dpmac.json"}


def test_a_seed_is_warned_of(tmp_path):
    x = rows(30)
    seeded = DPMACClassifier((2,), random_state=4, **PRIVATE).fit(x, x[:, 0] > 0)
    assert SEED in (seeded.save(tmp_path / "a") / "README.md").read_text()
    assert SEED not in (made("strings")[0].save(tmp_path / "b") / "README.md").read_text()


def test_names_from_a_table_cannot_break_the_card(tmp_path):
    nasty = "a`b\n## c"
    columns = {nasty: Number(-1, 1), "d": Category(["`", "\n#"]), **{f"n{i}": Number(0, 1) for i in range(60)}}
    schema = Schema({**columns, "y": Category(["0", "1"])}, target="y")
    table = {name: [0.5] * 40 for name in columns} | {"d": ["`", "x"] * 20, "y": ["0", "1"] * 20}
    text = (
        DPMACClassifier((2,), schema=schema, **GRADIENT).fit(table).save(tmp_path / "run") / "README.md"
    ).read_text()
    assert "\n## c" not in text
    assert "and 22 more, in `schema.json`" in text
    assert all(line.count("`") % 2 == 0 for line in text.splitlines() if not line.startswith("```"))


UGLY = "</h1><img src=x onerror=alert(1)> [click](http://evil) **b** & \n```\n\n# c <i>"


def without_code(text):
    """A card without its blocks and its spans of code: what is left is read as Markdown."""
    text = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def test_what_a_user_calls_things_is_neither_markdown_nor_html(tmp_path):
    schema = Schema({UGLY: Number(0, 1), "c": Category([UGLY, "x"]), "y": Category([UGLY, "b"])}, target="y", name=UGLY)
    table = {UGLY: [0.5] * 40, "c": [UGLY, "x"] * 20, "y": [UGLY, "b"] * 20}
    model = DPMACClassifier((2,), schema=schema, **GRADIENT)
    model.fit(table)
    model.privacy_ = Privacy(model.privacy_.ledger, model.privacy_.delta, (UGLY,))
    text = (model.save(tmp_path / "<b> `run` ```") / "README.md").read_text()
    plain = without_code(text)
    for piece in ("<", "http", "**b**", "onerror"):
        assert piece not in plain, piece
    assert [line for line in plain.splitlines() if line.startswith("#")] == [
        "# ",
        "## What it guarantees",
        "## What it takes and gives",
        "## How to use it",
        "## How it was trained",
        "## Its settings",
        "## What lies here",
    ]


def test_a_range_of_the_users_own_is_shown_as_code(tmp_path):
    class Ugly(tuple):
        def __repr__(self):
            return UGLY

    x = rows(30)
    model = DPMACClassifier((2,), feature_range=Ugly((-1, 1)), **GRADIENT).fit(x, x[:, 0] > 0)
    assert "<" not in without_code((model.save(tmp_path / "run") / "README.md").read_text())
