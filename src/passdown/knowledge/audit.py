"""Find duplicate, outdated, never-used and orphaned entries, without a model.

Counts are exact; of each kind of finding the newest are listed, up to a limit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from passdown.core.arguments import number_problems, raise_problems
from passdown.core.index_entries import COMPARED_LETTERS
from passdown.core.kinds import DELIVERY_STREAM, KINDS, LIVE, parse_address
from passdown.core.results import Audit
from passdown.core.rows import newest_first
from passdown.core.types import JsonObject, Progress
from passdown.core.words import similar_groups
from passdown.history.items import CitedFiles, ItemTexts
from passdown.ledger.project_files import Project
from passdown.search.existing import current_decisions
from passdown.store.entries import IndexedEntry
from passdown.store.statements import Reader
from passdown.workspace.context import Context

FINDINGS = ("duplicates", "stale", "never_recalled", "orphaned", "forked")
_AUDITED = (*(KINDS[letter].word for letter in COMPARED_LETTERS), "warning")
_PAGE = 500


def audit(context: Context, *, limit: int = 20, progress: Progress | None = None) -> Audit:
    """Find duplicate, outdated, never-used and orphaned entries.

    `duplicates` are groups of items of one kind in nearly the same words; `stale` cite files that
    have changed; `never_recalled` were in no brief and no search result that was recorded;
    `orphaned` are written nodes without an edge, and items whose files are all gone; `forked` are
    superseded decisions with several active successors. `incomplete` names findings for which only
    the likeliest entries were compared, since there were too many.

    Args:
        limit: The largest number of findings of each kind.
        progress: Called with how many entries are done, and of how many.
    """
    raise_problems("can't be audited", number_problems(limit, "limit", 1))
    with context.store.reading() as reader:
        live = [entry for kind in _AUDITED for entry in _live(reader, kind)]
        counts = Counter(entry.kind for entry in live)
        stale, gone = _by_files(reader, context.project, live, progress)
        records = newest_first(lambda before: reader.latest(before, _PAGE, DELIVERY_STREAM))
        delivered = {name for each in records for name in each.document().get("shown", ())}
        named = (row.node.id for row in reader.known_nodes())
        alone = [name for name in named if not _has_edge(reader, name)]
        duplicates, is_complete = _duplicates(reader, live)
        found: dict[str, list[Any]] = {
            "duplicates": duplicates,
            "stale": stale,
            "never_recalled": [e.address for e in live if e.address not in delivered],
            "orphaned": [*alone, *gone],
            "forked": list(_forked(reader)),
        }
    return Audit(
        {
            "schema": "passdown/audit/1",
            "standing": dict(sorted(counts.items())),
            "counts": {name: len(found[name]) for name in FINDINGS},
            "incomplete": [] if is_complete else ["duplicates"],
            **{name: found[name][:limit] for name in FINDINGS},
        }
    )


def _live(reader: Reader, kind: str) -> Iterator[IndexedEntry]:
    found = newest_first(lambda at: reader.entries_of_kind(kind, before=at, limit=_PAGE), "id")
    return (entry for entry in found if entry.status in LIVE)


def _duplicates(reader: Reader, live: list[IndexedEntry]) -> tuple[list[list[str]], bool]:
    """Groups of near-duplicates of one kind, the oldest first; whether all were compared."""
    compared = {entry.id: entry for entry in live if entry.kind != "warning"}
    words: dict[str, dict[int, list[str]]] = defaultdict(dict)
    numbers = list(compared)
    for start in range(0, len(numbers), _PAGE):
        for number, text in reader.words_of(numbers[start : start + _PAGE]).items():
            words[compared[number].kind][number] = text.split()
    found = [similar_groups(texts) for texts in words.values()]
    groups = sorted((group for alike in found for group in alike.groups), reverse=True)
    addresses = [[compared[number].address for number in group] for group in groups]
    return addresses, all(alike.is_complete for alike in found)


def _by_files(
    reader: Reader, project: Project, live: list[IndexedEntry], progress: Progress | None
) -> tuple[list[JsonObject], list[str]]:
    """Items that cite changed files, and items whose files are all gone."""
    records = ItemTexts(reader)
    check = CitedFiles(reader, project, records)
    stale: list[JsonObject] = []
    gone: list[str] = []
    for done, entry in enumerate(live):
        address = parse_address(entry.address)
        row = reader.item(*address) if address else None
        content = records.content(row) if row else None
        if row is not None and content is not None:
            changes = check.of(row, content)
            if changes and check.are_all_gone(row, content):
                gone.append(entry.address)
            elif changes:
                stale.append({"item": entry.address, "files": list(changes)})
        if progress and done % 100 == 0:
            progress(done, len(live))
    if progress:
        progress(len(live), len(live))
    return stale, gone


def _has_edge(reader: Reader, name: str) -> bool:
    return bool(reader.edges(source=name, limit=1) or reader.edges(target=name, limit=1))


def _forked(reader: Reader) -> Iterator[JsonObject]:
    """Superseded decisions where chains part into several that are active, and stay apart."""
    by: dict[str, list[str]] = defaultdict(list)
    for edge in reader.all_edges("supersedes"):
        by[edge.target].append(edge.source)
    for target in sorted(target for target, sources in by.items() if len(sources) > 1):
        entry = reader.entry_at(target)
        branches = {name: reader.entry_at(name) for name in by[target]} if entry else {}
        if entry is None or entry.status in LIVE:
            continue
        ends = {_current_ends(reader, branch) for branch in branches.values() if branch} - {()}
        if len(ends) > 1:
            yield {"item": target, "superseded_by": sorted({name for end in ends for name in end})}


def _current_ends(reader: Reader, entry: IndexedEntry) -> tuple[str, ...]:
    """The decision itself if it is active, else its active successors."""
    if entry.status in LIVE:
        return (entry.address,)
    held = current_decisions(reader, [entry]).get(entry.address, ())
    return tuple(each.address for each in held if each.status in LIVE)
