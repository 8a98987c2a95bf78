"""Facts for a brief and for a switch, read without a task's past.

However long a task's history is, this reads what is open, the newest of each other kind, and what
is related to the next steps, by title or by label. Older items are read only when a budget is large
enough to show them.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import methodcaller

from passdown.core.items import sizes_of
from passdown.core.kinds import LIVE, WORKSPACE_TASK, origins_of, parse_address, stream_of
from passdown.core.record import Record
from passdown.core.rows import ANSWERED, CLOSED, BriefFacts, ItemRow, TaskRow
from passdown.core.tokens import DEFAULT_COUNTER, units, vocabulary
from passdown.core.types import NEWEST, JsonObject
from passdown.core.values import NamedTuple
from passdown.history.items import CitedFiles, ItemTexts
from passdown.ledger.project_files import Project
from passdown.store.statements import ItemTitle, Reader

FIRST = {"h": 1, "d": 16, "f": 24, "g": 12, "p": 16, "w": 12, "a": 16}
"""How many of each kind are candidates at first, whatever they are about."""

WINDOW = {"d": 60, "f": 60, "g": 40, "p": 40, "w": 20}
"""How far back titles are compared with what comes next."""

HANDOFFS = 40
"""How many handoffs are looked at for what they were about."""
RELATED_HANDOFFS, RELATED_ITEMS = 12, 8
OWN_RECORDS = 100

FIRST_ELSEWHERE = 8
LATEST_GOTCHAS = 500
"""How many high gotchas of all tasks are looked at; most only for a large budget."""
FIRST_GOTCHAS = 5
LATEST_SUMMARIES = 10
LATEST_ANSWERS = 12
SHOWN_CLOSED = 3
"""How many items are shown that the last handoff closed by not listing them."""
LABELLED = 12
FIRST_NEEDS = 20
"""How many of the tasks that a task depends on are read at first; the others as older items are."""
PAGE = 100
_OPEN = ("b", "c", "k", "n", "q", "r")
_ELSEWHERE = "dfgpw"
_PASSED_ON = "fgpw"


def task_with_open_items(reader: Reader, task: str) -> tuple[TaskRow, list[ItemRow]]:
    """A task's row and its open items, newest first: enough to know what comes next."""
    reader.ahead(
        methodcaller("task", task),
        methodcaller("open_items", task, _OPEN),
        methodcaller("superseders", task),
        methodcaller("task", WORKSPACE_TASK),
        methodcaller("needs", task),
        methodcaller("open_links_to", task),
        methodcaller("latest_gotchas", "high", LATEST_GOTCHAS),
        methodcaller("head", origins_of(task)),
        methodcaller("titles_before", task, "h", NEWEST, HANDOFFS),
        *(methodcaller("items_before", task, kind, NEWEST, FIRST[kind]) for kind in FIRST),
    )
    row = reader.existing_task(task)
    items = reader.open_items(task, _OPEN)
    return row, sorted(items, key=lambda item: (item.letter, -item.ordinal))


class FactQuery(NamedTuple):
    """What to look for: for whom, labels, and a choice of the best among some titles."""

    agent: str
    labels: Sequence[str]
    related: Callable[[Sequence[str], int], list[int]]


