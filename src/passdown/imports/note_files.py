"""Find the files that a note names, and what it says was done to them."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import NOT_STATED
from passdown.core.names import normal_path, path_problems
from passdown.imports.note_blocks import LineIndex, lines_of
from passdown.imports.note_words import READING, NoteItem, by_heading, clean, snake_case, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from passdown.imports.note_blocks import Block

MAX_PATH = 1_024
MAX_NOTE = 400

_WORD = re.compile(
    r"[^\s`\"'<>()\[\]{}|,;*=\u2500-\u257f\u2018-\u201d]+(?:\[[\w.-]{1,40}\][^\s`\"'<>()\[\]{}|,;*=]*)*"
)
_LINES = re.compile(r"(?::|#L?)(\d{1,9})(?:[-:]L?(\d{1,9}))?$")
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9_]{0,9})$")
_PART = re.compile(r"[\w.@+~ \[\]-]+", re.UNICODE)
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
# Endings that are also words, methods or letters: used only if the name is marked as code.
_DOUBTFUL = frozenset({"go", "rs", "c", "h", "r", "m", "map", "d"})
_KNOWN_NAMES = frozenset({
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
_DIFF_LINE = re.compile(
    r"[ \t]{0,8}(?:(?P<created>new file:|create mode \d{6}|A(?=[ \t]))|"
    r"(?P<delete>deleted:|delete mode \d{6}|D(?=[ \t]))|"
    r"(?P<modify>modified:|M(?=[ \t])|\+\+\+(?= b/)))[ \t]{1,9}(?:b/)?(?P<path>\S{1,400})"
)
_STAT_LINE = re.compile(
    r"[ \t]{0,8}(?P<path>\S{1,400}?)[ \t]{1,200}(?P<modify>\|)[ \t]{1,9}\d{1,7}[ \t]?[+-]*"
)
_TREE_LINE = re.compile(
    r"(?P<indent>[ \t\u2500-\u257f|`+-]{0,80})"
    r"(?P<name>[\w.@+-]{1,100}/|[\w.@+-]{1,200}\.\w{1,10})(?=\s|$)"
)

_VERBS = re.compile(
    r"\b(?:(?P<created>creat(?:ed|es?|ing)|new|wrote|written|introduc(?:ed|es)|generated|"
    r"implemented|built|add(?:ed|s|ing)?(?! (?:[\w'-]+ ){1,6}(?:to|in|into|at)\b))|"
    r"(?P<modify>modif(?:ied|ies|y)|chang(?:ed|es)|updat(?:ed|es?)|edit(?:ed|s)?|extended|"
    r"refactor(?:ed|s)?|fix(?:ed|es)?|renamed|rewrote|touched|moved|add(?:ed|s)?|improved|"
    r"replaced|hardened|wired|migrated|patched|corrected|reworked|simplified|cleaned)|"
    r"(?P<delete>delet(?:ed|es?)|remov(?:ed|es?)|dropped))\b",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[`*)]{0,4}\s*(?:(?:was|were|is|has been|have been|:|\u2014|\u2013|-+|\()\s*)+"
    r"(?:now |newly )?(?=\w)"
)
_CHANGE_KEY = re.compile(
    r"(?:files?_|artifacts?_)?(?:(?P<created>created|added|new)|(?P<modify>modified|changed|"
    r"updated|touched|edited)|(?P<delete>deleted|removed))(?:_files?)?"
)
_FILE_KEY = re.compile(r"(?:.*_)?(?:files?|paths?)")
_FILE_HEADING = re.compile(r"\b(?:files?|documentation|documents?|deliverables|artifacts)\b", re.I)
_HOME = re.compile(r"/(?:home|Users)/[^/]+/|[A-Za-z]:/(?:Users/[^/]+/)?")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
_RANK = {"files_created": 3, "files_modified": 3, "dependencies_for_next": 2, "artifacts": 1}


class _Mention(NamedTuple):
    """A file that the text names: its path with plain slashes, its position and lines; then what
    the note says about it.
    """

    path: str
    start: int
    end: int
    lines: str = ""
    kind: str = "artifacts"
    change: str = ""
    note: str = ""
    confidence: float = 0.95
    cue: str = "diff"


def files_of(
    text: str, blocks: Sequence[Block], *, is_report: bool, root: str = ""
) -> list[NoteItem]:
    """The files that a note names, each once, with the most informative mention."""
    named = list(_in_blocks(text, blocks, is_report=is_report))
    if not is_report:
        named += _in_diffs(text)
    roots = (f"{root.rstrip('/')}/", _root([each.path for each in named]))
    index = LineIndex(text)
    return [_found(path, group, index) for path, group in _grouped(named, roots).items()]


def is_file(text: str, start: int, end: int) -> bool:
    """Whether a passage holds only a path."""
    words = text[start:end].strip(" `")
    return " " not in words and any(mentions(text, start, end))


# Paths in text


def mentions(text: str, start: int, end: int, *, is_code: bool = False) -> Iterator[_Mention]:
    """The files that a passage names; in code, a bare name needs no backticks."""
    for match in _WORD.finditer(text, start, end):
        word, at = match[0], match.start()
        if len(word) > MAX_PATH or not _may_be_path(word) or _is_template(text, match):
            continue
        is_aliased = word.startswith("@/")
        bare = word if is_aliased else word.rstrip(".:!?").lstrip("@")
        at += 0 if is_aliased else len(word) - len(word.lstrip("@"))
        lines = _LINES.search(bare)
        path = bare[: lines.start()] if lines else bare
        slashed = path.replace("\\", "/")
        if not _is_path(slashed, is_marked=is_code or _is_ticked(text, match)):
            continue
        if not (is_code and _is_drawn(text, match)):
            spelled = f"{lines[1]}-{lines[2] or lines[1]}" if lines else ""
            yield _Mention(slashed, at, at + len(path), spelled)


def _may_be_path(word: str) -> bool:
    """Cheap test that excludes most words."""
    bare = word.rstrip(".:!?")
    has_sign = "." in bare or "/" in bare or "\\" in bare
    return has_sign or bare.lstrip("@").partition(":")[0].partition("#")[0] in _KNOWN_NAMES


def _is_template(text: str, match: re.Match[str]) -> bool:
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    return (before and before in "{}*$") or (after and after in "{}$") or "..." in match[0]


def _is_ticked(text: str, match: re.Match[str]) -> bool:
    """Whether a word is in a code span."""
    before = text.rfind("`", max(0, match.start() - 200), match.start())
    after = text.find("`", match.end(), match.end() + 200)
    if before < 0 or after < 0 or "\n" in text[before:after]:
        return False
    # A code span that begins further back in its line isn't found.
    far = max(0, before - 1_000)
    return text.count("`", max(far, text.rfind("\n", far, before) + 1), before) % 2 == 0


def _is_drawn(text: str, match: re.Match[str]) -> bool:
    """Whether a word is in a box of a drawing, where names are broken over lines."""
    far, near = max(0, match.start() - 400), match.end() + 400
    line_end = text.find("\n", match.end(), near)
    first = max(far, text.rfind("\n", far, match.start()) + 1)
    return _BOXED.search(text[first : line_end if line_end >= 0 else near]) is not None


def _is_path(path: str, *, is_marked: bool) -> bool:
    if "://" in path or path.startswith(("www.", "//", "-")) or "@" in path[1:]:
        return False
    *folders, name = path.split("/")
    if not name or any(part and not _PART.fullmatch(part) for part in (*folders[1:], name)):
        return False
    if name in _KNOWN_NAMES:
        return bool(folders) or is_marked
    match = _ENDING.search(name)
    if match is None or not name[: match.start()].strip(".-_"):
        # A hidden file such as `.gitleaksignore` is one where it is marked.
        is_hidden = re.fullmatch(r"\.[a-z]{3,20}(?:ignore|rc)", name) is not None
        return is_hidden and (is_marked or bool(folders))
    ending = match[1].lower()
    if folders:
        # Files that are listed with slashes are no folders.
        is_listed = all(_ENDING.search(part) for part in folders if part) and folders != [""]
        return (ending in _ENDINGS or is_marked or match[1].islower()) and not is_listed
    is_known = ending in _ENDINGS and _PRODUCTS.fullmatch(name) is None
    return is_known or (is_marked and ending in _DOUBTFUL)


def _in_diffs(text: str) -> Iterator[_Mention]:
    """The files in diff statistics and status lists, each with its change."""
    for line in lines_of(text):
        is_short = len(line.text) <= MAX_PATH
        match = _DIFF_LINE.fullmatch(line.text) or _STAT_LINE.fullmatch(line.text)
        if is_short and match and _is_path(match["path"], is_marked=True):
            change = next(n for n in ("created", "delete", "modify") if match.groupdict().get(n))
            kind = "files_created" if change == "created" else "files_modified"
            place = (line.start + match.start("path"), line.start + match.end("path"))
            yield _Mention(match["path"], *place, kind=kind, change=change)


def _folders(text: str, blocks: Sequence[Block]) -> dict[int, str]:
    """The folder of each file in a drawn folder tree, by the position of the file's name."""
    found: dict[int, str] = {}
    above: list[tuple[int, str]] = []
    last = -1
    for block in blocks:
        # A blank line separates branches of one tree, not trees.
        if block.form != "code" or block.line > last + 3:
            above = []
        if block.form != "code":
            continue
        last = block.line
        match = _TREE_LINE.match(text[block.start : block.end])
        if match is None:
            continue
        indent = len(match["indent"].expandtabs(4))
        above = [folder for folder in above if folder[0] < indent]
        if match["name"].endswith("/"):
            above.append((indent, match["name"]))
        elif above:
            found[block.start + match.start("name")] = "".join(name for _, name in above)
    return found


