"""The README's examples run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import blocks_of

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = [block.text for block in blocks_of(README) if block.language == "python"]


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_python_example(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "differentially private" in capsys.readouterr().out


def test_there_are_examples():
    assert len(EXAMPLES) >= 2
    assert "make demo" in README
    assert "make test" in README