def facts_of(
    reader: Reader,
    row: TaskRow,
    open_items: Sequence[ItemRow],
    handoffs: Sequence[ItemTitle],
    search: FactQuery,
    *,
    project: Project,
) -> BriefFacts:
    """What a brief may show of a task; `handoffs` are its latest."""
    own = _ItemPool(reader, row, FIRST, search)
    earlier = own.unread(handoffs[1:])
    related = search.related([item.title for item in earlier], RELATED_HANDOFFS)
    own.add_records([*handoffs[:1], *(earlier[index] for index in related)])
    above = reader.task(WORKSPACE_TASK) if row.task != WORKSPACE_TASK else None
    wider = search._replace(labels=[*search.labels, *_places(own.items.values())])
    shared = _ItemPool(reader, above, dict.fromkeys(_ELSEWHERE, FIRST_ELSEWHERE), wider)
    names = reader.needs(row.task)
    read = ItemTexts(reader)
    last = next((item for item in own.items.values() if item.letter == "h"), None)
    places = [methodcaller("records_at", stream_of(row.task), [last.position])] if last else []
    closed = [parse_address(name) for name in row.header.get("closed", ())]
    places += [methodcaller("item", *address) for address in closed if address]
    reader.ahead(*places, *(methodcaller("task", name) for name in names))
    needed = {name: reader.task(name) for name in names}
    found = [each for each in needed.values() if each]
    others = (shared, *(_passed_on(reader, each, search) for each in found[:FIRST_NEEDS]))
    further = found[FIRST_NEEDS:]
    known = {row.task, WORKSPACE_TASK, *needed}
    grave = reader.latest_gotchas("high", LATEST_GOTCHAS)  # newest first
    gotchas = [item for item in grave if item.status in LIVE and item.task not in known]
    if last and not last.title:  # then the latest handoff that has a summary is shown, too
        before = reader.items_before(row.task, "h", last.ordinal, LATEST_SUMMARIES)
        own.add([item for item in before if item.title][:1])
    gated = _gated(open_items)
    waiting = [
        _as_sentence(item, item.note) if item.status == "rejected" else item for item in open_items
    ]
    if "failed" in row.header["gates"].values():
        gates = reader.gates(row.task, open_only=True)
        waiting += [gate for gate in gates if gate.status == "failed"]
    waiting += _failed_checks(reader, row, handoffs, open_items)
    own.add([item for item in waiting if item.address not in gated])
    answers = [_as_sentence(item, item.note) for item in _answers(reader, row)]
    lost = [reader.item(*address) for address in closed[:SHOWN_CLOSED] if address]
    own.add([*answers, *(_as_sentence(item) for item in lost if item)])
    checks = sum(item.letter == "c" for item in waiting)
    said = read.content(last).entry if last else {}
    elsewhere = Tally(g=len(gotchas))
    for pool in others:
        elsewhere.update(pool.totals())
    for each in further:
        elsewhere.update(_totals_passed_on(reader, each))
    items = [item for pool in (own, *others) for item in pool.items.values()]

    def own_positions(items: Iterable[ItemRow]) -> frozenset[int]:
        recent = row.version - OWN_RECORDS
        found = {i.position for i in items if i.task == row.task and i.position > recent}
        return reader.positions_by(stream_of(row.task), search.agent, sorted(found))

    return BriefFacts(
        row=row,
        needs=tuple((name, each.status if each else _MISSING) for name, each in needed.items()),
        blocked_by=tuple(link.source for link in reader.open_links_to(row.task)),
        items=tuple(_newest_first([*items, *gotchas[:FIRST_GOTCHAS]], row.task)),
        labelled=frozenset(name for pool in (own, *others) for name in pool.labelled),
        older=_older(
            row.task,
            *(pool.pages() for pool in (own, *others)),
            *(_pages_passed_on(reader, each, search) for each in further),
            (gotchas[at : at + PAGE] for at in range(FIRST_GOTCHAS, len(gotchas), PAGE)),
        ),
        totals={
            **(live := own.totals()),
            "b": live.get("b", 0) - len(gated),
            **({ANSWERED: len(answers)} if answers else {}),
            **({CLOSED: len(closed[:SHOWN_CLOSED])} if closed else {}),
            "a": sum(row.header["types"].values()) + own.deleted,
            "k": sum(item.letter == "k" for item in waiting),
            **({"c": checks} if checks else {}),
            "h": row.header["counts"].get("h", 0),
        },
        elsewhere=elsewhere,
        own=own_positions,
        memory_refs=tuple(said.get("memory_refs", ())),
        more_closed=len(closed[SHOWN_CLOSED:]),
        despite=said.get("despite", "") if row.status == "completed" else "",
        handoffs={(row.task, item.position): item.title for item in handoffs},
        content=read.content,
        stale=CitedFiles(reader, project, read).of,
        read_ahead=read.read,
    )


def _places(items: Iterable[ItemRow]) -> dict[str, None]:
    """The files among some items and the folders that they are in: what decisions may govern."""
    paths = [item.title for item in items if item.letter == "a"]
    folders = [path[:at] for path in paths for at, sign in enumerate(path) if sign == "/"]
    return dict.fromkeys([*paths, *folders][:PAGE])


