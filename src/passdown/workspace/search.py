"""Search with filters, and the embeddings that it uses: created in the background, never
blocking a write.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown import tracing
from passdown.core.arguments import raise_problems, text_list, text_type_problems
from passdown.core.graph import KNOWLEDGE_STATUSES
from passdown.core.index_entries import (
    FINDABLE_KINDS,
    SEARCHED_LETTERS,
    node_text,
    tag_of,
)
from passdown.core.items import searched_text
from passdown.core.kinds import (
    DECISION_STATUSES,
    KINDS,
    LIVE,
    WORKSPACE_TASK,
    parse_address,
)
from passdown.core.names import agent_problems, normal_path
from passdown.core.results import Recalled
from passdown.core.rows import NODE_PREFIX
from passdown.core.text import has_lone_surrogate, text_problems
from passdown.core.times import stamp
from passdown.core.types import Progress
from passdown.errors import InvalidInput, PassdownError, Problem, StoreUnavailable
from passdown.history.items import CitedFiles, ItemTexts
from passdown.search.embedders import (
    MINILM,
    NONE,
    Embed,
    NamedEmbedder,
    embedder_name,
    load_embedder,
)
from passdown.search.existing import current_decisions
from passdown.search.query import SearchFilter, best_passage, without_names
from passdown.search.ranking import Search
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.search.ranking import VectorQuery
    from passdown.search.vectors import Floats, StoredIndex, VectorIndex
    from passdown.store.entries import Embedder, EntryToEmbed, IndexedEntry
    from passdown.store.statements import Reader


BATCH = 32
_EMBEDS = {"gen_ai.operation.name": "embeddings"}
TOP_UP_S = 0.5
REST_S = 30.0
_DROPPED_AT_ONCE = 2_000
_NEARLY_ALL = 0.9
_REMEMBERED = 256
_CHARACTERS_AT_ONCE = 16_000


class EmbeddingStatus(NamedTuple):
    """How far vectors are: of `total` entries `done` have theirs; `embedder` is empty for none."""

    embedder: str
    done: int
    total: int

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self.done >= self.total


def default_embedder() -> NamedEmbedder | None:
    """The embedder that works offline, from packages alone; None where they aren't installed."""
    return load_embedder(MINILM)


