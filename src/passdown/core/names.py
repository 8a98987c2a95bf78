"""Rules for ids, agent names, tags, line ranges and artifact paths."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from passdown.core.redaction import redact
from passdown.core.text import excerpt, has_lone_surrogate, text_problems
from passdown.errors import Problem

MAX_ID = 128
MAX_AGENT = 64
MAX_TAG = 64
MAX_KEY = 512
MAX_PATH_BYTES = 1_024
MAX_PATH_PARTS = 64

RESERVED_AGENTS = frozenset({"human", "system", "user", "tool", "admin", "assistant", "developer"})
"""Names that a model reads as a role; an agent with such a name could claim its authority."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAG = r"[a-z0-9]+(?:-[a-z0-9]+)*+"
_LINES = r"([0-9]{1,9})-([0-9]{1,9})"
# Windows opens a device for these in any folder, in any case and whatever follows a dot.
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"
# They make a path look like another one.
_TURNS = "contains a character that turns the direction of writing"
_BIDI = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def _wrong_type(value: object, path: str) -> list[Problem]:
    return [Problem(path, "wrong_type", f"{type(value).__name__} given", "text")]


def _name_problems(value: object, path: str, limit: int) -> list[Problem]:
    if not isinstance(value, str):
        return _wrong_type(value, path)
    # In ASCII, so that a look-alike letter gives itself away.
    shown = excerpt(value).encode("ascii", "backslashreplace").decode()
    if len(value) > limit:
        message = f"'{shown}' has {len(value):,} characters"
        return [Problem(path, "too_long", message, f"at most {limit}")]
    expected = "ASCII letters, digits, '.', '_' and '-', beginning with a letter or digit"
    if not _ID.fullmatch(value):
        message = f"'{shown}' is not a valid id" if value else "the id is empty"
        return [Problem(path, "invalid_id", message, expected)]
    if _DEVICE.fullmatch(value):
        message = f"'{shown}' is the name of a device on Windows"
        fix = f"task-{value}"
        return [Problem(path, "invalid_id", message, "an id that can be a file name", fix)]
    if kinds := redact(value)[1]:
        # A name can't be redacted without meaning something else.
        message = f"looks like a secret ({', '.join(kinds)})"
        return [Problem(path, "secret", message, "a name")]
    return []


def id_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with a task id: wrong_type, too_long, invalid_id or secret."""
    return _name_problems(value, path, MAX_ID)


def agent_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with an agent's name: as with an id, or reserved_name."""
    found = _name_problems(value, path, MAX_AGENT)
    if not found and isinstance(value, str) and value.lower() in RESERVED_AGENTS:
        message = f"'{value}' is a role, not an agent"
        fix = f"{value.lower()}-agent"
        return [Problem(path, "reserved_name", message, "a name that is no role", fix)]
    return found


def suggest_agent(text: str) -> str:
    """`text` as an agent's name: `Research-Agent` for `Research Agent`, `assistant-agent` for the
    role `Assistant`; empty when nothing is left.
    """
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub("[^A-Za-z0-9._-]+", "-", folded).strip("-._")[:MAX_AGENT].strip("-._")
    names = (name, f"{name[: MAX_AGENT - 6].lower()}-agent") if name else ()
    return next((each for each in names if not agent_problems(each, "agent")), "")


def key_problems(key: object, path: str = "key") -> list[Problem]:
    """What is wrong with an idempotency key: it is a short text on one line, and no secret."""
    found = text_problems(key, path, max_length=MAX_KEY)
    if isinstance(key, str) and not found:
        if not key.isprintable():
            found.append(Problem(path, "control_character", "is not printable", "one line of text"))
        if redact(key)[1]:
            found.append(Problem(path, "secret", "looks like a secret", "another key"))
    return found


def suggest_tag(text: str) -> str:
    """`text` as a tag, such as `rate-limit` for `Rate Limit!`; empty when nothing is left."""
    # The cut leaves room for what folds away and keeps a giant text from being folded whole.
    folded = unicodedata.normalize("NFKD", text[: MAX_TAG * 4]).lower()
    bare = "".join(char for char in folded if not unicodedata.combining(char))
    return re.sub("[^a-z0-9]+", "-", bare).strip("-")[:MAX_TAG].strip("-")


def tag_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with a tag: wrong_type, too_long or invalid_tag; the fix is the nearest tag."""
    if not isinstance(value, str):
        return _wrong_type(value, path)
    fix = suggest_tag(value)
    if len(value) > MAX_TAG:
        message = f"'{excerpt(value)}' has {len(value):,} characters"
        return [Problem(path, "too_long", message, f"at most {MAX_TAG}", fix)]
    if not re.fullmatch(_TAG, value):
        message = f"'{excerpt(value)}' is not a tag"
        expected = "lowercase words and digits joined by single hyphens"
        return [Problem(path, "invalid_tag", message, expected, fix)]
    return []


PHASE_FORM = "[a-z0-9][a-z0-9_-]{0,39}"


def phase_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with the name of a phase: it isn't lowercase letters, digits, - and _."""
    if isinstance(value, str) and re.fullmatch(PHASE_FORM, value):
        return []
    expected = "lowercase letters, digits, - and _, at most 40"
    return [Problem(path, "invalid_phase", f"{excerpt(str(value))!r} is no phase", expected)]


