"""The journal: where things are, what is in the way, what was learned; read from what stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import unknown_task
from passdown.model.arguments import number_problems, refuse_any, text_type_problems
from passdown.model.findable import SEVERITY_ORDER
from passdown.model.kinds import parse_address
from passdown.model.likeness import is_alike
from passdown.recall.told import Records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.model.rows import ItemRow
    from passdown.store.found import Entry
    from passdown.store.statements import Reader

Document = dict[str, Any]

MOST_PLACES = 200
MOST_BLOCKERS = 200
MOST_GOTCHAS = 200
_PAGE = 500
_PLAIN_FOLDERS = ("src", "lib", "app", "pkg", "packages", "crates", "source")


def journal(reader: Reader, task: str = "", *, limit: int = MOST_PLACES) -> Document:
    """The journal of one task, or of everything: `context_map`, `active_blockers`, `gotchas`.

    A place is listed once, as the latest handoff left it. Gotchas come by severity; those that say
    nearly the same are one entry that names each. Of all tasks together only those of high severity
    are listed: these are what every task has to know. `more` says which lists were cut.
    """
    problems = number_problems(limit, "limit", 1, 2**40) + text_type_problems(task=task)
    refuse_any("no such journal", problems)
    if task and reader.task(task) is None:
        raise unknown_task(task)
    records = Records(reader)
    places = [_place(row, records) for row in reader.context_map(task, limit + 1)]
    blockers = [_blocker(row, records) for row in reader.open_everywhere("b", task, limit + 1)]
    gotchas = _gotchas(reader, records, task, limit + 1)
    lists = {"context_map": places, "active_blockers": blockers, "gotchas": gotchas}
    return {
        "schema": "passdown/journal/1",
        "task": task or None,
        **{name: found[:limit] for name, found in lists.items()},
        "more": [name for name, found in lists.items() if len(found) > limit],
    }


def component_of(path: str) -> str:
    """The part of a project that a file belongs to, by its place in it."""
    folders = path.split("/")[:-1]
    while len(folders) > 1 and folders[0] in _PLAIN_FOLDERS:
        folders = folders[1:]
    return "/".join(folders[:2]) or "project"


def _place(row: ItemRow, records: Records) -> Document:
    told = records.told(row)
    lines = told.entry.get("lines", "")
    return {
        "component": component_of(row.path),
        "location": f"{row.path}:{lines}" if lines and lines != "all" else row.path,
        "notes": told.entry.get("note", ""),
        "task": row.task,
        "agent": told.author,
        "at": told.at,
        "item": row.address,
    }


def _blocker(row: ItemRow, records: Records) -> Document:
    told = records.told(row)
    return {
        "blocker": told.entry.get("blocker", row.title),
        "severity": row.grade,
        "impact": told.entry.get("impact", ""),
        "proposed_resolution": told.entry.get("suggested_resolution", ""),
        "task": row.task,
        "agent": told.author,
        "at": told.at,
        "item": row.address,
    }


def _gotchas(reader: Reader, records: Records, task: str, limit: int) -> list[Document]:
    """Gotchas that still hold, by severity and then newest first; each saying once."""
    standing = sorted(
        _standing(reader, task), key=lambda pair: SEVERITY_ORDER.get(pair[1].grade, 9)
    )
    kept: list[tuple[set[str], Document]] = []
    for start in range(0, len(standing), _PAGE):
        page = standing[start : start + _PAGE]
        words = reader.words_of(entry.id for entry, _ in page)
        for entry, row in page:
            own = set(words[entry.id].split())
            like = next((document for known, document in kept if is_alike(known, own)), None)
            if like is not None:
                like["items"].append(entry.address)
            elif len(kept) < limit:
                kept.append((own, _gotcha(row, records)))
    return [document for _, document in kept]


def _standing(reader: Reader, task: str) -> Iterator[tuple[Entry, ItemRow]]:
    """Gotchas of a task, or those of high severity of all, newest first."""
    before = 2**62
    while page := reader.entries_of_kind("gotcha", task=task, before=before):
        for entry in page:
            address = parse_address(entry.address)
            row = reader.item(*address) if address and entry.status == "active" else None
            if row is not None and (task or row.grade == "high"):
                yield (entry, row)
        before = page[-1].id


def _gotcha(row: ItemRow, records: Records) -> Document:
    told = records.told(row)
    return {
        "issue": told.entry.get("issue", row.title),
        "mitigation": told.entry.get("mitigation", ""),
        "severity": row.grade,
        "discovered": told.entry.get("discovered_in", ""),
        "task": row.task,
        "agent": told.author,
        "at": told.at,
        "items": [row.address],
    }
