"""The growth of contexts as a picture: SVG text that needs no other file, light or dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.workspace.measuring import Growth, Step

WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 28, 118, 76
_MOST_BARS = 14
_MOST_NAMES = 12
_MOST_FIGURES = 8
_MOST_NUMBERS = 16
_TICKS = 8
_NAME = 14
_LETTER = 7.5
"""How wide a letter is at most, on average."""

_STYLE = """\
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328; }
  .title { font-size: 18px; font-weight: 600; }
  .soft { fill: #59636e; }
  .figure { font-size: 11px; fill: #59636e; }
  .grid { stroke: #d8dee4; }
  .paper { fill: #ffffff; }
  .without { fill: #b35900; }
  .with { fill: #0969da; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  .line.without { stroke: #b35900; stroke-dasharray: 7 4; }
  .line.with { stroke: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .soft, .figure { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .paper { fill: #0d1117; }
    .without { fill: #f0883e; }
    .with { fill: #58a6ff; }
    .line { fill: none; }
    .line.without { stroke: #f0883e; }
    .line.with { stroke: #58a6ff; }
  }"""


def growth_picture(growth: Growth) -> str:
    """The picture of a measurement: bars for a few switches, lines for many."""
    steps = growth.steps
    most = max(max(step.without, step.context) for step in steps)
    between = _step(most)
    # The axis ends at the first line that no bar passes.
    top = max(-(-most // between), 1) * between
    drawn = _bars(steps, top) if len(steps) <= _MOST_BARS else _lines(steps, top)
    title = "Tokens in an agent's context, switch by switch"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title what">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="what">{escape(_headline(growth))}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        _text(_LEFT, 34, title, "title"),
        _text(_LEFT, 58, _headline(growth), "soft"),
        *_legend(),
        *_grid(top, between),
        *drawn,
        *_names(steps),
        _text(_LEFT, HEIGHT - 16, f"switch (tokens by {growth.counter})", "soft"),
        "</svg>",
    ]
    return "".join(f"{part}\n" for part in parts)


def _headline(growth: Growth) -> str:
    last = growth.last
    count = f"{len(growth.steps)} switch" + ("es" if len(growth.steps) != 1 else "")
    change = f"{last.saved:.0f} % less" if last.saved >= 0 else f"{-last.saved:.0f} % more"
    return f"After {count}: {last.context:,} tokens instead of {last.without:,}, {change}"


def _legend() -> Iterator[str]:
    named = {
        "without": "without: every profile so far",
        "with": "with Passdown: one profile, short summaries, a brief",
    }
    x = _LEFT
    for kind, words in named.items():
        yield f'<rect class="{kind}" x="{x}" y="76" width="14" height="14" rx="2"/>'
        yield _text(x + 22, 88, words)
        x += 250


def _step(most: int) -> int:
    """The distance of two lines: a round number, so that at most eight of them are enough."""
    unit = 1
    while True:
        for factor in (1, 2, 5):
            if most <= unit * factor * _TICKS:
                return unit * factor
        unit *= 10


def _grid(top: int, step: int) -> Iterator[str]:
    for value in range(0, top + 1, step):
        y = _y(value, top)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}"/>'
        yield _text(_LEFT - 10, y + 4, f"{value:,}", "soft", "end")
    yield _text(_LEFT - 10, _TOP - 12, "tokens", "soft", "end")


def _y(value: int, top: int) -> float:
    return round(HEIGHT - _BOTTOM - value / top * (HEIGHT - _BOTTOM - _TOP), 1)


def _x(index: int, count: int) -> float:
    """The middle of a switch's place."""
    return round(_LEFT + (index + 0.5) * (WIDTH - _LEFT - _RIGHT) / count, 1)


def _bars(steps: Sequence[Step], top: int) -> Iterator[str]:
    wide = min((WIDTH - _LEFT - _RIGHT) / len(steps) * 0.36, 56)
    for index, step in enumerate(steps):
        middle = _x(index, len(steps))
        for kind, x, value in (
            ("without", middle - wide, step.without),
            ("with", middle, step.context),
        ):
            y = _y(value, top)
            high = round(HEIGHT - _BOTTOM - y, 1)
            yield (
                f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{wide - 2:.1f}" '
                f'height="{high}"><title>{escape(step.agent)}, {kind}: {value:,}</title></rect>'
            )
            if len(steps) <= _MOST_FIGURES:
                yield _text(x + wide / 2 - 1, y - 5, f"{value:,}", "figure", "middle")


def _lines(steps: Sequence[Step], top: int) -> Iterator[str]:
    for kind, values in (
        ("without", [step.without for step in steps]),
        ("with", [step.context for step in steps]),
    ):
        places = " ".join(
            f"{_x(index, len(steps))},{_y(value, top)}" for index, value in enumerate(values)
        )
        yield f'<polyline class="line {kind}" points="{places}"/>'
        x, y = _x(len(values) - 1, len(values)), _y(values[-1], top)
        yield _text(x, y - 8, f"{values[-1]:,}", "figure", "end")


def _names(steps: Sequence[Step]) -> Iterator[str]:
    """The number of a switch, and whose it is where there is room."""
    y = HEIGHT - _BOTTOM + 20
    every = -(-len(steps) // _MOST_NUMBERS)
    for index, step in enumerate(steps):
        if index % every == 0:
            x = _x(index, len(steps))
            yield _text(x, y, str(step.number), "soft", "middle")
            if len(steps) <= _MOST_NAMES:
                yield _text(x, y + 17, _name(step.agent, len(steps)), "", "middle")


def _name(agent: str, count: int) -> str:
    """An agent's name, as long as its place is wide."""
    room = min(int((WIDTH - _LEFT - _RIGHT) / count / _LETTER), _NAME)
    return visible(agent if len(agent) <= room else agent[: room - 1] + "…")


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:g}" y="{y:g}"{style}{place}>{escape(words)}</text>'