# What is said about them


def _in_blocks(text: str, blocks: Sequence[Block], *, is_report: bool) -> Iterator[_Mention]:
    folders = _folders(text, blocks)
    for block in blocks:
        is_row = block.form == "row"
        keys = [snake_case(key) for key in block.trail[-2:]] if is_report else []
        spans = [(c.start, c.end, snake_case(c.name)) for c in block.cells] if is_row else []
        for start, end, name in spans or [(block.start, block.end, "")]:
            near = [*keys, name] if is_report else []
            is_key = any(_FILE_KEY.fullmatch(key) or _CHANGE_KEY.fullmatch(key) for key in near)
            for found in mentions(text, start, end, is_code=block.form == "code" or is_key):
                yield _described(text, block, found, near)._replace(
                    path=folders.get(found.start, "") + found.path
                )


def _described(text: str, block: Block, found: _Mention, keys: list[str]) -> _Mention:
    """A mention with what its block says about it; `keys` are those of a report."""
    is_report = bool(keys)
    change, cue = _key_change(keys) if is_report else _change(text, block, found)
    kind = {"created": "files_created", "": "artifacts"}.get(change, "files_modified")
    if not change:
        reads = by_heading(block.trail[-2:])
        before = text[max(block.start, found.start - 40) : found.start]
        if (reads and reads.kind == READING) or re.search(r"\bread\b", before, re.IGNORECASE):
            kind, cue = "dependencies_for_next", "read"
    is_ticked = text[found.start - 1 : found.start] == "`"
    is_code = is_ticked or block.form == "code"
    confidence = 0.9 if "/" in found.path else 0.85 if is_code else 0.7
    confidence += 0.05 if change or is_ticked else 0.0
    note = ""
    if block.form == "row":
        beside = (c.text for c in block.cells if not c.start <= found.start < c.end)
        note = "; ".join(said for said in beside if " " in said)
    elif block.form == "item":
        note = block.text
    return found._replace(
        kind=kind,
        change=change,
        note=storable(clean(note)[:MAX_NOTE]),
        confidence=confidence,
        cue=cue or "path",
    )


