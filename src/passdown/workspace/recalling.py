"""Search through the door: a question and its filters in, what was recorded out."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem, unknown_task
from passdown.model.arguments import refuse_any, text_type_problems, texts_given
from passdown.model.findable import KNOWLEDGE, SEARCHED, node_text, tag_of
from passdown.model.found_rows import NODE_PREFIX
from passdown.model.graph import KNOWLEDGE_STATUSES
from passdown.model.item_text import searched_text
from passdown.model.kinds import (
    DECISION_STATUSES,
    KINDS,
    LIVE,
    WORKSPACE_TASK,
    parse_address,
    stream_of,
)
from passdown.model.names import agent_problems, normal_path
from passdown.model.recalled import Recalled
from passdown.model.text import has_lone_surrogate, text_problems
from passdown.recall.chains import holders
from passdown.recall.filters import Filter
from passdown.recall.passages import best_passage
from passdown.recall.search import Search
from passdown.recall.told import Records, Stale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.model.rows import ItemRow
    from passdown.store.found import Entry
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Opened

FINDABLE = (*(KINDS[letter].word for letter in SEARCHED), KNOWLEDGE)
MOST = 1_000
MAX_QUERY = 10_000
_SETTLED = frozenset(
    status
    for letter in SEARCHED
    for status in (*KINDS[letter].closings, "superseded", "replaced", "withdrawn")
    if status not in LIVE
) | {"deprecated", "legacy"}


STATUSES = frozenset(
    status for letter in SEARCHED for status in (KINDS[letter].starts, *KINDS[letter].closings)
) | {*DECISION_STATUSES, *KNOWLEDGE_STATUSES, "replaced"}


class Asked(NamedTuple):
    """A question with its filters, as it came in."""

    query: str
    kinds: tuple[str, ...] = ()
    agent: str = ""
    task: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    statuses: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    live_only: bool = False
    by_words: bool = False
    limit: int = 5


def asked_for(query: str, filters: Mapping[str, Any]) -> Asked:
    """A question with its filters, whatever a program passes for them; raises InvalidInput with
    all that are of another type.
    """
    given = dict(filters)
    problems: list[Problem] = []
    for name in ("kinds", "tags", "statuses"):
        given[name] = texts_given(given[name], name, problems)
    for name in ("since", "until"):
        moment = given[name]
        given[name] = moment.isoformat() if hasattr(moment, "isoformat") else moment
    texts = {name: given[name] for name in ("agent", "task", "path", "since", "until")}
    refuse_any("can't be searched for", problems + text_type_problems(query=query, **texts))
    return Asked(query=query, **given)


def recall(opened: Opened, asked: Asked, *, told_to: str = "") -> list[Recalled]:
    """The answers, best first; recorded as told where it is said to whom."""
    only = _filter(asked, told_to)
    meaning = None if asked.by_words else opened.embeddings.meaning(asked.query, only)
    with opened.store.reading() as reader:
        if asked.task and reader.task(asked.task) is None:
            raise unknown_task(asked.task)
        search = Search(reader, asked.query, only, meaning)
        found = search.best(asked.limit)
        answers = _Shown(opened, reader, search.question.words).answers(found)
    if told_to and answers:
        _record(opened, asked, told_to, answers)
    return answers


def _filter(asked: Asked, told_to: str) -> Filter:
    """The filters, checked; raises InvalidInput with everything that is wrong with them."""
    problems = text_problems(asked.query, "query", max_length=MAX_QUERY)
    problems += agent_problems(told_to, "told_to") if told_to else []
    expected = f"one of {', '.join(FINDABLE)}"
    problems += [
        Problem(f"kinds[{index}]", "invalid_choice", repr(kind), expected)
        for index, kind in enumerate(asked.kinds)
        if kind not in FINDABLE
    ]
    problems += [
        Problem(f"statuses[{index}]", "invalid_choice", repr(status), f"one of {_all_statuses()}")
        for index, status in enumerate(asked.statuses)
        if status not in STATUSES
    ]
    problems += _limit_problems(asked.limit)
    named = {"agent": asked.agent, "task": asked.task, "path": asked.path}
    named |= {f"tags[{index}]": tag for index, tag in enumerate(asked.tags)}
    problems += [
        Problem(name, "lone_surrogate", "is no text", "valid Unicode")
        for name, text in named.items()
        if has_lone_surrogate(text)
    ]
    since = _time(asked.since, "since", problems)
    until = _time(asked.until, "until", problems)
    if since and until and since > until:
        problems.append(Problem("until", "out_of_range", "is before since", "a later time"))
    if problems:
        raise InvalidInput("can't be searched for", problems)
    return Filter(
        kinds=asked.kinds,
        agent=asked.agent,
        task=asked.task,
        tags=tuple(tag_of(tag) for tag in asked.tags),
        path=normal_path(asked.path).rstrip("/") if asked.path else "",
        statuses=asked.statuses,
        without=_SETTLED if asked.live_only else frozenset(),
        since=since,
        until=until,
    )


def _limit_problems(limit: object) -> list[Problem]:
    if isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= MOST:
        return []
    return [Problem("limit", "out_of_range", repr(limit)[:40], f"1 to {MOST:,}")]


def _all_statuses() -> str:
    return ", ".join(sorted(STATUSES))


def _time(text: str, path: str, problems: list[Problem]) -> str:
    """A date or time as records keep theirs; a date `until` which counts includes its day."""
    if not text:
        return ""
    from contextlib import suppress
    from datetime import UTC, date, datetime, time

    from passdown.model.times import stamp

    try:
        given = datetime.fromisoformat(text)
        if path == "until":
            with suppress(ValueError):  # a time of day is named
                given = datetime.combine(date.fromisoformat(text), time.max)
        return stamp(given if given.tzinfo else given.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        expected = "a date as 2026-01-31, or a time as 2026-01-31T10:00:00Z"
        problems.append(Problem(path, "invalid_time", repr(text[:60]), expected))
        return ""


class _Shown:
    """Turns what was found into answers: words from the records, files from the disk."""

    def __init__(self, opened: Opened, reader: Reader, words: tuple[str, ...]) -> None:
        self._reader = reader
        self._words = words
        self._records = Records(reader)
        self._stale = Stale(reader, opened.project, self._records)

    def answers(self, found: Sequence[tuple[Entry, float]]) -> list[Recalled]:
        """All of them, in the same order."""
        reader = self._reader
        items = [parse_address(entry.address) for entry, _ in found]
        reader.ahead(*(methodcaller("item", *address) for address in items if address))
        rows = [reader.item(*address) if address else None for address in items]
        records = dict.fromkeys((stream_of(row.task), row.position) for row in rows if row)
        reader.ahead(*(methodcaller("record", *place) for place in records))
        held = holders(reader, (entry for entry, _ in found))
        return [
            self._answer(entry, score, row, held.get(entry.address, ()))
            for (entry, score), row in zip(found, rows, strict=True)
        ]

    def _answer(
        self, entry: Entry, score: float, row: ItemRow | None, later: Sequence[Entry]
    ) -> Recalled:
        title, text = self._item(row) if row else self._node(entry)
        return Recalled(
            address=entry.address,
            kind=entry.kind,
            title=title,
            passage=best_passage(text, self._words),
            score=round(min(score, 1.0), 4),
            status=entry.status,
            agent=entry.agent,
            at=entry.at,
            task=entry.task,
            version=entry.position,
            superseded_by=later[0].address if later else "",
            holds=bool(later) and later[0].status in LIVE,
            also_hold=tuple(other.address for other in later[1:]),
            stale=self._stale.of(row, self._records.told(row)) if row else (),
        )

    def _item(self, row: ItemRow) -> tuple[str, str]:
        main, rest = searched_text(row.letter, self._records.told(row).entry)
        return row.title, f"{main}\n{rest}" if rest else main

    def _node(self, entry: Entry) -> tuple[str, str]:
        known = self._reader.known_node(entry.address.removeprefix(NODE_PREFIX))
        if known is None:
            return entry.address, ""
        return known.node.summary, node_text(known.node)


def _record(opened: Opened, asked: Asked, told_to: str, answers: list[Recalled]) -> None:
    body = {
        "agent": told_to,
        "query": asked.query,
        "shown": {answer.address: "short" for answer in answers},
    }
    opened.ledger.deliver(WORKSPACE_TASK, "recalled", told_to, body)
