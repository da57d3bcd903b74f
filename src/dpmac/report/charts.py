"""Line charts as SVG text: drawn here, coloured by the page's style, so that they follow light, dark and paper.

A chart is 380 units wide, about what a phone has, and one in a card 290, so that letters stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 380, 250
CARD, CARD_HEIGHT = 290, 170
COLOURS = 6  # the style has --c1 .. --c6
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """What is on an axis, and from where to where; ``percent`` writes parts as percents, ``log`` spaces by powers.

    ``written`` says how values are written, where they are neither numbers nor parts.
    """

    label: str
    low: float
    high: float
    percent: bool = False
    log: bool = False
    written: Callable[[float], str] | None = None

    def place(self, value: float) -> float:
        """Where ``value`` is, from 0 to 1; what lies outside is put on the edge."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(at, low))
        if not high > low:
            return 0.5
        return min(1.0, max(0.0, (at - low) / (high - low)))

    def ticks(self, wanted: int = 5) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**k for k in range(first, last + 1)]
        return round_numbers(self.low, self.high, wanted)

    def write(self, value: float) -> str:
        if self.percent:
            return percent(value)
        if self.written is None:
            return short(value)
        return self.written(value)


@dataclass(frozen=True)
class Line:
    """Points that are joined; ``dots`` marks them, ``area`` fills what is below, ``band`` so far above and below."""

    label: str
    points: Sequence[Point]
    colour: int = 1
    dashed: bool = False
    thin: bool = False
    dots: bool = False
    area: bool = False
    band: Sequence[float] = ()

    @property
    def style(self) -> str:
        if self.colour:
            return f"c{(self.colour - 1) % COLOURS + 1}"
        return "c0"


def line_chart(
    title: str, lines: Sequence[Line], x: Axis, y: Axis, *, card: bool = False, legend: bool | None = None
) -> str:
    """A figure of ``lines`` with a legend below it (None: where there are two at least). ``title`` is read aloud."""
    if card:
        width, height = CARD, CARD_HEIGHT
    else:
        width, height = WIDTH, HEIGHT
    left = 14 + 6.6 * max(len(y.write(t)) for t in y.ticks())
    top, right, bottom = 12.0 + 14 * bool(y.label), 14.0, 24.0 + 16 * bool(x.label)
    across, down = width - left - right, height - top - bottom

    def at(point: Point) -> tuple[str, str]:
        return f"{left + across * x.place(point[0]):.1f}", f"{top + down * (1 - y.place(point[1])):.1f}"

    parts = [*_rules(x, y, left, top, across, down)]
    for line in lines:
        parts += _drawn(line, at, x, y, top + down)
    if y.label:
        parts.append(f'<text class="axis" x="4" y="12">{escape(y.label)}</text>')
    middle = left + across / 2
    parts.append(f'<text class="axis" x="{middle:.1f}" y="{height - 5}" text-anchor="middle">{escape(x.label)}</text>')
    svg = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    if legend is None:
        legend = len(lines) > 1
    if not legend:
        return svg
    return svg + keys([(line.label, line.style) for line in lines])


def keys(entries: Sequence[tuple[str, str]]) -> str:
    """A legend: labels with their colours."""
    items = (f'<li><i class="key {style}"></i>{escape(label)}</li>' for label, style in entries)
    return f'<ul class="legend">{"".join(items)}</ul>'


def dots(rows: Sequence[tuple[str, Sequence[float]]], axis: Axis, colours: Sequence[int] = (1,)) -> str:
    """A labelled track for each row, with a dot for each of its values; the value beside it where there is one.

    Built of boxes, not of SVG, so that long labels wrap.
    """
    made = []
    for label, values in rows:
        marks = "".join(
            f'<i class="dot c{(colour - 1) % COLOURS + 1}" style="left:{100 * axis.place(value):.1f}%" '
            f'title="{escape(axis.write(value))}"></i>'
            for value, colour in zip(values, colours, strict=True)
        )
        text = ""
        if len(values) == 1:
            text = axis.write(values[0])
        made.append(
            f'<div class="row"><span class="name">{escape(label)}</span><span class="track">{marks}</span>'
            f'<span class="value">{escape(text)}</span></div>'
        )
    return f'<div class="dots{" several" if len(colours) > 1 else ""}">{"".join(made)}</div>'


