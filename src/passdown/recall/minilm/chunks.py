"""How a long text is read: in chunks that overlap, and if there are many, in some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK, OVERLAP, MOST = 254, 64, 12
_STEP = CHUNK - OVERLAP


def chunks(numbers: Sequence[int]) -> list[Sequence[int]]:
    """The chunks of a text's piece numbers, in their order; none if there are no numbers.

    A chunk has at most 254 numbers, the next starts 190 further on, and the last reaches the end.
    Of more than 12 chunks, 12 are taken at even distances, the first and the last among them.
    """
    if not numbers:
        return []
    count = 1 + max(0, -(-(len(numbers) - CHUNK) // _STEP))
    places = range(count)
    if count > MOST:
        places = [index * (count - 1) // (MOST - 1) for index in range(MOST)]
    return [numbers[place * _STEP : place * _STEP + CHUNK] for place in places]
