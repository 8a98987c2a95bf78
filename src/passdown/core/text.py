"""Rules for stored text, and how to show it safely."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from passdown.errors import Problem

MAX_MARKS = 32
"""How many combining marks may follow one another; beyond that text smears over its neighbours."""

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Unicode's Default_Ignorable_Code_Point, less the variation selectors: drawn as nothing.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_BLANK_BLOCK = "\u2800"  # the empty Braille pattern: a symbol by category, nothing to the eye
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@cache
def ignorable() -> re.Pattern[str]:
    """Matches one character that draws nothing (zero-width, bidi control, filler, selector)."""
    return re.compile(f"[{_IGNORABLE}{_SELECTORS}]")


@cache
def _unsafe(keep_newlines: bool) -> re.Pattern[str]:
    control = "\x00-\x08\x0b-\x1f" if keep_newlines else "\x00-\x1f"
    return re.compile(f"[{control}\x7f-\x9f\u2028\u2029\ud800-\udfff{_IGNORABLE}{_SELECTORS}]")


@cache
def _mark_runs() -> re.Pattern[str]:
    # Marks are never word characters, so this passes over letters of every script at full speed.
    return re.compile(f"[^\\w\\s\\x00-\\x7f]{{{MAX_MARKS + 1},}}")


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    point = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    is_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    before = match.string[match.start() - 1] if is_selector and match.start() else " "
    if not before.isspace() and not _unsafe(False).match(before):
        return char  # it changes how the character before it is drawn
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def visible(text: str, *, keep_newlines: bool = False) -> str:
    """`text` with every invisible or terminal-driving character written as an escape.

    With `keep_newlines`, newline and tab stay; carriage return never does. Of several variation
    selectors on one character, the first stays. Applying it twice changes nothing more.
    """
    if text.isascii():
        # Most text is this plain, and asking costs far less than the scan below.
        rest = text.replace("\n", "").replace("\t", "") if keep_newlines else text
        if rest.isprintable():
            return text
    return _unsafe(keep_newlines).sub(_escape, text)


def excerpt(text: str, limit: int = 40) -> str:
    """The beginning of `text`, visible and on one line, for use in a message."""
    return visible(text) if len(text) <= limit else visible(text[:limit]) + "..."


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 rule`, `2 rules`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_few(names: Sequence[str], most: int = 3) -> str:
    """The first of several names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def child_path(path: str, key: object) -> str:
    """The address of `key` below `path`: `a.b`, `a[2]`, or `a["odd key"]`."""
    if isinstance(key, str):
        if len(key) <= 80 and key.isascii() and key.replace("-", "_").isidentifier():
            return f"{path}.{key}" if path else key
        return f'{path}["{excerpt(key, 80)}"]'
    return f"{path}[{excerpt(repr(key), 80)}]"


def is_blank(text: str) -> bool:
    """Whether `text` shows nothing: only spaces, controls, fillers and marks with no base."""
    if re.search("[!-~]", text):
        return False
    rest = ignorable().sub("", text).replace(_BLANK_BLOCK, "")
    return all(_shows_nothing(char) for char in rest)


def _shows_nothing(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "ZM" or category in ("Cc", "Cf", "Cs")


def has_lone_surrogate(text: str) -> bool:
    """Whether `text` holds half of a surrogate pair and so can't be written as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_mark_pile(text: str) -> bool:
    if text.isascii():
        return False
    for run in _mark_runs().findall(text):
        length = 0
        for char in run:
            length = length + 1 if unicodedata.category(char)[0] == "M" else 0
            if length > MAX_MARKS:
                return True
    return False


def text_problems(
    value: object, path: str, *, required: bool = True, max_length: int = 65_536
) -> list[Problem]:
    """What keeps `value` from being stored as text at `path`; an empty list when nothing does.

    Codes: wrong_type, too_long, nul_character, lone_surrogate, empty, too_many_marks.
    """
    if not isinstance(value, str):
        return [Problem(path, "wrong_type", f"{type(value).__name__} given", "text")]
    if len(value) > max_length:
        size = f"{len(value):,} characters are too many"
        fix = "keep the gist here and put the rest into a file named as an artifact"
        return [Problem(path, "too_long", size, f"at most {max_length:,}", fix)]
    found: list[Problem] = []
    if "\x00" in value:
        message = "contains a NUL character, which stores can't keep"
        found.append(Problem(path, "nul_character", message, "text without U+0000", "remove it"))
    if has_lone_surrogate(value):
        message = "contains half of a surrogate pair, which is no character"
        found.append(Problem(path, "lone_surrogate", message, "valid Unicode", "remove it"))
    if required and is_blank(value):
        found.append(Problem(path, "empty", "shows no text", "at least one visible character"))
    elif _has_mark_pile(value):
        message = f"more than {MAX_MARKS} combining marks follow one another"
        found.append(Problem(path, "too_many_marks", message, f"at most {MAX_MARKS}"))
    return found


@cache
def _hint_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    # Every gap is bounded, so each search stays linear in the length of the text.
    sources = {
        "ignore_instructions": r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}"
        r"\b(?:previous|prior|above|earlier|preceding|all|your)\b[^.\n]{0,24}"
        r"\b(?:instructions?|prompts?|rules|directions|messages)\b",
        "role_tag": r"</?(?:system|assistant|user|developer|human|instructions?)\b[^<>\n]{0,80}>"
        r"|<\|(?:im_start|im_end|system|assistant|user)\|>|\[/?inst\]|<</?sys>>",
        "role_message": r"[\"']role[\"']\s{0,8}:\s{0,8}[\"'](?:system|developer|assistant)[\"']",
        "shell_pipe": r"\b(?:curl|wget)\b[^\n|]{0,200}\|\s{0,8}(?:sudo\s{1,8})?(?:ba|z|da)?sh\b",
        "new_persona": r"\byou are now\b|\bfrom now on,? you\b|\bact as (?:the )?(?:system|admin)",
        "tool_markup": r"</?(?:antml:)?(?:function_calls?|invoke|tool_use|tool_call|tool_result)\b"
        r"|\btool_calls[\"']\s{0,8}:",
    }
    return tuple((name, re.compile(source, re.IGNORECASE)) for name, source in sources.items())


@cache
def _hint_signs() -> re.Pattern[str]:
    """One look for what any of the patterns needs: most text has none of it."""
    signs = (
        r"ignore|disregard|forget|override|curl|wget|you are now|from now on|act as|tool_calls"
        r"|role[\"']|</?|<\||\[/?inst\]"
    )
    return re.compile(signs, re.IGNORECASE)


def instruction_hints(text: str) -> tuple[str, ...]:
    """Names of the ways in which `text` reads like orders to a model; usually none.

    A hint, not a guarantee: harmless text can be named and clever text can slip through. Nothing
    may be allowed because this found nothing.
    """
    plain = text if text.isascii() else unicodedata.normalize("NFKC", ignorable().sub("", text))
    if not _hint_signs().search(plain):
        return ()
    return tuple(name for name, pattern in _hint_patterns() if pattern.search(plain))


MOST_CHARACTERS = 400_000


def storable(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text without NUL and halves of characters, at most so long; what is cut out says so."""
    text = text.replace("\x00", "\\x00")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def storable_values(value: Any) -> Any:
    """The same for every text in plain data."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {storable(key): storable_values(part) for key, part in pairs}
    if isinstance(value, list):
        return [storable_values(part) for part in cast("list[Any]", value)]
    return value
