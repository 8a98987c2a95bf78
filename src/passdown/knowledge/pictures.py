"""The knowledge graph as Mermaid and as SVG.

Both show at most 60 nodes and 400 edges, and say how many are left out. Every stored text is made
visible and escaped.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from html import escape
from typing import NamedTuple
from unicodedata import east_asian_width

from passdown.core.graph import NODE_TYPES, Edge, Graph, Node, relation_label, summary_line
from passdown.core.text import counted, visible

MAX_NODES = 60
MAX_EDGES = 400

_INACTIVE = frozenset(
    {"superseded", "reverted", "retracted", "replaced", "withdrawn", "cancelled"}
    | {"deprecated", "legacy", "future"}
)
_ITEM_TYPES = {"d": "decision", "p": "pattern", "g": "gotcha", "a": "file"}
# The colour of each node type, on a light and on a dark background.
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

# Selection


class PictureEdge(NamedTuple):
    """All edges from one node to another, drawn as one line."""

    source: str
    target: str
    relations: tuple[str, ...]


class PictureGraph(NamedTuple):
    """The nodes of a picture by id, the lines between them, and how much is left out."""

    nodes: dict[str, Node]
    edges: tuple[PictureEdge, ...]
    nodes_left_out: int
    edges_left_out: int
    is_around: bool = False

    @property
    def note(self) -> str:
        """A sentence about what is left out; empty when nothing is."""
        left = {"node": self.nodes_left_out, "edge": self.edges_left_out}
        listed = " and ".join(counted(number, word) for word, number in left.items() if number)
        kept = "nearest" if self.is_around else "best connected"
        return f"Left out: {listed}; shown are the {kept}." if listed else ""


def inactive_status(node: Node) -> str:
    """The status of a node that isn't in force; empty for one that is."""
    status = node.attributes.get("status", "")
    return status if status in _INACTIVE else ""


def select_for_picture(graph: Graph, starts: Iterable[str] = ()) -> PictureGraph:
    """Select the best connected nodes and the edges among them; with `starts`, the nearest to
    these.

    An end of an edge that is not listed as a node (an item, a task, an agent, a file) is shown
    under its id.
    """
    nodes = {node.id: node for node in graph.nodes}
    for name in sorted({name for edge in graph.edges for name in (edge.source, edge.target)}):
        if name not in nodes:
            nodes[name] = Node(name, _type_of(name), summary_line(name))
    known = [name for name in starts if name in nodes]
    kept = _nearest(nodes, graph.edges, known)
    inside = [edge for edge in graph.edges if edge.source in kept and edge.target in kept]
    drawn = inside[:MAX_EDGES]
    labels: dict[tuple[str, str], list[str]] = {}
    for edge in drawn:
        labels.setdefault((edge.source, edge.target), []).append(relation_label(edge))
    return PictureGraph(
        {name: nodes[name] for name in sorted(kept)},
        tuple(PictureEdge(*ends, tuple(labels[ends])) for ends in sorted(labels)),
        len(nodes) - len(kept),
        len(graph.edges) - len(drawn),
        bool(known),
    )


def _nearest(nodes: Iterable[str], edges: Iterable[Edge], starts: Sequence[str]) -> set[str]:
    """Grow a connected selection from the node with the most edges, best connected first; start
    again from the next best where nothing leads on.

    With `starts` it grows from these, and fewer steps count before more edges.
    """
    around: dict[str, set[str]] = {name: set() for name in nodes}
    degree: Counter[str] = Counter()
    for edge in edges:
        around[edge.source].add(edge.target)
        around[edge.target].add(edge.source)
        degree.update({edge.source, edge.target})
    order = sorted(around, key=lambda name: (-degree[name], name))
    if len(order) <= MAX_NODES:
        return set(order)
    place = {name: index for index, name in enumerate(order)}
    kept: set[str] = set()
    reachable = sorted((0, place[name]) for name in set(starts))
    seeds = iter(range(len(order)))
    while len(kept) < MAX_NODES:
        steps, index = heappop(reachable) if reachable else (0, next(seeds))
        name = order[index]
        if name not in kept:
            kept.add(name)
            for other in around[name] - kept:
                heappush(reachable, (steps + 1 if starts else 0, place[other]))
    return kept


