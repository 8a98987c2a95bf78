"""The knowledge graph as Mermaid and as SVG."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from heapq import heappop, heappush
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import east_asian_width

from passdown.core.graph import NODE_TYPES, Node, summary_line
from passdown.core.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from passdown.core.graph import Edge, Graph


BOLD = 1.15
"""How much wider a bold text is."""

_WIDTHS = {
    **dict.fromkeys("ijlIJ'", 0.3),
    **dict.fromkeys(" ,./:;|\\-f", 0.36),
    **dict.fromkeys('()[]tr!"', 0.43),
    **dict.fromkeys("ABCDGHKNOQRUVXZ&", 0.79),
    **dict.fromkeys("#+<=>^~Mw", 0.86),
    **dict.fromkeys("%@Wm…", 1.0),
}
_LETTER = 0.64
_OTHER = 0.85
_WIDE = 1.3


def wrapped(text: str, width: float, most: int) -> list[str]:
    """At most so many lines of at most that width; a text that is cut ends with `…`."""
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
    """The text within a width; when something is missing, even before, it ends with `…`."""
    if em_width(text) <= width and not is_cut:
        return text
    while text and em_width(text) > width - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def em_width(text: str) -> float:
    """How wide a text is at most, in ems."""
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> float:
    if char.isascii() or char == "…":
        return _WIDTHS.get(char, _LETTER)
    return _WIDE if east_asian_width(char) in "WF" or char > "\uffff" else _OTHER


def _pieces(word: str, width: float) -> list[str]:
    """A word, broken where it is wider than a line."""
    if em_width(word) <= width:
        return [word]
    pieces = [""]
    for char in word:
        if em_width(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces


MOST_NODES = 60
MOST_EDGES = 400

_NOT_NOW = frozenset(
    {"superseded", "reverted", "retracted", "replaced", "withdrawn", "cancelled"}
    | {"deprecated", "legacy", "future"}
)
_ITEM_TYPES = {"d": "decision", "p": "pattern", "g": "gotcha", "a": "file"}


class PictureEdge(NamedTuple):
    """All that leads from one node to another, drawn as one line."""

    source: str
    target: str
    relations: tuple[str, ...]


class PictureGraph(NamedTuple):
    """The nodes of a picture by id, what connects them, and how much is left out."""

    nodes: dict[str, Node]
    wires: tuple[PictureEdge, ...]
    nodes_left_out: int
    edges_left_out: int
    is_around: bool = False

    @property
    def note(self) -> str:
        """A sentence about what is left out; empty when nothing is."""
        left = (_count(self.nodes_left_out, "node"), _count(self.edges_left_out, "edge"))
        told = " and ".join(part for part in left if part)
        kept = "nearest" if self.is_around else "best connected"
        return f"Left out: {told}; shown are the {kept}." if told else ""


def relation_label(edge: Edge) -> str:
    """An edge's relation, and the word that it came with where it had one: `relates_to (owns)`."""
    name = edge.attributes.get("name", "")
    return f"{edge.relation} ({name})" if name else edge.relation


def inactive_status(node: Node) -> str:
    """The status of a node that no longer holds, or doesn't yet; empty for one that stands."""
    status = node.attributes.get("status", "")
    return status if status in _NOT_NOW else ""


def select_for_picture(graph: Graph, starts: Iterable[str] = ()) -> PictureGraph:
    """The best connected nodes, and the edges among them: grown from the best along the edges, so
    that what is shown hangs together. With `starts`, these and the nearest to them.

    An end of an edge that no node is listed for (an item, a task, an agent, a file) is shown under
    its id.
    """
    nodes = {node.id: node for node in graph.nodes}
    for name in sorted({name for edge in graph.edges for name in (edge.source, edge.target)}):
        if name not in nodes:
            nodes[name] = Node(name, _type_of(name), summary_line(name))
    known = [name for name in starts if name in nodes]
    kept = _nearest(nodes, graph.edges, known)
    inside = [edge for edge in graph.edges if edge.source in kept and edge.target in kept]
    drawn = inside[:MOST_EDGES]
    return PictureGraph(
        {name: nodes[name] for name in sorted(kept)},
        _picture_edges(drawn),
        len(nodes) - len(kept),
        len(graph.edges) - len(drawn),
        bool(known),
    )


