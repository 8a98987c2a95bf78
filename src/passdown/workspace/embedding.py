"""Vectors behind the door: made when there is time, never in the way of a handoff.

Entries get their vectors in order. A change of embedder makes them all again while those of the
old one still answer; what has none yet is found by its words.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from passdown import spans
from passdown.errors import InvalidInput, PassdownError, Problem, StoreUnavailable
from passdown.model.findable import node_text
from passdown.model.found_rows import NODE_PREFIX
from passdown.model.item_text import searched_text
from passdown.model.kinds import parse_address
from passdown.recall.embedders import MINILM, NONE, Embedding, chosen_name, embedder_named
from passdown.recall.told import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.recall.filters import Filter
    from passdown.recall.meaning import Meaning
    from passdown.recall.vectors import StoredIndex, VectorIndex
    from passdown.recall.vectors.packing import Floats
    from passdown.store.found import Embedder, Unembedded
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Opened

    Progress = Callable[[int, int], None]

BATCH = 32
_EMBEDS = {"gen_ai.operation.name": "embeddings"}
TOP_UP_S = 0.5
REST_S = 30.0
_DROPPED_AT_ONCE = 2_000
_NEARLY_ALL = 0.9
_REMEMBERED = 256
_CHARACTERS_AT_ONCE = 16_000


class Embedded(NamedTuple):
    """How far vectors are: of `total` entries `done` have theirs; `embedder` is empty for none."""

    embedder: str
    done: int
    total: int

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self.done >= self.total


def default_embedder() -> Embedding | None:
    """The embedder that works offline, from packages alone; None where they aren't installed."""
    return embedder_named(MINILM)


class Embeddings:
    """What an open workspace knows of vectors: the embedder that is wanted, and its index."""

    def __init__(self, opened: Opened) -> None:
        """Nothing is loaded until something is searched for or embedded."""
        self._opened = opened
        self._own: Embedding | None = None
        self._loaded: dict[str, Embedding | None] = {}
        self._index: VectorIndex | StoredIndex | None = None
        self._questions: dict[tuple[str, str], Floats] = {}
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._rests_until = 0.0
        self._behind: threading.Thread | None = None
        self._closing = threading.Event()

    def use(self, own: Embedding) -> None:
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
        return self._own.name if self._own else chosen_name(self._opened.settings.embedder)

    def load(self, name: str) -> Embedding | None:
        """An embedder by name, made once."""
        if self._own is not None and name == self._own.name:
            return self._own
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = embedder_named(name)
            return self._loaded[name]

    def status(self) -> Embedded:
        """How far the vectors of the wanted embedder are."""
        name = self.wanted
        with self._opened.store.reading() as reader:
            known = _known(reader, name)
            left = reader.entries_left(known.done if known else 0)
            total = reader.entries_left(0)
        return Embedded("" if name == NONE else name, total - left, total)

    def meaning(self, query: str, only: Filter) -> Meaning | None:
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
            self._rest(error)
            return None

    def _rest(self, error: PassdownError) -> None:
        self._rests_until = time.monotonic() + REST_S
        _tell("meaning is not asked", error)

    def _asked(self, query: str, only: Filter) -> Meaning | None:
        with self._opened.store.reading() as reader:
            serving = self._serving(reader)
            embedding = self.load(serving.name) if serving else None
            if serving is None or embedding is None:
                return None
            index = self._index_of(serving, is_stored=reader.indexes_vectors)
            with self._lock:
                index.refresh(reader)
                within = index.within(reader, only)
        from passdown.recall.meaning import Meaning

        # Outside the read: an embedder may be far away, and a question waits for it as long.
        return Meaning(index, within, self._vector_of(query, embedding, serving))

    def _vector_of(self, query: str, embedding: Embedding, serving: Embedder) -> Floats:
        """A question as a vector of length one; those asked last are remembered, since the same
        question often comes again with another filter or from another agent.
        """
        from passdown.recall.vectors import unit

        key = (embedding.name, query)
        with self._lock:
            known = self._questions.pop(key, None)
        if known is None:
            numbers = _vectors(embedding, [query])[0]
            if len(numbers) != serving.dimensions:
                problem = _other_length(serving, len(numbers))
                raise InvalidInput("the embedder has changed", [problem])
            known = unit(numbers)
        with self._lock:
            self._questions[key] = known
            if len(self._questions) > _REMEMBERED:
                del self._questions[next(iter(self._questions))]
        return known

    def _is_up_to_date(self) -> bool:
        """Whether the newest entry has its vector: told without counting the others."""
        with self._opened.store.reading() as reader:
            known = _known(reader, self.wanted)
            return known is not None and known.done >= reader.newest_entry()

    def _top_up(self) -> None:
        if self._is_up_to_date() or not self._making.acquire(blocking=False):
            return  # nothing is missing, or another thread is at it
        try:
            found = embed(self._opened, seconds=TOP_UP_S)
        except PassdownError as error:
            # A store that can't be written to can still be searched.
            _tell("vectors are not made", error)
            return
        finally:
            self._making.release()
        if not found.is_complete:
            self._go_on_behind()

    def _go_on_behind(self) -> None:
        with self._lock:
            is_busy = self._behind is not None and self._behind.is_alive()
            if not is_busy and not self._closing.is_set():
                self._behind = threading.Thread(target=self._embed_rest, daemon=True)
                self._behind.start()

    def _embed_rest(self) -> None:
        try:
            embed(self._opened, stops=self._closing.is_set)
        except PassdownError as error:
            _tell("vectors are not made", error)

    def close(self) -> None:
        """Let whatever is made behind end with the batch that it is at."""
        self._closing.set()
        if self._behind is not None:
            self._behind.join()

    def _index_of(self, serving: Embedder, *, is_stored: bool) -> VectorIndex | StoredIndex:
        from passdown.recall.vectors import StoredIndex, VectorIndex

        kind = StoredIndex if is_stored else VectorIndex
        with self._lock:
            if self._index is None or self._index.embedder != serving.id:
                self._index = kind(serving.id, serving.dimensions)
            return self._index

    def _serving(self, reader: Reader) -> Embedder | None:
        """Whose vectors answer: the wanted one's, or an earlier one's while many are missing."""
        known = {embedder.name: embedder for embedder in reader.embedders()}
        wanted = known.get(self.wanted)
        total = reader.newest_entry()
        if wanted is not None and wanted.done >= total * _NEARLY_ALL:
            return wanted
        earlier = [e for e in known.values() if e is not wanted and self._is_loadable(e.name)]
        best = max(earlier, key=lambda e: e.done, default=None)
        if best is not None and (wanted is None or best.done > wanted.done):
            return best
        return wanted

    def _is_loadable(self, name: str) -> bool:
        try:
            return self.load(name) is not None
        except PassdownError:
            return False


def embed(
    opened: Opened,
    *,
    limit: int = 0,
    seconds: float = 0.0,
    progress: Progress | None = None,
    stops: Callable[[], bool] | None = None,
) -> Embedded:
    """Make the vectors that are missing: all, or up to a limit, or for some seconds.

    Each batch is kept as it is done, so whatever ends this loses nothing.
    """
    embeddings = opened.embeddings
    status = embeddings.status()
    if not status.embedder or status.is_complete:
        return status
    embedding = embeddings.load(status.embedder)
    if embedding is None:
        return Embedded("", 0, status.total)
    embeddings.wake()
    started = time.monotonic()
    made = 0
    while not status.is_complete:
        if progress:
            progress(status.done, status.total)
        made += _embed_batch(opened, embedding)
        status = embeddings.status()
        is_late = seconds and time.monotonic() - started > seconds
        if is_late or (limit and made >= limit) or (stops is not None and stops()):
            return status
    if progress:
        progress(status.done, status.total)
    return status


def embed_alone(opened: Opened, *, limit: int = 0, progress: Progress | None = None) -> Embedded:
    """The same, and once all are there, let go of those of other embedders.

    Whoever only searches lets go of none: a process that forgot to say which embedder is wanted
    would throw away what another one has paid for.
    """
    status = embed(opened, limit=limit, progress=progress)
    if status.embedder and status.is_complete:
        _drop_others(opened, status.embedder)
    return status


def _embed_batch(opened: Opened, embedding: Embedding) -> int:
    """Give the next entries their vectors; gives how many were looked at."""
    from passdown.recall.vectors import packed

    with opened.store.reading() as reader:
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
    blobs = dict(zip(texts, (packed(vector) for vector in vectors), strict=True))
    with opened.store.writing([]) as writer:
        kept = known or writer.add_embedder(embedding.name, dimensions)
        if dimensions and kept.dimensions != dimensions:
            raise InvalidInput("the embedder has changed", [_other_length(kept, dimensions)])
        passages = {row.id: row.passage for row in page}
        writer.add_vectors([(kept.id, n, passages[n], blob) for n, blob in blobs.items()])
        writer.embedded_up_to(kept.id, page[-1].id)
    return len(page)


def _at_once(reader: Reader, page: Sequence[Unembedded]) -> list[str]:
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


def _vectors(embedding: Embedding, texts: list[str]) -> Sequence[Sequence[float]]:
    """The vectors of some texts, checked: one for each, of one length, of numbers."""
    if not texts:
        return []
    try:
        with spans.part("embed", {**_EMBEDS, "gen_ai.request.model": embedding.name}) as span:
            vectors = [[float(number) for number in vector] for vector in embedding.embed(texts)]
            span.note({"passdown.texts": len(texts)})
    except PassdownError:
        raise
    except Exception as error:  # a program's own function may raise anything
        raise StoreUnavailable(
            f"the embedder {embedding.name!r} failed: {type(error).__name__}: {error}",
            next_step="Nothing was lost; words are searched meanwhile. Mend it and embed again.",
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
    if problems:
        raise InvalidInput(f"the vectors of {embedding.name!r} can't be used", problems)
    return vectors


def _tell(what: str, error: PassdownError) -> None:
    import logging

    logging.getLogger("passdown").warning("%s: %s", what, error)


def _other_length(kept: Embedder, dimensions: int) -> Problem:
    message = f"{kept.name!r} made vectors of {kept.dimensions} numbers, now of {dimensions}"
    return Problem("embedder", "other_dimensions", message, "another name for another embedder")


def _drop_others(opened: Opened, name: str) -> None:
    """Let go of the vectors of earlier embedders, a few at a time."""
    with opened.store.reading() as reader:
        others = [known for known in reader.embedders() if known.name != name]
    for other in others:
        is_left = True
        while is_left:
            with opened.store.writing([]) as writer:
                is_left = writer.drop_vectors(other.id, _DROPPED_AT_ONCE) == _DROPPED_AT_ONCE
                if not is_left:
                    writer.drop_embedder(other.id)


def _known(reader: Reader, name: str) -> Embedder | None:
    return next((known for known in reader.embedders() if known.name == name), None)


def _text_of(reader: Reader, row: Unembedded) -> str:
    """What an entry says, as it is embedded."""
    address = parse_address(row.address)
    if address is None:
        known = reader.known_node(row.address.removeprefix(NODE_PREFIX))
        return node_text(known.node) if known else ""
    item = reader.item(*address)
    if item is None:
        return ""
    return "\n".join(filter(None, searched_text(item.letter, Records(reader).told(item).entry)))
