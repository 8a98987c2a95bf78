"""The journal: context map, active blockers and gotchas, as data and as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from passdown.context.pipeline import NO_LIMIT, escaped, left_out_line, table_lines
from passdown.core.arguments import number_problems, raise_problems, text_type_problems
from passdown.core.index_entries import SEVERITY_ORDER
from passdown.core.kinds import parse_address
from passdown.core.results import Journal
from passdown.core.rows import ItemContent, ItemRow, newest_first
from passdown.core.types import JsonObject
from passdown.core.words import is_similar
from passdown.history.items import ItemTexts
from passdown.store.entries import IndexedEntry
from passdown.store.statements import Reader
from passdown.workspace.context import Context

_PAGE = 500
_PLAIN_FOLDERS = ("src", "lib", "app", "pkg", "packages", "crates", "source")


def journal(context: Context, task: str = "", *, limit: int = 200) -> Journal:
    """Where things are, active blockers and gotchas: of a task, or of all work.

    A place is listed once, as the latest handoff left it. Gotchas come by severity; those that say
    nearly the same are one entry that names each. Of all work only gotchas of high severity are
    listed. `more` says which lists were cut.

    Args:
        task: Only what concerns this task.
        limit: The largest number of entries in each list.
    """
    problems = number_problems(limit, "limit", 1, 2**40) + text_type_problems(task=task)
    raise_problems("no such journal", problems)
    with context.store.reading() as reader:
        if task:
            reader.existing_task(task)
        records = ItemTexts(reader)
        places = [_entry(row, records) for row in reader.context_map(task, limit + 1)]
        blockers = [_entry(row, records) for row in reader.open_everywhere("b", task, limit + 1)]
        gotchas = _gotchas(reader, records, task, limit + 1)
    lists = {"context_map": places, "active_blockers": blockers, "gotchas": gotchas}
    return Journal(
        {
            "schema": "passdown/journal/1",
            "task": task or None,
            **{name: found[:limit] for name, found in lists.items()},
            "more": [name for name, found in lists.items() if len(found) > limit],
        }
    )


def component_of(path: str) -> str:
    """The part of a project that a file belongs to, by its path."""
    folders = path.split("/")[:-1]
    while len(folders) > 1 and folders[0] in _PLAIN_FOLDERS:
        folders = folders[1:]
    return "/".join(folders[:2]) or "project"


def _place(row: ItemRow, content: ItemContent) -> JsonObject:
    lines = content.entry.get("lines", "")
    return {
        "component": component_of(row.path),
        "location": f"{row.path}:{lines}" if lines and lines != "all" else row.path,
        "notes": content.entry.get("note", ""),
    }


def _blocker(row: ItemRow, content: ItemContent) -> JsonObject:
    return {
        "blocker": content.entry.get("blocker", row.title),
        "severity": row.grade,
        "impact": content.entry.get("impact", ""),
        "proposed_resolution": content.entry.get("suggested_resolution", ""),
    }


def _gotchas(reader: Reader, records: ItemTexts, task: str, limit: int) -> list[JsonObject]:
    """Active gotchas, by severity and then newest first; near-duplicates as one."""
    standing = sorted(
        _current_gotchas(reader, task), key=lambda pair: SEVERITY_ORDER.get(pair[1].grade, 9)
    )
    kept: list[tuple[set[str], JsonObject]] = []
    for start in range(0, len(standing), _PAGE):
        page = standing[start : start + _PAGE]
        words = reader.words_of(entry.id for entry, _ in page)
        for entry, row in page:
            own = set(words[entry.id].split())
            like = next((document for known, document in kept if is_similar(known, own)), None)
            if like is not None:
                like["items"].append(entry.address)
            elif len(kept) < limit:
                kept.append((own, _entry(row, records)))
    return [document for _, document in kept]


def _current_gotchas(reader: Reader, task: str) -> Iterator[tuple[IndexedEntry, ItemRow]]:
    """Gotchas of a task, or those of high severity of all, newest first."""
    for entry in newest_first(
        lambda before: reader.entries_of_kind("gotcha", task=task, before=before), "id"
    ):
        address = parse_address(entry.address)
        row = reader.item(*address) if address and entry.status == "active" else None
        if row is not None and (task or row.grade == "high"):
            yield (entry, row)


def _gotcha(row: ItemRow, content: ItemContent) -> JsonObject:
    return {
        "issue": content.entry.get("issue", row.title),
        "mitigation": content.entry.get("mitigation", ""),
        "severity": row.grade,
        "discovered": content.entry.get("discovered_in", ""),
    }


_ENTRIES = {"a": _place, "b": _blocker, "g": _gotcha}


def _entry(row: ItemRow, records: ItemTexts) -> JsonObject:
    """An item as the journal lists it, and where it came from."""
    content = records.content(row)
    origin = {"task": row.task, "agent": content.author, "at": content.at}
    item = {"items": [row.address]} if row.letter == "g" else {"item": row.address}
    return {**_ENTRIES[row.letter](row, content), **origin, **item}


def journal_page(journal: Journal) -> str:
    """A journal as Markdown; stored text can't leave its table cell."""
    about = journal.task or "all work"
    parts = [
        f"# Journal: {about}\n",
        _section("Active blockers", journal.active_blockers, _BLOCKERS, "Nothing is in the way."),
        _section("Gotchas", journal.gotchas, _GOTCHAS, "None that still holds."),
        _section("Context map", journal.context_map, _PLACES, "No file was handed over yet."),
    ]
    if journal.more:
        named = [name.replace("_", " ") for name in journal.more]
        parts.append(left_out_line([f"more of {', '.join(named)}"], "passdown journal --limit N"))
    return "\n".join(parts).rstrip() + "\n"


_BLOCKERS = (("Blocker", "blocker"), ("Impact", "impact"), ("Try", "proposed_resolution"))
_GOTCHAS = (("Severity", "severity"), ("Issue", "issue"), ("Do", "mitigation"))
_PLACES = (("Component", "component"), ("Location", "location"), ("Notes", "notes"))


def _section(
    title: str, rows: Sequence[JsonObject], columns: Sequence[tuple[str, str]], empty: str
) -> str:
    if not rows:
        return f"## {title}\n\n{empty}\n"
    cells = [
        [
            *(escaped(row.get(name, ""), NO_LIMIT) for _, name in columns),
            escaped(", ".join(row.get("items", [row.get("item", "")])), NO_LIMIT),
        ]
        for row in rows
    ]
    table = table_lines([*(head for head, _ in columns), "Source"], cells)
    return "\n".join([f"## {title}", "", *table, ""])
