"""Places for boxes and lines: columns from left to right, in the direction of the arrows.

What needs more columns than a person can look at turns back at the last, and again at the first.

Boxes of one column never touch, and a line that passes a column has a lane of its own there, so
that no line runs through a box. The same graph always gives the same places.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


class Plan(NamedTuple):
    """The upper left corner of each box, the points of each line from its source to its target,
    and the size of it all. Between an even point and the next a line crosses from column to
    column, or returns to the same one; between an odd one and the next it passes a column on its
    lane.
    """

    boxes: dict[str, Point]
    lines: dict[Pair, list[Point]]
    width: float
    height: float


def planned(heights: Mapping[str, float], pairs: Sequence[Pair]) -> Plan:
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
    return Plan(boxes, lines, wide, high)


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
