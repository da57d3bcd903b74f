"""The documentation's pages: their code runs and prints what they show, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pages import alike, blocks_of, check_imports, check_page

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))}
LONG = {
    "additive.md",
    "autoencoders.md",
    "choosing.md",
    "cli.md",
    "epsilon.md",
    "estimators.md",
    "from-sklearn.md",
    "index.md",
    "modules.md",
    "pitfalls.md",
    "silent-failures.md",
    "start.md",
    "texts.md",
    "hyperparameters.md",
    "from-opacus.md",
    "gallery/hospital.md",
    "gallery/large.md",
    "gallery/pictures.md",
    "gallery/search.md",
    "gallery/text.md",
    "tutorials/autoencoder.md",
    "tutorials/fine-tuning.md",
    "tutorials/images.md",
    "tutorials/large.md",
    "tutorials/modules.md",
    "tutorials/table.md",
}
RESULTS = {f"results/{name}.md" for name in ("tables", "text", "speed", "scale", "audit", "mutants")}
NOT_RUN = {"guarantee.md", "proof.md", "kernels.md", "trust.md", "method.md", *RESULTS, "api.md", "faq.md"}  # no code
OTHERS_WARN = pytest.mark.filterwarnings("ignore")
BESIDE_OPACUS = {"from-opacus.md", "silent-failures.md"}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    """Long pages wait for ``make test-all``; Opacus warns of what it does itself."""
    return [pytest.mark.long] * (name in LONG) + [OTHERS_WARN] * (name in BESIDE_OPACUS)


RUN = [pytest.param(name, marks=_marks(name), id=name) for name in PAGES if name not in NOT_RUN]


@pytest.mark.parametrize("name", RUN)
def test_a_page_runs_and_prints_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_page(PAGES[name])


@pytest.mark.parametrize("name", [name for name in PAGES if name not in NOT_RUN])
def test_the_code_of_a_page_is_python_and_imports_what_there_is(name):
    """Quick, for the pages that wait for ``make test-all`` too."""
    for block in blocks_of(PAGES[name]):
        if block.language == "python":
            check_imports(block.text)


def test_only_pages_without_code_are_not_run():
    for name in NOT_RUN:
        assert not {block.language for block in blocks_of(PAGES[name])} & {"python", "console"}, name


def test_shown_output_is_compared():
    shown = "epsilon 1.99 after 20 steps\n...\nthe end"
    assert alike(shown, "epsilon 2.00 after 20 steps\none\ntwo\nthe end\n")
    assert not alike(shown, "epsilon 2.20 after 20 steps\none\nthe end\n")
    assert not alike(shown, "epsilon 1.99 after 21 steps\none\nthe end\n")
    with pytest.raises(AssertionError, match="the page shows"):
        check_page("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="ended with 2"):
        check_page("```console\n$ dpmac data path nothing\n```\n")
    assert check_page("```console\n$ dpmac data path nothing  # ends with 2\n...nothing...\n```\n") == 1


# --- links ------------------------------------------------------------------------------------------------------------

LINK = re.compile(r"(?<!`)\]\((?!https?:|mailto:)([^)\s]+)\)")


def _plain(page: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^ *```.*?^ *```", "", page, flags=re.DOTALL | re.MULTILINE))


def _anchors(page: str) -> set[str]:
    """The names that Python-Markdown gives to headings."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^ *```.*?^ *```", "", page, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head.replace("`", "")).strip().lower()) for head in heads}


def _exists(target: Path) -> bool:
    """There, or made by the build: a figure is drawn by the module of its name, the paper's results are taken in."""
    if target.parent == DOCS / "figures":
        drawn = re.fullmatch(r"([a-z]+)-(light|dark)\.svg", target.name)
        return drawn is not None and (DOCS / "figures" / f"{drawn[1]}.py").exists()
    if target.parent == DOCS / "paper":
        return (ROOT / "reproduction" / "results" / target.name).exists()
    return target.exists()


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for link in LINK.findall(_plain(PAGES[name])):
        path, _, anchor = link.partition("#")
        target = ((DOCS / name).parent / path).resolve() if path else DOCS / name
        assert _exists(target), f"{name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target.read_text("utf-8")), f"{name}: {link}"


def _entries(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [entry for part in (nav.values() if isinstance(nav, dict) else nav) for entry in _entries(part)]  # type: ignore[union-attr]


def test_the_navigation_has_every_page_and_no_other():
    nav = _entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(entry for entry in nav if not entry.startswith("paper/")) == sorted(PAGES)
    assert all(_exists(DOCS / entry) for entry in nav)


def test_the_interface_page_has_every_public_name():
    import dpmac

    described = set(re.findall(r"^::: [\w.]+\.(\w+)$", PAGES["api.md"], flags=re.MULTILINE))
    assert set(dpmac.__all__) - {"__version__"} <= described
