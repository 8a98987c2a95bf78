"""Files that a note names: paths in prose, in code, in tables, in diff statistics.

A word with a slash and an ending is a path; a bare name is one if it has an ending that files of
projects have. Templates (`{id}.md`), addresses, routes and version numbers are none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.freeform.blocks import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PATH = 1_024


class Mention(NamedTuple):
    """A file as the text names it: the path with plain slashes, its place, lines and change."""

    path: str
    start: int
    end: int
    lines: str = ""
    change: str = ""


_WORD = re.compile(r"[^\s`\"'<>()\[\]{}|,;*=\u2500-\u257f\u2018-\u201d]+")
_BESIDE = frozenset("{}*<>$")
_LINES = re.compile(r"(?::|#L?)(\d{1,9})(?:[-:]L?(\d{1,9}))?$")
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9_]{0,9})$")
_PART = re.compile(r"[\w.@+~ -]+", re.UNICODE)
_BOXED = re.compile(r"[\u2502\u2503|].*[\u2502\u2503|]\s*$")
# fmt: off
_ENDINGS = frozenset({
    "md", "mdx", "rst", "txt", "adoc", "py", "pyi", "ipynb", "js", "jsx", "mjs", "cjs", "ts",
    "tsx", "vue", "svelte", "html", "htm", "css", "scss", "less", "json", "jsonl", "json5",
    "yaml", "yml", "toml", "ini", "cfg", "conf", "env", "lock", "csv", "tsv", "sql", "db", "sh",
    "bash", "zsh", "ps1", "bat", "xml", "svg", "png", "jpg", "jpeg", "gif", "pdf", "proto",
    "graphql", "tf", "java", "kt", "kts", "scala", "swift", "rb", "php", "pl", "lua", "dart",
    "cs", "cpp", "cc", "hpp", "hh", "ex", "exs", "erl", "clj", "gradle", "log", "patch", "diff",
})
# fmt: on
# Endings that are also words, methods or letters: believed only where the name is marked as code.
# fmt: off
_DOUBTFUL = frozenset({
    "go", "rs", "c", "h", "r", "m", "map", "d",
})
# fmt: on
# fmt: off
_NAMES = frozenset({
    "Makefile", "Dockerfile", "Justfile", "Procfile", "LICENSE", "NOTICE", "Gemfile",
    "Rakefile", "Vagrantfile", "CODEOWNERS", ".env", ".gitignore", ".dockerignore",
    ".editorconfig", ".gitattributes",
})
# fmt: on
# Products that are called like files.
_PRODUCTS = re.compile(
    r"(?:node|next|nuxt|vue|react|express|three|d3|angular|ember|backbone|chart|socket|p5|solid|"
    r"alpine|nest|discord|plotly|moment|day|tensorflow|asp|vb|f)\.(?:js|net|ts|io)",
    re.IGNORECASE,
)
_STATUS = {"A": "created", "M": "modify", "D": "delete"}
_DIFF_LINES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"[ \t]{0,8}(?P<path>\S{1,400}?)[ \t]{1,200}\|[ \t]{1,9}\d{1,7}[ \t]?[+-]*"),
        "modify",
    ),
    (re.compile(r"[ \t]{0,8}new file:[ \t]{1,9}(?P<path>\S{1,400})"), "created"),
    (re.compile(r"[ \t]{0,8}modified:[ \t]{1,9}(?P<path>\S{1,400})"), "modify"),
    (re.compile(r"[ \t]{0,8}deleted:[ \t]{1,9}(?P<path>\S{1,400})"), "delete"),
    (re.compile(r"[ \t]{0,8}create mode \d{6} (?P<path>\S{1,400})"), "created"),
    (re.compile(r"[ \t]{0,8}delete mode \d{6} (?P<path>\S{1,400})"), "delete"),
    (re.compile(r"\+\+\+ b/(?P<path>\S{1,400})"), "modify"),
    (re.compile(r"[ \t]{0,8}(?P<status>[AMD])[ \t]{1,8}(?P<path>\S{1,400})"), ""),
)


def mentions(text: str, start: int, end: int, *, is_code: bool = False) -> Iterator[Mention]:
    """The files that a stretch of the text names; in code, a bare name needs no backticks."""
    for match in _WORD.finditer(text, start, end):
        if not _may_be_path(match[0]):
            continue
        if match.end() - match.start() > MAX_PATH or _is_part_of_template(text, match):
            continue
        is_marked = is_code or _is_ticked(text, match)
        found = _mention(match[0], match.start(), is_marked=is_marked)
        if found and not (is_code and _is_drawn(text, match)):
            yield found


def _may_be_path(word: str) -> bool:
    """Whether a closer look is worth it: most words of a note have nothing of a path."""
    bare = word.rstrip(".:!?")
    has_sign = "." in bare or "/" in bare or "\\" in bare
    return has_sign or bare.lstrip("@").partition(":")[0].partition("#")[0] in _NAMES


def _is_ticked(text: str, match: re.Match[str]) -> bool:
    """Whether a word stands in a code span, first or after other words of a command."""
    before = text.rfind("`", max(0, match.start() - 200), match.start())
    after = text.find("`", match.end(), match.end() + 200)
    if before < 0 or after < 0 or "\n" in text[before:after]:
        return False
    # A code span that began so far back in its line isn't looked for.
    far = max(0, before - 1_000)
    line_start = text.rfind("\n", far, before) + 1
    return text.count("`", max(far, line_start), before) % 2 == 0


def _is_part_of_template(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1] if match.start() else ""
    after = text[match.end() : match.end() + 1]
    return before in _BESIDE - {"<", ">"} or after in _BESIDE - {"<", ">", "*"} or "..." in match[0]


def _is_drawn(text: str, match: re.Match[str]) -> bool:
    """Whether a word stands in a box of a picture, where names are broken over lines."""
    far, near = max(0, match.start() - 400), match.end() + 400
    line_start = text.rfind("\n", far, match.start()) + 1
    line_end = text.find("\n", match.end(), near)
    line = text[max(far, line_start) : line_end if line_end >= 0 else near]
    return _BOXED.search(line) is not None


def _mention(word: str, start: int, *, is_marked: bool) -> Mention | None:
    bare = word.rstrip(".:!?").lstrip("@") if not word.startswith("@/") else word
    start += len(word) - len(word.lstrip("@")) if not word.startswith("@/") else 0
    lines = _LINES.search(bare)
    path = bare[: lines.start()] if lines else bare
    if not _is_path(path.replace("\\", "/"), is_marked=is_marked):
        return None
    spelled = f"{lines[1]}-{lines[2] or lines[1]}" if lines else ""
    return Mention(path.replace("\\", "/"), start, start + len(path), spelled)


def _is_path(path: str, *, is_marked: bool) -> bool:
    if "://" in path or path.startswith(("www.", "//", "-")) or "@" in path[1:]:
        return False
    parts = path.split("/")
    if not parts[-1] or any(part and not _PART.fullmatch(part) for part in parts[1:]):
        return False
    if parts[-1] in _NAMES:
        return len(parts) > 1 or is_marked
    return _has_ending(parts, is_marked=is_marked)


def _has_ending(parts: list[str], *, is_marked: bool) -> bool:
    """Whether the last part ends like a file, by the rules for paths or for bare names."""
    name = parts[-1]
    match = _ENDING.search(name)
    if match is None or not name[: match.start()].strip(".-_"):
        return False
    ending = match[1].lower()
    if len(parts) > 1:
        return (ending in _ENDINGS or is_marked or match[1].islower()) and _is_spelled(parts)
    is_known = ending in _ENDINGS and _PRODUCTS.fullmatch(name) is None
    return is_known or (is_marked and ending in _DOUBTFUL)


def _is_spelled(parts: list[str]) -> bool:
    """Whether the folders of a path are names, and not words that a slash puts side by side."""
    folders = parts[:-1]
    return not all(_ENDING.search(part) for part in folders if part) or folders == [""]


def diff_mentions(text: str) -> Iterator[Mention]:
    """The files of diff statistics and status lists, each with what was done to it."""
    for line in lines_of(text):
        if len(line.text) > MAX_PATH:
            continue
        for pattern, change in _DIFF_LINES:
            match = pattern.fullmatch(line.text)
            if match and _is_path(match["path"], is_marked=True):
                done = change or _STATUS[match["status"]]
                start = line.start + match.start("path")
                yield Mention(match["path"], start, start + len(match["path"]), "", done)
                break