def line_range_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with a line range; right are `all` and `N-M` with 1 <= N <= M."""
    expected = "'all' or 'N-M' with 1 <= N <= M"
    text = value if isinstance(value, str) else ""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
        text = str(value)
    elif not isinstance(value, str):
        return [Problem(path, "invalid_lines", f"{type(value).__name__} given", expected)]
    elif text == "all":
        return []
    shown = f"'{excerpt(text)}' is not a line range"
    if re.fullmatch("[1-9][0-9]{0,8}", text):
        return [Problem(path, "invalid_lines", shown, expected, f"{text}-{text}")]
    match = re.fullmatch(_LINES, text)
    if not match:
        return [Problem(path, "invalid_lines", shown, expected, _respelled(text))]
    first, last = int(match[1]), int(match[2])
    if 1 <= first <= last:
        return []
    low, high = max(1, min(first, last)), max(1, first, last)
    what = "line 0 does not exist" if 0 in (first, last) else f"{first} comes after {last}"
    return [Problem(path, "invalid_lines", what, expected, f"{low}-{high}")]


def _respelled(text: str) -> str:
    """The range that `text` seems to mean (`L3:9`, `3 - 9`), or nothing."""
    if text.strip().lower() == "all":
        return "all"
    match = re.fullmatch("[lL]?([1-9][0-9]{0,8}) ?(?:-|:|,|\\.\\.|\u2013) ?[lL]?([0-9]{1,9})", text)
    return f"{match[1]}-{match[2]}" if match and int(match[1]) <= int(match[2]) else ""


def path_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with an artifact's path: wrong_type, too_long or invalid_path.

    A path is relative to the project, with `/` between its parts. It is a literal name: `$HOME`
    and `~` are never expanded. Links are checked when the file is opened.
    """
    if not isinstance(value, str):
        return _wrong_type(value, path)
    # A handoff checks each of its paths several times; what is too long to be one isn't cached.
    look = _known_problem if len(value) <= MAX_PATH_BYTES else _path_problem
    found = look(value)
    return [found._replace(path=path)] if found else []


def place_problems(value: object, path: str) -> list[Problem]:
    """What is wrong with a text that says where something is, as a path or in words."""
    found = text_problems(value, path, required=False)
    if isinstance(value, str) and re.search(_BIDI, value):
        message = f"'{excerpt(value)}' {_TURNS}"
        found.append(Problem(path, "invalid_path", message, "a path or words without it"))
    return found


def _path_problem(value: str) -> Problem | None:
    """What is wrong with a path, wherever it is named."""
    if has_lone_surrogate(value):
        fault = "is not valid Unicode"
    else:
        # Composing may lengthen a text, though never by more than three times.
        size = len(value.encode())
        if size > MAX_PATH_BYTES or len(normal_path(value).encode()) > MAX_PATH_BYTES:
            message = f"'{excerpt(value)}' has {size:,} bytes"
            return Problem("", "too_long", message, f"at most {MAX_PATH_BYTES:,}")
        parts = normal_path(value).split("/")
        if len(parts) > MAX_PATH_PARTS:
            message = f"'{excerpt(value)}' has {len(parts)} parts"
            return Problem("", "too_long", message, f"at most {MAX_PATH_PARTS}")
        faults = (
            (not value, "is empty"),
            (re.search(_CONTROL, value), "contains a control character"),
            (re.search(_BIDI, value), _TURNS),
            ("\\" in value, "contains a backslash"),
            (":" in value, "contains a colon (a drive, a URL or a stream)"),
            (value.startswith("/"), "is absolute"),
            (parts == [""], "names no file"),
            (".." in parts, "steps out to a parent folder"),
            (re.search(r"[. ](/|\Z)", "/".join(parts)), "has a part that ends in a dot or a space"),
            (any(map(_DEVICE.fullmatch, parts)), "names a device on Windows"),
        )
        fault = next((fault for is_faulty, fault in faults if is_faulty), "")
    if not fault:
        return None
    expected = "a path relative to the project, such as src/auth.py"
    return Problem("", "invalid_path", f"'{excerpt(value)}' {fault}", expected)


_known_problem = lru_cache(maxsize=512)(_path_problem)


def normal_path(value: str) -> str:
    """The one spelling of a path that `path_problems` finds fine: NFC, no `./`, single slashes."""
    parts = unicodedata.normalize("NFC", value).split("/")
    return "/".join(part for part in parts if part not in ("", "."))