def _nearest(nodes: Iterable[str], edges: Iterable[Edge], starts: Sequence[str]) -> set[str]:
    """Up to so many nodes as there is room for: the one with the most edges, then of those that it
    leads to the one with the most, and so on; anew with the next best where nothing leads on.

    With starts it begins with these, and fewer steps from them count before more edges.
    """
    around: dict[str, set[str]] = {name: set() for name in nodes}
    degree: Counter[str] = Counter()
    for edge in edges:
        around[edge.source].add(edge.target)
        around[edge.target].add(edge.source)
        degree.update({edge.source, edge.target})
    order = sorted(around, key=lambda name: (-degree[name], name))
    if len(order) <= MOST_NODES:
        return set(order)
    place = {name: index for index, name in enumerate(order)}
    kept: set[str] = set()
    reachable = sorted((0, place[name]) for name in set(starts))
    seeds = iter(range(len(order)))
    while len(kept) < MOST_NODES:
        steps, index = heappop(reachable) if reachable else (0, next(seeds))
        name = order[index]
        if name not in kept:
            kept.add(name)
            for other in around[name] - kept:
                heappush(reachable, (steps + 1 if starts else 0, place[other]))
    return kept


def _picture_edges(edges: list[Edge]) -> tuple[PictureEdge, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        found.setdefault((edge.source, edge.target), []).append(relation_label(edge))
    return tuple(PictureEdge(*ends, tuple(found[ends])) for ends in sorted(found))


def _type_of(name: str) -> str:
    """What kind of thing an id stands for that has no node."""
    kind, colon, _ = name.partition(":")
    if colon and kind in ("task", "agent", "file"):
        return kind
    _, mark, address = name.rpartition("#")
    return _ITEM_TYPES.get(address[:1], "insight") if mark else "insight"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}" if number else ""


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
_STROKES = {
    "task": "#0969da",
    "agent": "#6639ba",
    "decision": "#b35900",
    "pattern": "#1a7f37",
    "gotcha": "#cf222e",
    "insight": "#9a6700",
    "file": "#57606a",
    "component": "#0550ae",
    "interface": "#1b7c83",
    "abstraction": "#8250df",
    "datastore": "#116329",
    "external": "#6e7781",
    "rule": "#a40e26",
}
# A full stop between a letter and a blank is the one mark that is left as it is: it ends sentences
# and, unlike one after a digit or within a word, begins neither a list nor the name of a site.
# Mermaid writes codes with three signs of its own while it works; ours mustn't be taken for them.
_CODED = re.compile(
    r"(?![ ,])[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\xb0\xb6\ufb02](?<!(?<=[A-Za-z])\.(?= |$))"
)


