"""The files of a note, each once: made, changed, to be read, or only named."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.model.freeform import cues
from passdown.model.freeform.blocks import Places
from passdown.model.freeform.cleaning import clean, storable
from passdown.model.freeform.paths import Mention, diff_mentions, mentions
from passdown.model.freeform.trees import folders_of
from passdown.model.freeform.values import Found
from passdown.model.kinds import NOT_STATED
from passdown.model.names import normal_path, path_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from passdown.model.freeform.blocks import Block

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
    """A mention in its place: the path in the project, what happened to it, what is said of it."""

    mention: Mention
    path: str
    kind: str
    change: str
    note: str
    confidence: float
    line: int
    cue: str


def files_of(text: str, blocks: Sequence[Block], *, is_report: bool, root: str = "") -> list[Found]:
    """The files that a note names, each once, from where it says most of them."""
    named = list(_in_blocks(text, blocks, is_report=is_report))
    if not is_report:
        named += _in_diffs(text)
    roots = (f"{root.rstrip('/')}/", _root([each.mention.path for each in named]))
    groups = _grouped(_placed(named, roots))
    return [_found(path, group) for path, group in groups.items()]


def _in_blocks(text: str, blocks: Sequence[Block], *, is_report: bool) -> Iterator[_Named]:
    folders, places = folders_of(text, blocks), Places(text)
    for block in blocks:
        spans = [(c.start, c.end) for c in block.cells] or [(block.start, block.end)]
        is_file_key = is_report and bool(block.trail) and _is_file_key(block.trail)
        for start, end in spans:
            for mention in mentions(text, start, end, is_code=block.form == "code" or is_file_key):
                folder = folders.get(mention.start, "")
                line = places.line(mention.start)
                yield _named(text, block, mention, folder, line=line, is_report=is_report)


def _is_file_key(keys: tuple[str, ...]) -> bool:
    return any(_FILE_KEY.fullmatch(key) or _CHANGE_KEY.fullmatch(key) for key in keys[-2:])


def _in_diffs(text: str) -> Iterator[_Named]:
    places = Places(text)
    for mention in diff_mentions(text):
        line = places.line(mention.start)
        kind = "files_created" if mention.change == "created" else "files_modified"
        yield _Named(mention, mention.path, kind, mention.change, "", 0.95, line, "diff")


def _named(
    text: str, block: Block, mention: Mention, folder: str, *, line: int, is_report: bool
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


def _change(text: str, block: Block, mention: Mention, *, is_report: bool) -> tuple[str, str]:
    """What happened to a file, by the key, the column, the words before it or the heading."""
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


def _note(block: Block, mention: Mention, *, is_report: bool) -> str:
    """What the note says of the file beside its name."""
    if block.cells:
        texts = (c.text for c in block.cells if not c.start <= mention.start < c.end)
        said = "; ".join(text for text in texts if " " in text)
    elif block.form == "item" and not is_report:
        said = block.text
    else:
        return ""
    return storable(clean(said)[:MAX_NOTE])


def _root(paths: list[str]) -> str:
    """The folder that a note's absolute paths lie in: that of the project, as far as can be told.

    A file that is named both ways gives it away; else it is what all of them share.
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
    """The folders that a path may lie in, so that the rest of it is one of those named."""
    at = len(path)
    while (at := path.rfind("/", 0, at)) > 0:
        if path[at + 1 :].lstrip(".") in near and "/" in path[at + 1 :]:
            yield path[: at + 1]


def _placed(named: Iterable[_Named], roots: tuple[str, ...]) -> Iterator[_Named]:
    """Mentions with their path in the project; those that lead out of it have none."""
    for each in named:
        root = next((root for root in roots if len(root) > 1 and each.path.startswith(root)), "")
        path = each.path.removeprefix(root)
        path = normal_path(_HOME.sub("", path, count=1) if _ABSOLUTE.match(path) else path)
        if not path.startswith("~") and not path_problems(path, "") and storable(path) == path:
            yield each._replace(path=path)


def _grouped(named: Iterable[_Named]) -> dict[str, list[_Named]]:
    """Mentions by path; the end of a longer path that the note names is that path."""
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


def _found(path: str, group: list[_Named]) -> Found:
    def worth(each: _Named) -> tuple[int, bool, bool, int]:
        is_whole = normal_path(each.mention.path).endswith(path)
        return (_RANK[each.kind], is_whole, bool(each.note), -each.mention.start)

    best = max(group, key=worth)
    whole = best if path in best.mention.path else max(group, key=lambda e: len(e.mention.path))
    note = best.note or next((each.note for each in group if each.note), "")
    lines = next((each.mention.lines for each in group if each.mention.lines), "")
    fields = _fields(path, best, note, lines)
    span = (whole.mention.start, whole.mention.end)
    return Found(best.kind, fields, span, whole.line, max(e.confidence for e in group), best.cue)


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
