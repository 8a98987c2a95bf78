"""The cost of a handoff by version as a picture: both axes logarithmic, written as SVG by hand."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.handoff import LEDGER, WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WIDTH, HEIGHT = 860, 500
LEFT, RIGHT, TOP, BOTTOM = 90, 210, 80, 70
LABEL_GAP = 18


class Line(NamedTuple):
    """One design's points, (version, milliseconds)."""

    label: str
    colour: str
    points: list[tuple[float, float]]


class Axis(NamedTuple):
    """A logarithmic axis between two powers of ten."""

    low: int
    high: int
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]

    def minor(self) -> list[float]:
        return [n * 10.0**p for p in range(self.low, self.high) for n in range(2, 10)]


def _axis(values: Sequence[float], start: float, end: float) -> Axis:
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return Axis(low, max(high, low + 1), start, end)


def lines_of(points: list[dict[str, Any]]) -> list[Line]:
    """The lines to draw from the figures of a run."""
    named = (
        ("shared file", "#b3402e", "shared_file"),
        ("Passdown, with state file", "#2f6db3", WHOLE),
        ("Passdown, ledger commit", "#1d8a5f", LEDGER),
    )
    return [
        Line(label, colour, [(p["version"], p[key]["median_ms"]) for p in points])
        for label, colour, key in named
    ]


def draw(points: list[dict[str, Any]]) -> str:
    """The picture as the text of an SVG file."""
    lines = lines_of(points)
    x = _axis([p[0] for line in lines for p in line.points], LEFT, WIDTH - RIGHT)
    y = _axis([p[1] for line in lines for p in line.points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<title>Time of one handoff by version of its task</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 32, "Time of one handoff by version of its task", size=18, weight="bold"),
        _text(LEFT, 54, _headline(lines), colour="#555555"),
        *_grid(x, y),
        *(_line(line, x, y) for line in lines),
        *_labels(lines, y),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _headline(lines: list[Line]) -> str:
    version, theirs = lines[0].points[-1]
    ratio = theirs / lines[-1].points[-1][1]
    return f"At version {version:,.0f} the ledger commit is {ratio:,.0f} times faster (medians)"


def _grid(x: Axis, y: Axis) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    fine = [y.place(value) for value in y.minor()]
    parts = [_rule(LEFT, place, right, place, "#f1f1f1") for place in fine]
    for value in y.ticks():
        parts.append(_rule(LEFT, y.place(value), right, y.place(value), "#cccccc"))
        parts.append(_text(LEFT - 10, y.place(value) + 4, f"{value:,g} ms", anchor="end"))
    for value in x.ticks():
        parts.append(_rule(x.place(value), TOP, x.place(value), bottom, "#dddddd"))
        parts.append(_text(x.place(value), bottom + 22, f"{value:,.0f}", anchor="middle"))
    parts.append(_rule(LEFT, bottom, right, bottom, "#555555"))
    middle = (LEFT + right) / 2
    parts.append(_text(middle, HEIGHT - 18, "version (handoffs so far)", anchor="middle"))
    return parts


def _line(line: Line, x: Axis, y: Axis) -> str:
    places = [(x.place(version), y.place(value)) for version, value in line.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dots = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{line.colour}">'
        f"<title>{escape(line.label)}, version {version:,.0f}: {value:.2f} ms</title></circle>"
        for (a, b), (version, value) in zip(places, line.points, strict=True)
    )
    style = f'fill="none" stroke="{line.colour}" stroke-width="2.5" stroke-linejoin="round"'
    return f'<polyline points="{path}" {style}/>{dots}'


def _labels(lines: list[Line], y: Axis) -> list[str]:
    """A name and a figure at the end of each line, moved apart where they would touch."""
    right = WIDTH - RIGHT + 12
    wanted = sorted(lines, key=lambda line: y.place(line.points[-1][1]))
    parts: list[str] = []
    last = -math.inf
    for line in wanted:
        place = max(y.place(line.points[-1][1]), last + 2 * LABEL_GAP)
        last = place
        parts.append(_text(right, place, line.label, colour=line.colour, weight="bold"))
        figure = f"{line.points[-1][1]:,.2f} ms"
        parts.append(_text(right, place + LABEL_GAP - 2, figure, colour=line.colour))
    return parts


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = "#222222",
    size: int = 13,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}" font-weight="{weight}">{escape(text)}</text>'
    )


def save(folder: Path, points: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "handoff.svg"
    target.write_text(draw(points), "utf-8")
    return target
