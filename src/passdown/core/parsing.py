"""Strict JSON and YAML: untrusted text to plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn, Protocol, cast

from passdown.core.text import child_path, excerpt, has_lone_surrogate
from passdown.errors import InvalidInput, Problem

MAX_BYTES = 1_048_576
MAX_DEPTH = 32
_MAX_INTEGER = 2**53 - 1
_MAX_DIGITS = 1_100  # the longest exact decimal of a double is shorter; longer ones cost time


def load_json(
    text: str | bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> object:
    """The value that `text` spells.

    Raises InvalidInput: too_large, invalid_utf8, lone_surrogate, too_deep, duplicate_key,
    not_finite, out_of_range (integers beyond 2**53 - 1 too) or invalid_json.
    """
    source = decoded(text, max_bytes)
    _check_json_depth(source, max_depth)
    try:
        value: object = json.loads(
            source,
            object_pairs_hook=lambda pairs: _unique(pairs, source),
            parse_constant=lambda name: _bad_number(source, name, "not_finite"),
            parse_int=lambda digits: _integer(digits, source),
            parse_float=lambda digits: _float(digits, source),
        )
    except json.JSONDecodeError as error:
        message = f"{error.msg} at line {error.lineno}, column {error.colno}"
        _refuse("invalid_json", message, "JSON", "check quotes, commas and brackets there")
    # Only an escape can bring half a pair in: the text itself has been checked.
    if "\\ud" in source or "\\uD" in source:
        _check_surrogates(value)
    return value


def load_yaml(
    text: str | bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> object:
    """The one document in `text`, made of dict, list, str and None.

    Plain scalars stay as written, except that an empty one, `~` and `null` are None. Raises
    InvalidInput: too_large, invalid_utf8, lone_surrogate, control_character, too_deep,
    duplicate_key, yaml_alias, yaml_tag, yaml_merge, yaml_key, several_documents or invalid_yaml.
    """
    import yaml as untyped_yaml

    yaml: Any = untyped_yaml
    source = decoded(text, max_bytes)
    found = re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]", source)
    if found:
        message = f"the character {excerpt(found.group())} at {_place(source, found.start())}"
        _refuse("control_character", message, "printable text", "remove it or write an escape")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _YamlBuilder(yaml.parse(source, Loader=loader), max_depth).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        context = f" ({error.context})" if error.context else ""
        _refuse("invalid_yaml", f"{error.problem or 'syntax error'}{context}{at}", "YAML")
    except yaml.YAMLError as error:
        _refuse("invalid_yaml", excerpt(str(error), 200), "YAML")


def _refuse(code: str, message: str, expected: str = "", fix: str = "", path: str = "") -> NoReturn:
    raise InvalidInput("The text can't be read", [Problem(path, code, message, expected, fix)])


def decoded(text: str | bytes, max_bytes: int = MAX_BYTES) -> str:
    """`text` as str without a byte order mark, once its size and characters are in order."""
    size = len(text)
    if isinstance(text, str) and size <= max_bytes and not text.isascii():
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        _refuse("too_large", f"{size:,} bytes or more", f"at most {max_bytes:,}")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            message = f"byte {error.start} on line {line} is not UTF-8"
            _refuse("invalid_utf8", message, "UTF-8 text", "save the file as UTF-8")
    elif has_lone_surrogate(text):
        _refuse("lone_surrogate", "contains half of a surrogate pair", "valid Unicode")
    return text.removeprefix("\ufeff")


def _place(source: str, position: int) -> str:
    line = source.count("\n", 0, position) + 1
    column = position - source.rfind("\n", 0, position)
    return f"line {line}, column {column}"


@cache
def _json_tokens() -> re.Pattern[str]:
    # Strings match even when never closed, so that no place is scanned twice.
    return re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)


def _check_json_depth(source: str, max_depth: int) -> None:
    """Refuse before the parser recurses; a text with few brackets needs no scan."""
    if source.count("[") + source.count("{") <= max_depth:
        return
    depth = 0
    for token in re.finditer(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', source, re.DOTALL):
        char = token.group()[0]
        if char in "[{":
            depth += 1
            if depth > max_depth:
                message = f"nested too deeply at {_place(source, token.start())}"
                _refuse("too_deep", message, f"at most {max_depth} levels")
        elif char != '"':
            depth -= 1


def _unique(pairs: list[tuple[str, object]], source: str) -> dict[str, object]:
    built = dict(pairs)
    if len(built) != len(pairs):
        key, at = _first_duplicate(source)
        message = f"the key {excerpt(key)} is given twice; the second is at {at}"
        _refuse("duplicate_key", message, "each key once", "keep one of them")
    return built


def _first_duplicate(source: str) -> tuple[str, str]:
    """The first duplicate key in an object of `source`, and where the second is."""
    objects: list[set[str]] = []
    last = ("", 0)
    for token in _json_tokens().finditer(source):
        written = token.group()
        if written[0] in "[{":
            objects.append(set())
        elif written[0] in "]}":
            objects.pop()
        elif written == ":":
            if last[0] in objects[-1]:
                return last[0], _place(source, last[1])
            objects[-1].add(last[0])
        elif written[0] == '"':
            last = (cast("str", json.loads(written)), token.start())
    return "", "an unknown place"


def _bad_number(source: str, written: str, code: str) -> NoReturn:
    tokens = _json_tokens().finditer(source)
    start = next((token.start() for token in tokens if token.group() == written), 0)
    message = f"the number {excerpt(written)} at {_place(source, start)} can't be kept"
    if code == "not_finite":
        _refuse(code, message, "a finite number", "leave it out or write null")
    _refuse(code, message, f"-{_MAX_INTEGER} to {_MAX_INTEGER}", "write it as text")


def _integer(digits: str, source: str) -> int:
    # The length comes first: Python refuses to read very long integers, and slowly.
    value = int(digits) if len(digits) <= 20 else _MAX_INTEGER + 1
    if not -_MAX_INTEGER <= value <= _MAX_INTEGER:
        _bad_number(source, digits, "out_of_range")
    return value


def _float(digits: str, source: str) -> float:
    value = float(digits) if len(digits) <= _MAX_DIGITS else float("inf")
    if value - value != 0:
        _bad_number(source, digits, "out_of_range")
    return value


def _check_surrogates(value: object, path: str = "") -> None:
    if isinstance(value, str):
        if has_lone_surrogate(value):
            message = "contains half of a surrogate pair"
            _refuse("lone_surrogate", message, "valid Unicode", path=path)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            _check_surrogates(key, child_path(path, key))
            _check_surrogates(item, child_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            _check_surrogates(item, f"{path}[{index}]")


class _Mark(Protocol):
    line: int
    column: int


class _Event(Protocol):
    """What is read from a parser event; each kind of event has some of these."""

    start_mark: _Mark
    anchor: str | None
    tag: str | None
    tags: object
    value: str
    style: str | None


class _YamlBuilder:
    """Builds plain data from parser events, refusing what could surprise."""

    def __init__(self, events: Iterator[_Event], max_depth: int) -> None:
        self._events = events
        self._max_depth = max_depth

    def document(self) -> object:
        """The only document of the stream; None when there is none."""
        value: object = None
        documents = 0
        for event in self._events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    self._stop(event, "several_documents", "a second document begins", "only one")
                if event.tags:
                    self._stop(event, "yaml_tag", "a tag directive is given", "no tags")
                value = self._node(next(self._events), 0)
        return value

    def _stop(self, event: _Event, code: str, what: str, expected: str, fix: str = "") -> NoReturn:
        mark = event.start_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}"
        _refuse(code, f"{what} at {at}", expected, fix)

    def _node(self, event: _Event, depth: int) -> object:
        name = type(event).__name__
        if name == "AliasEvent" or event.anchor is not None:
            fix = "write the value out where it is needed"
            self._stop(event, "yaml_alias", "an anchor or alias is used", "plain values", fix)
        if event.tag is not None:
            self._stop(event, "yaml_tag", f"the tag {excerpt(event.tag, 80)} is used", "no tags")
        if name == "ScalarEvent":
            text = self._text(event)
            return None if not event.style and text in ("", "~", "null") else text
        if depth >= self._max_depth:
            self._stop(event, "too_deep", "nested too deeply", f"at most {self._max_depth} levels")
        return self._mapping(depth) if name == "MappingStartEvent" else self._sequence(depth)

    def _text(self, event: _Event) -> str:
        text = event.value
        if has_lone_surrogate(text):
            what = "half of a surrogate pair is written"
            self._stop(event, "lone_surrogate", what, "valid Unicode")
        return text

    def _sequence(self, depth: int) -> list[object]:
        built: list[object] = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            built.append(self._node(event, depth + 1))
        return built

    def _mapping(self, depth: int) -> dict[str, object]:
        built: dict[str, object] = {}
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            if type(event).__name__ in ("MappingStartEvent", "SequenceStartEvent"):
                self._stop(event, "yaml_key", "a list or mapping is used as a key", "text as key")
            self._node(event, depth + 1)  # for its refusals; a key is the text as written
            key = self._text(event)
            if key == "<<":
                fix = "write the merged keys out"
                self._stop(event, "yaml_merge", "a merge key is used", "plain keys", fix)
            if key in built:
                what = f"the key {excerpt(key)} is given twice; the second is"
                self._stop(event, "duplicate_key", what, "each key once", "keep one of them")
            built[key] = self._node(next(self._events), depth + 1)
        return built