def _type_of(name: str) -> str:
    """The node type of an id that has no node."""
    kind, colon, _ = name.partition(":")
    if colon and kind in ("task", "agent", "file"):
        return kind
    return _ITEM_TYPES.get(name.rpartition("#")[2][:1] if "#" in name else "", "insight")


# Mermaid

_SHAPES = {
    "task": ("[[", "]]"),
    "agent": ("([", "])"),
    "decision": ("{{", "}}"),
    "pattern": ("[/", "/]"),
    "gotcha": (">", "]"),
    "insight": ("(", ")"),
    "interface": ("([", "])"),
    "datastore": ("[(", ")]"),
    "external": ("[\\", "\\]"),
    "rule": ("[/", "\\]"),
}
_BOX = ("[", "]")
# A full stop between a letter and a blank is left as it is: it ends sentences and, unlike one after
# a digit or within a word, begins neither a list nor the name of a site. The last three characters
# are those with which Mermaid marks codes internally.
_CODED = re.compile(
    r"(?![ ,])[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\xb0\xb6\ufb02](?<!(?<=[A-Za-z])\.(?= |$))"
)


def mermaid(graph: Graph, starts: Iterable[str] = ()) -> str:
    """Render a Mermaid flowchart; a node of its own says what is left out."""
    shown = select_for_picture(graph, starts)
    numbers = {name: f"n{index}" for index, name in enumerate(shown.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {numbers[name]}{_mermaid_label(node)}" for name, node in shown.nodes.items()]
    for edge in shown.edges:
        label = _coded(", ".join(edge.relations))
        lines.append(f'  {numbers[edge.source]} -->|"{label}"| {numbers[edge.target]}')
    if shown.note:
        lines.append(f'  left_out["{_coded(shown.note)}"]')
    for kind, (stroke, _) in _COLOURS.items():
        members = [numbers[name] for name, node in shown.nodes.items() if node.type == kind]
        if members:
            lines.append(f"  classDef {kind}Node stroke:{stroke},stroke-width:2px")
            lines.append(f"  class {','.join(members)} {kind}Node")
    return "".join(f"{line}\n" for line in lines)


def _mermaid_label(node: Node) -> str:
    opening, closing = _SHAPES.get(node.type, _BOX)
    status = inactive_status(node)
    # Ids of tasks, agents and files begin with their type, and some end with their summary.
    name = node.id if node.id.startswith(f"{node.type}:") else f"{node.type} {node.id}"
    head = _coded(f"{name} ({status})" if status else name)
    tail = "" if node.id.endswith(node.summary) else f": {_coded(node.summary)}"
    return f'{opening}"{head}{tail}"{closing}'


def _coded(text: str) -> str:
    return _CODED.sub(lambda found: f"#{ord(found[0])};", visible(text))


# SVG: boxes in columns, lines from the right side of the source to the left side of the target

BOX_WIDTH = 240
_COLUMN_GAP = 160
_BOX_GAP = 26
_MAX_COLUMNS = 6
_MARGIN = 28
_MIN_WIDTH = 560
_LINE_HEIGHT = 16
_SUMMARY_LINES = 4
_PORT = 13
_TEXT_SIZE, _KIND_SIZE, _TITLE_SIZE, _LABEL_SIZE = 13, 11, 18, 10.5
_TEXT_ROOM = BOX_WIDTH - 26
_HEADING_ROOM = 160
_MIN_ID_ROOM = 30
_BEND = 80

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
_DARK_STYLE = """\
    text { fill: #e6edf3; }
    .soft, .tags, .label { fill: #9198a1; }
    .paper { fill: #0d1117; }
    .box { fill: #161b22; stroke: #3d444d; }
    .line { stroke: #7d8590; }
    .head { fill: #7d8590; }"""

Pair = tuple[str, str]
Point = tuple[float, float]


def svg(graph: Graph, title: str = "", starts: Iterable[str] = ()) -> str:
    """Render an SVG picture under a title; it needs no other file and has a dark mode."""
    shown = select_for_picture(graph, starts)
    title = title or "What is known"
    texts = {
        name: wrapped(visible(node.summary), _TEXT_ROOM / _TEXT_SIZE, _SUMMARY_LINES)
        for name, node in shown.nodes.items()
    }
    pairs = [(edge.source, edge.target) for edge in shown.edges if edge.source != edge.target]
    outgoing, incoming = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    heights = {
        name: max(
            26 + _LINE_HEIGHT * len(texts[name]) + (15 if node.tags else 0) + 8,
            _PORT * (1 + max(outgoing[name], incoming[name])),
        )
        for name, node in shown.nodes.items()
    }
    boxes = _place_boxes(heights, pairs)
    right = max(
        (x + BOX_WIDTH + _COLUMN_GAP * bool(outgoing[n]) for n, (x, _) in boxes.items()), default=0
    )
    width = max(right + 2 * _MARGIN, _MIN_WIDTH)
    head, top = _head(shown, title, width)
    bottom = max((y + heights[name] for name, (_, y) in boxes.items()), default=0)
    height = top + bottom + _MARGIN
    lines, labels = _draw_edges(shown.edges, boxes, heights)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="title what">',
        f'<title id="title">{_escaped(title)}</title>',
        f'<desc id="what">{_escaped(_description(shown))}</desc>',
        f"<style>\n{_styles(shown)}\n</style>",
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto">',
        '<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
        *head,
        f'<g transform="translate({_MARGIN} {top:g})">',
        *lines,
        *(
            part
            for name, node in shown.nodes.items()
            for part in _box(node, texts[name], boxes[name], heights[name])
        ),
        *labels,
        "</g>",
        "</svg>",
    ]
    return "".join(f"{part}\n" for part in parts)


def _place_boxes(heights: Mapping[str, float], pairs: Sequence[Pair]) -> dict[str, Point]:
    """The upper left corner of each box: columns by distance from the nodes that nothing leads to,
    in bands of a few columns one below the other; unconnected boxes in rows at the end.
    """
    linked = {name for pair in pairs for name in pair}
    columns = _columns(sorted(linked), pairs, max(4, math.ceil(math.sqrt(len(heights)) * 1.3)))
    bands = [columns[at : at + _MAX_COLUMNS] for at in range(0, len(columns), _MAX_COLUMNS)]
    alone = [[name] for name in heights if name not in linked]
    across = max(min(4, len(alone)), min(len(columns), _MAX_COLUMNS), 1)
    bands += [alone[at : at + across] for at in range(0, len(alone), across)]
    boxes: dict[str, Point] = {}
    top = 0.0
    for band in bands:
        tall = [sum(heights[n] + _BOX_GAP for n in column) - _BOX_GAP for column in band]
        for index, column in enumerate(band):
            y = top + (max(tall) - tall[index]) / 2
            for name in column:
                boxes[name] = (index * (BOX_WIDTH + _COLUMN_GAP), y)
                y += heights[name] + _BOX_GAP
        top += max(tall) + _BOX_GAP
    return boxes


def _columns(names: Sequence[str], pairs: Sequence[Pair], limit: int) -> list[list[str]]:
    """Names by breadth-first depth, at most `limit` to a column, each near what leads to it."""
    following: dict[str, list[str]] = defaultdict(list)
    for source, target in pairs:
        following[source].append(target)
    entered = {target for _, target in pairs}
    waves: list[list[str]] = []
    seen: set[str] = set()
    roots = [name for name in names if name not in entered]
    for start in (roots, *([name] for name in names)):
        wave = [name for name in start if name not in seen]
        depth = 0
        while wave:
            seen.update(wave)
            waves += [[]] if depth == len(waves) else []
            waves[depth] += wave
            ahead = (target for name in wave for target in following[name])
            wave = list(dict.fromkeys(name for name in ahead if name not in seen))
            depth += 1
    return [wave[at : at + limit] for wave in waves for at in range(0, len(wave), limit)]


def _draw_edges(
    edges: Sequence[PictureEdge], boxes: Mapping[str, Point], heights: Mapping[str, float]
) -> tuple[list[str], list[str]]:
    """Lines with an arrow, and their labels in the gap to the right of the source."""
    lines: list[str] = []
    labels: list[str] = []
    sides: dict[tuple[str, int], list[PictureEdge]] = defaultdict(list)
    for edge in edges:
        if edge.source == edge.target:
            x, y = boxes[edge.source][0] + BOX_WIDTH, boxes[edge.source][1]
            loop = f"M{x - 40:g} {y:g} C{x - 44:g} {y - 22:g} {x - 8:g} {y - 22:g} {x - 14:g} {y:g}"
            lines.append(f'<path class="line" marker-end="url(#arrow)" d="{loop}"/>')
            labels.append(_text(x - 46, y - 6, _relations(edge.relations), "label", "end"))
        else:
            sides[edge.source, 0].append(edge)
            sides[edge.target, 1].append(edge)
    ports: dict[tuple[PictureEdge, int], float] = {}
    for (name, side), group in sides.items():
        group.sort(key=lambda edge: boxes[edge.target if side == 0 else edge.source][1])
        step = heights[name] / (len(group) + 1)
        for index, edge in enumerate(group, 1):
            ports[edge, side] = boxes[name][1] + step * index
    for edge in (edge for edge in edges if edge.source != edge.target):
        x, y = boxes[edge.source][0] + BOX_WIDTH, ports[edge, 0]
        to_x, to_y = boxes[edge.target][0], ports[edge, 1]
        bends = f"{x + _BEND:.1f} {y:.1f} {to_x - _BEND:.1f} {to_y:.1f}"
        path = f"M{x:.1f} {y:.1f} C{bends} {to_x:.1f} {to_y:.1f}"
        lines.append(f'<path class="line" marker-end="url(#arrow)" d="{path}"/>')
        label = _relations(edge.relations)
        room = em_width(label) * _LABEL_SIZE + 6
        labels.append(
            f'<rect class="paper" x="{x + 4:.1f}" y="{y - 6:.1f}" width="{room:.1f}" height="12" '
            'rx="3" opacity="0.85"/>'
        )
        labels.append(_text(x + 7, y + 3.5, label, "label"))
    return lines, labels


def _relations(relations: Sequence[str]) -> str:
    """One relation in full; of several the first and how many more there are."""
    more = f" +{len(relations) - 1}" if len(relations) > 1 else ""
    room = (_COLUMN_GAP - 16) / _LABEL_SIZE
    return shortened(visible(relations[0]), room - em_width(more)) + more


def _box(node: Node, summary: list[str], corner: Point, height: float) -> Iterator[str]:
    """A box with type, id, summary and tags; the full id is its tooltip."""
    x, y = corner
    status = inactive_status(node)
    kind = node.type if node.type in _COLOURS else "soft"
    mark = status or node.attributes.get("priority") or node.attributes.get("severity", "")
    heading = ", ".join(visible(part) for part in (node.type, mark) if part)
    heading = shortened(heading, _HEADING_ROOM / _KIND_SIZE / _BOLD)
    yield f'<g class="node"><title>{_escaped(node.id)}</title>'
    place = f'x="{x:.1f}" y="{y:.1f}" height="{height:.1f}"'
    yield f'<rect class="box{" old" if status else ""}" {place} width="{BOX_WIDTH}" rx="6"/>'
    yield f'<rect class="{kind}" {place} width="6" rx="3"/>'
    yield _text(x + 16, y + 19, heading, f"kind {kind}")
    room = _TEXT_ROOM - 10 - em_width(heading) * _KIND_SIZE * _BOLD
    if room >= _MIN_ID_ROOM:
        short = shortened(visible(node.id), room / _LABEL_SIZE)
        yield _text(x + BOX_WIDTH - 10, y + 19, short, "tags", "end")
    base = y + 37
    for line in summary:
        yield _text(x + 16, base, line)
        base += _LINE_HEIGHT
    if node.tags:
        tags = " ".join(f"#{visible(tag)}" for tag in node.tags)
        yield _text(x + 16, base - 1, shortened(tags, _TEXT_ROOM / _LABEL_SIZE), "tags")
    yield "</g>"


def _head(shown: PictureGraph, title: str, width: float) -> tuple[list[str], float]:
    """Title, counts and legend, and the height at which the picture below them begins."""
    room = width - 2 * _MARGIN
    short = shortened(visible(title), room / _TITLE_SIZE / _BOLD)
    parts = [
        _text(_MARGIN, 36, short, "title"),
        _text(_MARGIN, 58, shortened(_description(shown), room / _TEXT_SIZE), "soft"),
    ]
    tally = Counter(node.type for node in shown.nodes.values())
    x, y = float(_MARGIN), 84.0
    for kind in (kind for kind in NODE_TYPES if tally[kind]):
        words = f"{kind} ({tally[kind]})"
        step = 22 + em_width(words) * _TEXT_SIZE + 14
        if x + step > width - _MARGIN:
            x, y = float(_MARGIN), y + 22
        parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y - 11:g}" width="14" height="14" rx="2"/>'
        )
        parts.append(_text(x + 21, y, words))
        x += step
    return parts, y + 34