class Embeddings:
    """What an open workspace knows of vectors: the embedder that is wanted, and its index."""

    def __init__(self, context: Context) -> None:
        """Nothing is loaded until something is searched for or embedded."""
        self._context = context
        self._own: NamedEmbedder | None = None
        self._loaded: dict[str, NamedEmbedder | None] = {}
        self._index: VectorIndex | StoredIndex | None = None
        self._questions: dict[tuple[str, str], Floats] = {}
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._rests_until = 0.0
        self._behind: threading.Thread | None = None
        self._closing = threading.Event()

    def use(self, own: NamedEmbedder) -> None:
        """Take a program's own embedder from now on."""
        if not own.name or own.name in (MINILM, NONE) or ":" in own.name:
            expected = "a name of its own: vectors are kept under it"
            problem = Problem("name", "invalid_name", repr(own.name), expected)
            raise InvalidInput("the embedder can't be used", [problem])
        with self._lock:
            if self._own is not None:  # it answers until the new one has caught up
                self._loaded[self._own.name] = self._own
            self._questions.clear()
        self._own = own
        self.wake()

    def wake(self) -> None:
        """Ask the embedder again at once, though it failed a moment ago."""
        self._rests_until = 0.0

    @property
    def wanted(self) -> str:
        """The name of the embedder that is wanted."""
        return self._own.name if self._own else embedder_name(self._context.settings.embedder)

    def load(self, name: str) -> NamedEmbedder | None:
        """An embedder by name, made once."""
        if self._own is not None and name == self._own.name:
            return self._own
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load_embedder(name)
            return self._loaded[name]

    def status(self) -> EmbeddingStatus:
        """How far the vectors of the wanted embedder are."""
        name = self.wanted
        with self._context.store.reading() as reader:
            known = _known(reader, name)
            left = reader.entries_left(known.done if known else 0)
            total = reader.entries_left(0)
        return EmbeddingStatus("" if name == NONE else name, total - left, total)

    def meaning(self, query: str, only: SearchFilter) -> VectorQuery | None:
        """What vectors say about a question within a filter; None where there are none to ask.

        The newest entries get their vectors first, as far as half a second goes. An embedder that
        fails is left alone for a while: words still answer.
        """
        if self.wanted == NONE or time.monotonic() < self._rests_until:
            return None
        self._top_up()
        try:
            return self._asked(query, only)
        except PassdownError as error:
            self._rests_until = time.monotonic() + REST_S
            _report("meaning is not asked", error)
            return None

    def _asked(self, query: str, only: SearchFilter) -> VectorQuery | None:
        with self._context.store.reading() as reader:
            reader.ahead(*map(methodcaller, ("embedders", "newest_entry", "authors")))
            serving = self._serving(reader)
            embedding = self.load(serving.name) if serving else None
            if serving is None or embedding is None:
                return None
            from passdown.search.ranking import VectorQuery
            from passdown.search.vectors import StoredIndex, VectorIndex

            query = without_names(query, reader.authors())
            kind = StoredIndex if reader.indexes_vectors else VectorIndex
            with self._lock:
                if self._index is None or self._index.embedder != serving.id:
                    self._index = kind(serving.id, serving.dimensions)
                index = self._index
                index.refresh(reader)
                within = index.within(reader, only)
        # Outside the read: an embedder may be far away, and a question waits for it as long.
        return VectorQuery(index, within, self._vector_of(query, embedding, serving))

    def _vector_of(self, query: str, embedding: NamedEmbedder, serving: Embedder) -> Floats:
        """A question as a vector of length one; those asked last are remembered, since the same
        question often comes again with another filter or from another agent.
        """
        from passdown.search.vectors import unit_vector

        key = (embedding.name, query)
        with self._lock:
            known = self._questions.pop(key, None)
        if known is None:
            numbers = _vectors(embedding, [query])[0]
            if len(numbers) != serving.dimensions:
                problem = _other_length(serving, len(numbers))
                raise InvalidInput("the embedder has changed", [problem])
            known = unit_vector(numbers)
        with self._lock:
            self._questions[key] = known
            if len(self._questions) > _REMEMBERED:
                del self._questions[next(iter(self._questions))]
        return known

    def _top_up(self) -> None:
        with self._context.store.reading() as reader:
            known = _known(reader, self.wanted)
            # Told by the newest entry, without counting the others.
            is_up_to_date = known is not None and known.done >= reader.newest_entry()
        if is_up_to_date or not self._making.acquire(blocking=False):
            return  # nothing is missing, or another thread is at it
        try:
            found = embed(self._context, seconds=TOP_UP_S)
        except PassdownError as error:
            # A store that can't be written to can still be searched.
            _report("vectors are not made", error)
            return
        finally:
            self._making.release()
        with self._lock:
            is_busy = self._behind is not None and self._behind.is_alive()
            if not (found.is_complete or is_busy or self._closing.is_set()):
                self._behind = threading.Thread(target=self._embed_rest, daemon=True)
                self._behind.start()

    def _embed_rest(self) -> None:
        try:
            embed(self._context, stops=self._closing.is_set)
        except PassdownError as error:
            _report("vectors are not made", error)

    def close(self) -> None:
        """Let whatever is made behind end with the batch that it is at."""
        self._closing.set()
        if self._behind is not None:
            self._behind.join()

    def _serving(self, reader: Reader) -> Embedder | None:
        """Whose vectors answer: the wanted one's, or an earlier one's while many are missing."""
        known = {embedder.name: embedder for embedder in reader.embedders()}
        wanted = known.get(self.wanted)
        total = reader.newest_entry()
        if wanted is not None and wanted.done >= total * _NEARLY_ALL:
            return wanted
        best = wanted
        for other in known.values():
            with suppress(PassdownError):  # one that can't be loaded can't answer
                if (best is None or other.done > best.done) and self.load(other.name):
                    best = other
        return best


def embed(
    context: Context,
    *,
    limit: int = 0,
    seconds: float = 0.0,
    progress: Progress | None = None,
    stops: Callable[[], bool] | None = None,
) -> EmbeddingStatus:
    """Make the vectors that are missing: all, or up to a limit, or for some seconds.

    Each batch is kept as it is done, so whatever ends this loses nothing.
    """
    embeddings = context.embeddings
    status = embeddings.status()
    if not status.embedder or status.is_complete:
        return status
    embedding = embeddings.load(status.embedder)
    if embedding is None:
        return EmbeddingStatus("", 0, status.total)
    embeddings.wake()
    started = time.monotonic()
    made = 0
    while not status.is_complete:
        if progress:
            progress(status.done, status.total)
        made += _embed_batch(context, embedding)
        status = embeddings.status()
        is_late = seconds and time.monotonic() - started > seconds
        if is_late or (limit and made >= limit) or (stops is not None and stops()):
            return status
    if progress:
        progress(status.done, status.total)
    return status