def mermaid(graph: Graph, starts: Iterable[str] = ()) -> str:
    """The chart; a note in it says what is left out. With `starts` it shows these first."""
    shown = select_for_picture(graph, starts)
    numbers = {name: f"n{index}" for index, name in enumerate(shown.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {numbers[name]}{_label(node)}" for name, node in shown.nodes.items()]
    for wire in shown.wires:
        words = _coded(", ".join(wire.relations))
        lines.append(f'  {numbers[wire.source]} -->|"{words}"| {numbers[wire.target]}')
    if shown.note:
        lines.append(f'  left_out["{_coded(shown.note)}"]')
    lines += _classes(shown.nodes, numbers)
    return "".join(f"{line}\n" for line in lines)


def _label(node: Node) -> str:
    opening, closing = _SHAPES.get(node.type, _BOX)
    status = inactive_status(node)
    # Ids of tasks, agents and files begin with their type, and some end with their summary: once
    # is enough.
    name = node.id if node.id.startswith(f"{node.type}:") else f"{node.type} {node.id}"
    head = _coded(f"{name} ({status})" if status else name)
    tail = "" if node.id.endswith(node.summary) else f": {_coded(node.summary)}"
    return f'{opening}"{head}{tail}"{closing}'


def _coded(text: str) -> str:
    return _CODED.sub(lambda found: f"#{ord(found[0])};", visible(text))


def _classes(nodes: dict[str, Node], numbers: dict[str, str]) -> Iterator[str]:
    """Colours by type; the type's word stands in the label too."""
    for kind, stroke in _STROKES.items():
        members = [numbers[name] for name, node in nodes.items() if node.type == kind]
        if members:
            yield f"  classDef {kind}Node stroke:{stroke},stroke-width:2px"
            yield f"  class {','.join(members)} {kind}Node"


BOX_WIDTH = 240
BETWEEN_COLUMNS = 160
MOST_COLUMNS = 8
_FOLDED_COLUMNS = 6
_BETWEEN_BOXES = 26
_LANE = 12
_SWEEPS = 12

Pair = tuple[str, str]
Point = tuple[float, float]


class Lane(NamedTuple):
    """Where a line passes a column on its way."""

    pair: Pair
    column: int


Slot = str | Lane


class Layout(NamedTuple):
    """The upper left corner of each box, the points of each line from its source to its target,
    and the size of it all. Between an even point and the next a line crosses from column to
    column, or returns to the same one; between an odd one and the next it passes a column on its
    lane.
    """

    boxes: dict[str, Point]
    lines: dict[Pair, list[Point]]
    width: float
    height: float


def layout(heights: Mapping[str, float], pairs: Sequence[Pair]) -> Layout:
    """Places for boxes of these heights, connected by these pairs (none to itself)."""
    linked = sorted({name for pair in pairs for name in pair})
    alone = [name for name in heights if name not in set(linked)]
    rank = _ranks(linked, pairs)
    later = sorted({(a, b) if rank[a] < rank[b] else (b, a) for a, b in pairs})
    column_of = _folded(_columns(rank, later, _most_in_a_column(len(heights))))
    # Lines that lead back are placed as if they led forward, and turned round at the end.
    forward = sorted({_turned(pair, column_of) for pair in pairs})
    columns = _slots(rank, forward, column_of)
    links = _links(forward, column_of)
    _order(columns, links)
    tall = {slot: heights[slot] if isinstance(slot, str) else _LANE for c in columns for slot in c}
    middle = _middles(columns, links, tall)
    boxes = {
        slot: (_left(index), middle[slot] - tall[slot] / 2)
        for index, column in enumerate(columns)
        for slot in column
        if isinstance(slot, str)
    }
    bottom = max((y + heights[name] for name, (_, y) in boxes.items()), default=-_BETWEEN_BOXES)
    bottom = max([bottom, *(middle[s] for c in columns for s in c if isinstance(s, Lane))])
    _add_alone(boxes, alone, heights, bottom + _BETWEEN_BOXES)
    wide = max((x for x, _ in boxes.values()), default=0) + BOX_WIDTH
    if any(column_of[a] == column_of[b] == len(columns) - 1 for a, b in pairs):
        wide = max(wide, _left(len(columns)))  # lines within a column keep to its right
    high = max([bottom, *(y + heights[name] for name, (_, y) in boxes.items()), 0])
    lines = _lines(pairs, forward, boxes, heights, middle)
    return Layout(boxes, lines, wide, high)


def _most_in_a_column(count: int) -> int:
    return max(4, math.ceil(math.sqrt(count) * 1.3))


def _left(column: int) -> float:
    return column * (BOX_WIDTH + BETWEEN_COLUMNS)


def _ranks(names: Sequence[str], pairs: Sequence[Pair]) -> dict[str, int]:
    """An order in which most pairs lead forward: depth first, from nodes nothing leads to."""
    following: dict[str, list[str]] = defaultdict(list)
    entered = {target for _, target in pairs}
    for source, target in pairs:
        following[source].append(target)
    finished: list[str] = []
    seen: set[str] = set()
    for root in sorted(names, key=lambda name: (name in entered, name)):
        stack = [(root, iter(following[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            name, rest = stack[-1]
            target = next((each for each in rest if each not in seen), None)
            if target is None:
                finished.append(name)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(following[target])))
    return {name: place for place, name in enumerate(reversed(finished))}


def _columns(rank: dict[str, int], forward: list[Pair], most: int) -> dict[str, int]:
    """The column of each node: right of all that lead to it, where there is room."""
    before: dict[str, list[str]] = defaultdict(list)
    behind: dict[str, list[str]] = defaultdict(list)
    for source, target in forward:
        before[target].append(source)
        behind[source].append(target)
    found: dict[str, int] = {}
    filled: dict[int, int] = defaultdict(int)
    for name in sorted(rank, key=rank.__getitem__):
        column = max((found[source] + 1 for source in before[name]), default=0)
        while filled[column] >= most:
            column += 1
        found[name] = column
        filled[column] += 1
    for name in sorted(rank, key=rank.__getitem__, reverse=True):
        nearest = min((found[target] for target in behind[name]), default=0) - 1
        if not before[name] and nearest > found[name] and filled[nearest] < most:
            filled[found[name]] -= 1
            filled[nearest] += 1
            found[name] = nearest
    used = {column: index for index, column in enumerate(sorted(set(found.values())))}
    return {name: used[column] for name, column in found.items()}


def _folded(columns: dict[str, int]) -> dict[str, int]:
    """Columns that are no more than can be looked at: the way goes back and forth between the first
    and the last, so that what followed in the next column still does, or comes below.
    """
    count = max(columns.values(), default=0) + 1
    if count <= MOST_COLUMNS:
        return columns
    across = math.ceil(count / math.ceil(count / _FOLDED_COLUMNS))
    return {
        name: column % across if column // across % 2 == 0 else across - 1 - column % across
        for name, column in columns.items()
    }


def _turned(pair: Pair, at: Mapping[str, int]) -> Pair:
    """A pair from left to right; in one column, in the order of their names."""
    a, b = pair
    return (a, b) if (at[a], a) < (at[b], b) else (b, a)


def _slots(rank: dict[str, int], forward: list[Pair], at: dict[str, int]) -> list[list[Slot]]:
    columns: list[list[Slot]] = [[] for _ in range(max(at.values(), default=-1) + 1)]
    for name in sorted(rank, key=rank.__getitem__):
        columns[at[name]].append(name)
    for pair in forward:
        for column in range(at[pair[0]] + 1, at[pair[1]]):
            columns[column].append(Lane(pair, column))
    return columns


def _links(forward: list[Pair], at: dict[str, int]) -> dict[Slot, tuple[list[Slot], list[Slot]]]:
    """What each slot is connected with in the column to its left and to its right."""
    found: dict[Slot, tuple[list[Slot], list[Slot]]] = defaultdict(lambda: ([], []))
    for pair in (pair for pair in forward if at[pair[0]] != at[pair[1]]):
        lanes = [Lane(pair, column) for column in range(at[pair[0]] + 1, at[pair[1]])]
        way: list[Slot] = [pair[0], *lanes, pair[1]]
        for left, right in pairwise(way):
            found[left][1].append(right)
            found[right][0].append(left)
    return found


def _order(columns: list[list[Slot]], links: Mapping[Slot, tuple[list[Slot], list[Slot]]]) -> None:
    """Sort each column by the middle of its neighbours, back and forth; the best order stays."""
    best, fewest = [list(column) for column in columns], _crossings(columns, links)
    for sweep in range(_SWEEPS):
        side = sweep % 2
        sequence = columns if side == 0 else columns[::-1]
        place: dict[Slot, float] = {}
        for column in sequence:
            now = {slot: index for index, slot in enumerate(column)}
            column.sort(key=lambda slot: (_mean(links[slot][side], place, now[slot]), now[slot]))
            size = max(len(column), 1)
            place.update({slot: (index + 0.5) / size * 100 for index, slot in enumerate(column)})
        crossings = _crossings(columns, links)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    for column, order in zip(columns, best, strict=True):
        column[:] = order


def _mean(slots: Sequence[Slot], place: Mapping[Slot, float], otherwise: float) -> float:
    return sum(place[slot] for slot in slots) / len(slots) if slots else otherwise


def _crossings(
    columns: list[list[Slot]], links: Mapping[Slot, tuple[list[Slot], list[Slot]]]
) -> int:
    count = 0
    for column, following in pairwise(columns):
        place = {slot: index for index, slot in enumerate(following)}
        ends = [sorted(place[right] for right in links[slot][1]) for slot in column]
        above: list[int] = []
        for targets in ends:
            count += sum(1 for target in targets for other in above if other > target)
            above += targets
    return count


def _middles(
    columns: list[list[Slot]],
    links: Mapping[Slot, tuple[list[Slot], list[Slot]]],
    tall: Mapping[Slot, float],
) -> dict[Slot, float]:
    """The height of each slot's middle: near its neighbours', without touching in its column."""
    middle: dict[Slot, float] = {}
    for column in columns:
        _spread(column, [0.0] * len(column), tall, middle)
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            sides = (0, 1) if sweep >= _SWEEPS - 2 else (sweep % 2,)
            near = [[other for side in sides for other in links[slot][side]] for slot in column]
            wanted = [
                _mean(each, middle, middle[slot]) for slot, each in zip(column, near, strict=True)
            ]
            _spread(column, wanted, tall, middle)
    top = min((middle[slot] - tall[slot] / 2 for slot in middle), default=0)
    return {slot: place - top for slot, place in middle.items()}


def _spread(
    column: list[Slot], wanted: list[float], tall: Mapping[Slot, float], middle: dict[Slot, float]
) -> None:
    """Give a column the places nearest to the wanted ones at which nothing touches.

    What would touch is moved together as one block to the mean of its wishes.
    """
    offsets: list[float] = []
    for index, slot in enumerate(column):
        above = column[index - 1]
        offsets.append(offsets[-1] + _apart(above, slot, tall) if index else 0.0)
    blocks: list[tuple[float, int]] = []
    for wish, offset in zip(wanted, offsets, strict=True):
        total, size = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            more, members = blocks.pop()
            total, size = total + more, size + members
        blocks.append((total, size))
    starts = [total / size for total, size in blocks for _ in range(size)]
    middle.update(
        {slot: start + offset for slot, start, offset in zip(column, starts, offsets, strict=True)}
    )


def _apart(above: Slot, below: Slot, tall: Mapping[Slot, float]) -> float:
    are_lanes = isinstance(above, Lane) and isinstance(below, Lane)
    return (tall[above] + tall[below]) / 2 + (0 if are_lanes else _BETWEEN_BOXES)


def _add_alone(
    boxes: dict[str, Point], alone: list[str], heights: Mapping[str, float], top: float
) -> None:
    """Put what isn't connected in rows below the rest."""
    wide = round(max((x for x, _ in boxes.values()), default=0) / _left(1)) + 1
    across = max(wide, min(4, len(alone)), 1)
    for start in range(0, len(alone), across):
        row = alone[start : start + across]
        boxes.update({name: (_left(index), top) for index, name in enumerate(row)})
        top += max(heights[name] for name in row) + _BETWEEN_BOXES


def _lines(
    pairs: Sequence[Pair],
    forward: list[Pair],
    boxes: dict[str, Point],
    heights: Mapping[str, float],
    middle: Mapping[Slot, float],
) -> dict[Pair, list[Point]]:
    """The points of each line; lines of one box leave and enter it one below the other."""
    ways: dict[Pair, list[Point]] = {}
    for pair in forward:
        first, last = (round(boxes[name][0] / _left(1)) for name in pair)
        lanes = [(column, middle[Lane(pair, column)]) for column in range(first + 1, last)]
        ways[pair] = [p for c, y in lanes for p in ((_left(c), y), (_left(c) + BOX_WIDTH, y))]
    groups: dict[tuple[str, int], list[tuple[float, Pair, int]]] = defaultdict(list)
    for pair in forward:
        is_in_one_column = boxes[pair[0]][0] == boxes[pair[1]][0]
        for end in (0, 1):
            toward = ways[pair][-end][1] if ways[pair] else middle[pair[1 - end]]
            side = 0 if is_in_one_column else end
            groups[pair[end], side].append((toward, pair, end))
    ends: dict[tuple[Pair, int], Point] = {}
    for (name, side), group in groups.items():
        for index, (_, pair, end) in enumerate(sorted(group)):
            share = (index + 1) / (len(group) + 1)
            ends[pair, end] = (_edge_x(boxes[name], side), boxes[name][1] + heights[name] * share)
    lines = {pair: [ends[pair, 0], *way, ends[pair, 1]] for pair, way in ways.items()}
    return {(a, b): lines[a, b] if (a, b) in lines else lines[b, a][::-1] for a, b in pairs}


def _edge_x(corner: Point, side: int) -> float:
    """Where lines leave a box (its right side) or enter it (its left side)."""
    return corner[0] + (BOX_WIDTH if side == 0 else 0)


LABEL_SIZE = 10.5
_HIGH = 13
_BULGE = 64
_TRIED = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88)


class LabelPosition(NamedTuple):
    """The middle of a label and how wide it is."""

    x: float
    y: float
    wide: float


def curve(points: Sequence[Point]) -> str:
    """The path through a line's points: bent between columns, straight where it passes one."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for index, (to_x, to_y) in enumerate(rest):
        if index % 2 == 0:
            between = (x + to_x) / 2 if x != to_x else x + _BULGE
            path += f" C{between:.1f} {y:.1f} {between:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        else:
            path += f" L{to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return path


def label_places(given: Mapping[Pair, tuple[Sequence[Point], str]]) -> dict[Pair, LabelPosition]:
    """A place on its line for each label, where it covers as little of the others as can be."""
    placed: dict[Pair, LabelPosition] = {}
    # Steep lines have many heights to choose from, flat ones one: those come first.
    for pair, (points, words) in sorted(given.items(), key=lambda entry: _steep(entry[1][0])):
        wide = em_width(words) * LABEL_SIZE + 6
        places = list(_candidates(points, wide))
        placed[pair] = min(places, key=lambda place: _covered(place, placed))
    return placed


def _steep(points: Sequence[Point]) -> float:
    return max(abs(points[i][1] - points[i + 1][1]) for i in range(0, len(points) - 1, 2))


def _candidates(points: Sequence[Point], wide: float) -> Iterator[LabelPosition]:
    """Places along a line in the gaps between columns, the best of each gap first."""
    for index in range(0, len(points) - 1, 2):
        (x0, y0), (x1, y1) = points[index], points[index + 1]
        bent = (x0 + x1) / 2 if x0 != x1 else x0 + _BULGE
        least, most = sorted((x0, x1))
        half = wide / 2 + 4
        for t in _TRIED:
            s = 1 - t
            bend = 3 * s * t
            x = s**3 * x0 + bend * bent + t**3 * x1
            y = (s**3 + bend * s) * y0 + (bend * t + t**3) * y1
            x = max(x, least + half)
            yield LabelPosition(min(x, most - half) if x0 != x1 else x, y, wide)


def _covered(place: LabelPosition, placed: Mapping[Pair, LabelPosition]) -> float:
    total = 0.0
    for other in placed.values():
        across = (place.wide + other.wide) / 2 - abs(place.x - other.x)
        down = _HIGH - abs(place.y - other.y)
        if across > 0 and down > 0:
            total += across * down
    return total


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


class _BoxText(NamedTuple):
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
    shown = select_for_picture(graph, starts)
    faces = {name: _box_text(node) for name, node in shown.nodes.items()}
    pairs = [(wire.source, wire.target) for wire in shown.wires if wire.source != wire.target]
    ends = Counter(pair[side] + "<>"[side] for pair in pairs for side in (0, 1))
    heights = {
        name: max(face.height, _PORT * (1 + max(ends[name + "<"], ends[name + ">"])))
        for name, face in faces.items()
    }
    plan = layout(heights, pairs)
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
        *_edge_lines(shown, plan),
        *(
            part
            for name, face in faces.items()
            for part in _box(name, face, plan.boxes[name], heights[name])
        ),
        "</g>",
        "</svg>",
    ]
    return "".join(f"{part}\n" for part in parts)


def _described(shown: PictureGraph) -> str:
    count = sum(len(wire.relations) for wire in shown.wires)
    told = f"{len(shown.nodes)} nodes and {count} edges."
    return f"{told} {shown.note}" if shown.note else told


def _styles(shown: PictureGraph) -> str:
    """The rules for the types that are shown, in light and in dark."""
    kinds = sorted({node.type for node in shown.nodes.values()} & _COLOURS.keys())
    light = "".join(f"\n  .{kind} {{ fill: {_COLOURS[kind][0]}; }}" for kind in kinds)
    dark = "".join(f"\n    .{kind} {{ fill: {_COLOURS[kind][1]}; }}" for kind in kinds)
    return f"{_STYLE}{light}\n  @media (prefers-color-scheme: dark) {{\n{_DARK}{dark}\n  }}"


def _box_text(node: Node) -> _BoxText:
    given = node.attributes
    status = inactive_status(node)
    mark = status or given.get("priority") or given.get("severity", "")
    heading = ", ".join(visible(part) for part in (node.type, mark) if part)
    summary = wrapped(visible(node.summary), _ROOM / _SIZE, _SUMMARY_LINES)
    tags = shortened(" ".join(f"#{visible(tag)}" for tag in node.tags), _ROOM / LABEL_SIZE)
    kind = node.type if node.type in _COLOURS else "soft"
    heading = shortened(heading, _HEADING_ROOM / _KIND_SIZE / BOLD)
    return _BoxText(kind, heading, summary, tags, bool(status))


def _head(shown: PictureGraph, title: str, width: float) -> tuple[list[str], float]:
    """Title, counts and legend, and where the picture below them begins."""
    room = width - 2 * _MARGIN
    most = room / _TITLE_SIZE / BOLD
    parts = [_text(_MARGIN, 36, shortened(visible(title), most), "title")]
    parts.append(_text(_MARGIN, 58, shortened(_described(shown), room / _SIZE), "soft"))
    tally = Counter(node.type for node in shown.nodes.values())
    x, y = float(_MARGIN), 84.0
    for kind in (kind for kind in NODE_TYPES if tally[kind]):
        words = f"{kind} ({tally[kind]})"
        step = 22 + em_width(words) * _SIZE + 14
        if x + step > width - _MARGIN:
            x, y = float(_MARGIN), y + _LEGEND_STEP
        parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y - 11:g}" width="14" height="14" rx="2"/>'
        )
        parts.append(_text(x + 21, y, words))
        x += step
    return parts, y + 34


def _box(name: str, face: _BoxText, corner: Point, height: float) -> Iterator[str]:
    x, y = corner
    old = " old" if face.is_old else ""
    yield f'<g class="node"><title>{_safe(name)}</title>'
    place = f'x="{x:.1f}" y="{y:.1f}" height="{height:.1f}"'
    yield f'<rect class="box{old}" {place} width="{BOX_WIDTH}" rx="6"/>'
    yield f'<rect class="{face.kind}" {place} width="6" rx="3"/>'
    yield _text(x + 16, y + 19, face.heading, f"kind {face.kind}")
    room = _ROOM - 10 - em_width(face.heading) * _KIND_SIZE * BOLD
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


def _edge_lines(shown: PictureGraph, plan: Layout) -> Iterator[str]:
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
    return shortened(visible(relations[0]), _LABEL_ROOM / LABEL_SIZE - em_width(more)) + more


# The two characters that XML forbids though they are neither controls nor halves of a pair.
_NOT_XML = re.compile("[\ufffe\uffff]")


def _safe(text: str) -> str:
    return escape(_NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(text)))


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}{place}>{_safe(words)}</text>'


__all__ = [
    "MOST_EDGES",
    "MOST_NODES",
    "mermaid",
    "svg",
]
