"""The same memory on ChromaDB: embedded, in one folder, offline.

Memories and decisions of a project are one collection; relationships are in a JSON file next to it,
because ChromaDB has no graph. ChromaDB keeps its index in the memory of a process and doesn't see
other writers, so every use of the folder takes a lock, and every writer leaves a mark that tells
others to reopen it. Needs `pip install passdown[chroma]`.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from passdown.adapters.memory import (
    REFUSED,
    CheckedMemory,
    DecisionResult,
    MemoryResult,
    PreparedMemory,
    checked_decision,
    decision_relations,
    decision_result,
    project_folder,
    searchable,
)
from passdown.adapters.shared import requires_extra
from passdown.core.graph import Relation
from passdown.errors import InvalidInput, MissingExtra, Problem, StoreUnavailable
from passdown.knowledge.graph_files import EdgeFile, named_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from passdown.core.graph import RelatedNode
    from passdown.core.handoff import Decision

    Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]

_LOCK = "passdown.lock"
_MARK = "passdown.mark"


class ChromaFolder:
    """A folder that is open once in this process; get it from `folder_at`."""

    def __init__(self, path: str) -> None:
        """Nothing is made or opened before the first turn."""
        self.path = path
        self._turns = threading.RLock()
        self._client: Any = None
        self._collections: dict[str, Any] = {}
        self._seen = ""
        self._users = 0

    def count_users(self, change: int) -> None:
        """Count users in and out; the last one closes the folder."""
        with self._turns:
            self._users += change
            if self._users <= 0:
                self._close()

    @contextmanager
    def turn(self, name: str, *, writes: bool) -> Generator[Any]:
        """A collection, made if it isn't there, as it is after the last write of anybody.

        Raises InvalidInput for what ChromaDB refuses, StoreUnavailable where it fails.
        """
        with self._turns, named_lock(self.path, _LOCK), _translate_errors():
            collection = self._current(name)
            if not writes:
                yield collection
                return
            self._mark()  # before as well: a writer that is killed has perhaps written
            yield collection
            self._mark()

    def _current(self, name: str) -> Any:
        mark = self._read_mark()
        if mark != self._seen:
            self._close()
        if self._client is None:
            database = import_chromadb()
            settings = database.config.Settings(anonymized_telemetry=False)
            self._client = database.PersistentClient(path=self.path, settings=settings)
            self._seen = mark
        if name not in self._collections:
            self._collections[name] = self._client.get_or_create_collection(
                name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
        return self._collections[name]

    def _close(self) -> None:
        client, self._client = self._client, None
        self._collections.clear()
        if hasattr(client, "close"):  # earlier releases close their files by themselves
            client.close()

    def _read_mark(self) -> str:
        try:
            with open(os.path.join(self.path, _MARK), encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _mark(self) -> None:
        mark = os.urandom(8).hex()
        with open(os.path.join(self.path, _MARK), "w", encoding="ascii") as file:
            file.write(mark)
        self._seen = mark


_folders: WeakValueDictionary[str, ChromaFolder] = WeakValueDictionary()
_folders_lock = threading.Lock()


def folder_at(path: str) -> ChromaFolder:
    """The folder at a path: the same one for everybody in this process."""
    real = os.path.realpath(path)
    with _folders_lock:
        return _folders.setdefault(real, ChromaFolder(real))


def import_chromadb() -> Any:
    """The package; raises MissingExtra with the line that installs it."""
    with requires_extra("chroma", "the package chromadb is not installed"):
        import chromadb
    return chromadb


@contextmanager
def _translate_errors() -> Generator[None]:
    """Turn ChromaDB's exceptions into the ones that users know."""
    from chromadb.errors import ChromaError, InvalidArgumentError

    try:
        yield
    except InvalidArgumentError as error:
        expected = "vectors as long as those that the project has: the same embedder as before"
        problem = Problem("", "refused", str(error)[:300], expected)
        raise InvalidInput(REFUSED, [problem]) from error
    except (ChromaError, RuntimeError) as error:
        raise StoreUnavailable(f"ChromaDB refused: {error}") from error


_MEMORY = "memory:"
_DECISION = "decision:"
_EVERYTHING = ["documents", "metadatas", "embeddings"]


class _Match(NamedTuple):
    id: str
    document: str
    fields: dict[str, Any]
    score: float

    @property
    def key(self) -> str:
        return self.id.partition(":")[2]


