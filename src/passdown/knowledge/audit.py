"""Find duplicate, outdated, never-used and orphaned entries, without a model.

Counts are exact; of each kind of finding the newest are listed, up to a limit.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from passdown.core.arguments import number_problems, raise_problems
from passdown.core.index_entries import COMPARED_LETTERS
from passdown.core.kinds import DELIVERY_STREAM, KINDS, LIVE, parse_address
from passdown.core.types import NEWEST, JsonObject, Progress
from passdown.core.views import Audit
from passdown.core.words import similar_groups
from passdown.history.items import CitedFiles, ItemTexts
from passdown.search.existing import current_decisions
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.ledger.project_files import Project
    from passdown.store.entries import IndexedEntry
    from passdown.store.statements import Reader


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
        counts: dict[str, int] = defaultdict(int)
        for entry in live:
            counts[entry.kind] += 1
        stale, gone = _by_files(reader, context.project, live, progress)
        delivered = _delivered_addresses(reader)
        duplicates, is_complete = _duplicates(reader, live)
        found: dict[str, list[Any]] = {
            "duplicates": duplicates,
            "stale": stale,
            "never_recalled": [e.address for e in live if e.address not in delivered],
            "orphaned": [*_unconnected(reader), *gone],
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
    before = NEWEST
    while page := reader.entries_of_kind(kind, before=before, limit=_PAGE):
        yield from (entry for entry in page if entry.status in LIVE)
        before = page[-1].id


def _duplicates(reader: Reader, live: list[IndexedEntry]) -> tuple[list[list[str]], bool]:
    """Groups of active items of one kind that say nearly the same, the oldest of each first;
    and whether all were compared that could be alike.
    """
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


def _delivered_addresses(reader: Reader) -> set[str]:
    """Every address that was delivered to some agent."""
    found: set[str] = set()
    before = NEWEST
    while page := reader.latest(before, _PAGE, DELIVERY_STREAM):
        for record in page:
            found.update(record.document().get("shown", ()))
        before = page[-1].seq
    return found


def _unconnected(reader: Reader) -> Iterator[str]:
    for row in reader.known_nodes():
        name = row.node.id
        if not reader.edges(source=name, limit=1) and not reader.edges(target=name, limit=1):
            yield name


def _forked(reader: Reader) -> Iterator[JsonObject]:
    """Superseded decisions with several active successors.

    Only the decision at which chains part is reported, and not if they were joined again later.
    """
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
