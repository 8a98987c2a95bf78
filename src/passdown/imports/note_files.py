"""The files that a note names, and what it says became of each."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import NOT_STATED
from passdown.core.names import normal_path, path_problems
from passdown.imports.note_blocks import Block, LineIndex, NoteItem, clean, lines_of, storable
from passdown.imports.note_cues import NEXT, READING, any_of, section_of, snake_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_PATH = 1_024
MAX_NOTE = 400
MAX_MARKS = 6
"""How many signs, such as those for bold, may precede the first word of an item."""

_WORD = re.compile(
    r"[^\s`\"'<>()\[\]{}|,;*=\u2500-\u257f\u2018-\u201d]+(?:\[[\w.-]{1,40}\][^\s`\"'<>()\[\]{}|,;*=]*)*"
)
_LINES = re.compile(r"(?::|#L?)(\d{1,9})(?:[-:]L?(\d{1,9}))?$|::\w+$")
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9_]{0,9})$")
_PART = re.compile(r"[\w.@+~ \[\]-]+", re.UNICODE)
_BOXED = re.compile(r"[\u2502\u2503|].*[\u2502\u2503|]\s*$")
_HIDDEN = re.compile(r"\.[a-z]{3,20}(?:ignore|rc)")
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
_PRODUCTS = any_of(r"""
    console\.log|(?:node|next|nuxt|vue|react|express|three|d3|angular|ember|backbone|chart|socket|
    p5|solid|alpine|nest|discord|plotly|moment|day|tensorflow|asp|vb|f)\.(?:js|net|ts|io)