def _passed_on(reader: Reader, row: TaskRow, search: FactQuery) -> _ItemPool:
    """What a task passes on: facts, patterns, warnings, files to read, blocking questions."""
    first = dict.fromkeys(_PASSED_ON, FIRST_ELSEWHERE)
    found = _ItemPool(reader, row, first, search, is_passed_on=True)
    found.add([item for item in reader.open_items(row.task, ("q", "r")) if _is_passed_on(item)])
    return found


def _is_passed_on(item: ItemRow) -> bool:
    """Whether those that need its task are told an open item."""
    return item.letter != "q" or item.grade == "blocking"


def _gated(open_items: Sequence[ItemRow]) -> set[str]:
    """The blockers whose gates wait for a person: each is shown once, as the gate."""
    waiting = (item for item in open_items if item.letter == "k" and item.status == "pending")
    places = {(item.position, item.index) for item in waiting}
    return {
        item.address
        for item in open_items
        if item.letter == "b" and (item.position, item.index) in places
    }


def _failed_checks(
    reader: Reader, row: TaskRow, handoffs: Sequence[ItemTitle], open_items: Sequence[ItemRow]
) -> list[ItemRow]:
    """The checks that had failed when the last handoff was made, and that it doesn't ask for again:
    none of them ends without a word.
    """
    if len(handoffs) < 2 or not row.header["counts"].get("c"):
        return []
    current = {item.fingerprint for item in open_items if item.letter == "c"}
    return [
        item
        for item in reader.items_before(row.task, "c", NEWEST, LATEST_ANSWERS)
        if handoffs[1].position <= item.position < handoffs[0].position
        and item.status == "failed"
        and item.fingerprint not in current
    ]


def _answers(reader: Reader, row: TaskRow) -> list[ItemRow]:
    """The questions and gates that were settled lately, with words: what was asked is known now."""
    counts, live = row.header["counts"], row.header["live"]
    found: list[ItemRow] = []
    if counts.get("q", 0) > live.get("q", 0):
        found += [
            item
            for item in reader.items_before(row.task, "q", NEWEST, LATEST_ANSWERS)
            if item.status == "answered" and item.note and not item.note.startswith("by ")
        ]
    if counts.get("k"):
        found += [
            item
            for item in reader.items_before(row.task, "k", NEWEST, LATEST_ANSWERS)
            if item.field == "blockers" and item.status == "approved"
        ]
    return found


def _as_sentence(item: ItemRow, note: str = "") -> ItemRow:
    """An item that is shown by its own sentence alone, with the sizes of that and of a note."""
    tokens, long = (sizes[0] for sizes in sizes_of(item.sizes))
    tokens, long = tokens + vocabulary(DEFAULT_COUNTER)(note), long + units(note)
    return item._replace(sizes=" ".join(map(str, (*[tokens] * 3, *[long] * 3))))


