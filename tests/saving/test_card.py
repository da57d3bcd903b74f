"""The model card says what the folder holds and guarantees, for every kind of model."""

from __future__ import annotations

import re

import pytest
from saved_models import GRADIENT, MAKERS, PRIVATE, made, rows

from dpmac import DPMACClassifier, Schema
from dpmac.saving.card import FILES, SEED
from dpmac.saving.manifest import FILES as KNOWN
from dpmac.tables import Category, Number


@pytest.mark.parametrize("name", MAKERS)
def test_the_card_tells_of_the_statement_the_files_and_the_use(name, tmp_path):
    model, _ = made(name)
    folder = model.save(tmp_path / "run")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert str(model.privacy_.statement()) in text
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
