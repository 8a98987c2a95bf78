"""A store with very many things to find, filled quickly: records chained and derived as an import
does it.

Texts are put together anew from sentences of the retrieval sets. A few thousand vectors are real
ones of the model; the others are made of two of those and noise, which is denser than life.
Of the entries, 1, 10 and 50 % have a certain kind, agent, task and tag, so that filters can be
measured.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import passdown
from bench.retrieval_data import SETS, read, text_of
from passdown.core.kinds import stream_of
from passdown.core.record import Head, Record, canonical_bytes, chained
from passdown.core.settings import Settings
from passdown.core.times import stamp
from passdown.ledger.writer import derive_again
from passdown.search.embedders import MINILM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.run import Run
    from passdown.store.statements import Writer

SHARES = (1, 10, 50)
SETTINGS = Settings(durability="normal", embedder=MINILM)
PER_RECORD = 50
REAL = 2_000
QUICK_REAL = 300
_PER_COMMIT = 40
_VECTORS_AT_ONCE = 10_000
_KINDS = {1: "pattern", 10: "gotcha", 50: "decision"}
_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NOISE = 0.6


@dataclass
class Material:
    """What texts and vectors are made of: sentences, and vectors of whole documents."""

    sentences: list[str]
    questions: list[str]
    documents: list[str]
    vectors: Any

    def text(self, luck: random.Random) -> str:
        """One to six sentences, as an item has them."""
        return " ".join(luck.choices(self.sentences, k=luck.randint(1, 6)))


def material(folder: Path, embed: Callable[[Sequence[str]], Any], real: int = REAL) -> Material:
    """Sentences and questions of the three sets, and vectors of some of their documents."""
    sentences: dict[str, None] = {}
    questions: list[str] = []
    texts: list[str] = []
    for name in SETS:
        corpus = read(folder, name)
        questions += [query.text for query in corpus.queries]
        for document in corpus.documents.values():
            text = text_of(document)
            parts = [" ".join(part.split()) for part in _SENTENCE.split(text)]
            sentences.update((part, None) for part in parts if 20 <= len(part) <= 300)
            texts.append(text[:600])
    luck = random.Random(7)
    luck.shuffle(questions)
    chosen = luck.sample(texts, min(real, len(texts)))
    return Material(list(sentences), questions, chosen, embed(chosen))


def share_of(luck: random.Random) -> int:
    """1, 10 or 50 with just that chance in a hundred, else 0."""
    number = luck.randrange(100)
    return 1 if number < 1 else 10 if number < 11 else 50 if number < 61 else 0


def make(root: Path, entries: int, stuff: Material, run: Run) -> passdown.Workspace:
    """A workspace with that many entries, every one with its vector."""
    root.mkdir(parents=True)
    root.mkdir(parents=True, exist_ok=True)
    workspace = passdown.open(str(root), settings=SETTINGS)
    streams = _Streams(stuff, random.Random(11))
    store = workspace._context.store
    records = -(-entries // PER_RECORD)
    for first in range(0, records, _PER_COMMIT):
        with store.writing([]) as writer:
            for number in range(first, min(first + _PER_COMMIT, records)):
                for record in streams.record(number):
                    derive_again(writer, writer.append(record))
        if first % 2_000 == 0:
            run.say(f"filling a store: {first * PER_RECORD:,} of {entries:,} entries")
    _add_vectors(workspace, stuff)
    return workspace


class _Streams:
    """Makes records one after another, each chained to the last one of its task."""

    def __init__(self, stuff: Material, luck: random.Random) -> None:
        self._stuff = stuff
        self._luck = luck
        self._heads: dict[str, Head] = {}

    def record(self, number: int) -> Iterator[Record]:
        luck = self._luck
        task, agent, kind = (share_of(luck) for _ in range(3))
        name = f"share-{task}" if task else f"other-{luck.randrange(40)}"
        who = f"agent-{agent}" if agent else f"other-{luck.randrange(40)}"
        at = stamp(_START + timedelta(minutes=number))
        if name not in self._heads:
            yield self._next(name, "lead", "task_created", _task(name), at)
        record_kind, body = self._body(_KINDS.get(kind, "warning"), number)
        yield self._next(name, who, record_kind, body, at)

    def _next(self, task: str, author: str, kind: str, body: dict[str, Any], at: str) -> Record:
        stream = stream_of(task)
        head = self._heads.get(task)
        key = f"{task}-{head.position if head else 0}"
        data = canonical_bytes(body)
        record = chained(Record(stream, 0, at, author, kind, key, "", "", data), head)
        self._heads[task] = Head(stream, record.position, record.digest)
        return record

    def _body(self, kind: str, number: int) -> tuple[str, dict[str, Any]]:
        texts = [self._stuff.text(self._luck) for _ in range(PER_RECORD)]
        if kind == "warning":
            return "warned", {"warnings": texts}
        if kind == "decision":
            return "decided", {"decisions": [self._decision(text) for text in texts]}
        names = [f"{kind}-{number}-{index}" for index in range(PER_RECORD)]
        if kind == "gotcha":
            found = [
                {"id": name, "issue": text, "severity": "low", "mitigation": "not stated"}
                for name, text in zip(names, texts, strict=True)
            ]
            return "noted", {"gotchas": found}
        found = [{"id": name, "pattern": text} for name, text in zip(names, texts, strict=True)]
        return "noted", {"patterns": found}

    def _decision(self, text: str) -> dict[str, Any]:
        # Half of all entries are decisions, so of these twice the share gets a tag.
        number = self._luck.randrange(100)
        tags = [f"tag-{share}" for share in SHARES if number < 2 * share]
        summary, _, rationale = text.partition(". ")
        return {"summary": summary, "rationale": rationale or "not stated", "tags": tags}


def _task(name: str) -> dict[str, Any]:
    return {
        "title": name,
        "description": "",
        "phase": "planning",
        "priority": "",
        "depends_on": [],
        "criteria": [],
        "time_limit_minutes": None,
    }


def _add_vectors(workspace: passdown.Workspace, stuff: Material) -> None:
    """A vector for every entry, kept as the model's own are."""
    store = workspace._context.store
    luck = random.Random(13)
    with store.writing([]) as writer:
        known = writer.add_embedder(MINILM, stuff.vectors.shape[1])
    after = 0
    while True:
        with store.writing([]) as writer:
            page = writer.without_vector(known.id, after, _VECTORS_AT_ONCE)
            if not page:
                return
            _keep(writer, known.id, page, mixed(stuff.vectors, len(page), luck))
            after = page[-1].id
            writer.embedded_up_to(known.id, after)


def _keep(writer: Writer, embedder: int, page: Sequence[Any], vectors: Any) -> None:
    from passdown.search.vectors import pack_vector

    writer.add_vectors(
        [
            (embedder, row.id, row.passage, pack_vector(vector))
            for row, vector in zip(page, vectors, strict=True)
        ]
    )


def mixed(real: Any, count: int, luck: random.Random) -> Any:
    """Vectors between two real ones, with noise, of length one."""
    import numpy as np

    maker = np.random.default_rng(luck.randrange(2**32))
    one, other = maker.integers(0, len(real), (2, count))
    part = maker.random((count, 1), np.float32)
    noise = maker.standard_normal((count, real.shape[1]), np.float32) / real.shape[1] ** 0.5
    vectors = real[one] * part + real[other] * (1 - part) + _NOISE * noise
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
