"""A walk over the fields of a protobuf message, as far as a file of weights needs it.

Values are views of the bytes that were given: nothing is copied, and no length that a file claims
is believed before it is compared with what is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _EIGHT, _BLOCK, _FOUR = 0, 1, 2, 5
_VARINT_BYTES = 10


class Malformed(ValueError):
    """The bytes are no protobuf message, or not the one that was expected; says why."""


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at an offset, and the offset after it."""
    number = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES]):
        number |= (byte & 127) << 7 * index
        if byte < 128:
            return number, at + index + 1
    raise Malformed(f"a number at offset {at} has no end")


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Each field of a message in its order: its number, and its value as a number or as bytes.

    Raises `Malformed` where a field runs over the end or has a form that protobuf doesn't have.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = varint(data, at)
        form = key & 7
        if form == _VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if form == _BLOCK:
            length, at = varint(data, at)
        elif form in (_FOUR, _EIGHT):
            length = 4 if form == _FOUR else 8
        else:
            raise Malformed(f"a field at offset {at} has the unknown form {form}")
        if length > end - at:
            raise Malformed(f"a field at offset {at} runs {length - (end - at)} bytes over the end")
        yield key >> 3, data[at : at + length]
        at += length


def numbers(value: int | memoryview) -> list[int]:
    """The numbers of a repeated field's value, which holds one or a row of them."""
    if isinstance(value, int):
        return [value]
    found: list[int] = []
    at = 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def block(value: int | memoryview) -> memoryview:
    """The bytes of a field that has to hold bytes."""
    if isinstance(value, int):
        raise Malformed("a number stands where bytes were expected")
    return value


def text(value: int | memoryview) -> str:
    """The text of a field that has to hold text."""
    try:
        return str(block(value), "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a name is not UTF-8") from None
