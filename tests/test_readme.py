"""The README's examples run as they stand; two whole trainings among them with the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import blocks_of, check_imports

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = [block.text for block in blocks_of(README) if block.language == "python"]
LONG = {1, 2}
SHOWN = [pytest.param(code, id=str(k), marks=[pytest.mark.long] * (k in LONG)) for k, code in enumerate(EXAMPLES)]


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_it_is_python_and_imports_what_there_is(code):
    check_imports(code)


@pytest.mark.parametrize("code", SHOWN)
def test_python_example(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "differentially private" in capsys.readouterr().out


def test_there_are_examples():
    assert len(EXAMPLES) >= 2
    assert "make demo" in README
    assert "make test" in README
