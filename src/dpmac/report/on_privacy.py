"""The report's sections on privacy: what is guaranteed, how it was spent, what an attacker gains, and the ledger."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dpmac.disclosure.spent import said
from dpmac.privacy.statement import SEEDED_LINE, not_less, noun, round_up, unit_in_words
from dpmac.report.attack import Attack
from dpmac.report.charts import Axis, Line, line_chart, percent, short, spread
from dpmac.report.markup import Markup, bullets, figure, group, paragraph, section, table, text
from dpmac.report.run_contents import RunContents
from dpmac.report.spending import Group, LayerSignal, epsilon_over_releases, groups_of, signals_of

PRIORS = (0.5, 0.1, 0.01)
FALSE_ALARMS = (0.001, 0.01, 0.1)
SHOWN = 100  # groups of releases at most


def statement_section(run: RunContents) -> Markup:
    """The statement in its own words, and all that it does not cover."""
    lines = run.statement.sentences()
    words = [line for line in lines if not line.startswith("  - ") and not line.endswith(":")]
    alarms = [line for line in words if line == SEEDED_LINE or line.startswith(("NOT PRIVATE", "Do not publish"))]
    parts: list[Markup] = []
    if alarms:
        parts = [group("alarm", *(paragraph(line) for line in alarms))]
    parts += [paragraph(line) for line in words if line not in alarms]
    mechanisms = run.statement.described()
    if mechanisms:
        parts += [paragraph("Mechanisms, all composed in the figure above:"), bullets(mechanisms)]
    missing = run.statement.not_covered()
    parts += [Markup("<h3>Not covered by the guarantee</h3>"), bullets(missing)]
    return section("statement", "What is guaranteed", *parts)


def spending_section(run: RunContents) -> Markup:
    """Epsilon after so many releases."""
    points = epsilon_over_releases(run.ledger, run.delta)
    finite = [(float(k), epsilon) for k, epsilon in points if math.isfinite(epsilon)]
    title = "How epsilon was spent"
    if not points:
        return section("spending", title, paragraph("Nothing was released, so nothing was spent."))
    if len(finite) < len(points):
        return section(
            "spending", title, paragraph("A release without noise has no epsilon: there is no curve to draw.")
        )
    x = Axis("releases so far", 0.0, finite[-1][0])
    chart = line_chart(
        f"Epsilon of one {run.one} over the releases of the ledger",
        [Line("epsilon", finite, dots=True, area=True)],
        x,
        Axis(f"epsilon at delta = {not_less(run.delta)}", 0.0, 1.08 * finite[-1][1] or 1.0),
    )
    caption = "Composed from the ledger at the dots; each is an upper bound."
    before = 0
    if run.plan is not None:
        before = sum(m.count for m in run.plan.before)
    words = [
        paragraph(
            f"{finite[-1][0]:,.0f} release{'s' if finite[-1][0] > 1 else ''} from the same {run.whose_rows}, each of "
            f"them noisy, together cost epsilon = {said(finite[-1][1])} at delta = {not_less(run.delta)}, for one "
            f"{run.one}."
        ),
        table(("", "epsilon", "releases"), run.spent.rows(), numeric=(1, 2)),
    ]
    if before:
        earlier = round_up(run.ledger_before(before))
        words.append(
            paragraph(
                f"The first {before:,} of them were made before this model was trained, and cost {earlier} alone."
            )
        )
    return section("spending", title, group("pair", figure(chart, caption), group("", *words)))


# --- the attacker -----------------------------------------------------------------------------------------------------


def attack_section(run: RunContents, found: Attack | None) -> Markup:
    """What can be learned of one row, at most; ``found`` is None where there is no bound."""
    title = "What an attacker can gain"
    if found is None:
        return section(
            "attack",
            title,
            paragraph(f"There is no bound: with a release that has no noise, a {run.one} may be read off whole."),
        )
    one = noun(run.ledger.unit)
    said = paragraph(
        f"Think of someone who knows every other {one} of the table and all that is public, sees the model and "
        f"everything else that was released, and wants to know whether one {one} is there. The unit of privacy is "
        f"{unit_in_words(run.ledger.unit)}. Whatever "
        "such a person computes, now or later, stays below these bounds, as long as nothing else is released "
        f"from the same {run.whose_rows}. They follow from the ledger alone, not from an attack that was "
        "tried; real attackers know less and gain less."
    )
    seeded = []
    if run.ledger.seeded:
        seeded = [group("alarm", paragraph("These bounds hold of noise that nobody can predict. This run was seeded."))]
    both = group("pair", _curve(found, one), group("", *_alarms(found, one)))
    return section("attack", title, said, *seeded, both, *_odds(found, run.delta, one))


def _curve(found: Attack, one: str) -> Markup:
    parts = Axis(f"false alarms: of {one}s that are blank, called there", 0.0, 1.0, percent=True)
    lines = [
        Line("the most that the guarantee allows", found.corners(), area=True),
        Line("guessing", [(0.0, 0.0), (1.0, 1.0)], colour=0, dashed=True),
    ]
    chart = line_chart(
        "True against false positives", lines, parts, Axis(f"{one}s found: of {one}s that are there", 0, 1, True)
    )
    return figure(chart, "No test lies above the curve, which is the least of all bounds that follow from the ledger.")


def _alarms(found: Attack, one: str) -> list[Markup]:
    rows = [(percent(a), bound_above(found.true_positives(a))) for a in FALSE_ALARMS]
    share = bound_above((1 + found.advantage()) / 2)
    return [
        Markup(f"<h3>Finding a {text(one)}</h3>"),
        table(("false alarms", f"{one}s found, at most"), rows, numeric=(0, 1)),
        paragraph(
            f"Asked of a {one} that is there or blank with equal chances, nobody is right more than {share} of the "
            "time; guessing is right 50 % of the time."
        ),
    ]


def _odds(found: Attack, delta: float, one: str) -> list[Markup]:
    t = math.inf
    if delta:
        t = found.log_odds(delta)
    rows = []
    for prior in PRIORS:
        low, high = found.posterior(prior, delta)
        rows.append((percent(prior), bound_above(high), bound_below(low)))
    first, second = rows[0], rows[-1]
    who = "you are, with any of your rows,"
    if one == "row":
        who = "your row is"
    if t < 7:
        factor = round_up(math.exp(t), 1)
    else:
        factor = f"e^{round_up(t, 2)}"
    return [
        Markup("<h3>Becoming sure</h3>"),
        paragraph(
            f"Someone who thought it {first[0]} likely that {who} in the table can become at most {first[1]} "
            f"sure of it; someone who thought it {second[0]} likely, at most {second[1]}. "
            f"Odds change by a factor of at most {factor}, except with a chance of {not_less(delta)}."
        ),
        table(("thought before", "can become, at most", "can become, at least"), rows, numeric=(0, 1, 2)),
        paragraph(
            f"The factor is e^{round_up(t, 2)}, a little more than e^epsilon: epsilon at delta bounds how often "
            f"{one}s are found, and a bound on how sure anyone can ever become takes a little more.",
            style="soft",
        ),
    ]


def bound_above(part: float) -> str:
    """A part as a percent of about three digits, rounded up, so that a printed bound is one."""
    return _percent(part, ROUND_CEILING)


def bound_below(part: float) -> str:
    """The same, rounded down."""
    return _percent(part, ROUND_FLOOR)


def _percent(part: float, rounding: str) -> str:
    hundred = 100 * part
    near, most = hundred, 6
    if hundred > 99:  # near 100 what is missing has the digits
        near, most = min(hundred, 100 - hundred), 3
    digits = 0
    if near > 0:
        digits = min(most, max(0, 2 - math.floor(math.log10(near))))
    written = str(Decimal(hundred).quantize(Decimal(1).scaleb(-digits), rounding=rounding))
    if "." in written:
        written = written.rstrip("0").rstrip(".")
    return f"{written} %"


# --- signal and ledger ------------------------------------------------------------------------------------------------


def signal_section(run: RunContents) -> Markup | None:
    """Released norms beside the noise's, layer by layer; None where nothing was trained by noisy steps."""
    layers = signals_of(run.estimator, run.plan, run.ledger, run.history)
    if not layers or not any(layers[0].noise):
        return None
    words = paragraph(
        f"Each training step releases a slope for every layer: the sum over a sample of {run.one}s, and noise. Here is "
        "the norm of what was released beside that of the noise alone. Where the two meet, a single step is nearly "
        "all noise, and the model learns from the average over many. All of these numbers are public."
    )
    rows = [(layer.name.replace(" ", "\u00a0"), f"{layer.numbers:,}", *_strength(layer)) for layer in layers]
    head = ("layer", "weights", "noise, norm", "released, norm", "signal, estimated")
    return section(
        "signal",
        "Signal and noise, layer by layer",
        words,
        table(head, rows, numeric=(1, 2, 3, 4)),
        group("cards", *(group("card", _layer_chart(layer, run.one)) for layer in layers)),
    )


