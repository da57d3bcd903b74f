"""The model card: a folder's README.md, for whoever is handed the folder and knows nothing of how it was made.

It says what the estimator, the plan and the ledger say, and nothing that was read off private rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dpmac.disclosure.details import Detail
from dpmac.disclosure.settings import FOOTNOTE, settings_of
from dpmac.estimators import DPMACImageClassifier
from dpmac.estimators.labelled import Labelled
from dpmac.estimators.module_base import ModuleEstimator
from dpmac.estimators.ranged import Ranged
from dpmac.estimators.rows import OnRows
from dpmac.privacy import Plan, Statement
from dpmac.privacy.sampling import ROW
from dpmac.privacy.statement import noun
from dpmac.saving.module_model import name_of
from dpmac.tables import ColumnKind, Schema

SEED = (
    "**The seed is in this folder** (`random_state` in `dpmac.json`), and the noise can be replayed by whoever has it. "
    "This model is for research: train again without a seed before you publish anything."
)
FILES: Mapping[str, str] = {
    "dpmac.json": "the manifest: format, estimator, arguments, and the SHA-256 of every file below",
    "model.safetensors": "the weights",
    "front.safetensors": "the public map from rows to the network's inputs",
    "schema.json": "what is publicly known of the table's columns",
    "plan.json": "the training's public plan: rows, batch, steps, noise",
    "ledger.jsonl": "every release from the private rows, in order",
    "history.json": "one public record an epoch",
    "statement.txt": "the guarantee in sentences",
    "statement.json": "the guarantee for a machine",
    "declared.json": "what was answered: were hyper-parameters searched, where do public ranges come from",
    "result.json": "what the writer of this folder added",
    "README.md": "this card",
}
_MANY = 40  # columns that are listed one by one


def card(
    estimator: OnRows,
    manifest: Mapping[str, Any],
    statement: Statement,
    plan: Plan | None,
    schema: Schema | None,
    details: Sequence[Detail],
) -> str:
    """The card, in Markdown."""
    title = manifest["name"] or manifest["estimator"]
    warned = []
    if statement.seeded and statement.noisy and estimator.random_state is not None:
        warned = [SEED]
    parts = [
        f"# {_code(title)}",
        f"A `{manifest['estimator']}` of dpmac {manifest['dpmac']}, saved {manifest['created']}.",
        "## What it guarantees",
        _block(written(statement, details)),
        *warned,
        "## What it takes and gives",
        *_inputs(estimator, schema),
        _outputs(estimator, schema),
        "## How to use it",
        _block(_usage(estimator, schema is not None, title)),
        *_training(plan, noun(statement.unit), estimator.max_rows),
        "## Its settings",
        *_settings(estimator, plan, statement.delta),
        "## What lies here",
        "\n".join(f"- `{name}`: {FILES[name]}" for name in FILES if name in _there(manifest)),
        "Nothing in these files is executed when they are read. A file that was cut short or edited is noticed; the "
        "digests are no signature: `dpmac verify` checks one, if somebody has signed the folder.",
    ]
    return "\n\n".join(parts)


def written(statement: Statement, details: Sequence[Detail]) -> str:
    """The statement, and below it the details, one line each."""
    lines = [f"  - {one.title}: {one.text}" for one in details]
    return "\n".join([str(statement), "In detail:", *lines])


def _settings(estimator: OnRows, plan: Plan | None, delta: float) -> list[str]:
    found = settings_of(estimator, plan, delta)
    lines = [f"- `{one.name}`: {_code(one.value)} ({one.by})" for one in found]
    return ["\n".join(lines), FOOTNOTE]


def _there(manifest: Mapping[str, Any]) -> set[str]:
    return {"dpmac.json", "README.md", *manifest["files"]}


def _block(text: str) -> str:
    """Text as it is, between fences that are longer than any in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _inputs(estimator: OnRows, schema: Schema | None) -> list[str]:
    if isinstance(estimator, ModuleEstimator):
        return _module_inputs(estimator)
    if isinstance(estimator, DPMACImageClassifier):
        known = estimator.known_beforehand()
        lines = [f"{estimator.takes().capitalize()}: an array (n, height, width, channels), or a folder of files."]
        if known:
            lines += ["What it knew before it saw any, without anybody's picture:", _block("\n".join(known))]
        return lines
    if schema is None:
        given = estimator.feature_range
        scale = "as they are"
        if given is not None:
            scale = f"clipped to {_code(repr(given))}"
        width = getattr(estimator, "n_features_in_", "?")
        return [f"Rows of {width} numbers, {scale}."]
    features = list(schema.features.items())
    lines = [f"- {_code(name)}: {_described(column)}" for name, column in features[:_MANY]]
    if len(features) > _MANY:
        lines.append(f"- and {len(features) - _MANY} more, in `schema.json`")
    what = ""
    if schema.name:
        what = f" of {_code(schema.name)}"
    return [f"Rows{what} with these columns:", "\n".join(lines)]