def _key_change(keys: list[str]) -> tuple[str, str]:
    for key in reversed(keys):
        if match := _CHANGE_KEY.fullmatch(key):
            return str(match.lastgroup), key
    return "", ""


def _change(text: str, block: Block, found: _Mention) -> tuple[str, str]:
    """The change of a file, by a column, by the words before or after it, or by the heading."""
    if block.form == "row":
        for cell in block.cells:
            match = _VERBS.match(cell.text)
            if match and not cell.start <= found.start < cell.end:
                return str(match.lastgroup), match[0].lower()
    else:
        before = text[max(block.start, found.start - 80) : found.start]
        after = text[found.end : min(block.end, found.end + 60)]
        said = list(_VERBS.finditer(re.split(r"[.;] |\n\s*\n", before)[-1]))
        link = _AFTER.match(after)
        later = _VERBS.match(after, link.end()) if link else None
        match = later or (said[-1] if said else None)
        if match:
            return str(match.lastgroup), match[0].lower()
    for title in reversed(block.trail[-2:]):
        match = _VERBS.search(title)
        if match and _FILE_HEADING.search(title):
            return str(match.lastgroup), match[0].lower()
    return "", ""


# Paths in the project


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
    folders = {os.path.dirname(path) for path in absolute}
    if len(folders) < 2 or len({path[0] == "/" for path in absolute}) > 1:
        return ""
    try:
        common = os.path.commonpath(folders)
    except ValueError:  # several drives
        return ""
    return common.rstrip("/") + "/" if common.count("/") > 1 else ""


