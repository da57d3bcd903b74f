"""All that the tables and curves say, in one small JSON file: what is kept in git in the place of the run files.

``results.json`` has for each row its recipe and mechanisms once, its mean curve to five digits, and seed, score and
seconds of every run; what made the runs stands there once. It is written from the run files of a folder, and read back
as the same rows (less the pictures of first layers). ``search.json`` is the same for the trials of a search. Infinity,
which JSON does not know, is written as the string "inf".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from reproduction.rows import Point, SeedRun, TableRow
from reproduction.store import Finished, spelled
from reproduction.tables import Published

RESULTS = Path(__file__).parent / "results"
DIGITS = 5  # of the mean curves


def slim_results(
    rows: Sequence[TableRow], finished: Iterable[Finished], published: Published, failures: Sequence[Any] = ()
) -> dict[str, Any]:
    """The content of ``results.json``: the rows, and what made the runs behind them."""
    return {
        "made_with": _made_with(finished),
        "failures": list(failures),
        "rows": [_slim_row(row, published.get((row.table, row.row, row.epsilon))) for row in rows],
    }


def slim_trials(finished: Sequence[Finished]) -> dict[str, Any]:
    """The content of ``search.json``: every trial of a search, and what made them."""
    ordered = sorted(finished, key=lambda trial: (trial.table, trial.epsilon, trial.seed, trial.row))
    trials = [
        {
            "table": trial.table,
            "method": trial.row,
            "epsilon": spelled(trial.epsilon),
            "number": trial.seed,
            "score": trial.result["metric"],
            "recipe": trial.result["recipe"],
        }
        for trial in ordered
    ]
    return {"made_with": _made_with(finished), "trials": trials}


def as_text(content: Mapping[str, Any]) -> str:
    """As JSON with a line a thing: a field of a row, or a trial; so that a change shows what changed."""
    parts = []
    for name, value in content.items():
        if name == "rows":
            shown = [
                "{\n" + ",\n".join(f"  {json.dumps(k)}: {_compact(v)}" for k, v in row.items()) + "\n }"
                for row in value
            ]
            parts.append(f'"{name}": [{_listed(shown)}]')
        elif isinstance(value, list):
            parts.append(f'"{name}": [{_listed([_compact(item) for item in value])}]')
        else:
            parts.append(f'"{name}": {_compact(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_results(path: Path | None = None) -> list[TableRow]:
    """The rows of a ``results.json``; without a path, of the one that is in git."""
    content = json.loads((path or RESULTS / "results.json").read_text(encoding="utf-8"))
    return [_full_row(row) for row in content["rows"]]


def read_trials(path: Path | None = None) -> list[Finished]:
    """The trials of a ``search.json``; without a path, of the one that is in git."""
    content = json.loads((path or RESULTS / "search.json").read_text(encoding="utf-8"))
    return [
        Finished(
            *(trial["table"], trial["method"], "search", float(trial["epsilon"]), trial["number"]),
            result={"metric": trial["score"], "recipe": trial["recipe"]},
        )
        for trial in content["trials"]
    ]


def _slim_row(row: TableRow, paper: float | None) -> dict[str, Any]:
    runs = [
        {"seed": run.seed, "score": run.score, "seconds": None if run.seconds is None else round(run.seconds, 3)}
        for run in row.runs
    ]
    return {
        "table": row.table,
        "row": row.row,
        "preset": row.preset,
        "epsilon": spelled(row.epsilon),
        "true_epsilon": spelled(row.true_epsilon),
        "delta": row.delta,
        "mean": row.mean,
        "std": row.std,
        "paper": paper,
        "mixed": row.mixed,
        "recipe": row.recipe,
        "mechanisms": row.mechanisms,
        "runs": runs,
        "curve": {f.name: [_short(getattr(point, f.name)) for point in row.curve] for f in fields(Point)},
    }


def _full_row(slim: Mapping[str, Any]) -> TableRow:
    """Mean and spread are those of the runs' scores, and the paper's figure is in the settings: neither is read."""
    columns = [slim["curve"][f.name] for f in fields(Point)]
    return TableRow(
        *(slim["table"], slim["row"], slim["preset"], float(slim["epsilon"])),
        true_epsilon=float(slim["true_epsilon"]),
        delta=slim["delta"],
        runs=tuple(SeedRun(**run) for run in slim["runs"]),
        recipe=slim["recipe"],
        mechanisms=slim["mechanisms"],
        curve=tuple(Point(*values) for values in zip(*columns, strict=True)),
        mixed=slim["mixed"],
    )


def _made_with(finished: Iterable[Finished]) -> list[dict[str, Any]]:
    """What made the runs, each kind once, with how many it made."""
    made: dict[tuple[tuple[str, Any], ...], int] = {}
    for run in finished:
        key = tuple(sorted(run.made_with.items()))
        made[key] = made.get(key, 0) + 1
    return [dict(key) | {"runs": count} for key, count in made.items()]


def _short(value: float | None) -> float | None:
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _listed(items: Sequence[str]) -> str:
    return "\n " + ",\n ".join(items) + "\n" if items else ""
