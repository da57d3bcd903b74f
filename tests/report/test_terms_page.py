"""The report of an additive model: its terms, drawn as they are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from additives import COLUMNS, ROWS, binary, number, table, three
from dpmac.report.charts import Axis, Line, line_chart
from dpmac.report.on_terms import LEVELS, MANY
from dpmac.report.page import write_report
from dpmac.tables import Category, Number, Schema

pytestmark = pytest.mark.filterwarnings("ignore:this process has fitted these rows before")


def section(model, folder):
    page = write_report(model.save(folder / "run")).read_text()
    return page.partition('id="columns"')[2].partition("</section>")[0]


def test_a_band_is_drawn_around_its_line():
    line = Line("", [(0.0, 1.0), (1.0, 2.0)], band=[0.5, 0.25])
    chart = line_chart("a term", [line], Axis("", 0, 1), Axis("", 0, 4), card=True)
    (shape,) = re.findall(r'<path class="area c1" d="M([^"]*)Z"', chart)
    heights = [float(point.split()[1]) for point in shape.split("L")]
    assert len(heights) == 4
    assert heights[3] - heights[0] == pytest.approx(2 * (heights[2] - heights[1]), abs=0.3)


@pytest.mark.parametrize(("make", "target"), [(binary, "binary"), (three, "three"), (number, "number")])
def test_every_term_is_on_the_page(make, target, tmp_path):
    model = make(batch_size=ROWS).fit(table(target=target))
    found = section(model, tmp_path)
    names = re.findall(r"<h3>(.*?) <span>", found)
    assert sorted(names) == sorted(model.terms())
    assert set(COLUMNS) <= set(names)
    sizes = {term.name: term.size for term in model.terms().values()}
    singles = [sizes[name] for name in names if " x " not in name]
    assert singles == sorted(singles, reverse=True)
    assert "nan" not in found
    assert ('class="legend"' in found) == (target == "three")


def test_without_noise_there_is_no_band_on_the_page(tmp_path):
    assert "area" not in section(binary(epsilon=float("inf")).fit(table()), tmp_path)


@pytest.mark.filterwarnings("ignore::dpmac.tables.CrowdedWarning")
def test_many_values_and_many_classes_are_cut(tmp_path):
    from dpmac import DPMACClassifier

    draw, classes = np.random.default_rng(0), [str(k) for k in range(MANY + 2)]
    columns = {"code": Category(range(LEVELS + 20)), "size": Number(0, 1), "y": Category(classes)}
    rows = {"code": draw.integers(0, 60, 300), "size": draw.uniform(size=300), "y": draw.choice(classes, 300)}
    model = DPMACClassifier(schema=Schema(columns, target="y"), additive=True, batch_size=300, epochs=2).fit(rows)
    found = section(model, tmp_path)
    assert "and 21 more values" in found
    assert "2 are left out" in found
