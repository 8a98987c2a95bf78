"""Extract a handoff's items, files and header from the blocks of a note."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import NOT_STATED
from passdown.core.names import agent_problems, id_problems, normal_path, path_problems
from passdown.imports import note_blocks as cues
from passdown.imports.note_blocks import (
    BLOCKER,
    BY_KIND,
    DECISION,
    GOTCHA,
    NEXT,
    PATTERN,
    QUESTION,
    Block,
    Cell,
    LineIndex,
    NoteExtraction,
    NoteHeader,
    NoteItem,
    NoteSpan,
    clean,
    lines_of,
    markdown_blocks,
    report_blocks,
    storable,
    without_signs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from passdown.imports.note_blocks import Cue


_TREE_LINE = re.compile(
    r"(?P<indent>[ \t\u2500-\u257f|`+-]{0,80})"
    r"(?P<name>[\w.@+-]{1,100}/|[\w.@+-]{1,200}\.\w{1,10})(?=\s|$)"
)


def folders_of(text: str, blocks: Sequence[Block]) -> dict[int, str]:
    """The folder of each file in a drawn folder tree, by the position of the file's name."""
    found: dict[int, str] = {}
    above: list[tuple[int, str]] = []
    last = -1
    for block in blocks:
        if block.form != "code":
            above = []
            continue
        # A blank line separates branches of one tree, not trees.
        if block.line > last + 3:
            above = []
        last = block.line
        line = text[block.start : block.end]
        match = _TREE_LINE.match(line)
        if match is None:
            continue
        indent = len(match["indent"].expandtabs(4))
        above = [folder for folder in above if folder[0] < indent]
        if match["name"].endswith("/"):
            above.append((indent, match["name"]))
        elif above:
            found[block.start + match.start("name")] = "".join(name for _, name in above)
    return found


MAX_PATH = 1_024


class PathMention(NamedTuple):
    """A file that the text names: its path with plain slashes, position, lines and change."""

    path: str
    start: int
    end: int
    lines: str = ""
    change: str = ""


_PATH_WORD = re.compile(r"[^\s`\"'<>()\[\]{}|,;*=\u2500-\u257f\u2018-\u201d]+")
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
# Endings that are also words, methods or letters: used only if the name is marked as code.
# fmt: off
_DOUBTFUL = frozenset({
    "go", "rs", "c", "h", "r", "m", "map", "d",
})
# fmt: on
# fmt: off
_KNOWN_FILE_NAMES = frozenset({
    "Makefile", "Dockerfile", "Justfile", "Procfile", "LICENSE", "NOTICE", "Gemfile",
    "Rakefile", "Vagrantfile", "CODEOWNERS", ".env", ".gitignore", ".dockerignore",
    ".editorconfig", ".gitattributes",
})
# fmt: on
# Products with names like files.
_PRODUCTS = re.compile(
    r"(?:node|next|nuxt|vue|react|express|three|d3|angular|ember|backbone|chart|socket|p5|solid|"
    r"alpine|nest|discord|plotly|moment|day|tensorflow|asp|vb|f)\.(?:js|net|ts|io)",
    re.IGNORECASE,
)
_DIFF_STATUS = {"A": "created", "M": "modify", "D": "delete"}
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


def mentions(text: str, start: int, end: int, *, is_code: bool = False) -> Iterator[PathMention]:
    """The files that a passage names; in code, a bare name needs no backticks."""
    for match in _PATH_WORD.finditer(text, start, end):
        if not _may_be_path(match[0]):
            continue
        if match.end() - match.start() > MAX_PATH or _is_part_of_template(text, match):
            continue
        is_marked = is_code or _is_ticked(text, match)
        found = _mention(match[0], match.start(), is_marked=is_marked)
        if found and not (is_code and _is_drawn(text, match)):
            yield found


def _may_be_path(word: str) -> bool:
    """Cheap test that excludes most words."""
    bare = word.rstrip(".:!?")
    has_sign = "." in bare or "/" in bare or "\\" in bare
    return has_sign or bare.lstrip("@").partition(":")[0].partition("#")[0] in _KNOWN_FILE_NAMES


def _is_ticked(text: str, match: re.Match[str]) -> bool:
    """Whether a word is in a code span."""
    before = text.rfind("`", max(0, match.start() - 200), match.start())
    after = text.find("`", match.end(), match.end() + 200)
    if before < 0 or after < 0 or "\n" in text[before:after]:
        return False
    # A code span that begins further back in its line isn't found.
    far = max(0, before - 1_000)
    line_start = text.rfind("\n", far, before) + 1
    return text.count("`", max(far, line_start), before) % 2 == 0


def _is_part_of_template(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1] if match.start() else ""
    after = text[match.end() : match.end() + 1]
    return before in _BESIDE - {"<", ">"} or after in _BESIDE - {"<", ">", "*"} or "..." in match[0]


def _is_drawn(text: str, match: re.Match[str]) -> bool:
    """Whether a word is in a box of a drawing, where names are broken over lines."""
    far, near = max(0, match.start() - 400), match.end() + 400
    line_start = text.rfind("\n", far, match.start()) + 1
    line_end = text.find("\n", match.end(), near)
    line = text[max(far, line_start) : line_end if line_end >= 0 else near]
    return _BOXED.search(line) is not None