def embed_all(
    context: Context, *, limit: int = 0, progress: Progress | None = None
) -> EmbeddingStatus:
    """Compute the embeddings that are missing, and report how many there are.

    Nothing waits for them: what has no embedding yet is found by its words. Once all are there,
    those of other embedders are dropped. A search drops none: a process that forgot to say which
    embedder is wanted would throw away what another one has paid for.

    Args:
        limit: The largest number of embeddings to compute; 0 for all.
    """
    status = embed(context, limit=limit, progress=progress)
    if not status.embedder or not status.is_complete:
        return status
    with context.store.reading() as reader:
        others = [known for known in reader.embedders() if known.name != status.embedder]
    for other in others:
        is_left = True
        while is_left:  # a few at a time
            with context.store.writing([]) as writer:
                is_left = writer.drop_vectors(other.id, _DROPPED_AT_ONCE) == _DROPPED_AT_ONCE
                if not is_left:
                    writer.drop_embedder(other.id)
    return status


def _embed_batch(context: Context, embedding: NamedEmbedder) -> int:
    """Give the next entries their vectors; gives how many were looked at."""
    from passdown.search.vectors import pack_vector

    with context.store.reading() as reader:
        known = _known(reader, embedding.name)
        after = known.done if known else 0
        page = reader.without_vector(known.id if known else 0, after, BATCH)
        texts = _at_once(reader, page)
    page = page[: len(texts)]
    texts = {row.id: text for row, text in zip(page, texts, strict=True) if not row.is_there}
    if not page:
        return 0
    vectors = _vectors(embedding, list(texts.values()))
    dimensions = len(vectors[0]) if len(vectors) else 0
    blobs = dict(zip(texts, (pack_vector(vector) for vector in vectors), strict=True))
    with context.store.writing([]) as writer:
        kept = known or writer.add_embedder(embedding.name, dimensions)
        if dimensions and kept.dimensions != dimensions:
            raise InvalidInput("the embedder has changed", [_other_length(kept, dimensions)])
        passages = {row.id: row.passage for row in page}
        writer.add_vectors([(kept.id, n, passages[n], blob) for n, blob in blobs.items()])
        writer.embedded_up_to(kept.id, page[-1].id)
    return len(page)


def _at_once(reader: Reader, page: Sequence[EntryToEmbed]) -> list[str]:
    """The texts of the first entries of a page, as far as they are read at once: at least one, and
    no more than whoever asks a question can wait for.
    """
    found: list[str] = []
    left = _CHARACTERS_AT_ONCE
    for row in page:
        text = "" if row.is_there else _text_of(reader, row)
        left -= len(text)
        if found and left < 0:
            break
        found.append(text)
    return found


def _vectors(embedding: NamedEmbedder, texts: list[str]) -> Sequence[Sequence[float]]:
    """The vectors of some texts, checked: one for each, of one length, of numbers."""
    if not texts:
        return []
    try:
        about = {**_EMBEDS, "gen_ai.request.model": embedding.name}
        with tracing.part(f"embeddings {embedding.name}", about) as span:
            vectors = [[float(number) for number in vector] for vector in embedding.embed(texts)]
            span.note({"passdown.texts": len(texts)})
    except PassdownError:
        raise
    except Exception as error:  # a program's own function may raise anything
        raise StoreUnavailable(
            f"the embedder {embedding.name!r} failed: {type(error).__name__}: {error}",
            next_step="Nothing was lost; words are searched meanwhile. Fix it, then embed again.",
        ) from error
    problems: list[Problem] = []
    if len(vectors) != len(texts):
        message = f"{len(vectors)} vectors for {len(texts)} texts"
        problems.append(Problem("embedder", "wrong_count", message, "one for each text"))
    if len({len(vector) for vector in vectors}) > 1 or not all(vectors):
        expected = "vectors of one length, with at least one number"
        problems.append(Problem("embedder", "other_dimensions", "vectors differ", expected))
    if not all(math.isfinite(number) for vector in vectors for number in vector):
        problems.append(Problem("embedder", "not_finite", "what is no number", "finite numbers"))
    raise_problems(f"the vectors of {embedding.name!r} can't be used", problems)
    return vectors