class _ItemPool:
    """The items of a task that a brief may show: first ones, then older ones."""

    def __init__(
        self,
        reader: Reader,
        row: TaskRow | None,
        first: dict[str, int],
        search: FactQuery,
        *,
        is_passed_on: bool = False,
    ) -> None:
        self._reader = reader
        self._row = row
        self._kinds = [k for k in first if row and row.header["counts"].get(k)]
        self._replaced: set[str] = set()
        self._next: dict[str, int] = {}
        self._oldest: dict[str, int] = {}
        self._paths: set[str] = set()
        self._is_passed_on = is_passed_on
        self.items: dict[str, ItemRow] = {}
        self.labelled: list[str] = []
        if row is not None:
            self._replaced = {
                link.target for link in reader.superseders(row.task) if not link.closed_seq
            }
            reader.ahead(
                *(
                    methodcaller("items_before", row.task, letter, NEWEST, first[letter])
                    for letter in self._kinds
                )
            )
            for letter in self._kinds:
                self._take(letter, NEWEST, first[letter])
            self._add_related(row, search)
            self._look_up(search.labels)

    def add(self, items: Sequence[ItemRow]) -> None:
        """Add items that are known already."""
        self.items.update((item.address, item) for item in items)

    def unread(self, handoffs: Sequence[ItemTitle]) -> list[ItemTitle]:
        """Those of some handoffs of which not every item was among the newest of its kind."""
        oldest = max(self._oldest.values(), default=0)
        return [handoff for handoff in handoffs if handoff.position <= oldest]

    def add_records(self, handoffs: Sequence[ItemTitle]) -> None:
        """Add everything that some handoffs have brought and that still holds, the latest first."""
        unread = self.unread(handoffs)
        if not unread or self._row is None:
            return
        latest = handoffs[0].position
        found = self._reader.items_at(self._row.task, *(handoff.position for handoff in unread))
        for item in reversed(found):
            is_unread = item.letter != "h" and item.ordinal < self._next.get(item.letter, 0)
            # Newer entries of an earlier handoff's files may not be read yet.
            is_current = item.letter != "a" or item.position == latest
            if is_unread and is_current and self._holds(item, is_news=True):
                self.add([item])

    def _take(self, letter: str, before: int, limit: int) -> None:
        task = self._row.task if self._row else ""
        found = self._reader.items_before(task, letter, before, limit)
        is_more = len(found) == limit and found[-1].ordinal > 1
        self._next[letter] = found[-1].ordinal if is_more else 1
        self._oldest[letter] = found[-1].position if is_more and letter != "h" else 0
        self.add([item for item in found if self._holds(item, is_news=before == NEWEST)])

    def _add_related(self, row: TaskRow, search: FactQuery) -> None:
        """Look a little further back for what has to do with the next step."""
        wanted: dict[tuple[str, int], int] = {}
        for letter in self._kinds:
            if letter in WINDOW and self._next[letter] > 1:
                before = (row.task, letter, self._next[letter], WINDOW[letter])
                titles = self._reader.titles_before(*before)
                for index in search.related([item.title for item in titles], RELATED_ITEMS):
                    wanted[letter, titles[index].ordinal] = titles[index].position
        found = self._reader.items_at(row.task, *sorted({*wanted.values()})) if wanted else []
        self.add([i for i in found if (i.letter, i.ordinal) in wanted and self._holds(i)])

    def _look_up(self, labels: Sequence[str]) -> None:
        if self._row is None or not labels or not self._row.header.get("labels"):
            return
        for item in self._reader.labelled_items(self._row.task, labels, LABELLED):
            if self._holds(item):
                self.labelled.append(item.address)
                self.add([item])

    def _holds(self, item: ItemRow, *, is_news: bool = False) -> bool:
        """Whether an item is still valid, the newest of a file; a deleted one while it is news."""
        if item.letter == "a":
            is_new = item.path not in self._paths
            self._paths.add(item.path)
            return is_new and (bool(item.grade) or is_news)
        if self._is_passed_on and item.grade == "low":
            return False
        return item.letter == "h" or (item.status in LIVE and item.address not in self._replaced)

    def pages(self) -> Iterator[list[ItemRow]]:
        """The items that aren't there yet, page by page, newer ones first."""
        while any(before > 1 for before in self._next.values()):
            known = set(self.items)
            for letter, before in self._next.items():
                if before > 1:
                    self._take(letter, before, PAGE)
            yield [item for address, item in self.items.items() if address not in known]

    @property
    def deleted(self) -> int:
        """How many of the files are shown because they were deleted."""
        return sum(item.letter == "a" and not item.grade for item in self.items.values())

    def totals(self) -> dict[str, int]:
        """How many items of each kind hold, as the task's header has counted them."""
        if self._row is None:
            return {}
        live: dict[str, int] = dict(self._row.header["live"])
        if self._is_passed_on:
            return _totals_passed_on(self._reader, self._row)
        # What was taken back or replaced in its own task too isn't counted as live there.
        for address in map(parse_address, self._replaced):
            item = self._reader.item(*address) if address else None
            live["d"] = live.get("d", 0) - (item is not None and item.status in LIVE)
        return {letter: count for letter, count in live.items() if count > 0}


