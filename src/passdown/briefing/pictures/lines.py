"""How lines bend between columns, or return to the one they come from, and where on them words find
room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.briefing.pictures.wrapping import wide as em_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from passdown.briefing.pictures.layers import Pair, Point

LABEL_SIZE = 10.5
_HIGH = 13
_BULGE = 64
_TRIED = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.12, 0.88)


class Place(NamedTuple):
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


def label_places(given: Mapping[Pair, tuple[Sequence[Point], str]]) -> dict[Pair, Place]:
    """A place on its line for each label, where it covers as little of the others as can be."""
    placed: dict[Pair, Place] = {}
    # Steep lines have many heights to choose from, flat ones one: those come first.
    for pair, (points, words) in sorted(given.items(), key=lambda entry: _steep(entry[1][0])):
        wide = em_width(words) * LABEL_SIZE + 6
        places = list(_candidates(points, wide))
        placed[pair] = min(places, key=lambda place: _covered(place, placed))
    return placed


def _steep(points: Sequence[Point]) -> float:
    return max(abs(points[i][1] - points[i + 1][1]) for i in range(0, len(points) - 1, 2))


def _candidates(points: Sequence[Point], wide: float) -> Iterator[Place]:
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
            yield Place(min(x, most - half) if x0 != x1 else x, y, wide)


def _covered(place: Place, placed: Mapping[Pair, Place]) -> float:
    total = 0.0
    for other in placed.values():
        across = (place.wide + other.wide) / 2 - abs(place.x - other.x)
        down = _HIGH - abs(place.y - other.y)
        if across > 0 and down > 0:
            total += across * down
    return total