def _report(what: str, error: PassdownError) -> None:
    import logging

    logging.getLogger("passdown").warning("%s: %s", what, error)


def _other_length(kept: Embedder, dimensions: int) -> Problem:
    message = f"{kept.name!r} made vectors of {kept.dimensions} numbers, now of {dimensions}"
    return Problem("embedder", "other_dimensions", message, "another name for another embedder")


def _known(reader: Reader, name: str) -> Embedder | None:
    return next((known for known in reader.embedders() if known.name == name), None)


def _text_of(reader: Reader, row: EntryToEmbed) -> str:
    """What an entry says, as it is embedded."""
    address = parse_address(row.address)
    if address is None:
        known = reader.known_node(row.address.removeprefix(NODE_PREFIX))
        return node_text(known.node) if known else ""
    item = reader.item(*address)
    if item is None:
        return ""
    return "\n".join(
        filter(None, searched_text(item.letter, ItemTexts(reader).content(item).entry))
    )


MOST = 1_000
MAX_QUERY = 10_000
_SETTLED = frozenset(
    status
    for letter in SEARCHED_LETTERS
    for status in (*KINDS[letter].closings, "superseded", "replaced", "withdrawn")
    if status not in LIVE
) | {"deprecated", "legacy"}


STATUSES = sorted(
    {*DECISION_STATUSES, *KNOWLEDGE_STATUSES, "replaced"}.union(
        *((KINDS[letter].starts, *KINDS[letter].closings) for letter in SEARCHED_LETTERS)
    )
)


MEANING_FLOOR = 0.2
"""What scores less doesn't fit a query; docs/recall.md says what that costs."""
WORDS_FLOOR = 0.05
"""The same for a search by words alone: what has a word of the query scores more."""


def recall(
    context: Context,
    query: str,
    *,
    kinds: Sequence[str] = (),
    agent: str = "",
    task: str = "",
    tags: Sequence[str] = (),
    path: str = "",
    statuses: Sequence[str] = (),
    since: str | date = "",
    until: str | date = "",
    live_only: bool = False,
    by_words: bool = False,
    limit: int = 5,
    told_to: str = "",
    only_fitting: bool = False,
) -> list[Recalled]:
    """Search what was recorded, best first; `limit` results whenever as many pass the filters.

    Args:
        query: The question.
        kinds: decision, pattern, gotcha, question, blocker, warning, next_step, handoff or
            knowledge.
        agent: Only what this agent recorded.
        task: Only what belongs to this task.
        tags: Only what has one of these tags.
        path: Only what concerns this file or folder.
        statuses: Only what has one of these statuses.
        since: Not older than this date or time.
        until: Not newer than this date or time.
        live_only: Leave out what was superseded, retracted or settled, instead of marking it.
        by_words: Search by words only; no model is loaded.
        limit: The largest number of results.
        told_to: Record the results as given to this agent.
        only_fitting: Leave out what doesn't fit the query, so that nonsense finds nothing.
    """
    problems: list[Problem] = []
    lists = {"kinds": kinds, "tags": tags, "statuses": statuses}
    given: dict[str, Any] = {n: text_list(v, n, problems) for n, v in lists.items()}
    times = {"since": since, "until": until}
    texts = {n: t.isoformat() if isinstance(t, date) else t for n, t in times.items()}
    texts |= {"agent": agent, "task": task, "path": path}
    raise_problems("can't be searched for", problems + text_type_problems(query=query, **texts))
    given.update(texts)
    only = SearchFilter(**given, without=_SETTLED if live_only else frozenset())
    only = _checked(only, query, limit, told_to)
    meaning = None if by_words else context.embeddings.meaning(query, only)
    span = tracing.memory("search_memory", context.store_label)
    with span, context.store.reading() as reader:
        if task:
            reader.existing_task(task)
        search = Search(reader, query, only, meaning)
        best = search.best(limit)
        if only_fitting:
            # Words that say nothing, such as "the", are as close to one text as to another.
            floor = WORDS_FLOOR if meaning is None else MEANING_FLOOR if search.query.words else 1.1
            best = [(entry, score) for entry, score in best if score >= floor]
        answers = _answers(context, reader, search.query.words, best)
        span.note({"gen_ai.memory.record.count": len(answers)})
    if told_to and answers:
        shown = {answer.address: "short" for answer in answers}
        body = {"agent": told_to, "query": query, "shown": shown}
        context.ledger.deliver(WORKSPACE_TASK, "recalled", told_to, body)
    return answers