def _mention(word: str, start: int, *, is_marked: bool) -> PathMention | None:
    bare = word.rstrip(".:!?").lstrip("@") if not word.startswith("@/") else word
    start += len(word) - len(word.lstrip("@")) if not word.startswith("@/") else 0
    lines = _LINES.search(bare)
    path = bare[: lines.start()] if lines else bare
    if not _is_path(path.replace("\\", "/"), is_marked=is_marked):
        return None
    spelled = f"{lines[1]}-{lines[2] or lines[1]}" if lines else ""
    return PathMention(path.replace("\\", "/"), start, start + len(path), spelled)


def _is_path(path: str, *, is_marked: bool) -> bool:
    if "://" in path or path.startswith(("www.", "//", "-")) or "@" in path[1:]:
        return False
    parts = path.split("/")
    if not parts[-1] or any(part and not _PART.fullmatch(part) for part in parts[1:]):
        return False
    if parts[-1] in _KNOWN_FILE_NAMES:
        return len(parts) > 1 or is_marked
    return _has_ending(parts, is_marked=is_marked)


def _has_ending(parts: list[str], *, is_marked: bool) -> bool:
    """Whether the last part has a file's ending."""
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
    """Whether the folders of a path are names, and not files listed with slashes."""
    folders = parts[:-1]
    return not all(_ENDING.search(part) for part in folders if part) or folders == [""]


def diff_mentions(text: str) -> Iterator[PathMention]:
    """The files in diff statistics and status lists, each with its change."""
    for line in lines_of(text):
        if len(line.text) > MAX_PATH:
            continue
        for pattern, change in _DIFF_LINES:
            match = pattern.fullmatch(line.text)
            if match and _is_path(match["path"], is_marked=True):
                done = change or _DIFF_STATUS[match["status"]]
                start = line.start + match.start("path")
                yield PathMention(match["path"], start, start + len(match["path"]), "", done)
                break


MAIN = {
    DECISION: "summary",
    GOTCHA: "issue",
    PATTERN: "pattern",
    NEXT: "step",
    QUESTION: "question",
    BLOCKER: "blocker",
}
"""The field that holds an item's own sentence."""

_WHY = re.compile(r" because | -- | \u2014 | due to | so that | since ", re.IGNORECASE)
_REMEDY = re.compile(r"(?:\bmitigation|\bfix|\bworkaround|\bsolution|\binstead)\b:?", re.IGNORECASE)
_PLACE = re.compile(r"`([^`\n]{1,200})`")
_NUMBER = re.compile(r"[~<>=+-]{0,2}\d[\d.,]*(?:-\d[\d.,]*)?\s?(?:%|\w{1,12})?(?:\s?/\s?\d+)?")
# A text of references only, such as "FR-FEAT-001 through FR-FEAT-005", is empty without these.
_IDS = re.compile(
    r"\b[A-Z][A-Z0-9]{0,20}(?:-[A-Z0-9/]{1,20}){1,6}\b|\b(?:through|and|to|or)\b|[\W\d_]+"
)
_GRADE = re.compile(r"severity|.*priority|likelihood|status|level|criticality", re.IGNORECASE)
_WHY_COLUMN = re.compile(r"(?:rationale|reason|why|basis|evidence)\b.*", re.IGNORECASE)
_REMEDY_COLUMN = re.compile(
    r"mitigation.*|recommendation|.*resolution|treatment|prevent.*|fix|workaround|enforcement|"
    r"suggested.*|remedy",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"#|no\.?|id|.* id|severity|priority|likelihood|status|owner|agent|effort|source|origin|"
    r"path|file|date|phase|tier|timing|loc|complexity|category|.*\bconsumer",
    re.IGNORECASE,
)


def item_of(kind: str, text: str) -> dict[str, Any]:
    """A line or a sentence as an item of its kind; empty if a record can't hold it."""
    said = storable(_without_opening(kind, text))
    if not said:
        return {}
    if kind == DECISION:
        match = _WHY.search(said, 8)
        reason = said[match.end() :].strip() if match else ""
        summary = said[: match.start()].strip() if match and reason else said
        return {"summary": summary, "rationale": reason or NOT_STATED}
    fields: dict[str, Any] = {MAIN[kind]: said}
    if kind == GOTCHA:
        fields |= {"mitigation": _remedy(said), "severity": level(text)}
    elif kind == PATTERN:
        place = _PLACE.search(text)
        fields["location"] = storable(place[1]) if place else NOT_STATED
    elif kind == NEXT:
        fields["priority"] = level(text)
    return fields


def _without_opening(kind: str, text: str) -> str:
    """`Risk: the disk is slow` as `the disk is slow`; other text before a colon is kept."""
    bare = without_signs(text)
    match = BY_KIND[kind].opening.match(bare)
    is_short = match is not None and " " not in match[0].strip()
    return bare[match.end() :].strip() or text if match and is_short else text


def _remedy(said: str) -> str:
    match = _REMEDY.search(said)
    rest = said[match.end() :].strip(" :;,-") if match else ""
    return rest or NOT_STATED