class ChromaMemory(CheckedMemory):
    """A memory store in a folder of ChromaDB, one collection for each project.

    `embed` makes a vector of each text; the default embedder works offline. Tasks and processes
    take turns. `reports` has the files that couldn't be read and were set aside.
    """

    def __init__(
        self, path: str | os.PathLike[str], project: str, embed: Embed | None = None
    ) -> None:
        """Raises InvalidInput for a bad project id, MissingExtra without chromadb. The folder is
        made by the first call of a method.
        """
        name = project_folder(project)
        import_chromadb()
        self._folder = folder_at(str(path))
        self._folder.count_users(1)
        self._is_open = True
        self._name = f"passdown-{project}-memory"
        self._edges = EdgeFile(os.path.join(self._folder.path, f"{name}.edges.json"))
        self._own_embed = embed

    @property
    def reports(self) -> tuple[Problem, ...]:
        """Files of relationships that couldn't be read and were set aside, as problems."""
        return tuple(self._edges.reports)

    async def close(self) -> None:
        """Close the folder. Nothing is lost by not calling it."""
        if self._is_open:
            self._is_open = False
            await asyncio.to_thread(self._folder.count_users, -1)

    def _store(self, memory: PreparedMemory) -> None:
        vector = self._vector(memory.content)
        fields = {"type": "memory", "json": memory.metadata}
        with self._folder.turn(self._name, writes=True) as collection:
            # Decisions that named it before it was there, when it could as well have been a file.
            meant = self._edges.relations(relation="relates_to", target=f"file:{memory.key}")
            ids = [_DECISION + each.source for each in meant]
            known: list[str] = collection.get(ids=ids, include=[])["ids"] if ids else []
            sources = (each.removeprefix(_DECISION) for each in known)
            if known:
                self._edges.add([Relation(each, "relates_to", memory.key) for each in sources])
            _upsert(collection, _MEMORY + memory.key, memory.content, fields, vector)

    def _search(self, query: str, k: int) -> list[MemoryResult]:
        return [_memory_result(each) for each in self._nearest(query, None, k)]

    def _relate(self, relation: Relation) -> None:
        self._edges.add([relation])

    def _relations(self, wanted: Relation) -> list[Relation]:
        return self._edges.relations(**wanted._asdict())

    def _near(self, node: str, depth: int) -> list[RelatedNode]:
        return self._edges.reachable(node, depth)

    def _decide(self, decision: Decision, task: str | None) -> str:
        """Store a decision under agent and time, and a number if those are taken."""
        entry = checked_decision(decision, task)
        document = searchable("d", entry)
        vector = self._vector(document)
        fields = {"type": "decision", "agent": entry["agent"], "task": task or ""}
        fields["json"] = json.dumps(entry, ensure_ascii=False)
        with self._folder.turn(self._name, writes=True) as collection:
            key = _free_key(collection, f"decision-{entry['agent']}-{entry['at']}", fields)
            # First, because a name that can't be an end of a relationship is refused here.
            named = [_MEMORY + name for name in entry.get("artifacts", ())]
            ids: list[str] = collection.get(ids=named, include=[])["ids"] if named else []
            keys = {name.removeprefix(_MEMORY) for name in ids}
            self._edges.add(decision_relations(key, entry, task, keys))
            _upsert(collection, _DECISION + key, document, fields, vector)
        return key

    def _decisions(self, text: str, agent: str, k: int) -> list[DecisionResult]:
        is_decision: dict[str, Any] = {"type": "decision"}
        where = {"$and": [is_decision, {"agent": agent}]} if agent else is_decision
        found = self._nearest(text, where, k)
        return [decision_result(each.key, each.fields["json"], each.score) for each in found]

    def _nearest(self, text: str, where: dict[str, Any] | None, k: int) -> list[_Match]:
        vector = self._vector(text)
        with self._folder.turn(self._name, writes=False) as collection:
            count = collection.count()
            if count == 0:
                return []
            answer = collection.query(
                query_embeddings=[vector],
                n_results=min(k, count),
                where=where,
                include=["documents", "metadatas", "distances"],
            )
            parts = (answer[part][0] for part in ("ids", "documents", "metadatas", "distances"))
            found = [
                _Match(name, text, dict(fields), _score(distance))
                for name, text, fields, distance in zip(*parts, strict=True)
            ]
            if len(found) < min(k, count):
                found = _scan_all(collection, vector, where)
        return sorted(found, key=lambda each: -each.score)[:k]

    def _vector(self, text: str) -> list[float]:
        vector = [float(number) for number in self._embed()([text])[0]]
        if vector and any(vector) and all(map(math.isfinite, vector)):
            return vector
        if not vector or not all(map(math.isfinite, vector)):
            problem = Problem("embed", "not_numbers", "gave no vector", "finite numbers")
            raise InvalidInput("the embedder can't be used", [problem])
        return [1e-6] * len(vector)  # a text without any word has no direction; a cosine needs one

    def _embed(self) -> Embed:
        if self._own_embed is None:
            from passdown.workspace.search import default_embedder

            found = default_embedder()
            if found is None:
                raise MissingExtra(
                    "the embedder that works offline is not installed",
                    next_step="Install numpy and the package of its weights, or give `embed`.",
                )
            self._own_embed = found.embed
        return self._own_embed


def _upsert(
    collection: Any, name: str, document: str, fields: dict[str, str], vector: list[float]
) -> None:
    collection.upsert(ids=[name], documents=[document], metadatas=[fields], embeddings=[vector])


def _free_key(collection: Any, base: str, fields: dict[str, str]) -> str:
    """The key of a decision: the one it has, or the first that nobody has."""
    number = 1
    while True:
        key = base if number == 1 else f"{base}-{number}"
        known = collection.get(ids=[_DECISION + key], include=["metadatas"])["metadatas"]
        if not known or dict(known[0]) == fields:
            return key
        number += 1


def _score(distance: float) -> float:
    """A cosine distance, 0 to 2, as a score, 1 to 0."""
    return min(1.0, max(0.0, 1 - float(distance) / 2)) if math.isfinite(distance) else 0.0


def _scan_all(collection: Any, vector: list[float], where: dict[str, Any] | None) -> list[_Match]:
    """Everything that passes a filter, compared one by one: the index searches roughly and may
    miss some where few pass.
    """
    rows = collection.get(where=where, include=_EVERYTHING)
    parts = zip(rows["ids"], rows["documents"], rows["metadatas"], rows["embeddings"], strict=True)
    return [
        _Match(name, text, dict(fields), _score(1 - _cosine(vector, list(map(float, other)))))
        for name, text, fields, other in parts
    ]


def _cosine(one: list[float], other: list[float]) -> float:
    length = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / length if length else 0.0


def _memory_result(found: _Match) -> MemoryResult:
    kept = json.loads(found.fields["json"])
    if found.fields["type"] == "memory":
        return MemoryResult(found.key, found.document, found.score, kept)
    about = {"kind": "decision", "agent": kept["agent"], "task": found.fields["task"]}
    about |= {"at": kept["at"], "status": kept.get("status", "accepted")}
    return MemoryResult(found.key, found.document, found.score, about)
