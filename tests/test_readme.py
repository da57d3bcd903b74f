"""The README's example runs as it stands; it is short, and sends its readers to the right places."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import blocks_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLES = [block.text for block in blocks_of(README) if block.language == "python"]


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_python_example(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "differentially private" in capsys.readouterr().out


def test_there_are_examples():
    """One in the README; the longer ones are on pages whose code tests/docs/test_pages.py runs."""
    assert len(EXAMPLES) >= 1
    for page, least in (("estimators.md", 2), ("trainer.md", 1), ("autoencoders.md", 1)):
        text = (ROOT / "docs" / page).read_text()
        assert sum(block.language == "python" for block in blocks_of(text)) >= least, page
    assert "make demo" in README
    assert "make test" in README


def test_an_auditor_is_sent_to_the_reference_before_the_guarantee():
    assert 0 < README.index("src/dpmac/privacy/reference.py") < README.index("docs/guarantee.md")


def test_it_is_short():
    assert len(README.split()) <= 700