def row_of(kind: str, cells: tuple[Cell, ...], named: str) -> dict[str, Any]:
    """A row of a table as an item; `named` is the column that shows its kind, if one does."""
    rest = {cell.name: storable(cell.text) for cell in cells}
    rest = {name: text for name, text in rest.items() if text}
    main = named if named in rest else main_column(cells)
    text = rest.pop(main, "")
    if not text or not _IDS.sub("", text):
        return {}
    first = next(iter(rest), "")
    if len(text.split()) < 3 and first and not is_figure(rest[first]):
        text = f"{rest.pop(first)}: {text}"
    grade = next((value for name, value in rest.items() if _GRADE.fullmatch(name)), "")
    why, remedy = _taken(rest, _WHY_COLUMN), _taken(rest, _REMEDY_COLUMN)
    more = "; ".join(f"{name}: {value}" for name, value in rest.items())
    return _row_fields(kind, text, grade, (why, remedy, more))


def _row_fields(kind: str, text: str, grade: str, rest: tuple[str, str, str]) -> dict[str, Any]:
    why, remedy, more = rest
    about = "; ".join(part for part in (why, more) if part)
    if kind == DECISION:
        fields = {"summary": text, "rationale": why or NOT_STATED}
        notes = [part for part in (more, remedy) if part]
        return {**fields, "artifacts": notes} if notes else fields
    if kind == NEXT:
        whole = "; ".join(part for part in (about, remedy) if part)
        return {"step": f"{text} ({whole})" if whole else text, "priority": level(grade)}
    if kind == BLOCKER:
        severity = (
            "blocker" if re.search("critical|blocker", grade, re.IGNORECASE) else level(grade)
        )
        fields = {"impact": about, "suggested_resolution": remedy}
        return {"blocker": text, **_filled(fields), "severity": severity}
    if kind == QUESTION:
        return {"question": text, **_filled({"context": about, "recommendation": remedy})}
    if kind == PATTERN:
        return {"pattern": text, "location": about or remedy or NOT_STATED}
    fields = {"mitigation": remedy or NOT_STATED, "severity": level(grade)}
    return {"issue": text, **fields, **_filled({"discovered_in": about})}


