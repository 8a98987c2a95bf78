"""The graph as SVG text that needs no other file, light or dark.

Each box says its type in words, wraps its summary and has its full id as a tooltip; its border is
broken where it no longer holds, or doesn't yet. Every text is made visible and escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from passdown.briefing.pictures.choosing import chosen, settled_status
from passdown.briefing.pictures.layers import BETWEEN_COLUMNS, BOX_WIDTH, planned
from passdown.briefing.pictures.lines import LABEL_SIZE, curve, label_places
from passdown.briefing.pictures.wrapping import BOLD, shortened, wide, wrapped
from passdown.model.graph import NODE_TYPES
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from passdown.briefing.pictures.choosing import Shown
    from passdown.briefing.pictures.layers import Plan, Point
    from passdown.model.graph import Graph, Node

_MARGIN = 28
_LEAST_WIDTH = 560
_LINE = 16
_SUMMARY_LINES = 4
_PORT = 13
_LEGEND_STEP = 22
_SIZE = 13
_KIND_SIZE = 11
_TITLE_SIZE = 18
# What a box has for text, between its coloured edge and its border.
_ROOM = BOX_WIDTH - 26
_HEADING_ROOM = 160
_LEAST_OF_AN_ID = 30
_LABEL_ROOM = BETWEEN_COLUMNS - 16

_COLOURS = {
    "task": ("#0969da", "#58a6ff"),
    "agent": ("#6639ba", "#bc8cff"),
    "decision": ("#b35900", "#f0883e"),
    "pattern": ("#1a7f37", "#3fb950"),
    "gotcha": ("#cf222e", "#ff7b72"),
    "insight": ("#9a6700", "#d29922"),
    "file": ("#57606a", "#8b949e"),
    "component": ("#0550ae", "#79c0ff"),
    "interface": ("#1b7c83", "#39c5cf"),
    "abstraction": ("#8250df", "#d2a8ff"),
    "datastore": ("#116329", "#56d364"),
    "external": ("#6e7781", "#b1bac4"),
    "rule": ("#a40e26", "#ffa198"),
}
_STYLE = """\
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328; }
  .title { font-size: 18px; font-weight: 600; }
  .soft { fill: #59636e; }
  .kind { font-size: 11px; font-weight: 600; }
  .tags, .label { font-size: 10.5px; fill: #59636e; }
  .paper { fill: #ffffff; }
  .box { fill: #f6f8fa; stroke: #d0d7de; }
  .old { stroke-dasharray: 5 3; fill: none; }
  .old ~ text { opacity: 0.6; }
  .line { fill: none; stroke: #818b98; stroke-width: 1.4; }
  .head { fill: #818b98; }"""
_DARK = """\
    text { fill: #e6edf3; }
    .soft, .tags, .label { fill: #9198a1; }
    .paper { fill: #0d1117; }
    .box { fill: #161b22; stroke: #3d444d; }
    .line { stroke: #7d8590; }
    .head { fill: #7d8590; }"""


class _Face(NamedTuple):
    """What a box shows."""

    kind: str
    heading: str
    summary: list[str]
    tags: str
    is_old: bool

    @property
    def height(self) -> float:
        return 26 + _LINE * len(self.summary) + (15 if self.tags else 0) + 8


def svg(graph: Graph, title: str = "", starts: Iterable[str] = ()) -> str:
    """The picture under a title that says what is shown. Of more than 60 nodes it shows the best
    connected, or `starts` and the nearest to them, and counts the rest.
    """
    shown = chosen(graph, starts)
    faces = {name: _face(node) for name, node in shown.nodes.items()}
    pairs = [(wire.source, wire.target) for wire in shown.wires if wire.source != wire.target]
    ends = Counter(pair[side] + "<>"[side] for pair in pairs for side in (0, 1))
    heights = {
        name: max(face.height, _PORT * (1 + max(ends[name + "<"], ends[name + ">"])))
        for name, face in faces.items()
    }
    plan = planned(heights, pairs)
    width = max(plan.width + 2 * _MARGIN, _LEAST_WIDTH)
    head, top = _head(shown, title or "What is known", width)
    height = top + plan.height + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="title what">',
        f'<title id="title">{_safe(title or "What is known")}</title>',
        f'<desc id="what">{_safe(_described(shown))}</desc>',
        f"<style>\n{_styles(shown)}\n</style>",
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto">',
        '<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
        *head,
        f'<g transform="translate({_MARGIN} {top:g})">',
        *_wires(shown, plan),
        *(
            part
            for name, face in faces.items()
            for part in _box(name, face, plan.boxes[name], heights[name])
        ),
        "</g>",
        "</svg>",
    ]
    return "".join(f"{part}\n" for part in parts)


def _described(shown: Shown) -> str:
    count = sum(len(wire.relations) for wire in shown.wires)
    told = f"{len(shown.nodes)} nodes and {count} edges."
    return f"{told} {shown.note}" if shown.note else told


def _styles(shown: Shown) -> str:
    """The rules for the types that are shown, in light and in dark."""
    kinds = sorted({node.type for node in shown.nodes.values()} & _COLOURS.keys())
    light = "".join(f"\n  .{kind} {{ fill: {_COLOURS[kind][0]}; }}" for kind in kinds)
    dark = "".join(f"\n    .{kind} {{ fill: {_COLOURS[kind][1]}; }}" for kind in kinds)
    return f"{_STYLE}{light}\n  @media (prefers-color-scheme: dark) {{\n{_DARK}{dark}\n  }}"


def _face(node: Node) -> _Face:
    given = node.attributes
    status = settled_status(node)
    mark = status or given.get("priority") or given.get("severity", "")
    heading = ", ".join(visible(part) for part in (node.type, mark) if part)
    summary = wrapped(visible(node.summary), _ROOM / _SIZE, _SUMMARY_LINES)
    tags = shortened(" ".join(f"#{visible(tag)}" for tag in node.tags), _ROOM / LABEL_SIZE)
    kind = node.type if node.type in _COLOURS else "soft"
    heading = shortened(heading, _HEADING_ROOM / _KIND_SIZE / BOLD)
    return _Face(kind, heading, summary, tags, bool(status))


def _head(shown: Shown, title: str, width: float) -> tuple[list[str], float]:
    """Title, counts and legend, and where the picture below them begins."""
    room = width - 2 * _MARGIN
    most = room / _TITLE_SIZE / BOLD
    parts = [_text(_MARGIN, 36, shortened(visible(title), most), "title")]
    parts.append(_text(_MARGIN, 58, shortened(_described(shown), room / _SIZE), "soft"))
    tally = Counter(node.type for node in shown.nodes.values())
    x, y = float(_MARGIN), 84.0
    for kind in (kind for kind in NODE_TYPES if tally[kind]):
        words = f"{kind} ({tally[kind]})"
        step = 22 + wide(words) * _SIZE + 14
        if x + step > width - _MARGIN:
            x, y = float(_MARGIN), y + _LEGEND_STEP
        parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y - 11:g}" width="14" height="14" rx="2"/>'
        )
        parts.append(_text(x + 21, y, words))
        x += step
    return parts, y + 34


def _box(name: str, face: _Face, corner: Point, height: float) -> Iterator[str]:
    x, y = corner
    old = " old" if face.is_old else ""
    yield f'<g class="node"><title>{_safe(name)}</title>'
    place = f'x="{x:.1f}" y="{y:.1f}" height="{height:.1f}"'
    yield f'<rect class="box{old}" {place} width="{BOX_WIDTH}" rx="6"/>'
    yield f'<rect class="{face.kind}" {place} width="6" rx="3"/>'
    yield _text(x + 16, y + 19, face.heading, f"kind {face.kind}")
    room = _ROOM - 10 - wide(face.heading) * _KIND_SIZE * BOLD
    if room >= _LEAST_OF_AN_ID:
        short = shortened(visible(name), room / LABEL_SIZE)
        yield _text(x + BOX_WIDTH - 10, y + 19, short, "tags", "end")
    base = y + 37
    for line in face.summary:
        yield _text(x + 16, base, line)
        base += _LINE
    if face.tags:
        yield _text(x + 16, base - 1, face.tags, "tags")
    yield "</g>"


def _wires(shown: Shown, plan: Plan) -> Iterator[str]:
    """Lines first, labels on top of them, so that no line strikes a word out."""
    words = {(w.source, w.target): _relations(w.relations) for w in shown.wires}
    for pair, told in words.items():
        if pair in plan.lines:
            yield f'<path class="line" marker-end="url(#arrow)" d="{curve(plan.lines[pair])}"/>'
        else:
            x, y = plan.boxes[pair[0]]
            right = x + BOX_WIDTH
            loop = f"M{right - 40:g} {y:g} C{right - 44:g} {y - 22:g} {right - 8:g} {y - 22:g}"
            way = f"{loop} {right - 14:g} {y:g}"
            yield f'<path class="line" marker-end="url(#arrow)" d="{way}"/>'
            yield _text(right - 46, y - 6, told, "label", "end")
    placed = label_places({pair: (plan.lines[pair], words[pair]) for pair in plan.lines})
    for pair, place in placed.items():
        yield (
            f'<rect class="paper" x="{place.x - place.wide / 2:.1f}" y="{place.y - 7:.1f}" '
            f'width="{place.wide:.1f}" height="14" rx="3" opacity="0.85"/>'
        )
        yield _text(place.x, place.y + 3.5, words[pair], "label", "middle")


def _relations(relations: Sequence[str]) -> str:
    """One relation in full; of several the first and how many there are."""
    more = f" +{len(relations) - 1}" if len(relations) > 1 else ""
    return shortened(visible(relations[0]), _LABEL_ROOM / LABEL_SIZE - wide(more)) + more


# The two characters that XML forbids though they are neither controls nor halves of a pair.
_NOT_XML = re.compile("[\ufffe\uffff]")


def _safe(text: str) -> str:
    return escape(_NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(text)))


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}{place}>{_safe(words)}</text>'
