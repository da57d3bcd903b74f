"""The report: one HTML page that explains a run to the person who must sign for it.

Everything on it follows from public numbers: the ledger, the plan, what was released, the model, and scores on rows
that were called public. It is one file: nothing is fetched, and no script runs.
"""

from __future__ import annotations

from pathlib import Path

from dpmac.checks import ArgumentError
from dpmac.files import whole_file
from dpmac.report.attack import attack_on
from dpmac.report.drawings import pictures_section, takes_pictures
from dpmac.report.markup import Markup, document, paragraph
from dpmac.report.on_choices import details_section, schema_section, settings_section
from dpmac.report.on_columns import columns_section
from dpmac.report.on_model import head_section
from dpmac.report.on_privacy import attack_section, ledger_section, signal_section, spending_section, statement_section
from dpmac.report.on_scores import calibration_section, scores_section
from dpmac.report.on_terms import is_additive, terms_section
from dpmac.report.run_contents import RunContents, contents_of
from dpmac.report.style import STYLE

NAME = "report.html"


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report on a run folder and say where: ``out``, or ``report.html`` in the folder.

    The folder is checked as :func:`dpmac.saving.open_folder` does. A report that is already there is replaced, at once
    and only when the new one is whole.
    """
    from dpmac.saving import open_folder

    if out is None:
        where = Path(folder) / NAME
    else:
        where = Path(out)
    if where.is_dir():
        raise ArgumentError("out", str(where), "this is a folder: give the name of a file, such as report.html")
    if not where.parent.is_dir():
        raise ArgumentError("out", str(where), f"there is no folder {where.parent}: make it first")
    page = page_of(contents_of(open_folder(folder)))
    with whole_file(where) as handle:
        handle.write(page)
    return where


def page_of(run: RunContents) -> str:
    """The whole page as text."""
    attack = attack_on(run.ledger.mechanisms(), run.delta)
    of_inputs = columns_section
    if takes_pictures(run):
        of_inputs = pictures_section
    elif is_additive(run):
        of_inputs = terms_section
    sections: list[Markup | None] = [
        head_section(run, attack),
        scores_section(run),
        statement_section(run),
        attack_section(run, attack),
        spending_section(run),
        signal_section(run),
        calibration_section(run),
        of_inputs(run),
        schema_section(run),
        settings_section(run),
        details_section(run),
        ledger_section(run),
    ]
    made = paragraph("Made by dpmac from the run folder alone. This page fetches nothing and runs no script.")
    foot = Markup(f"<footer>{made}</footer>")
    return document(f"{run.name} - dpmac report", STYLE, *(one for one in sections if one is not None), foot)
