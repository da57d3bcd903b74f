"""The figures of benchmarks/scale.py as slim JSON, a page of Markdown and a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import scale_paper

Row = dict[str, Any]
Figures = Mapping[str, Any]
WAYS = {
    "arrays": "NumPy arrays in memory",
    "arrow": "an arrow table in memory",
    "parquet": "Parquet that fits into memory",
    "scratch": "Parquet, through a scratch file",
    "groups": "Parquet, straight from row groups",
}


def write(docs: Path, cells: Mapping[str, Sequence[Row]], about: Row, gpu_machine: str = "") -> None:
    """Slim JSON of what was measured, gpu apart from the rest; then the page and the picture of all that is there."""
    folder = docs / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    here = {part: rows for part, rows in cells.items() if part != "gpu"}
    if here:
        _dump(folder / "scale.json", {**about, **here})
    if "gpu" in cells:
        _dump(folder / "gpu.json", {**about, "machine": gpu_machine, "gpu": cells["gpu"]})
    figures: Row = {}
    for name in ("scale", "gpu"):
        path = folder / f"{name}.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        figures |= {"gpu_about": found, "gpu": found["gpu"]} if name == "gpu" and found else found
    (docs / "scale.md").write_text(page(figures), encoding="utf-8")
    if figures.get("strong"):
        plot(figures, folder / "scale.png")


def _dump(path: Path, what: Row) -> None:
    plain = {name: value for name, value in what.items() if not isinstance(value, list)}
    lists = [
        f' "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in value) + "\n ]"
        for name, value in what.items()
        if isinstance(value, list)
    ]
    path.write_text(json.dumps(plain, indent=1)[:-2] + ",\n" + ",\n".join(lists) + "\n}\n", encoding="utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def page(figures: Figures) -> str:
    """All of it in Markdown; a part that was not measured is left out."""
    pieces = ["# Scale", "    make bench-scale"]
    if "cores" in figures:
        said = f"Measured on {figures['machine']} (torch {figures['torch']}, {figures['date']}), by "
        said += (
            f"`{figures['command']}`. Rows are made up. Medians of interleaved rounds, each in processes of its own."
        )
        pieces.append(said)
    makers = {"strong": strong, "weak": weak, "stream": stream, "large": large, "gpu": gpu}
    for part, maker in makers.items():
        if figures.get(part):
            if part == "strong":
                pieces.append("![Speed-up over processes, and seconds of a fit by where its rows lie](scale/scale.png)")
            pieces.append(maker(figures))
    return "\n\n".join([*pieces, paper(figures)]) + "\n"


def strong(figures: Figures) -> str:
    rows = figures["strong"]
    base = next((row for row in rows if row["processes"] == row["threads"] == 1), rows[0])
    about = f"## One table, more processes\n\n{base['rows']:,} rows of 60 numbers, network 60-300-10, "
    about += f"batch {base['batch']:,}. A process sends its sums to the leader and gets the answer back, in float64. "
    about += "Share of the leader's time in messages of sums and answers, and in short words, which is mostly waiting "
    about += "for others; of the others' time in both, with waiting for the leader's noise. " + _star(figures)
    heads = ("processes x threads", "ms a step", "rows a second", "speed-up", "kB a step", "messages", "sums, leader",
             "words, leader", "others", "noise, ms")  # fmt: skip
    body = [
        [
            _who(row, figures), f"{1e3 * row['step_s']:.1f}", f"{row['rows_a_second']:,.0f}",
            f"{base['step_s'] / row['step_s']:.2f}", f"{row['bytes_a_step'] / 1e3:,.0f}",
            f"{row['messages_a_step']:.0f}", f"{row['sums_share']:.1%}", f"{row['words_share']:.1%}",
            f"{row['others_share']:.1%}", f"{1e3 * row['noise_s']:.1f}",
        ]
        for row in rows
    ]  # fmt: skip
    return f"{about}\n\n{table(heads, body)}"


def weak(figures: Figures) -> str:
    rows = figures["weak"]
    base, each = rows[0], rows[0]["batch"] // rows[0]["processes"]
    about = (
        f"## A table that grows with the processes\n\nThe same network, {each:,} rows of every batch for each process. "
    )
    about += f"Efficiency is the time of a step with one process over that with more. {_star(figures)}"
    heads = (
        "processes x threads",
        "rows",
        "batch",
        "ms a step",
        "rows a second",
        "efficiency",
        "communication, leader",
    )
    body = [
        [
            _who(row, figures), f"{row['rows']:,}", f"{row['batch']:,}", f"{1e3 * row['step_s']:.1f}",
            f"{row['rows_a_second']:,.0f}", f"{base['step_s'] / row['step_s']:.2f}",
            f"{row['sums_share'] + row['words_share']:.1%}",
        ]
        for row in rows
    ]  # fmt: skip
    return f"{about}\n\n{table(heads, body)}"


def stream(figures: Figures) -> str:
    rows = figures["stream"]
    base = rows[0]
    same = all(row["same_weights"] for row in rows)
    about = f"## Streaming against memory\n\n`fit` of a classifier on {base['rows']:,.0f} rows of 30 columns, batch "
    about += (
        f"{base['batch']:,}, one thread, `calibrate=False`. Before the first step: reading, checking, encoding; the "
    )
    about += "noise's calibration is in the seconds of the fit alone. "
    about += "**All weights are the same, bit for bit.**" if same else "**Weights differ.**"
    heads = ("rows are", "seconds of the fit", "before the first step", "steps", "ms a step", "to arrays", "peak MiB")
    body = [
        [
            WAYS[row["way"]], f"{row['seconds']:.1f}", f"{row['before_s']:.1f}", f"{row['steps_s']:.1f}",
            f"{1e3 * row['step_s']:.1f}", f"{row['seconds'] / base['seconds']:.2f}", _mib(row),
        ]
        for row in rows
    ]  # fmt: skip
    return f"{about}\n\n{table(heads, body)}"


def large(figures: Figures) -> str:
    row = figures["large"][0]
    kept = "below" if row["peak_mib"] and row["peak_mib"] < 2048 else "NOT below"
    about = (
        f"## More rows than memory\n\n{row['rows'] / 1e6:,.6g} million rows of {row['columns']:.0f} columns in Parquet "
    )
    about += f"({row['bytes'] / 1e9:.2f} GB, made in {row['made_s']:.0f} s), `Files` with its usual 1 GiB for rows, "
    about += f"{row['steps']:.0f} steps, batch {row['batch']:,}, `calibrate=False`. Peak resident memory of the whole "
    about += f"process: **{_mib(row)} MiB**, {kept} 2 GiB."
    heads = ("pass over all rows, s", "rows a second", "ms a step", "rows a second, drawn",
             "rows a second, fetched", "fit, s", "peak MiB")  # fmt: skip
    fetch = row.get("fetch_rows_a_second")
    body = [
        f"{row['read_s']:.1f}", f"{row['pass_rows_a_second']:,.0f}", f"{1e3 * row['step_s']:.1f}",
        f"{row['draw_rows_a_second']:,.0f}", "in memory" if fetch is None else f"{fetch:,.0f}",
        f"{row['seconds']:.0f}", _mib(row),
    ]  # fmt: skip
    return f"{about}\n\n{table(heads, [body])}"


def gpu(figures: Figures) -> str:
    rows, where = figures["gpu"], figures["gpu_about"]
    about = f"## One GPU, larger batches\n\n784-300-10, {rows[0]['rows']:,} rows on the device: {where['machine']} "
    about += f"(torch {where['torch']}, {where['date']}; rounds: {rows[0]['rounds']}), by `{where['command']}`. "
    about += "dpmac draws a Poisson sample of all rows and takes it in blocks of 8,192; torch is handed the same batch "
    about += "at every step. Peak above rows and labels: of the steps, and of the start, when a training looks at all "
    about += "rows once."
    plain = {row["batch"]: row for row in rows if row["contender"] != "dpmac"}
    heads = ("batch", "", "ms a step", "rows a second", "to torch", "peak MiB", "at the start")
    body = [
        [
            f"{row['batch']:,}", row["contender"], f"{1e3 * row['step_s']:.2f}", f"{row['rows_a_second']:,.0f}",
            f"{row['step_s'] / plain[row['batch']]['step_s']:.2f}", _mib(row), f"{row['start_mib']:,.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    return f"{about}\n\n{table(heads, body)}"


def paper(figures: Figures) -> str:
    """The formula, every number that goes in, and what comes out."""
    formula = (scale_paper.__doc__ or "").split("\n\n", 1)[1].rstrip()
    found = scale_paper.cases(scale_paper.measured_rates(figures))
    pieces = [
        "## On paper",
        "Nothing below was run. `benchmarks/scale_paper.py` has the formula as `projected(...)`:",
        formula,
    ]
    heads = ("", "pass", "work", "draw", "fetch", "sums", "words", "noise", "a step", "all")
    body = []
    for case in found:
        p = case.projection()
        ms = [
            "" if value is None else _long(value)
            for value in (p.work, p.draw, p.fetch, p.sums, p.words, p.noise, p.step)
        ]
        body.append([case.title, _long(p.reading), *ms, f"**{_long(p.seconds)}**"])
    pieces.append(table(heads, body))
    for case in found[:2]:
        named = [(name, _number(value), case.origin[name]) for name, value in case.numbers.items()]
        lines = [f"| {name} | {value} | {where} |" for name, value, where in named]
        pieces.append("\n".join([f"What goes in, {case.title}:\n", "| | | from |", "|---|--:|---|", *lines]))
    last = found[2]
    changed = f"{_number(last.numbers['fetch_rate'])} ({last.origin['fetch_rate']})"
    return "\n\n".join([*pieces, f"And {last.title}: fetch_rate {changed}."])


def _who(row: Row, figures: Figures) -> str:
    more = row["processes"] * row["threads"] > figures["cores"]
    return f"{row['processes']} x {row['threads']}" + (" *" if more else "")


def _star(figures: Figures) -> str:
    return f"A star: more than the {figures['cores']} cores that there are."


def _mib(row: Row) -> str:
    return "" if row.get("peak_mib") is None else f"{row['peak_mib']:,.0f}"


def _number(value: float) -> str:
    return f"{value:g}" if value < 0.01 else f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}"


def _long(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"


def plot(figures: Figures, path: Path) -> None:
    """Left: speed-up and efficiency over processes. Right: seconds of a fit by where its rows lie."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    one = [row for row in figures["strong"] if row["threads"] == 1]
    base = one[0]["step_s"] * one[0]["processes"]
    most = [row["processes"] for row in one]
    left.plot(most, most, "--", color="0.6", label="ideal")
    left.plot(most, [base / row["step_s"] for row in one], "o-", label=f"one table, batch {one[0]['batch']:,}")
    if grown := figures.get("weak"):
        first = grown[0]["rows_a_second"] / grown[0]["processes"]
        rates = [row["rows_a_second"] / first for row in grown]
        left.plot([row["processes"] for row in grown], rates, "s-", label="table and batch grow with processes")
    left.axvline(figures["cores"], color="0.4", linewidth=0.8, linestyle=":")
    left.annotate(f" {figures['cores']} cores here", (figures["cores"], 0.15), fontsize=8)
    left.set(xlabel="processes of one thread", ylabel="rows a second / one process", ylim=(0, None), xticks=most)
    left.grid(alpha=0.3)
    left.legend(fontsize=8)
    rows = figures.get("stream", ())
    names = [WAYS[row["way"]].replace(", ", ",\n") for row in rows]
    before, inside = [row["before_s"] for row in rows], [row["steps_s"] for row in rows]
    right.barh(names, before, color="C0", label="before the first step")
    right.barh(names, inside, left=before, color="C1", label="steps")
    right.invert_yaxis()
    right.set(xlabel="seconds of a fit")
    right.tick_params(axis="y", labelsize=8)
    if rows:
        right.set_title(f"{rows[0]['rows']:,.0f} rows of 30 columns, batch {rows[0]['batch']:,}", fontsize=9)
        right.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
