"""The report's sections on what was chosen: the schema that was used, every setting and who set it, and the details."""

from __future__ import annotations

from dpmac.disclosure import settings_of
from dpmac.disclosure.settings import BY_HAND, FOOTNOTE
from dpmac.report.markup import Markup, paragraph, section, table, text
from dpmac.report.run_contents import RunContents

COLUMNS = 200  # of a schema that are listed
WORDS = 160  # characters of a column's description


def settings_section(run: RunContents) -> Markup:
    """Every setting, its value and whether it is the default."""
    found = settings_of(run.estimator, run.plan, run.delta)
    by_hand = sum(one.by == BY_HAND for one in found)
    words = paragraph(f"{len(found)} settings, {by_hand} of them set by hand. {_searched(run)}")
    rows = [(one.name.replace("_", " "), one.value, one.by) for one in found]
    return section(
        "settings", "What was set", words, table(("setting", "value", "by"), rows), paragraph(FOOTNOTE, style="soft")
    )


def _searched(run: RunContents) -> str:
    note = run.statement.not_covered()[0]  # of the answer, or of its lack
    return f"{note[0].upper()}{note[1:].removesuffix(';')}."


def schema_section(run: RunContents) -> Markup | None:
    """The public description of the columns; None of a model of arrays."""
    schema = run.schema
    if schema is None:
        return None
    rows = []
    for name, column in list(schema.columns.items())[:COLUMNS]:
        role = ""
        if name == schema.target and not run.codes:
            role = "the target"
        rows.append((name, column.kind, _short(column.described(str)), _missing(column.missing), role))
    named = ""
    if schema.name:
        named = f" of “{schema.name}”"
    words = [paragraph(f"The public description{named} that rows were read by, as the folder's schema.json has it.")]
    if schema.about:
        words.append(paragraph(schema.about))
    more = []
    if len(schema.columns) > COLUMNS:
        more = [paragraph(f"and {len(schema.columns) - COLUMNS:,} more columns: see schema.json.", style="soft")]
    head = ("column", "kind", "what is public of it", "missing", "")
    kept = [0, 1, 2, 3] + [4] * any(row[4] for row in rows)
    shown = table([head[k] for k in kept], [[row[k] for k in kept] for row in rows])
    return section("schema", "The schema that was used", *words, shown, *more)


def _short(words: str) -> str:
    if len(words) <= WORDS:
        return words
    return f"{words[:WORDS]}…"


def _missing(may: bool) -> str:
    if may:
        return "may be"
    return "never"


def details_section(run: RunContents) -> Markup:
    """Variant, neighbours, clipping, divisor, sampling, floating point, randomness, audit, code."""
    rows = [(Markup(f'<span class="still">{text(one.title)}</span>'), one.text) for one in run.details]
    return section("details", "In detail, for an auditor", table(("", ""), rows))
