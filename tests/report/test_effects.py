"""Effects of columns on models that are known by heart, and rows that follow from the schema alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpmac import Schema
from dpmac.report.charts import Axis
from dpmac.report.effects import effects_of, way_back
from dpmac.report.on_columns import _notes
from dpmac.report.synthetic import maker_for
from dpmac.tables import Category, Number

SCHEMA = Schema(
    {
        "age": Number(20, 30, missing=True),
        "sex": Category(["F", "M"], missing=True),
        "pay": Number(0, 10),
        "y": Number(0, 100),
    },
    target="y",
)


class Known:
    """3 age + 20 of a man, nothing of pay; a missing age counts as 25."""

    def predict(self, table):
        age = np.where(np.isnan(table["age"]), 25.0, table["age"])
        return 3 * age + 20 * np.array([cell == "M" for cell in table["sex"]])


def test_effects_are_those_of_the_model():
    found = effects_of(Known(), maker_for(Known(), SCHEMA), SCHEMA)
    assert [one.column for one in found.columns] == ["age", "sex", "pay"]
    assert [one.size for one in found.columns] == pytest.approx([30, 20, 0])
    age, sex, _ = found.columns
    assert age.cells.labels[-1] == "missing"
    assert sex.cells.values == ["F", "M", None]
    slope = np.diff(age.means[:-1, 0]) / np.diff(np.array(age.cells.values[:-1], dtype=float))
    assert slope == pytest.approx(3)
    assert age.means[-1, 0] == pytest.approx((age.means[0, 0] + age.means[-2, 0]) / 2)
    assert found.reference == {"age": "25", "sex": "F", "pay": "5"}
    assert found.there == pytest.approx([75])
    assert age.band is None
    assert not age.drowned
    assert found.outputs == ("y",)


def test_of_two_classes_the_positive_one_and_of_many_those_that_move():
    class Classes:
        def __init__(self, names):
            self.classes_ = np.array(names)

        def predict_proba(self, table):
            x = table["x"]
            slopes = np.arange(len(self.classes_)) / 10 - 0.3
            return 0.5 + slopes * x[:, None] / 10

    two = Schema({"x": Number(-1, 1), "y": Category(["no", "yes"])}, target="y", positive="no")
    assert effects_of(Classes(["no", "yes"]), maker_for(None, two), two).outputs == ("no",)
    many = Schema({"x": Number(-1, 1)})
    found = effects_of(Classes(list("abcdefg")), maker_for(None, many), many)
    assert found.outputs == ("a", "b", "f", "g")
    assert found.left_out == 3
    assert found.columns[0].means.shape[1] == 4


def test_rows_come_from_the_schema_alone_and_are_always_the_same():
    maker = maker_for(Known(), SCHEMA)
    rows = maker.rows(500)
    assert list(rows) == ["age", "sex", "pay"]
    assert rows["age"].min() >= 20
    assert rows["age"].max() <= 30
    assert rows["age"].mean() == pytest.approx(25, abs=0.6)
    assert set(rows["sex"]) == {"F", "M"}
    again = maker.rows(500)
    assert all((rows[name] == again[name]).all() for name in rows)
    assert abs(np.corrcoef(rows["age"], rows["pay"])[0, 1]) < 0.15


def test_arrays_need_a_range():
    class Arrays:
        n_features_in_ = 2
        feature_range = ((0, 1), 5)

        def predict(self, X):
            return X @ np.array([1.0, 2.0])

    found = effects_of(Arrays(), maker_for(Arrays(), None), None)
    assert [(one.column, round(one.size, 9)) for one in found.columns] == [("column 2", 8.0), ("column 1", 5.0)]
    Arrays.feature_range = None
    assert maker_for(Arrays(), None) is None


def test_the_way_back_of_coders_that_keep_all_or_nothing():
    class Coder:
        def transform(self, table):
            self.kept = table
            return table

        def inverse_transform(self, table):
            return table

    class Forgetful(Coder):
        def inverse_transform(self, table):
            count = len(table["pay"])
            sex = np.array(["F"] * count, dtype=object)
            return {"age": np.full(count, np.nan), "sex": sex, "pay": np.full(count, 5.0)}

    maker = maker_for(None, SCHEMA)
    assert way_back(Coder(), maker).kept == {"age": 1.0, "sex": 1.0, "pay": 1.0}
    assert max(way_back(Forgetful(), maker).kept.values()) < 0.1


def test_a_public_row_is_the_reference():
    found = effects_of(Known(), maker_for(Known(), SCHEMA), SCHEMA, reference={"age": 28.0, "sex": 1.0})
    assert found.there == pytest.approx([3 * 28 + 20], abs=0.1)
    assert found.reference["sex"] == "M"


class Blurred(Known):
    """As it came out of a training whose noise moved what ``pay`` does."""

    def __init__(self, slope=0.0):
        self.slope = slope

    def _raw(self, table):
        return table

    def predict(self, table):
        return super().predict(self._raw(table)) + self.slope * self._raw(table)["pay"]


def test_what_noise_alone_could_have_done_is_said_and_ranked_last():
    model, copies = Blurred(2.5), [Blurred(2.5 + off) for off in (-9.0, 4.0, 3.0, -5.0)]
    found = effects_of(model, maker_for(model, SCHEMA), SCHEMA, copies)
    assert [one.column for one in found.columns] == ["age", "sex", "pay"]  # though pay moves it by 25
    pay = found.columns[-1]
    assert pay.size == pytest.approx(25)
    assert [one.drowned for one in found.columns] == [False, False, True]
    off = np.sqrt(np.mean(np.square([-9.0, 4.0, 3.0, -5.0])))
    assert pay.band[0, 0] == pytest.approx(2 * off * 5)  # half of the range from the reference
    assert found.columns[0].band.max() == 0


def test_the_work_grows_with_the_columns_and_not_with_their_square():
    class Counting(Known):
        asked = 0

        def predict(self, table):
            Counting.asked += len(next(iter(table.values())))
            return np.zeros(len(next(iter(table.values()))))

    counts = []
    for columns in (50, 100, 200):
        Counting.asked = 0
        schema = Schema({f"x{k}": Number(0, 1) for k in range(columns)})
        effects_of(Counting(), maker_for(Counting(), schema), schema)
        counts.append(Counting.asked - 1)
    assert counts == [50 * 5, 100 * 5, 200 * 5]


def test_a_model_that_must_see_whole_rows_is_asked_about_the_first_columns_alone(monkeypatch):
    monkeypatch.setattr("dpmac.report.effects.CELLS", 3 * 10 * 60)
    schema = Schema({f"x{k}": Number(0, k + 1) for k in range(60)})
    asked = []

    class Sum:
        def predict(self, table):
            asked.append(len(table["x0"]))
            return sum(table.values())

    told = []
    found = effects_of(Sum(), maker_for(Sum(), schema), schema, tell=lambda *now: told.append(now))
    assert [one.column for one in found.columns] == [f"x{k}" for k in reversed(range(6))]
    assert [one.size for one in found.columns] == pytest.approx([6, 5, 4, 3, 2, 1])
    assert found.not_tried == 54
    assert asked == [31]
    assert told == [(6, 6)]
    assert "last 54 columns" in " ".join(_notes(found, False, Axis("", 0, 1)))
