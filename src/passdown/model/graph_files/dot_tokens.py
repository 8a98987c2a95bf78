r"""The words of a DOT text, one after the other, each with its line and column.

In quoted text `\"` and `\\` stand for the second character, `\n` and `\l` for a new line, `\r` for
a carriage return; a backslash at the end of a line joins it with the next, and any other backslash
is one. Quoted texts joined by `+` are one word. A line that begins with `#` is a comment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from passdown.model.graph_files.dot_text import KEYWORDS
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Kind = Literal["id", "quoted", "keyword", "mark", "bad", "end"]

MAX_WORDS = 2_000_000
"""More than a file of the largest size has, unless nearly every letter is a word."""

# Every repetition is possessive: what doesn't match fails at once instead of being tried again.
_NUMBER = r"-?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)"
_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+"
_TOKEN = re.compile(
    rf"""
    (?P<blank>(?:[ \t\r\n\f\v]++|//[^\n]*+|/\*(?s:.*?)\*/)++)
    | (?P<quoted>"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+")
    | (?P<odd>{_NUMBER}{_WORD})
    | (?P<id>{_WORD}|{_NUMBER})
    | (?P<mark>->|--|[{{}}\[\];,=:+])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r'\\(?:(["\\nlr])|\r?\n)')
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "l": "\n", "r": "\r"}
_MANY_LINES = ("blank", "quoted", None)
_LONGEST_KEYWORD = max(map(len, KEYWORDS))
_ANGLE = re.compile("[<>]")
_REST_OF_LINE = re.compile(r"[^\n]*+")


class Token(NamedTuple):
    """One word: what it is, its text (or, of a bad one, what is wrong) and its place."""

    kind: Kind
    text: str
    line: int
    column: int

    @property
    def place(self) -> str:
        """Line and column, as problems give them."""
        return f"{self.line}:{self.column}"


def tokens(source: str) -> Iterator[Token]:
    """The words of a text with joined texts as one; the last is the end, or bad."""
    given = _single(source)
    for token in given:
        following = token
        while following.kind == "quoted":
            following = yield from _joined(following, given)
        yield following


def _joined(first: Token, given: Iterator[Token]) -> Generator[Token, None, Token]:
    """Give a quoted text with all that `+` adds to it, and return the word after it."""
    parts = [first.text]
    while (token := next(given)).kind == "mark" and token.text == "+":
        added = next(given)
        if added.kind != "quoted":
            yield first._replace(kind="id", text="".join(parts))
            yield token._replace(kind="bad", text="nothing quoted follows the +")
            return added
        parts.append(added.text)
    yield first._replace(kind="id", text="".join(parts))
    return token


def _single(source: str) -> Iterator[Token]:
    """The words as they stand; the last is the end or, where reading can't go on, bad."""
    at, line, line_start, words = 0, 1, 0, 0
    is_first = True
    while at < len(source):
        match = _TOKEN.match(source, at)
        group = match.lastgroup if match else None
        end = match.end() if match else at
        if group is None and is_first and source[at] == "#":
            end = _end_of_line(source, at)
        elif group != "blank":
            kind, text, end = _word(source, at, group, end)
            is_first = False
            words += 1
            if words > MAX_WORDS:
                kind, text, end = "bad", f"more than {MAX_WORDS:,} words are too many", -1
            yield Token(kind, text, line, at - line_start + 1)
            if end < 0:
                return
        if group in _MANY_LINES and (breaks := source.count("\n", at, end)):
            line += breaks
            line_start = source.rfind("\n", at, end) + 1
            is_first = True
        at = end
    yield Token("end", "", line, at - line_start + 1)


def _word(source: str, at: int, group: str | None, end: int) -> tuple[Kind, str, int]:
    """Kind and text of a word, and where it ends: below zero, nothing behind it can be read."""
    if group is None:
        return "bad", *_unmatched(source, at)
    text = source[at:end]
    if group == "mark":
        return "mark", text, end
    if group == "quoted":
        return "quoted", _unquoted(text), end
    if group == "odd":
        return "bad", f"{excerpt(text)} has to be quoted", end
    if len(text) <= _LONGEST_KEYWORD and text.lower() in KEYWORDS:
        return "keyword", text.lower(), end
    return "id", text, end


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(_meant, inner)


def _meant(escape: re.Match[str]) -> str:
    return _ESCAPED[escape[1]] if escape[1] else ""


def _unmatched(source: str, at: int) -> tuple[str, int]:
    """What is wrong at a place where no word begins, and where reading may go on."""
    char = source[at]
    if char == '"':
        return "a quoted text begins here and never ends", -1
    if source.startswith("/*", at):
        return "a comment begins here and never ends", -1
    if char == "<":
        end = _after_html(source, at)
        return "HTML can't be read as text; quote it" if end > 0 else "HTML never ends", end
    return f"{excerpt(char)} can't stand outside of quotes", at + 1


def _end_of_line(source: str, at: int) -> int:
    match = _REST_OF_LINE.match(source, at)
    return match.end() if match else at


def _after_html(source: str, at: int) -> int:
    """Where the angle brackets that open here are closed; below zero if they never are."""
    depth = 0
    for angle in _ANGLE.finditer(source, at):
        depth += 1 if angle.group() == "<" else -1
        if depth == 0:
            return angle.end()
    return -1