def _strength(layer: LayerSignal) -> tuple[str, str, str]:
    noise = math.fsum(layer.noise) / len(layer.noise)
    released = math.fsum(layer.released) / len(layer.released)
    signal = short(layer.signal)
    if layer.signal <= layer.uncertain:
        signal = f"below {short(layer.uncertain)}"
    return short(noise), short(released), signal


def _layer_chart(layer: LayerSignal, one: str) -> Markup:
    x = Axis(f"expected passes over the {one}s", 0.0, max(layer.epochs))
    y = Axis("norm", 0.0, spread([0.0, *layer.released, *layer.noise])[1])
    lines = [
        Line("released", list(zip(layer.epochs, layer.released, strict=True)), thin=True),
        Line("noise alone", list(zip(layer.epochs, layer.noise, strict=True)), colour=2),
    ]
    chart = line_chart(f"Released norm of {layer.name}", lines, x, y, card=True)
    return Markup(f"<h3>{text(layer.name)}</h3>{chart}")


def _ledger_row(one: Group) -> tuple[str, ...]:
    """Cells of the ledger's table: when, what, how often, noise, sampling, model, purpose, and whether seeded."""
    noise, sampled, seeded = one.noise, f"{100 * one.sample_rate:.4g} %", ""
    if one.noise_multiplier == 0:
        noise = "none"
    if one.sample_rate == 1:
        sampled = "all"
    if one.seeded:
        seeded = "seeded"
    date = Markup(f'<span class="still">{text(one.date or "not noted")}</span>')
    return date, one.what, f"{one.count:,}", noise, sampled, one.model, one.purpose, seeded


def ledger_section(run: RunContents) -> Markup:
    """Every release, like ones together."""
    groups = groups_of(run.ledger.entries)
    rows = [_ledger_row(one) for one in groups[:SHOWN]]
    head = ["date", "release", "times", "noise multiplier", f"{noun(run.ledger.unit)}s sampled"]
    head += ["model", "purpose", ""]
    kept = [k for k in range(len(head)) if k < 5 or any(row[k] for row in rows)]  # columns that say something
    more = []
    if len(groups) > SHOWN:
        more = [paragraph(f"and {len(groups) - SHOWN:,} more groups: see ledger.jsonl.")]
    words = paragraph(
        f"All {len(run.ledger):,} releases that the figures above are composed from"
        + (f", from the data set “{run.ledger.data_set}”" if getattr(run.ledger, "data_set", "") else "")
        + ". Neighbours that differ in nothing but the moment are counted together."
    )
    short_rows = [[row[k] for k in kept] for row in rows]
    numeric = [place for place, k in enumerate(kept) if k in (2, 3, 4)]
    return section("ledger", "The ledger", words, table([head[k] for k in kept], short_rows, numeric), *more)
