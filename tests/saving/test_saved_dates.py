"""Models of tables with dates: saved, loaded, described, exported, drawn, and decoded."""

from __future__ import annotations

import math
from datetime import date, timedelta

import numpy as np
import pytest
import torch

import dpmac
from dpmac import DPMACPCA, DPMACClassifier, Machine, Schema
from dpmac.report.charts import Axis
from dpmac.report.effects import effects_of, way_back
from dpmac.report.on_columns import _effect
from dpmac.report.synthetic import maker_for
from dpmac.saving.export import described
from dpmac.saving.modules import plain_module
from dpmac.tables import Category, Date, Number

DAYS = [None if k % 9 == 0 else date(2015, 1, 1) + timedelta(days=31 * k) for k in range(120)]
TABLE = {"seen": DAYS, "age": list(range(120)), "ill": ["yes" if k % 3 else "no" for k in range(120)]}
SEEN = Date("2015-01-01", "2025-12-31", "%d.%m.%Y", parts=["month", "weekday"], missing=True)
SCHEMA = Schema({"seen": SEEN, "age": Number(0, 120), "ill": Category(["no", "yes"])}, target="ill")


@pytest.fixture(scope="module")
def model():
    return DPMACClassifier((2,), schema=SCHEMA, epochs=2, epsilon=math.inf, machine=Machine(progress=False)).fit(TABLE)


def test_a_folder_comes_back_with_its_dates_and_its_card_describes_them(model, tmp_path):
    model.save(tmp_path / "run")
    again = dpmac.load(tmp_path / "run")
    assert np.array_equal(again.predict_proba(TABLE), model.predict_proba(TABLE))
    card = (tmp_path / "run" / "README.md").read_text()
    said = "a date, written `%d.%m.%Y`, clipped to 2015-01-01 .. 2025-12-31, with its month and weekday, may be missing"
    assert f"- `seen`: {said}\n" in card


def test_an_export_takes_days_and_says_since_when(model):
    about = described(model, "torch.export")["input"]["columns"][0]
    wanted = {"days since": "2000-01-01", "clipped to": [5479, 9496], "missing": "NaN"}
    assert about == {"name": "seen", "kind": "date", **wanted}
    days = [math.nan if day is None else (day - date.fromisoformat(about["days since"])).days for day in DAYS]
    rows = torch.tensor([days, TABLE["age"]], dtype=torch.float64).T.contiguous()
    np.testing.assert_allclose(plain_module(model)(rows).numpy(), model.predict_proba(TABLE), rtol=0, atol=1e-12)


def test_a_report_draws_dates_as_a_line_with_dates_below_it(model):
    found = effects_of(model, maker_for(model, SCHEMA), SCHEMA)
    seen = next(one for one in found.columns if one.column == "seen")
    assert (seen.cells.labels[0], seen.cells.labels[-2:]) == ("2015-01-01", ["2025-12-31", "missing"])
    drawn = str(_effect(seen, found, Axis("", 0.0, 1.0, percent=True)))
    assert ">2016-06-05</text>" in drawn
    assert "missing" in drawn
    assert "5,500" not in drawn


def test_dates_come_back_from_a_code_that_is_as_long_as_the_row():
    columns = {"seen": Date("2015-01-01", "2018-12-31"), "age": Number(0, 10)}
    table = {
        "seen": [date(2015, 1, 1) + timedelta(days=11 * k) for k in range(130)],
        "age": [k % 10 for k in range(130)],
    }
    coder = DPMACPCA(2, schema=Schema(columns), epsilon=math.inf).fit(table)
    back = coder.inverse_transform(coder.transform(table))["seen"]
    assert np.abs(back - np.array(table["seen"], dtype="datetime64[D]")).max() <= np.timedelta64(1, "D")
    maker = maker_for(coder, coder.feature_map_.schema)
    assert way_back(coder, maker).kept["seen"] > 0.99