def _roots(path: str, near: set[str]) -> Iterator[str]:
    """The folders of a path below which the rest of it is one of the relative paths."""
    at = len(path)
    while (at := path.rfind("/", 0, at)) > 0:
        if path[at + 1 :].lstrip(".") in near and "/" in path[at + 1 :]:
            yield path[: at + 1]


def _grouped(named: Iterable[_Mention], roots: tuple[str, ...]) -> dict[str, list[_Mention]]:
    """Mentions by their path in the project; the end of a longer path counts as that path. Those
    outside the project are dropped.
    """
    groups: dict[str, list[_Mention]] = {}
    for each in named:
        root = next((root for root in roots if len(root) > 1 and each.path.startswith(root)), "")
        path = each.path.removeprefix(root)
        path = normal_path(_HOME.sub("", path, count=1) if _ABSOLUTE.match(path) else path)
        if not path.startswith("~") and not path_problems(path, "") and storable(path) == path:
            groups.setdefault(path, []).append(each)
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


def _found(path: str, group: list[_Mention], index: LineIndex) -> NoteItem:
    def worth(each: _Mention) -> tuple[int, bool, bool, int]:
        is_whole = normal_path(each.path).endswith(path)
        return (_RANK[each.kind], is_whole, bool(each.note), -each.start)

    best = max(group, key=worth)
    whole = best if path in best.path else max(group, key=lambda each: len(each.path))
    note = best.note or next((each.note for each in group if each.note), "")
    lines = next((each.lines for each in group if each.lines), "")
    fields = _fields(path, best, note, lines)
    confidence = max(each.confidence for each in group)
    span = (whole.start, whole.end)
    return NoteItem(best.kind, fields, span, index.line(whole.start), confidence, best.cue)


def _fields(path: str, best: _Mention, note: str, lines: str) -> dict[str, Any]:
    if best.kind == "files_created":
        return {"path": path, "purpose": note or NOT_STATED, "lines": "all"}
    if best.kind == "files_modified":
        fields = {"path": path, "lines": lines or "all", "change_type": best.change}
        return {**fields, "description": note or NOT_STATED}
    if best.kind == "dependencies_for_next":
        return {"file": path, "reason": note or NOT_STATED}
    given = {"path": path, "lines": lines, "note": note}
    return {name: value for name, value in given.items() if value}
