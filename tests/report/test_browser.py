"""The report in a real browser, headless: a phone's width, dark, paper, and not a word on the console."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from dpmac import DPMACAutoencoder, DPMACClassifier, DPMACRegressor, Schema
from dpmac.report.page import write_report
from dpmac.saving import save
from dpmac.tables import Category, Number

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")

WORD = "Donaudampfschifffahrtsgesellschaftskapitänsmütze"  # no place to break it
DARK, LIGHT = 0, 1
# The page in a frame as wide as a phone, since a headless window is wider; and what is seen of it there.
LOOK = """<!DOCTYPE html><body><iframe id="page" src="report.html" style="width:360px;height:900px;border:0"></iframe>
<pre id="seen"></pre><script>
document.getElementById("page").addEventListener("load", (event) => {
  const page = event.target.contentDocument, view = event.target.contentWindow;
  const out = [...page.querySelectorAll("body *")].filter((one) => {
    const scrolls = one.closest(".scroll") && !one.matches(".scroll");
    return !scrolls && one.getBoundingClientRect().right > page.documentElement.clientWidth + 0.5;
  });
  const style = view.getComputedStyle(page.body), svg = [...page.querySelectorAll("svg")];
  document.getElementById("seen").textContent = JSON.stringify({
    width: page.documentElement.clientWidth, needed: page.documentElement.scrollWidth,
    out: out.map((one) => one.outerHTML.slice(0, 80)), paper: style.backgroundColor, ink: style.color,
    charts: svg.map((one) => one.getBoundingClientRect().width),
    requests: view.performance.getEntriesByType("resource").map((one) => one.name),
  });
});
</script></body>"""


def chromium(folder, *arguments, scheme=LIGHT):
    command = [
        *(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"),
        *("--allow-file-access-from-files", "--disable-background-networking", "--disable-component-update"),
        *(f"--user-data-dir={folder / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}"),
        *("--virtual-time-budget=4000", *arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def seen(folder, scheme=LIGHT):
    """What the browser says of the page at a phone's width, and its console."""
    (folder / "look.html").write_text(LOOK, "utf-8")
    done = chromium(folder, "--dump-dom", f"file://{folder / 'look.html'}", scheme=scheme)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(re.sub(r"&lt;|&gt;|&amp;", "", found[1])), re.findall(r".*CONSOLE.*", done.stderr)


def brightness(colour):
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / (3 * 255)


def folder_of(kind, parent):
    draw = np.random.default_rng(["classifier", "regressor", "autoencoder"].index(kind))
    rows = 300
    table = {WORD: draw.uniform(0, 9, rows), "b": draw.choice(["x", WORD * 2], rows), "c": draw.uniform(0, 1, rows)}
    columns = {WORD: Number(0, 9, missing=True), "b": Category(["x", WORD * 2], missing=True), "c": Number(0, 1)}
    steps = {"epsilon": 2.0, "batch_size": rows, "epochs": 4}
    if kind == "autoencoder":
        model = DPMACAutoencoder(2, epsilon=2.0, schema=Schema(columns, name=WORD)).fit(table)
    elif kind == "regressor":
        model = DPMACRegressor((4,), schema=Schema(columns, target="c", name=WORD), **steps).fit(table)
    else:
        model = DPMACClassifier((4, 3), schema=Schema(columns, target="b", name=WORD), **steps).fit(table)
    folder = save(model, parent / kind)
    bins = [
        {"low": k / 9, "high": (k + 1) / 9, "rows": 7, "predicted": k / 9 + 0.05, "observed": 0.5} for k in range(9)
    ]
    said = {"rows": 63, "public": True, "file": WORD + ".csv", "scores": {WORD: 0.123}, "reliability": bins}
    (folder / "evaluation.json").write_text(json.dumps(said))
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return folder_of("classifier", tmp_path_factory.mktemp("browser"))


def check(folder):
    light, console = seen(folder)
    assert console == []
    assert light["requests"] == []
    assert light["width"] == 360
    assert light["needed"] <= 360, light["out"]
    assert light["out"] == []
    assert all(200 < width <= 360 for width in light["charts"])
    assert brightness(light["paper"]) > 0.9
    assert brightness(light["ink"]) < 0.3
    dark, console = seen(folder, DARK)
    assert console == []
    assert brightness(dark["paper"]) < 0.2
    assert brightness(dark["ink"]) > 0.8
    assert dark["needed"] <= 360
    assert len(light["charts"]) >= 2


def test_a_phone_light_and_dark(classifier):
    check(classifier)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["regressor", "autoencoder"])
def test_a_phone_light_and_dark_for_the_others(kind, tmp_path):
    check(folder_of(kind, tmp_path))


def test_it_prints(classifier, tmp_path):
    """On paper, in the dark: pages, none of them black."""
    sheet = tmp_path / "report.pdf"
    chromium(classifier, f"--print-to-pdf={sheet}", f"file://{classifier / 'report.html'}", scheme=DARK)
    pages = len(re.findall(rb"/Type\s*/Page\b", sheet.read_bytes()))
    assert 2 <= pages <= 15


def test_the_look_would_catch_a_wide_page_and_the_console_a_script(classifier, tmp_path):
    page = (classifier / "report.html").read_text("utf-8")
    spoilt = '<div style="width:500px">wide</div><script>1</script><img src="https://example.org/x.png">'
    (tmp_path / "report.html").write_text(page.replace("<footer>", spoilt + "<footer>"), "utf-8")
    found, console = seen(tmp_path)
    assert found["needed"] >= 500
    assert found["out"]
    assert len(console) >= 2  # the page's own policy stops both, and says so