def _totals_passed_on(reader: Reader, row: TaskRow) -> dict[str, int]:
    """How many items of each kind a task passes on."""
    live: dict[str, int] = dict(row.header["live"])
    # Those of low severity and what doesn't block aren't passed on; only the rows know how many.
    gotchas = reader.items_of_kind(row.task, "g") if live.get("g") else []
    live["g"] = sum(item.grade != "low" and item.status in LIVE for item in gotchas)
    questions = reader.open_items(row.task, ("q",)) if live.get("q") else []
    live["q"] = sum(map(_is_passed_on, questions))
    return {kind: live[kind] for kind in (*_PASSED_ON, "q", "r") if live.get(kind, 0) > 0}


def _pages_passed_on(reader: Reader, row: TaskRow, search: FactQuery) -> Iterator[list[ItemRow]]:
    """What a further task passes on: read only when a budget is large."""
    pool = _passed_on(reader, row, search)
    yield list(pool.items.values())
    yield from pool.pages()


def _older(task: str, *pages: Iterator[list[ItemRow]]) -> Callable[[], Iterator[Sequence[ItemRow]]]:
    """Older items, page by page, each read once; every call begins with the first page."""
    unread = chain.from_iterable(pages)
    read: list[list[ItemRow]] = []

    def older() -> Iterator[Sequence[ItemRow]]:
        yield from read
        for page in unread:
            read.append(_newest_first(page, task))
            yield read[-1]

    return older


def _newest_first(items: Sequence[ItemRow], task: str) -> list[ItemRow]:
    """By kind, a task's own first; the latest record first, and its items as it lists them."""
    return sorted(
        items,
        key=lambda item: (item.letter, item.task != task, -item.position, item.ordinal),
    )


_MISSING = "not there yet"

MOST_RECORDS = 400


def turn_facts(reader: Reader, task: str, from_agent: str, to_agent: str) -> JsonObject:
    """What an agent leaves behind when it hands over: the facts of a switch artifact.

    Decisions and files are those of its latest turn, newest first; what is in the way and what
    comes next is the task's, whoever wrote it.
    """
    from passdown.core.documents import item_document
    from passdown.history.state import item_documents, mark_superseded

    row = reader.existing_task(task)
    decisions: list[JsonObject] = []
    files: dict[str, JsonObject] = {}
    for record in _turn(reader, task, from_agent):
        body = record.document()
        for item in reversed(reader.items_at(task, record.position)):
            if item.letter == "d" and item.status in LIVE:
                decisions.append(item_document(item, record, body))
            elif item.letter == "a":
                files.setdefault(item.path, item_document(item, record, body))
    mark_superseded(reader, task, decisions)
    live = [decision for decision in decisions if decision["status"] in LIVE]
    open_items = [d for _, d in item_documents(reader, task, reader.open_items(task, ("b", "n")))]
    blockers = [d for d in open_items if "blocker" in d]
    return {
        "task": task,
        "title": row.details["title"],
        "phase": row.phase,
        "status": row.status,
        "from_agent": from_agent,
        "to_agent": to_agent,
        "story": row.header.get("story", {}),
        "decisions": live,
        "files": list(files),
        "blockers": blockers,
        "next_steps": [d for d in open_items if "step" in d],
        "totals": {"decisions": len(live), "files": len(files), "blockers": len(blockers)},
        "hashes": {
            path: document.get("sha256")
            for path, document in files.items()
            if document.get("change") != "delete"
        },
        "version": row.version,
        "digest": row.digest,
    }


def _turn(reader: Reader, task: str, agent: str) -> list[Record]:
    """The records of an agent's latest turn, newest first: back to the handoff that began it."""
    stream = stream_of(task)
    own = reader.records_before(stream, NEWEST, MOST_RECORDS, author=agent)
    if not own:
        return []
    handoffs = reader.records_before(stream, own[0].position, MOST_RECORDS, kinds=("handoff",))
    began = next((record.position for record in handoffs if record.author != agent), 0)
    return [record for record in own if record.position > began]


def previous_agent(row: TaskRow, to_agent: str) -> str:
    """Who had a task before an agent that is about to take it: its holder, or its last sender."""
    header = row.header
    if row.holder != to_agent:
        return row.holder
    return header["source_agent"] if header["source_agent"] != to_agent else ""