def _filled(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _taken(rest: dict[str, str], column: re.Pattern[str]) -> str:
    name = next((name for name in rest if column.fullmatch(name)), "")
    return rest.pop(name) if name else ""


def main_column(cells: tuple[Cell, ...]) -> str:
    """The column with the item's sentence: the longest text that isn't a grade or a name."""
    about = [c for c in cells if not _ASIDE.fullmatch(c.name) and not is_figure(c.text)]
    about = [c for c in about if not _REMEDY_COLUMN.fullmatch(c.name)] or about
    longest = max(about or cells, key=lambda cell: len(cell.text))
    return longest.name


def is_aside(name: str) -> bool:
    """Whether a column only numbers, grades or locates its rows."""
    return _ASIDE.fullmatch(name) is not None


def is_figure(text: str) -> bool:
    """Whether a cell holds a number, with or without a unit."""
    return len(text) <= 60 and _NUMBER.fullmatch(text.strip(" *()")) is not None


def level(grade: str) -> str:
    """A grade in any wording as high, medium or low."""
    if re.search(r"\b(?:critical|high|urgent|severe|p[01]|must)\b|^1$", grade, re.IGNORECASE):
        return "high"
    return (
        "low" if re.search(r"\b(?:low|minor|p3|nice to have)\b", grade, re.IGNORECASE) else "medium"
    )


MAX_NOTE = 400

_MADE = r"creat(?:ed|es?|ing)|new|add(?:ed|s|ing)?|wrote|introduc(?:ed|es)|generated|implemented in"
_CHANGED = (
    r"modif(?:ied|ies|y)|chang(?:ed|es)|updat(?:ed|es?)|edit(?:ed|s)?|refactor(?:ed|s)?|extended|"
    r"fix(?:ed|es)?|renamed|rewrote|touched|moved"
)
_GONE = r"delet(?:ed|es?)|remov(?:ed|es?)|dropped"
_CHANGE = re.compile(
    rf"\b(?:(?P<created>{_MADE})|(?P<modify>{_CHANGED})|(?P<delete>{_GONE}))\b", re.I
)
_CHANGE_KEY = re.compile(
    r"(?:files_)?(created|added|new|modified|changed|updated|deleted|removed)(?:_files)?"
)
_KEYS = {"added": "created", "new": "created", "modified": "modify", "changed": "modify"} | {
    "updated": "modify",
    "removed": "delete",
    "deleted": "delete",
    "created": "created",
}
_FILE_KEY = re.compile(r"(?:.*_)?(?:files?|paths?)")
_FILE_HEADING = re.compile(r"\bfiles?\b", re.I)
_HOME = re.compile(r"/(?:home|Users)/[^/]+/|[A-Za-z]:/(?:Users/[^/]+/)?")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
_RANK = {"files_created": 3, "files_modified": 3, "dependencies_for_next": 2, "artifacts": 1}


class _Named(NamedTuple):
    """A mentioned file: its path in the project, its change, and the note about it."""

    mention: PathMention
    path: str
    kind: str
    change: str
    note: str
    confidence: float
    line: int
    cue: str


def files_of(
    text: str, blocks: Sequence[Block], *, is_report: bool, root: str = ""
) -> list[NoteItem]:
    """The files that a note names, each once, with the most informative mention."""
    index = LineIndex(text)
    named = list(_in_blocks(text, blocks, index, is_report=is_report))
    for mention in () if is_report else diff_mentions(text):
        kind = "files_created" if mention.change == "created" else "files_modified"
        line = index.line(mention.start)
        named.append(_Named(mention, mention.path, kind, mention.change, "", 0.95, line, "diff"))
    roots = (f"{root.rstrip('/')}/", _root([each.mention.path for each in named]))
    groups = _grouped(_placed(named, roots))
    return [_found(path, group) for path, group in groups.items()]


def _in_blocks(
    text: str, blocks: Sequence[Block], index: LineIndex, *, is_report: bool
) -> Iterator[_Named]:
    folders = folders_of(text, blocks)
    for block in blocks:
        spans = [(c.start, c.end) for c in block.cells] or [(block.start, block.end)]
        is_file_key = is_report and bool(block.trail) and _is_file_key(block.trail)
        for start, end in spans:
            for mention in mentions(text, start, end, is_code=block.form == "code" or is_file_key):
                folder = folders.get(mention.start, "")
                line = index.line(mention.start)
                yield _named(text, block, mention, folder, line=line, is_report=is_report)


def _is_file_key(keys: tuple[str, ...]) -> bool:
    return any(_FILE_KEY.fullmatch(key) or _CHANGE_KEY.fullmatch(key) for key in keys[-2:])


def _named(
    text: str, block: Block, mention: PathMention, folder: str, *, line: int, is_report: bool
) -> _Named:
    change, cue = _change(text, block, mention, is_report=is_report)
    kind = {"created": "files_created", "": "artifacts"}.get(change, "files_modified")
    reads = cues.by_heading(block.trail[-2:]) if not change else None
    opens = re.search(r"\bread\b", text[max(block.start, mention.start - 40) : mention.start], re.I)
    if not change and (opens or (reads and reads.kind == cues.READING)):
        kind, cue = "dependencies_for_next", "read"
    is_ticked = text[mention.start - 1 : mention.start] == "`"
    confidence = 0.9 if "/" in mention.path else 0.85 if is_ticked or block.form == "code" else 0.7
    confidence += 0.05 if change or is_ticked else 0.0
    note = _note(block, mention, is_report=is_report)
    path = f"{folder}{mention.path}" if folder else mention.path
    return _Named(mention, path, kind, change, note, confidence, line, cue or "path")


def _change(text: str, block: Block, mention: PathMention, *, is_report: bool) -> tuple[str, str]:
    """The change of a file, by the key, the column, the words before it or the heading."""
    if is_report:
        for key in reversed(block.trail[-2:]):
            match = _CHANGE_KEY.fullmatch(key)
            if match:
                return _KEYS[match[1]], key
        return "", ""
    if block.cells:
        for cell in block.cells:
            match = _CHANGE.match(cell.text)
            if match and not cell.start <= mention.start < cell.end:
                return str(match.lastgroup), match[0].lower()
    else:
        before = text[max(block.start, mention.start - 60) : mention.start]
        said = list(_CHANGE.finditer(before.rpartition(". ")[2]))
        if said:
            return str(said[-1].lastgroup), said[-1][0].lower()
    for title in reversed(block.trail[-2:]):
        match = _CHANGE.search(title)
        if match and _FILE_HEADING.search(title):
            return str(match.lastgroup), match[0].lower()
    return "", ""


def _note(block: Block, mention: PathMention, *, is_report: bool) -> str:
    """What is said about the file beside its name."""
    if block.cells:
        texts = (c.text for c in block.cells if not c.start <= mention.start < c.end)
        said = "; ".join(text for text in texts if " " in text)
    elif block.form == "item" and not is_report:
        said = block.text
    else:
        return ""
    return storable(clean(said)[:MAX_NOTE])


def _root(paths: list[str]) -> str:
    """The project folder of a note's absolute paths, as far as it can be inferred.

    A file that is also named by a relative path shows it; else it is what all of them share.
    """
    absolute = sorted({path for path in paths if _ABSOLUTE.match(path)})
    near = {path.lstrip("./") for path in paths if not _ABSOLUTE.match(path) and "/" in path}
    # Dots are stripped for the comparison alone: `.github/x.yml` is found as `github/x.yml`.
    shared = Counter(root for path in absolute for root in _roots(path, near))
    if shared:
        return shared.most_common(1)[0][0]
    if len({os.path.dirname(path) for path in absolute}) > 1:
        try:
            common = os.path.commonpath([os.path.dirname(path) for path in absolute])
        except ValueError:
            return ""
        return common.rstrip("/") + "/" if common.count("/") > 1 else ""
    return ""


def _roots(path: str, near: set[str]) -> Iterator[str]:
    """The folders of a path below which the rest of it is one of the relative paths."""
    at = len(path)
    while (at := path.rfind("/", 0, at)) > 0:
        if path[at + 1 :].lstrip(".") in near and "/" in path[at + 1 :]:
            yield path[: at + 1]


def _placed(named: Iterable[_Named], roots: tuple[str, ...]) -> Iterator[_Named]:
    """Mentions with their path in the project; those outside it are dropped."""
    for each in named:
        root = next((root for root in roots if len(root) > 1 and each.path.startswith(root)), "")
        path = each.path.removeprefix(root)
        path = normal_path(_HOME.sub("", path, count=1) if _ABSOLUTE.match(path) else path)
        if not path.startswith("~") and not path_problems(path, "") and storable(path) == path:
            yield each._replace(path=path)


def _grouped(named: Iterable[_Named]) -> dict[str, list[_Named]]:
    """Mentions by path; the end of a longer path in the note counts as that path."""
    groups: dict[str, list[_Named]] = {}
    for each in named:
        groups.setdefault(each.path, []).append(each)
    ends: dict[str, str] = {}
    for path in groups:
        parts = path.split("/")
        for at in range(1, len(parts)):
            ends.setdefault("/".join(parts[at:]), path)
    for path in sorted(groups, key=len):
        whole = ends.get(path)
        if whole and whole in groups:
            groups[whole] += groups.pop(path)
    return groups


def _found(path: str, group: list[_Named]) -> NoteItem:
    def worth(each: _Named) -> tuple[int, bool, bool, int]:
        is_whole = normal_path(each.mention.path).endswith(path)
        return (_RANK[each.kind], is_whole, bool(each.note), -each.mention.start)

    best = max(group, key=worth)
    whole = best if path in best.mention.path else max(group, key=lambda e: len(e.mention.path))
    note = best.note or next((each.note for each in group if each.note), "")
    lines = next((each.mention.lines for each in group if each.mention.lines), "")
    fields = _fields(path, best, note, lines)
    span = (whole.mention.start, whole.mention.end)
    return NoteItem(best.kind, fields, span, whole.line, max(e.confidence for e in group), best.cue)


def _fields(path: str, best: _Named, note: str, lines: str) -> dict[str, Any]:
    if best.kind == "files_created":
        return {"path": path, "purpose": note or NOT_STATED, "lines": "all"}
    if best.kind == "files_modified":
        change = {"modify": "modify", "delete": "delete"}[best.change]
        fields = {"path": path, "lines": lines or "all", "change_type": change}
        return {**fields, "description": note or NOT_STATED}
    if best.kind == "dependencies_for_next":
        return {"file": path, "reason": note or NOT_STATED}
    given = {"path": path, "lines": lines, "note": note}
    return {name: value for name, value in given.items() if value}


HEAD_LINES = 60
MAX_TITLE = 200
MAX_SUMMARY = 2_000

_FACT = re.compile(
    r"[ \t]*(?:[>*-][ \t]*)*\*{0,2}(?P<name>[A-Za-z_ ]{2,20}?)\*{0,2}:\*{0,2}[ \t]+(?P<value>\S.*)"
)
_TASK_TITLE = re.compile(r"#[ \t]+Task[ \t]+(?P<task>[^\s:]+):[ \t]*(?P<title>.*\S)")
_HEADER_NAMES = {
    "from": "from_agent",
    "agent": "from_agent",
    "author": "from_agent",
    "from agent": "from_agent",
    "to": "to_agent",
    "next agent": "to_agent",
    "to agent": "to_agent",
    "status": "outcome",
    "outcome": "outcome",
    "task": "task",
    "task id": "task",
    "title": "title",
    "summary": "summary",
}
_OUTCOMES = (
    ("blocked", re.compile(r"blocked|on hold", re.IGNORECASE)),
    ("failed", re.compile(r"fail(?:ed|ure)?|aborted", re.IGNORECASE)),
    ("partial", re.compile(r"partial(?:ly)?|in[ _-]progress|incomplete|wip", re.IGNORECASE)),
    (
        "completed",
        re.compile(r"complete[d]?|done|success(?:ful)?|finished|passed|ok", re.IGNORECASE),
    ),
)
_UNFINISHED = re.compile(
    r"\b(?:in[ _-]progress|not (?:yet )?(?:done|complete[d]?|finished)|incomplete|wip|unfinished|"
    r"partial(?:ly)?|almost|half[- ]done)\b",
    re.IGNORECASE,
)
_STATUS = re.compile(r"(?:current )?(?:status|state)\b[ \t]*[:\u2013\u2014-]?", re.IGNORECASE)
_OPEN_STATUS = re.compile(
    r"\bstatus(?: is)?[^\w\n]{1,12}(?:in[ _-]progress|wip|blocked|on hold|partial(?:ly)?|"
    r"incomplete|unfinished)\b",
    re.IGNORECASE,
)
_IN_WORK = re.compile(r"\W*(?:still |work )?(?:in[ _-]progress|wip)\W*", re.IGNORECASE)
_NONE = re.compile(r"(?:none|nothing|n/a|-)\b", re.IGNORECASE)
_SIGNS = re.compile(r"^\W+|_+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_fact(text: str) -> bool:
    """Whether a line states sender, receiver or outcome: `Next agent: tester`."""
    match = _FACT.fullmatch(text.strip()) if len(text) < 1_000 else None
    name = match["name"].strip().lower().replace("_", " ") if match else ""
    return name in _HEADER_NAMES and name not in ("task", "summary", "title")


def matter_end(text: str) -> int:
    """The end of front matter (facts between two lines of dashes), or 0."""
    if not text.startswith(("---\n", "---\r\n")):
        return 0
    for line in lines_of(text[:20_000]):
        if line.number > 1 and line.text.rstrip() in ("---", "..."):
            return line.end + 1
        if line.number > HEAD_LINES:
            break
    return 0


def header_of(text: str, blocks: Sequence[Block], *, is_report: bool) -> NoteHeader:
    """The facts at the head of a note; unusable ones are left out."""
    given = _report_facts(blocks) if is_report else _facts(text)
    title = given.get("title", "") or ("" if is_report else _title(blocks))
    summary = given.get("summary", "") or ("" if is_report else _first_sentence(text, blocks))
    outcome = _outcome(given.get("outcome", "") or ("" if is_report else _stated(blocks)))
    if outcome in ("", "completed") and not is_report and _goes_on(text, blocks):
        outcome = "partial"
    task = (_WORD.match(given.get("task", "")) or [""])[0]
    return NoteHeader(
        task=task if not id_problems(task, "") else "",
        title=storable(clean(title)[:MAX_TITLE]),
        summary=storable(clean(summary)[:MAX_SUMMARY]),
        outcome=outcome,
        from_agent=_agent(given.get("from_agent", "")),
        to_agent=_agent(given.get("to_agent", "")),
        is_summed_up=bool(given.get("summary")),
    )


def _facts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines_of(text[:40_000]):
        if line.number > HEAD_LINES or (found and line.text.startswith("## ")):
            break
        title = _TASK_TITLE.fullmatch(line.text) if len(line.text) < 1_000 else None
        if title:
            found.update(title.groupdict())
            continue
        match = _FACT.fullmatch(line.text) if len(line.text) < 1_000 else None
        name = (
            _HEADER_NAMES.get(match["name"].strip().lower().replace("_", " "), "") if match else ""
        )
        if match and name and not match["value"].startswith("["):
            found.setdefault(name, match["value"].strip("\"' "))
    return found


def _report_facts(blocks: Sequence[Block]) -> dict[str, str]:
    found: dict[str, str] = {}
    for block in blocks:
        if block.form == "value" and len(block.trail) == 1:
            name = block.trail[0].lower().replace("_", " ")
            found.setdefault(_HEADER_NAMES.get(name, name), block.text)
    notes = found.get("summary") or found.get("notes") or found.get("objective") or ""
    title = found.get("title") or found.get("objective") or found.get("name") or ""
    about = f"{found.get('task', '')} {found.get('category', '')}".strip()
    return {**found, "summary": notes, "title": title or about}


def _title(blocks: Sequence[Block]) -> str:
    return next((block.trail[0] for block in blocks if block.trail), "")


def _first_sentence(text: str, blocks: Sequence[Block]) -> str:
    """The first paragraph that is a sentence and not a list of facts about the note."""
    for block in blocks:
        is_long = block.form == "text" and len(block.text.split()) > 4
        if is_long and not block.text.endswith(":") and not _is_facts(text, block):
            return block.text
    return ""


def _is_facts(text: str, block: Block) -> bool:
    first = text[block.start : block.end].partition("\n")[0]
    return len(first) < 1_000 and _FACT.fullmatch(first.rstrip()) is not None


def _outcome(value: str) -> str:
    """The outcome, by the first word; that work is unfinished may be stated anywhere."""
    said = _SIGNS.sub("", value)
    begun = next((name for name, words in _OUTCOMES if words.match(said)), "")
    is_open = begun in ("", "completed") and _UNFINISHED.search(said) is not None
    return "partial" if is_open else begun


def _goes_on(text: str, blocks: Sequence[Block]) -> bool:
    """Whether a note mentions somewhere that its work is unfinished."""
    if _OPEN_STATUS.search(text[:40_000]):
        return True
    below = (block for block in blocks if block.trail and _IN_WORK.fullmatch(block.trail[-1]))
    return any(block.check != "done" and not _NONE.match(block.text) for block in below)


def _stated(blocks: Sequence[Block]) -> str:
    """The outcome in or below a heading such as `Status`."""
    for block in blocks:
        match = _STATUS.match(block.trail[-1]) if block.trail else None
        if match:
            return block.trail[-1][match.end() :].strip() or block.text[:200]
    return ""


def _agent(value: str) -> str:
    """The one agent that is named; none if there are several."""
    bare = re.sub(r"\([^()]{0,200}\)", "", value).strip(" *`@.")
    return bare if _WORD.fullmatch(bare) and not agent_problems(bare, "") else ""


_NOTHING = re.compile(
    r"-*|(?:none|n/?a|nothing|not applicable|met|pass(?:ed)?)\b.{0,25}|(?:no|yes|ok|true|false)\W*|"
    r"no (?:open |known |new |further )?(?:blocker|issue|risk|question|problem|concern)s?\b.{0,25}",
    re.IGNORECASE,
)
_SETTLED = re.compile(
    r"(?:complete[d]?|passed|pass|met|done|resolved|closed|fixed|compliant|ready|verified|"
    r"mitigated|accepted)\b.*",
    re.IGNORECASE,
)
_RESOLVED = re.compile(r"resolved\b", re.IGNORECASE)
_FIGURES = re.compile(
    r"(?:metric|value|score|attribute|field|result|criterion|weight|parameter|total)s?|.*\brpn",
    re.IGNORECASE,
)
_FACT_TABLE = re.compile(r"(?:factor|attribute|field|item|aspect|topic|property)s?", re.IGNORECASE)
_MISSING = re.compile(
    r"(?:missing|absent|broken|failed|failing|not (?:implemented|started|done)|unsupported)\b.*",
    re.IGNORECASE,
)
_RANKED = re.compile(r"p[0-3]\b.*", re.IGNORECASE)
_REMARK = re.compile(r"\*[^*\n].*[^*\n]\*|\[[^\[\]]{1,400}\]|_[^_\n].*_")
_TOTAL = re.compile(
    r"(?:grand total|total|composite|overall|sum)(?: score)?(?: ?\(.*)?", re.IGNORECASE
)
_FILE_COLUMN = re.compile(r"(?:.*\b)?(?:path|file|artifact|document|location)s?", re.IGNORECASE)
_ASIDE_OPENING = re.compile(r"(?:\w+ ){0,2}(?:rationale|reason|note on \w+):", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[)\"'*]{0,3}\s+(?=[A-Z\"'(\[*`\d])|\n(?=[ \t]*\n)")
_PROSE_KEYS = re.compile(
    r"(?:.*_)?(?:notes?|summary|comments?|description|details|message|remarks)"
)
_GATE_KEY = re.compile(r"(\w{1,60}?)_(?:passed|verified|ok)")

SURE = 0.5
"""Items with at least this confidence are kept; below it they are ambiguous."""


def extract_note(text: str, name: str = "", *, root: str = "") -> NoteExtraction:
    """Extract header, items, files and unclear passages of a note; `name` is its file's.

    Absolute paths below `root`, the project's folder, become relative to it.
    """
    report = report_blocks(text)
    blocks = markdown_blocks(text, matter_end(text)) if report is None else report
    finder = _ItemExtractor(text, is_report=report is not None)
    for at, block in enumerate(blocks):
        finder.take(block, blocks[at + 1] if at + 1 < len(blocks) else None)
    files = files_of(text, blocks, is_report=report is not None, root=root)
    found = [*finder.found, *files]
    found.sort(key=lambda item: (item.span, item.kind))
    header = header_of(text, blocks, is_report=report is not None)
    form = "text" if report is None else "report"
    return NoteExtraction(name, form, header, tuple(found), tuple(finder.unclear()))


class _ItemExtractor:
    """Collects the items of a note's blocks, each once."""

    def __init__(self, text: str, *, is_report: bool) -> None:
        self.text = text
        self.places = LineIndex(text)
        self.is_report = is_report
        self.found: list[NoteItem] = []
        self.ambiguous: list[NoteSpan] = []
        self._said: set[tuple[str, str]] = set()
        self._taken: dict[tuple[str, ...], list[str]] = {}
        self._left: list[tuple[tuple[str, ...], NoteSpan]] = []

    def take(self, block: Block, after: Block | None) -> None:
        if block.form == "row":
            self._row(block)
        elif block.form == "value":
            self._value(block)
        elif block.form == "item":
            self._item(block)
        elif block.form == "text":
            self._paragraph(block, after)
        elif block.form == "label" and block.text.endswith(":"):
            self._sentences(block)

    def _item(self, block: Block) -> None:
        if block.check == "done" or _is_nothing(block.text) or cues.is_reference_block(block):
            return
        if is_fact(self.text[block.start : block.end]):
            return
        if block.check == "todo":
            self._add(cues.Cue(cues.NEXT, 0.95, "[ ]"), block)
            return
        opening = cues.by_opening(block.text)
        heading = cues.by_heading(block.trail)
        if opening and (heading is None or cues.is_exact(opening)):
            self._add(opening, block)
        elif heading:
            self._add(heading, block)
        else:
            self._sentences(block)

    def _paragraph(self, block: Block, after: Block | None) -> None:
        if _is_nothing(block.text) or cues.is_reference_block(block):
            return
        if _is_remark(self.text[block.start : block.end]) or _ASIDE_OPENING.match(block.text):
            return
        opening = cues.by_opening(block.text)
        if opening and not block.text.endswith(":"):
            self._add(opening, block)
            return
        leads = block.text.endswith(":") or (
            after is not None and after.form in ("item", "row") and after.trail == block.trail
        )
        heading = None if leads else cues.by_heading(block.trail[-1:])
        if heading and len(block.trail) > 1:
            self._add(heading._replace(confidence=0.6), block)
        else:
            self._sentences(block)

    def unclear(self) -> list[NoteSpan]:
        """Passages that may hold an item, in the order of the text; among them the remaining
        entries of lists that were taken for the most part.
        """
        rest = Counter(trail for trail, _ in self._left)
        found = list(self.ambiguous)
        for trail, span in self._left:
            taken = self._taken.get(trail, [])
            if len(taken) >= rest[trail]:
                found.append(span._replace(hint=taken[0], cue=(*trail, "the list")[-1][:60]))
        return sorted(found)

    def _sentences(self, block: Block) -> None:
        for start, end in _sentences(self.text, block.start, block.end):
            said = clean(self.text[start:end])
            place = block._replace(text=said, start=start, end=end)
            place = place._replace(line=self.places.line(start))
            cue = cues.by_opening(said) or cues.by_words(said)
            if said.endswith(":"):
                continue  # it introduces what follows
            if cue and cue.kind in MAIN:
                self._add(cue, place)
                continue
            hint = cues.by_hints(said) or cues.by_heading(block.trail[-1:])
            if hint:
                self.ambiguous.append(NoteSpan(start, end, place.line, hint.kind, hint.words))
            elif block.form == "item":
                self._left.append((block.trail, NoteSpan(start, end, place.line, "", "")))

    def _row(self, block: Block) -> None:
        cells = block.cells
        if len(cells) < (1 if self.is_report else 2) or _TOTAL.fullmatch(cells[0].text):
            return
        if cues.is_reference_block(block):
            return
        named, cue = self._row_cue(block)
        if cue is None or cue.kind not in MAIN:
            return
        fact = next((cell.text for cell in cells if cell.name == named), "")
        if named and (_is_nothing(fact) or not fact):
            return
        if cue.kind != cues.DECISION and _is_settled(cue.kind, block):
            return
        self._keep(cue, row_of(cue.kind, cells, named), block)

    def _row_cue(self, block: Block) -> tuple[str, Cue | None]:
        """The column that shows a row's kind, if one does, and the cue."""
        columns = [(cell.name, cue) for cell in block.cells if (cue := cues.by_column(cell.name))]
        figures = [c for c in block.cells if is_figure(c.text) and not is_aside(c.name)]
        if columns and not self.is_report:
            order = [words.kind for words in cues.WORDS]
            named, cue = min(columns, key=lambda pair: order.index(pair[1].kind))
            # Steps with times or costs are a measurement, not work to do.
            return ("", None) if cue.kind == cues.NEXT and len(figures) > 1 else (named, cue)
        if self.is_report:
            return "", cues.by_key(block.trail)
        first = block.cells[0]
        if len(block.cells) == 2 and _FACT_TABLE.fullmatch(first.name):
            return block.cells[1].name, cues.by_opening(f"{first.text}: ")
        return "", _row_by_place(self.text, block)

    def _value(self, block: Block) -> None:
        key = block.trail[-1] if block.trail else ""
        gate = _GATE_KEY.fullmatch(key)
        if gate and block.text in ("true", "false"):
            result = "passed" if block.text == "true" else "failed"
            fields = {"name": gate[1], "result": result}
            self._keep(cues.Cue("gates", 0.9, key), fields, block)
            return
        if _is_nothing(block.text) or len(block.text.split()) < 2:
            return
        cue = cues.by_key(block.trail)
        if cue and cue.kind in MAIN:
            self._add(cue, block)
        elif _PROSE_KEYS.fullmatch(key):
            self._hints(block)

    def _hints(self, block: Block) -> None:
        """Prose in a report mostly describes what was done; what may be more is unclear."""
        for start, end in _sentences(self.text, block.start, block.end):
            said = self.text[start:end]
            cue = cues.by_words(said) or cues.by_hints(said)
            if cue and cue.kind == cues.GOTCHA and cue.confidence > SURE:
                self._add(cue, block._replace(text=said, start=start, end=end))
            elif cue:
                self.ambiguous.append(NoteSpan(start, end, block.line, cue.kind, cue.words))

    def _add(self, cue: Cue, block: Block) -> None:
        if cue.kind in MAIN:
            self._taken.setdefault(block.trail, []).append(cue.kind)
            self._keep(cue, item_of(cue.kind, block.text), block)

    def _keep(self, cue: Cue, fields: dict[str, Any], block: Block) -> None:
        main = str(fields.get(MAIN.get(cue.kind, "name"), ""))
        if not main or (cue.kind, main) in self._said:
            return
        self._said.add((cue.kind, main))
        span = (block.start, block.end)
        self.found.append(NoteItem(cue.kind, fields, span, block.line, cue.confidence, cue.words))


def _row_by_place(text: str, block: Block) -> Cue | None:
    """A row's kind by the headings above it; lists of files and tables of figures have none."""
    figures = [c for c in block.cells if is_figure(c.text) and not is_aside(c.name)]
    if len(figures) > 1 or any(_FIGURES.fullmatch(c.name) for c in block.cells):
        return None
    if any(_is_file(text, cell) for cell in block.cells):
        return None
    return cues.by_heading(block.trail) or _row_by_cells(block)


def _row_by_cells(block: Block) -> Cue | None:
    """A row's kind by a reason, by something missing, or by its rank."""
    for cell in block.cells:
        if cell.name.lower() in ("rationale", "why", "reason"):
            return cues.Cue(cues.DECISION, 0.7, cell.name.lower())
        if cell.name.lower() in ("status", "state") and _MISSING.match(cell.text.strip(" *")):
            return cues.Cue(cues.GOTCHA, 0.7, cell.text.lower()[:60])
        if cell.name.lower() == "priority" and _RANKED.fullmatch(cell.text):
            return cues.Cue(cues.NEXT, 0.6, "priority")
    return None


def _is_file(text: str, cell: Cell) -> bool:
    """Whether a cell holds only a path."""
    words = text[cell.start : cell.end].strip(" `")
    is_place = "/" in words or _FILE_COLUMN.fullmatch(cell.name) is not None
    return is_place and " " not in words and any(mentions(text, cell.start, cell.end))


def _is_remark(text: str) -> bool:
    """Whether a paragraph is all in italics or brackets: a remark about the note."""
    return all(_REMARK.fullmatch(line.strip(" >")) for line in text.strip().splitlines())


def _is_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text.strip(" .*")) is not None


def _is_settled(kind: str, block: Block) -> bool:
    """Whether a row is settled: a step done, a risk closed, a question answered."""
    status = [c.text for c in block.cells if c.name.lower() in ("status", "state")]
    if any(_SETTLED.match(text.strip(" *")) for text in status):
        return True
    answers = (c.text.strip(" *") for c in block.cells[1:])
    return kind == cues.QUESTION and any(_RESOLVED.match(answer) for answer in answers)


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    at = start
    for match in _SENTENCE.finditer(text, start, end):
        if text[at : match.start()].strip():
            yield at, match.start()
        at = match.end()
    if text[at:end].strip():
        yield at, end