""")
_DIFF_LINE = re.compile(
    r"[ \t]{0,8}(?:(?P<created>new file:|create mode \d{6}|A(?=[ \t]))|"
    r"(?P<delete>deleted:|delete mode \d{6}|D(?=[ \t]))|"
    r"(?P<modify>modified:|M(?=[ \t])|\+\+\+(?= b/)))[ \t]{1,9}(?:b/)?(?P<path>\S{1,400})"
)
_STAT_LINE = re.compile(
    r"[ \t]{0,8}(?P<path>\S{1,400}?)[ \t]{1,200}(?P<modify>\|)[ \t]{1,9}\d{1,7}[ \t]?[+-]*"
)
_FOLDER = re.compile(r"(?:[\w.@+-]{1,100}/){1,20}")
_TREE_LINE = re.compile(
    r"(?P<indent>[ \t\u2500-\u257f|`+-]{0,80})"
    r"(?P<name>[\w.@+-]{1,100}/|[\w.@+-]{1,200}\.\w{1,10})(?=\s|$)"
)
_HOME = re.compile(r"/(?:home|Users)/[^/]+/|[A-Za-z]:/(?:Users/[^/]+/)?")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")

_VERBS = any_of(r"""
    \b(?:(?P<created>creat(?:ed|es?|ing)|new|wrote|written|introduc(?:ed|es)|generated|implemented|
    built|add(?:ed|s|ing)?(?! (?:[\w'-]+ ){1,6}(?:to|in|into|at)\b))|(?P<modify>modif(?:ied|ies|y|
    ications?)|appended|restructured|exposed|adjusted|chang(?:ed|es)|updat(?:ed|es?)|edit(?:ed|s)?|
    extended|refactor(?:ed|s|ing)?|fix(?:ed|es)?|renamed|rewrote|touched|moved|add(?:ed|s)?|
    improved|replaced|hardened|wired|migrated|patched|corrected|reworked|simplified|cleaned)|
    (?P<delete>delet(?:ed|es?)|remov(?:ed|es?)|dropped))\b
""")
_PAST = any_of(r"(?:ed|new|wrote|written|built)\Z")
_AFTER = re.compile(
    r"[`*)]{0,4}\s*(?:(?:was|were|is|has been|have been|:|\u2014|\u2013|-+|\()\s*)+"
    r"(?:now |newly )?(?=\w)"
)
# Something was made or removed in a file, not the file itself: "added a check" after it, "removed a
# flag from" before it.
_OBJECT = re.compile(r"\s+(?!(?:in|by|for|as|because|this)\b)[\w`\"]")
_FROM = re.compile(r".*\s(?:from|to|into|inside|within)\s+\W*\Z", re.DOTALL)
_CHANGE_KEY = re.compile(
    r"(?:files?_|artifacts?_)?(?:(?P<created>created|added|new)|(?P<modify>modified|changed|"
    r"updated|touched|edited|uncommitted)|(?P<delete>deleted|removed))(?:_files?)?"
)
_FILE_KEY = re.compile(r"(?:.*_)?(?:files?|paths?)")
_FILE_HEADING = any_of(r"\b(?:files?|documentation|documents?|deliverables|artifacts)\b")
_WORK_HEADING = any_of(r"""
    \b(?:changes?|changed|(?:completed|finished) (?:work|tasks?|this)|work (?:completed|done)|
    what (?:was|changed|i did|we did|got)|uncommitted|not (?:yet )?committed|accomplished|
    done this)\b
""")
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
    return " " not in words and any(_mentions(text, start, end))


# Paths in text


def _mentions(text: str, start: int, end: int, *, is_code: bool = False) -> Iterator[_Mention]:
    """The files that a passage names; in code, a bare name needs no backticks."""
    for match in _WORD.finditer(text, start, end):
        word = match[0]
        if len(word) > MAX_PATH or _is_template(text, match):
            continue
        bare = word if word.startswith("@/") else word.rstrip(".:!?").lstrip("@")
        at = match.start() + word.index(bare)
        lines = _LINES.search(bare)
        path = bare[: lines.start()] if lines else bare
        slashed = path.replace("\\", "/")
        around = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        is_path = _is_path(slashed, is_marked=is_code or "`" in around)
        if is_path and not (is_code and _is_drawn(text, match)):
            spelled = f"{lines[1]}-{lines[2] or lines[1]}" if lines and lines[1] else ""
            yield _Mention(slashed, at, at + len(path), spelled)


def _is_template(text: str, match: re.Match[str]) -> bool:
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    # After two asterisks a path is in bold, and an ending alone is a pattern.
    is_bold = text.endswith("**", 0, match.start()) and match[0][0] not in "/."
    is_open = before and before in "{}*$" and not is_bold
    return is_open or (after and after in "{}$") or "..." in match[0]


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
    is_placed = bool(folders) or is_marked
    if name in _KNOWN_NAMES:
        return is_placed
    match = _ENDING.search(name)
    if match is None or not name[: match.start()].strip(".-_"):
        return _HIDDEN.fullmatch(name) is not None and is_placed
    ending = match[1].lower()
    is_product = _PRODUCTS.fullmatch(name) is not None
    if not folders:
        is_known = ending in _ENDINGS and not is_product
        return is_known or (is_marked and ending in _DOUBTFUL)
    # A command such as `/plan.review` is no file, nor is "React/Next.js".
    is_named = is_marked or not (name[0].isupper() and is_product)
    is_likely = ending in _ENDINGS or (folders != [""] and (is_marked or match[1].islower()))
    return is_likely and is_named


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
        keys = [snake_case(key) for key in block.trail[-2:]] if is_report else []
        cells = block.cells if block.form == "row" else ()
        spans = [(c.start, c.end, snake_case(c.name)) for c in cells]
        for start, end, name in spans or [(block.start, block.end, "")]:
            near = [*keys, name] if is_report else []
            is_key = any(_FILE_KEY.fullmatch(key) or _CHANGE_KEY.fullmatch(key) for key in near)
            named = list(_mentions(text, start, end, is_code=block.form == "code" or is_key))
            if is_key and _FOLDER.fullmatch(text, start, end):
                named.append(_Mention(text[start:end], start, end))
            for found in named:
                path = folders.get(found.start, "") + found.path
                yield _described(text, block, found, near)._replace(path=path)


def _described(text: str, block: Block, found: _Mention, keys: list[str]) -> _Mention:
    """A mention with what its block says about it; `keys` are those of a report."""
    change, cue = _change(text, block, found, keys)
    kind = {"created": "files_created", "": "artifacts"}.get(change, "files_modified")
    if not change:
        before = text[max(block.start, found.start - 40) : found.start]
        if READING in section_of(block.trail).kinds or re.search(
            r"\bread\b", before, re.IGNORECASE
        ):
            kind, cue = "dependencies_for_next", "read"
    is_ticked = text[found.start - 1 : found.start] == "`"
    confidence = 0.9 if "/" in found.path else 0.85 if is_ticked or block.form == "code" else 0.7
    note = block.text if block.form == "item" else ""
    if block.form == "row":
        note = "; ".join(said[:MAX_NOTE] for said in _beside(block, found) if " " in said)
    confidence += 0.05 if change or is_ticked else 0.0
    note, cue = storable(note[:MAX_NOTE]), cue or "path"
    return found._replace(kind=kind, change=change, note=note, confidence=confidence, cue=cue)


def _beside(block: Block, found: _Mention) -> list[str]:
    """The other cells of a row."""
    return [cell.text.strip() for cell in block.cells if not cell.start <= found.start < cell.end]


def _change(text: str, block: Block, found: _Mention, keys: list[str]) -> tuple[str, str]:
    """What became of a file and the word that says so: by another cell of its row, by a key, by the
    words before or after it, or by the heading.
    """
    is_planned = block.check == "todo" or NEXT in section_of(block.trail).kinds
    said = _beside(block, found) if block.form == "row" else []
    verbs = [_VERBS.fullmatch(each) if keys else _VERBS.match(each) for each in said]
    verbs += [_CHANGE_KEY.fullmatch(key) for key in reversed(keys)]
    change = next((_verb(match) for match in verbs if match), ("", ""))
    if change[0]:
        return change
    if block.form != "row" or keys:
        change = _prose_change(text, block, found, is_planned=is_planned, is_past=bool(keys))
    if change[0] or is_planned or keys:
        return change
    if block.form in ("item", "heading") and found.start - block.start <= MAX_MARKS:
        change = _lead_change(block, text[found.end : min(block.end, found.end + 160)])
    titles = [(title, _VERBS.search(title)) for title in reversed(block.trail[-2:])]
    listed = (_verb(verb) for title, verb in titles if verb and _FILE_HEADING.search(title))
    return change if change[0] else next(listed, ("", ""))


def _verb(match: re.Match[str]) -> tuple[str, str]:
    return str(match.lastgroup), match[0].lower()


def _prose_change(
    text: str, block: Block, found: _Mention, *, is_planned: bool, is_past: bool
) -> tuple[str, str]:
    """What became of a file by the words around it; a plan counts only in the past tense."""
    before = text[max(block.start, found.start - 80) : found.start]
    after = text[found.end : min(block.end, found.end + 60)]
    said = list(_VERBS.finditer(re.split(r"[.;] |\n\s*\n", before)[-1]))
    link = _AFTER.match(after) if not is_past else None
    later = _VERBS.match(after, link.end()) if link else None
    match = later or (said[-1] if said else None)
    if match and (_PAST.search(match[0]) or not (is_planned or is_past)):
        is_part = match.lastgroup != "modify" and match[0].lower() != "new"
        pattern, beside = (_OBJECT, after) if later else (_FROM, match.string)
        is_part = is_part and pattern.match(beside, match.end()) is not None
        return ("modify" if is_part else str(match.lastgroup)), match[0].lower()
    first, gap, _ = text[block.start : min(block.end, block.start + 200)].partition("\n")
    lead = _VERBS.match(clean(first)) if gap and clean(first).endswith(":") else None
    is_lead = lead is not None and not is_planned and _PAST.search(lead[0])
    return _verb(lead) if lead and is_lead else ("", "")  # of each entry below


def _lead_change(block: Block, after: str) -> tuple[str, str]:
    """What became of a file with which an item begins, by the words after it or by the heading."""
    verb = next((m for m in _VERBS.finditer(after) if _PAST.search(m[0])), None)
    if verb:
        # "added a check", "removed a flag": of the file, that is a change.
        is_made = verb.lastgroup == "created" and verb[0][:3].lower() != "add"
        return ("created" if is_made else "modify"), verb[0].lower()
    for title in reversed(block.trail[-2:]):
        verb = _VERBS.search(title)
        if verb and _PAST.search(verb[0]):
            return _verb(verb)
    return ("modify", "work") if any(map(_WORK_HEADING.search, block.trail[-2:])) else ("", "")


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
    # A name in a folder tree is shorter than the path that it stands for.
    whole = max(group, key=lambda each: (min(each.end - each.start, len(path)), each is best))
    note = best.note or next((each.note for each in group if each.note), "")
    lines = next((each.lines for each in group if each.lines), "")
    about = note or NOT_STATED
    fields: dict[str, dict[str, Any]] = {
        "files_created": {"path": path, "purpose": about, "lines": "all"},
        "files_modified": {"path": path, "lines": lines or "all", "change_type": best.change}
        | {"description": about},
        "dependencies_for_next": {"file": path, "reason": about},
        "artifacts": {"path": path, **({"lines": lines} if lines else {})}
        | ({"note": note} if note else {}),
    }
    confidence = max(each.confidence for each in group)
    span, line = (whole.start, whole.end), index.line(whole.start)
    return NoteItem(best.kind, fields[best.kind], span, line, confidence, best.cue)