def _checked(given: SearchFilter, query: str, limit: object, told_to: str) -> SearchFilter:
    """A filter as it was given, as the index takes it; raises InvalidInput with everything that is
    wrong with it and the question.
    """
    problems = text_problems(query, "query", max_length=MAX_QUERY)
    problems += agent_problems(told_to, "told_to") if told_to else []
    choices = (("kinds", given.kinds, FINDABLE_KINDS), ("statuses", given.statuses, STATUSES))
    problems += [
        Problem(f"{name}[{at}]", "invalid_choice", repr(word), f"one of {', '.join(known)}")
        for name, words, known in choices
        for at, word in enumerate(words)
        if word not in known
    ]
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST:
        problems.append(Problem("limit", "out_of_range", repr(limit)[:40], f"1 to {MOST:,}"))
    named = {"agent": given.agent, "task": given.task, "path": given.path}
    named |= {f"tags[{at}]": tag for at, tag in enumerate(given.tags)}
    problems += [
        Problem(name, "lone_surrogate", "is no text", "valid Unicode")
        for name, text in named.items()
        if has_lone_surrogate(text)
    ]
    since = _time(given.since, "since", problems)
    until = _time(given.until, "until", problems)
    if since and until and since > until:
        problems.append(Problem("until", "out_of_range", "is before since", "a later time"))
    raise_problems("can't be searched for", problems)
    return given._replace(
        tags=tuple(map(tag_of, given.tags)),
        path=normal_path(given.path).rstrip("/") if given.path else "",
        since=since,
        until=until,
    )


def _time(text: str, path: str, problems: list[Problem]) -> str:
    """A date or time as records keep theirs; a date `until` which counts includes its day."""
    if not text:
        return ""
    try:
        given = datetime.fromisoformat(text)
        if path == "until":
            with suppress(ValueError):  # a time of day is named
                given = datetime.combine(date.fromisoformat(text), datetime.max.time())
        return stamp(given if given.tzinfo else given.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        expected = "a date as 2026-01-31, or a time as 2026-01-31T10:00:00Z"
        problems.append(Problem(path, "invalid_time", repr(text[:60]), expected))
        return ""


def _answers(
    context: Context,
    reader: Reader,
    words: tuple[str, ...],
    found: Sequence[tuple[IndexedEntry, float]],
) -> list[Recalled]:
    """What was found as answers: words from the records, files from the disk."""
    texts = ItemTexts(reader)
    files = CitedFiles(reader, context.project, texts)
    items = [parse_address(entry.address) for entry, _ in found]
    reader.ahead(*(methodcaller("item", *address) for address in items if address))
    rows = [reader.item(*address) if address else None for address in items]
    texts.read([row for row in rows if row])
    held = current_decisions(reader, (entry for entry, _ in found))
    answers: list[Recalled] = []
    for (entry, score), row in zip(found, rows, strict=True):
        later = held.get(entry.address, ())
        title, text = entry.address, ""
        if row is not None:
            title = row.title
            text = "\n".join(filter(None, searched_text(row.letter, texts.content(row).entry)))
        elif known := reader.known_node(entry.address.removeprefix(NODE_PREFIX)):
            title, text = known.node.summary, node_text(known.node)
        answers.append(
            Recalled(
                address=entry.address,
                kind=entry.kind,
                title=title,
                passage=best_passage(text, words),
                score=round(min(score, 1.0), 4),
                status=entry.status,
                agent=entry.agent,
                at=entry.at,
                task=entry.task,
                version=entry.position,
                superseded_by=later[0].address if later else "",
                holds=bool(later) and later[0].status in LIVE,
                also_hold=tuple(other.address for other in later[1:]),
                stale=files.of(row, texts.content(row)) if row else (),
            )
        )
    return answers


def use_embedder(context: Context, name: str, function: Embed) -> None:
    """Use a program's own embedder from now on.

    Args:
        name: Embeddings are kept under this name; another name computes them again, while the old
            ones answer.
        function: Takes texts and gives a vector for each.
    """
    context.embeddings.use(NamedEmbedder(name, function))


def embedding_status(context: Context) -> EmbeddingStatus:
    """How many entries have their embedding."""
    return context.embeddings.status()
