"""``answers.toml``: what only people know of a model and no program can find out, asked in a small file.

It lies in the model's folder, so that a signature covers it. An answer that is left empty is none.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmac.checks import ArgumentError, check_utf8
from dpmac.disclosure.declared import SEARCHED, Declared
from dpmac.limits import TEXT, read_bytes
from dpmac.tables.texts import did_you_mean

NAME = "answers.toml"
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_BYTES = 2**22  # of the file: all answers, however long, have room in it
_PARTS = 30  # of a key: a.b.c has three. No question has such a key, and the TOML parser takes their square in memory
_KEY = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_NESTED = re.compile(rf"(?:{_KEY}[ \t]*\.[ \t]*){{{_PARTS}}}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Question:
    """One line of the file. ``needed`` where models are registered; ``choices`` are all that may be answered."""

    key: str
    asks: str
    needed: bool = False
    several: bool = False
    choices: tuple[str, ...] = ()


QUESTIONS = (
    Question("searched", "Were hyper-parameters searched? no; public: on public or other people's rows; ledger: on "
             "these rows, every trial in this ledger; private: on these rows, and not in it", choices=tuple(SEARCHED)),
    Question("ranges_from", "Where do the schema's ranges and values come from? Such as a code book"),
    Question("name", "What is the data product called?", needed=True),
    Question("description", "What is it, in a sentence or two?", needed=True),
    Question("purpose", "What is it to be used for?", needed=True),
    Question("curators", "Who publishes it? A list of organisations", needed=True, several=True),
    Question("authors", "Who fills in this record? A list of names", needed=True, several=True),
    Question("region", "Which region do the data describe, or whose laws apply?", needed=True),
    Question("publication_date", "When was it published, or will it be? YYYY-MM-DD", needed=True),
    Question("sector", "Which sector is it from?", choices=SECTORS),
    Question("responsible", "Who answers for it, and how can they be reached?"),
    Question("retention", "How long are the rows kept, and the model?"),
    Question("access", "Who may use the model, and who can see the rows?"),
    Question("licence", "Under which licence is it given away?"),
    Question("data_domain", "Whose data could have been in the table: which tables are protected?"),
    Question("plans", "Will these rows be used or published again?"),
    Question("justification", "Why this epsilon, this unit, this delta? Who decided, and was it reviewed?"),
    Question("sources", "Links: papers, pages, the model itself, the code"),
)  # fmt: skip
_BY_KEY = {one.key: one for one in QUESTIONS}
_HEAD = """\
# What only people know of this model. Put each answer between the quotes; an empty one is not answered.
# Answers marked with * are needed for a registry entry: dpmac statement RUN --registry. dpmac sign needs the first one.
"""


@dataclass(frozen=True)
class Answers:
    """What was answered, by the questions' keys: texts, or lists of texts where several are asked for."""

    given: Mapping[str, Any]

    def text(self, key: str) -> str:
        """An answer; empty if there is none."""
        return str(self.given.get(key, ""))

    def several(self, key: str) -> list[str]:
        return list(self.given.get(key, ()))

    @property
    def declared(self) -> Declared:
        """The two answers that statement and report print."""
        return Declared(self.given.get("searched"), self.given.get("ranges_from"))

    def missing(self) -> list[str]:
        """The keys that are needed where models are registered, and nobody has answered."""
        return [one.key for one in QUESTIONS if one.needed and one.key not in self.given]


def template(known: Mapping[str, Any]) -> str:
    """The file to fill in, with what is ``known`` already."""
    lines = [_HEAD]
    for one in QUESTIONS:
        value = known.get(one.key, [] if one.several else "")
        mark = "*" * one.needed
        choices = ""
        if one.choices:
            choices = f" (one of {', '.join(one.choices)})"
        lines.append(f"# {mark}{one.asks}{choices}\n{one.key} = {_toml(value)}\n")
    return "\n".join(lines)


def read_answers(folder: Path) -> Answers:
    """The answers in a model's folder; none where there is no such file. An error names the key, value and fix."""
    path = folder / NAME
    if path.is_symlink():
        raise ValueError(f"{path} is a link: a model's folder holds its own files; copy what it points to")
    if not path.exists():
        return Answers({})
    if not path.is_file():  # reading a pipe would block
        raise ValueError(f"{path} is not a file: begin again with  dpmac statement init")
    try:
        text = read_bytes(path, _BYTES).decode("utf-8")
        if _NESTED.search(text):
            raise ValueError(f"a key of more than {_PARTS} parts")
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        fix = "put each answer between quotes, or begin again with  dpmac statement init"
        raise ArgumentError(str(path), f"not TOML ({str(error)[:100]})", fix) from None
    return Answers({key: found for key, value in raw.items() if (found := _answer(path, key, value))})


def _answer(path: Path, key: str, value: Any) -> Any:
    """One answer, looked over; empty if there is none."""
    where = f"{path}: {key}"
    if key not in _BY_KEY:
        known = f"this question is not known: use {', '.join(_BY_KEY)}"
        raise ArgumentError(where, value, known + did_you_mean(key, list(_BY_KEY)))
    question = _BY_KEY[key]
    parts = [value]
    if question.several:
        if not isinstance(value, list):
            raise ArgumentError(where, value, 'give a list, such as ["one", "two"]')
        parts = value
    for part in parts:
        if not isinstance(part, str) or len(part) > TEXT:
            raise ArgumentError(where, part, f"give a text between quotes, of {TEXT:,} characters at most")
        check_utf8(where, part)
    if question.several:
        return [part.strip() for part in parts if part.strip()]
    text = value.strip()
    if text and question.choices and text not in question.choices:
        raise ArgumentError(where, text, f"give one of {', '.join(question.choices)}")
    if key == "publication_date" and text and not _is_date(text):
        raise ArgumentError(where, text, "give a day as YYYY-MM-DD, such as 2026-03-01")
    return text


def _is_date(text: str) -> bool:
    from datetime import date

    try:
        return bool(_DATE.fullmatch(text)) and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _toml(value: Any) -> str:
    """A text or a list of texts as TOML, which escapes within quotes as JSON does (but for a delete character)."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
