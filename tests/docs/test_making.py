"""What the site is built from, and the check of what was built: ``make docs``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

MAKING = Path(__file__).parents[2] / "docs" / "making" / "pages.py"


@pytest.fixture(scope="module")
def pages():
    found = importlib.util.spec_from_file_location("pages_of_the_site", MAKING)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_page_has_every_command_with_its_options(pages):
    made = pages._page(f"# Options\n{pages.OPTIONS}\n")
    for command in ("dpmac train", "dpmac ledger remaining", "dpmac schema check"):
        assert f"### {command}\n" in made
    assert "| `--epsilon" in made


def test_lists_are_seen_and_code_is_left_alone(pages):
    assert pages._page("text\n- one\n- two") == "text\n\n- one\n- two"
    code = "```sh\ntext\n- one\n```"
    assert pages._page(code) == code


def test_results_of_the_paper_are_found_at_their_place_on_the_site(pages):
    assert pages._page("[r](../reproduction/results/README.md)") == "[r](paper/README.md)"
    assert pages._page("[r](../../reproduction/results/README.md)") == "[r](../paper/README.md)"


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://example.org/a.js"></script>',
        "<link rel=stylesheet href=//example.org/a.css>",
        '<img alt="a" src="http://example.org/a.png">',
    ],
)
def test_a_site_that_fetches_is_refused(html, pages, tmp_path):
    (tmp_path / "index.html").write_text(
        f'<link rel="canonical" href="https://example.org/"><a href="https://x.org">{html}'
    )
    with pytest.raises(SystemExit, match=r"index.html fetches from a network: <"):
        pages.check(tmp_path)


def test_a_site_by_itself_passes_and_an_empty_one_does_not(pages, tmp_path):
    with pytest.raises(SystemExit, match="no pages"):
        pages.check(tmp_path)
    (tmp_path / "index.html").write_text('<link href="a.css"><a href="https://example.org">a link to click</a>')
    pages.check(tmp_path)


def test_a_signature_that_is_cut_off_is_refused(pages, tmp_path):
    line = "<span>fit</span>(X: Any, y: Any = None, groups: Any = None) -&gt; Model"
    (tmp_path / "api.html").write_text(f'<div class="doc-signature highlight"><code>{line}\n{line}</code></div>')
    pages.check(tmp_path)
    (tmp_path / "api.html").write_text(f'<div class="doc-signature highlight"><code>{line} {line}</code></div>')
    with pytest.raises(SystemExit, match=r"api.html cuts off a signature .*: fit\(X"):
        pages.check(tmp_path)