def _description(shown: PictureGraph) -> str:
    count = sum(len(edge.relations) for edge in shown.edges)
    counts = f"{len(shown.nodes)} nodes and {count} edges."
    return f"{counts} {shown.note}" if shown.note else counts


def _styles(shown: PictureGraph) -> str:
    """Style rules, with colours for the types that are shown."""
    kinds = sorted({node.type for node in shown.nodes.values()} & _COLOURS.keys())
    light = "".join(f"\n  .{kind} {{ fill: {_COLOURS[kind][0]}; }}" for kind in kinds)
    dark = "".join(f"\n    .{kind} {{ fill: {_COLOURS[kind][1]}; }}" for kind in kinds)
    return f"{_STYLE}{light}\n  @media (prefers-color-scheme: dark) {{\n{_DARK_STYLE}{dark}\n  }}"


# The two characters that XML forbids though they are neither controls nor halves of a pair.
_NOT_XML = re.compile("[\ufffe\uffff]")


def _escaped(text: str) -> str:
    return escape(_NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(text)))


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}{place}>{_escaped(words)}</text>'


# Text widths, in ems: estimated for a wide font (DejaVu Sans), since the viewer's is unknown; a
# narrower font leaves room.

_BOLD = 1.15
_WIDTHS = {
    **dict.fromkeys("ijlIJ'", 0.3),
    **dict.fromkeys(" ,./:;|\\-f", 0.36),
    **dict.fromkeys('()[]tr!"', 0.43),
    **dict.fromkeys("ABCDGHKNOQRUVXZ&", 0.79),
    **dict.fromkeys("#+<=>^~Mw", 0.86),
    **dict.fromkeys("%@Wm…", 1.0),
}


def wrapped(text: str, width: float, most: int) -> list[str]:
    """Wrap a text into at most `most` lines; one that is cut ends with `…`."""
    lines = [""]
    for word in (piece for whole in text.split() for piece in _pieces(whole, width)):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if em_width(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], shortened(f"{lines[most - 1]} {lines[most]}", width, is_cut=True)]


def shortened(text: str, width: float, *, is_cut: bool = False) -> str:
    """Cut a text to a width; where something is missing it ends with `…`."""
    if em_width(text) <= width and not is_cut:
        return text
    while text and em_width(text) > width - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def em_width(text: str) -> float:
    """Upper estimate of a text's width, in ems."""
    total = 0.0
    for char in text:
        if char.isascii() or char == "…":
            total += _WIDTHS.get(char, 0.64)
        else:
            total += 1.3 if east_asian_width(char) in "WF" or char > "\uffff" else 0.85
    return total


def _pieces(word: str, width: float) -> list[str]:
    """A word, broken where it is wider than a line."""
    pieces = [""]
    for char in word:
        if em_width(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces
