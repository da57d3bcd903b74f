"""An entry for the public registry of deployments of differential privacy that OpenDP keeps: what its schema asks
for, from the model's folder and from what people answered.

The registry takes a YAML file by pull request (github.com/opendp/deployments-registry-data). :data:`FORM` is what its
schema of July 2026 demands: which keys in which order, of which type. Every entry is held against it before it is
handed out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dpmac.checks import ArgumentError
from dpmac.disclosure.answers import NAME, SECTORS, Answers
from dpmac.disclosure.details import Detail
from dpmac.privacy import Statement
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import not_less, noun, round_up

TEXT, NUMBER, LIST = "a text", "a number", "a list of texts"
_TYPES: Mapping[str, type | tuple[type, ...]] = {TEXT: str, NUMBER: (int, float), LIST: list}
Form = Mapping[str, Any]
BASIC: Form = {
    "name*": TEXT,
    "data_curators*": LIST,
    "intended_use*": TEXT,
    "data_product_type*": ("Machine learning model",),
    "data_product_region*": TEXT,
    "description*": TEXT,
    "publication_date*": TEXT,
    "data_product_sector": SECTORS,
}
FORM: Form = {
    "url_slug*": TEXT,
    "status*": ("Draft",),
    "tier*": (1, 2, 3),
    "deployment*": {
        "basic*": BASIC,
        "dp_variant": {"variant_name": ("Approximate DP",), "data_domain": TEXT, "unprotected_quantities": TEXT},
        "privacy_loss": {
            "privacy_unit": TEXT,
            "privacy_unit_details": TEXT,
            "privacy_parameters": {"epsilon": NUMBER, "delta": NUMBER},
            "privacy_parameters_details": TEXT,
        },
        "deployment_model": {
            "model_name": ("Central",),
            "actors": TEXT,
            "release_type": ("One release",),
            "release_type_details": TEXT,
            "data_source_type": ("Static",),
            "access_type": ("Non-interactive",),
            "access_type_details": TEXT,
        },
        "accounting": {"post_processing": TEXT, "composition": TEXT},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": TEXT,
            "mechanisms": TEXT,
            "justification": TEXT,
        },
        "administrative": {"sources": TEXT, "notes": TEXT, "registry_authors*": LIST},
    },
}
"""Keys in the registry's order; one with a star is required, a tuple lists all that may be said."""
ACTORS = (
    "Whoever holds the rows is trusted: the rows are there in the clear, and the model is trained on that machine. "
    "Nobody who gets the model or its ledger has to be trusted, nor have several of them together."
)
POST = (
    "Predictions, probabilities, a threshold and the report follow from released numbers and public ones alone. "
    "Weights are averaged over the last steps, and a classifier's calibration, also released, is written into them."
)


def registry_entry(
    answers: Answers, statement: Statement, details: Sequence[Detail], curve: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """The entry; an error names what nobody has answered yet, and a model that is not private has none."""
    missing = answers.missing()
    if missing:
        fix = f"a registry entry needs these answers: {', '.join(missing)}. Write them into {NAME}"
        raise ArgumentError(NAME, f"{len(missing)} not answered", f"{fix} (dpmac statement init makes it)")
    if not statement.private:
        raise ArgumentError("--registry", True, "this model is not private, or was seeded: it has no entry there")
    said = {one.key: one.text for one in details}
    basic = {
        "name": answers.text("name"),
        "data_curators": answers.several("curators"),
        "intended_use": answers.text("purpose"),
        "data_product_type": "Machine learning model",
        "data_product_region": answers.text("region"),
        "description": answers.text("description"),
        "publication_date": answers.text("publication_date"),
        "data_product_sector": answers.text("sector"),
    }
    deployment = {
        "basic": basic,
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": answers.text("data_domain"),
            "unprotected_quantities": _lines(line.rstrip(";.") for line in statement.not_covered()),
        },
        "privacy_loss": _loss(statement, said, curve),
        "deployment_model": {
            "model_name": "Central",
            "actors": _lines([ACTORS, *_named("Responsible", answers.text("responsible"))]),
            "release_type": "One release",
            "release_type_details": answers.text("plans"),
            "data_source_type": "Static",
            "access_type": "Non-interactive",
            "access_type_details": answers.text("access"),
        },
        "accounting": {"post_processing": POST, "composition": _composition(statement)},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _lines(
                line.rstrip(";.") for line in statement.notes if "hyper-param" in line.lower() or "ranges" in line
            ),
            "mechanisms": _lines(
                [
                    *statement.described(),
                    *(said[key] for key in ("clipping", "sampling", "floating_point", "randomness", "audit", "code")),
                ]
            ),
            "justification": answers.text("justification"),
        },
        "administrative": {
            "sources": answers.text("sources"),
            "notes": _lines(
                [
                    *_named("Licence", answers.text("licence")),
                    *_named("Retention", answers.text("retention")),
                    "Written by dpmac from the model's folder.",
                ]
            ),
            "registry_authors": answers.several("authors"),
        },
    }
    entry = _filled({"url_slug": _slug(basic), "status": "Draft", "tier": 3, "deployment": deployment})
    check_entry(entry)
    return entry


def check_entry(entry: Any, form: Form = FORM, where: str = "") -> None:
    """Raise a ValueError unless an entry has the keys, order and types that the registry's schema demands."""
    if not isinstance(entry, dict):
        raise ValueError(f"registry entry{where}: give an object")
    known = {key.rstrip("*"): demanded for key, demanded in form.items()}
    for key in entry:
        if key not in known:
            raise ValueError(f"registry entry{where}: {key!r} is no key of the registry")
    if [key for key in known if key in entry] != list(entry):
        raise ValueError(f"registry entry{where}: the keys are not in the registry's order")
    for key in form:
        if key.endswith("*") and key.rstrip("*") not in entry:
            raise ValueError(f"registry entry{where}: {key.rstrip('*')!r} is not there, and the registry needs it")
    for key, value in entry.items():
        _check_value(value, known[key], f"{where}.{key}")


def _check_value(value: Any, demanded: Any, where: str) -> None:
    if isinstance(demanded, Mapping):
        check_entry(value, demanded, where)
        return
    if isinstance(demanded, tuple):
        if value not in demanded:
            raise ValueError(f"registry entry{where}={value!r}: give one of {', '.join(map(str, demanded))}")
        return
    right = isinstance(value, _TYPES[demanded]) and not isinstance(value, bool)
    if right and demanded == LIST:
        right = bool(value) and all(isinstance(one, str) for one in value)
    if not right or (demanded == NUMBER and not math.isfinite(value)):
        raise ValueError(f"registry entry{where}={value!r}: give {demanded}")


def as_yaml(entry: Mapping[str, Any], indent: str = "") -> str:
    """An entry as YAML: texts in double quotes, with JSON's escapes, or as blocks of lines."""
    lines = list[str]()
    for key, value in entry.items():
        start = f"{indent}{key}:"
        if isinstance(value, Mapping):
            lines += [start, as_yaml(value, indent + "  ").rstrip("\n")]
        elif isinstance(value, list):
            lines += [start, *(f"{indent}  - {json.dumps(one, ensure_ascii=False)}" for one in value)]
        elif isinstance(value, str) and "\n" in value and _plain(value):
            lines += [f"{start} |-", *(f"{indent}  {line}".rstrip() for line in value.split("\n"))]
        elif isinstance(value, float):
            lines.append(f"{start} {_number(value)}")
        else:
            lines.append(f"{start} {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> bool:
    """Whether a block of lines holds a text as it is."""
    return all(line.isprintable() and line == line.strip() for line in text.split("\n")) and bool(text.strip())


def _number(value: float) -> str:
    """A float that every reader of YAML takes for one: with a point."""
    text = repr(value)
    if "." not in text and "e" in text:
        text = text.replace("e", ".0e")
    return text


def _loss(statement: Statement, said: Mapping[str, str], curve: Sequence[tuple[float, float]]) -> dict[str, Any]:
    unit = "one record (row)"
    if statement.unit != ROW:
        unit = "one person, with all their records"
    points = ", ".join(f"{round_up(epsilon)} at {not_less(delta)}" for delta, epsilon in curve)
    rows = [said["neighbours"], *filter(None, [said.get("contributions")])]
    return {
        "privacy_unit": unit,
        "privacy_unit_details": _lines(rows),
        "privacy_parameters": {"epsilon": float(round_up(statement.epsilon)), "delta": statement.delta},
        "privacy_parameters_details": _lines([said["budget"], f"The whole curve, epsilon at delta: {points}."]),
    }


def _composition(statement: Statement) -> str:
    count = sum(one.count for one in statement.mechanisms)
    one = noun(statement.unit)
    accountant = next(
        line.removeprefix("Accountant: ") for line in statement.sentences() if line.startswith("Accountant: ")
    )
    return (
        f"All {count:,} releases of the ledger, about one {one}, are composed numerically: {accountant} "
        "Every release from these rows that the ledger holds is counted, also those of other models."
    )


def _lines(parts: Any) -> str:
    """Several statements as a list of Markdown; one as it is."""
    found = [" ".join(part.split()) for part in parts if part]
    if len(found) == 1:
        return found[0]
    return "\n".join(f"- {part}" for part in found)


def _named(title: str, text: str) -> list[str]:
    if not text:
        return []
    return [f"{title}: {text}"]


def _slug(basic: Mapping[str, Any]) -> str:
    """Name, curators and year, as the registry makes it of them."""
    parts = [basic["name"], "-".join(basic["data_curators"]), basic["publication_date"].split("-")[0]]
    return "_".join(re.sub(r"\W+", "_", part.lower()) for part in parts).replace("_", "-")


def _filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody has answered."""
    found = {key: _filled(value) if isinstance(value, Mapping) else value for key, value in entry.items()}
    return {key: value for key, value in found.items() if value not in ("", [], {})}