def _rules(x: Axis, y: Axis, left: float, top: float, across: float, down: float) -> list[str]:
    parts = []
    for tick in y.ticks():
        v = top + down * (1 - y.place(tick))
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{left + across:.1f}" y1="{v:.1f}" y2="{v:.1f}"/>')
        parts.append(f'<text x="{left - 6:.1f}" y="{v + 4:.1f}" text-anchor="end">{escape(y.write(tick))}</text>')
    for tick in _sparse(x, across):
        h = left + across * x.place(tick)
        parts.append(f'<line class="grid" x1="{h:.1f}" x2="{h:.1f}" y1="{top:.1f}" y2="{top + down + 4:.1f}"/>')
        if x.place(tick) > 0.97:
            anchor, where = "end", h + 8
        else:
            anchor, where = "middle", h
        parts.append(
            f'<text x="{where:.1f}" y="{top + down + 17:.1f}" text-anchor="{anchor}">{escape(x.write(tick))}</text>'
        )
    return parts


def _sparse(x: Axis, across: float) -> list[float]:
    """Ticks few enough that their labels do not overlap."""
    ticks = x.ticks()
    needed = len(ticks) * (2 + max((len(x.write(t)) for t in ticks), default=1)) * 6.6
    if needed <= across:
        return ticks
    return ticks[:: math.ceil(needed / across)]


def _drawn(line: Line, at: Callable[[Point], tuple[str, str]], x: Axis, y: Axis, floor: float) -> list[str]:
    points = [point for point in line.points if all(map(math.isfinite, point))]
    places = [at(point) for point in points]
    if not places:
        return []
    path = "M" + "L".join(f"{h} {v}" for h, v in places)
    parts = []
    if line.band:
        upper = [at((h, v + half)) for (h, v), half in zip(line.points, line.band, strict=True)]
        lower = [at((h, v - half)) for (h, v), half in zip(line.points, line.band, strict=True)]
        shape = "M" + "L".join(f"{h} {v}" for h, v in (*upper, *reversed(lower))) + "Z"
        parts.append(f'<path class="area {line.style}" d="{shape}"/>')
    if line.area:
        shape = f"{path}L{places[-1][0]} {floor:.1f}L{places[0][0]} {floor:.1f}Z"
        parts.append(f'<path class="area {line.style}" d="{shape}"/>')
    if len(places) > 1:
        kind = ""
        if line.dashed:
            kind = " dashed"
        elif line.thin:
            kind = " thin"
        parts.append(f'<path class="line {line.style}{kind}" d="{path}"/>')
    if line.dots or len(places) == 1:
        parts += [
            f'<circle class="mark {line.style}" cx="{h}" cy="{v}" r="3">'
            f"<title>{escape(f'{line.label}: {y.write(point[1])} at {x.write(point[0])}')}</title></circle>"
            for (h, v), point in zip(places, points, strict=True)
        ]
    return parts


# --- numbers ----------------------------------------------------------------------------------------------------------


def round_numbers(low: float, high: float, wanted: int = 5) -> list[float]:
    """About ``wanted`` round numbers from ``low`` to ``high``."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, wanted - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    found = [k * step for k in range(first, last + 1)]
    return found or [low]  # none lies between: the lower end, as it is


def spread(values: Sequence[float], at_least: float = 0.0) -> tuple[float, float]:
    """Round ends around ``values``, ``at_least`` so far apart."""
    low, high = min(values), max(values)
    if high - low < at_least:
        low, high = (low + high - at_least) / 2, (low + high + at_least) / 2
    size = max(abs(low), abs(high))
    if not high - low > 1e-9 * size or size < 1e-200:
        around = 0.5
        if size >= 1e-200:
            around *= size
        low, high = low - around, high + around
    ticks = round_numbers(low, high, 4)
    if len(ticks) > 1:
        step = ticks[1] - ticks[0]
    else:
        step = high - low
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def short(value: float) -> str:
    """A number in few letters: three digits, thousands with a comma."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or abs(value) < 1e-300:
        return "0"
    size = abs(value)
    if size >= 1e7 or size < 1e-4:
        return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    """A part as a percent: never 100 % or 0 % of what is only near."""
    hundred = 100 * value
    if 0 < hundred < 0.01:
        return f"{hundred:.0e} %".replace("e-0", "e-")
    if 99.95 <= hundred < 100:
        return "over 99.9 %"
    if hundred < 99.5 or hundred >= 100:
        return f"{hundred:.3g} %"
    return f"{hundred:.1f} %"