def _described(column: ColumnKind) -> str:
    words = column.described(_code)
    if column.missing:
        words += ", may be missing"
    return words


def _outputs(estimator: OnRows, schema: Schema | None) -> str:
    target = ""
    if schema is not None and schema.target is not None:
        target = f" {_code(schema.target)}"
    if isinstance(estimator, Labelled):
        names = ", ".join(_code(name) for name in estimator.classes_.tolist())
        if estimator._indicator is not None:
            return f"Which of these labels a row has: {names}."
        row = "row"
        if isinstance(estimator, DPMACImageClassifier):
            row = "picture"
        return f"The class{target} of a {row}, one of {names}, and the probability of each."
    if isinstance(estimator, Ranged):
        low, high = estimator.target_range_
        return f"A number{target} within {low:g} .. {high:g}."
    size = int(estimator._n_features_out)  # type: ignore[attr-defined]
    return f"A code of {size} numbers, and rows from codes. Codes of private rows are private."


def _usage(estimator: OnRows, table: bool, name: str) -> str:
    rows, load = "an array", f"dpmac.load({name!r})"
    if table:
        rows = "a table with these columns"
    if isinstance(estimator, DPMACImageClassifier):
        rows = "an array of pictures, or a folder of files"
    if isinstance(estimator, ModuleEstimator):
        rows, load = "as above", f"dpmac.load({name!r}, module=...)"
    call = "model.transform(rows)"
    if hasattr(estimator, "predict"):
        call = "model.predict(rows)"
    return f"import dpmac\n\nmodel = {load}  # this folder\n{call}  # rows: {rows}"


def _module_inputs(estimator: ModuleEstimator) -> list[str]:
    """What a torch module takes, and that its code is needed."""
    lines = []
    for name, shape, dtype in estimator.inputs_:
        sizes = ", ".join(["rows", *map(str, shape)])
        lines.append(f"- {_code(name or 'an array')}: ({sizes}) of {dtype}")
    code = (
        f"The model is a torch module, {_code(name_of(estimator.module))}. Its weights are in this folder and its code "
        "is not: whoever loads it hands in the class, or an instance."
    )
    return ["These inputs:", "\n".join(lines), code]


def _training(plan: Plan | None, unit: str, most: int) -> list[str]:
    if plan is None:
        return []
    text = (
        f"{plan.steps} steps on Poisson samples of {plan.batch_size:g} of {plan.n} {unit}s (the expected size), noise "
        f"multiplier {plan.noise_multiplier:.4g}."
    )
    if unit != ROW:
        text += f" A person brings {most} rows at most to a step, drawn anew for each; they are averaged."
    return ["## How it was trained", text]


def _code(text: Any) -> str:
    """A text that a user gave, within backticks and on one line: nothing in it is Markdown or HTML then."""
    plain = str(text).replace("`", "'")
    if not (plain.isprintable() and plain.strip()):
        plain = ascii(plain)
    return f"`{plain}`"
