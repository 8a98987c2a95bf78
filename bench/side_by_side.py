"""Search beside other stores: the same documents, questions and vectors, a process for each.

    python -m bench.side_by_side fill|ask SYSTEM SET FOLDER

fills a system with one set (see `retrieval_data`), or asks it every question and prints what it
found and took. A system whose requirements don't go together with ours runs in an environment of
its own: `PASSDOWN_COMPARED="mem0=FOLDER/bin/python"` names its interpreter.

Systems with vectors get the same ones, made by our embedder, so none needs the network; the time
for a question's vector is left out for all. Memory is what the process grew by while it opened the
store and answered. Disk is the store alone. Install size is the system's package with everything
that it requires.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import retrieval_data
from bench.figures import Measured, Row, ms
from bench.recall_beside import child, disk, resident
from bench.retrieval import DEPTH, Embedder, Score
from bench.retrieval_data import SETS, Loaded, load, read, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.retrieval_data import Corpus, Query
    from bench.run import Run

    Ranking = Callable[[Query], Sequence[str]]

COMPARED = "PASSDOWN_COMPARED"
QUICK_SET = "adr"
QUICK_SYSTEMS = ("Passdown", "SQLite FTS5", "LangGraph InMemoryStore")
QUICK_DOCUMENTS = 25
_MIB = 1_048_576
_PAGE = 500
_DIMENSIONS = 384


def said(document: dict[str, Any]) -> str:
    """A document as other systems get it: a turn with its day and speaker, which ours has too."""
    text = text_of(document)
    return f"{document['date']}, {document['speaker']}: {text}" if "speaker" in document else text


class Material(NamedTuple):
    """A set, and the vector of each of its texts and questions."""

    corpus: Corpus
    vectors: dict[str, Any]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.vectors[" ".join(text.split())].tolist() for text in texts]


class System(NamedTuple):
    """A store: the package it comes in (none for the standard library), how it is filled, asked."""

    package: str
    fill: Callable[[Path, Material], None]
    ask: Callable[[Path, Material], Ranking]


def measure(run: Run) -> Measured:
    found = Measured("side_by_side", "Search beside other stores")
    folder = retrieval_data.folder()
    if folder is None:
        found.notes.append("Not measured: PASSDOWN_DATA names no folder with retrieval/.")
        return found
    embed = Embedder()
    systems = QUICK_SYSTEMS if run.quick else (*SYSTEMS,)
    for name in (QUICK_SET,) if run.quick else SETS:
        corpus = read(folder, name)
        corpus = corpus.cut(QUICK_DOCUMENTS) if run.quick else corpus
        root = run.folder / "side_by_side" / name
        root.mkdir(parents=True)
        run.say(f"side_by_side: {name}, vectors of {len(corpus.documents)} documents")
        _save(root, corpus, embed)
        for system in systems:
            told = _asked(system, name, root, corpus, run)
            if isinstance(told, str):
                found.notes += [told] if told not in found.notes else []
                continue
            found.figures.setdefault(name, {})[system] = told
            found.rows.append(_row(name, system, told))
    for system in systems:
        size, count = _run("installed", system, "", run.folder).get("installed", (0, 0))
        found.figures.setdefault("installed", {})[system] = size
        if count:
            row = Row(f"{system}: installed", f"{size / _MIB:,.0f} MiB", f"{count} packages")
            found.rows.append(row)
    found.notes += [
        f"mem0 needs an environment of its own ({COMPARED}): what it requires doesn't go together "
        "with the versions tested here.",
        "Chroma's own model is downloaded when it is first used, so Chroma, LangGraph and mem0 get "
        "our vectors of the same model (all-MiniLM-L6-v2). mem0 stores texts as they are "
        "(`infer=False`), without its keyword search, which needs files from the network; what a "
        "model would make of them first isn't measured. FTS5 orders by bm25 of any of the "
        "question's words. A turn of a conversation comes with its day and speaker to all.",
    ]
    return found


def _asked(system: str, name: str, root: Path, corpus: Corpus, run: Run) -> dict[str, float] | str:
    """One system on one set, or why it wasn't measured."""
    run.say(f"side_by_side: {name}, {system}")
    for phase in ("fill", "ask"):
        told = _run(phase, system, name, root)
        if "error" in told:
            return f"{system} was not measured: {told['error']}"
    score, same = Score(), _same(corpus)
    for query, answer, seconds in zip(corpus.queries, told["found"], told["seconds"], strict=True):
        relevant = {same[document] for document in query.relevant}
        score.add(list(dict.fromkeys(same[document] for document in answer)), relevant, seconds)
    return {**score.document(), "memory": told["memory"], "disk": told["disk"]}


def _run(phase: str, system: str, name: str, root: Path) -> dict[str, Any]:
    """One phase of one system, by the interpreter that has it."""
    pairs = (pair.partition("=") for pair in os.environ.get(COMPARED, "").split(","))
    own = {named: path for named, _, path in pairs if path}
    python = own.get(system, sys.executable)
    return child("bench.side_by_side", phase, system, name, str(root), python=python)


def _row(name: str, system: str, told: dict[str, float]) -> Row:
    return Row(
        f"{name}, {system}: R@5",
        f"{told['recall_at_5']:.1f}",
        f"{ms(told['median_ms'] / 1e3)}, {told['memory'] / _MIB:,.0f} MiB memory, "
        f"{told['disk'] / _MIB:,.1f} MiB on disk",
    )


def _same(corpus: Corpus) -> dict[str, str]:
    """Each document by the first one of its group that says the same."""
    first: dict[tuple[str, str], str] = {}
    for name, document in corpus.documents.items():
        first.setdefault((document["group"], said(document)), name)
    return {
        name: first[document["group"], said(document)]
        for name, document in corpus.documents.items()
    }


def _save(root: Path, corpus: Corpus, embed: Embedder) -> None:
    import numpy as np

    from passdown.search.query import without_names

    texts = [said(document) for document in corpus.documents.values()]
    authors = sorted({document.get("speaker", "reader") for document in corpus.documents.values()})
    asked = [query.text for query in corpus.queries]
    # Our search asks without the authors that a question names.
    asked += [without_names(text, authors) for text in asked]
    texts = list(dict.fromkeys([*texts, *asked]))
    np.save(root / "vectors.npy", embed(texts).astype(np.float32))
    saved = {
        "texts": texts,
        "documents": corpus.documents,
        "queries": [vars(query) for query in corpus.queries],
    }
    (root / "set.json").write_text(json.dumps(saved), "utf-8")


def _material(root: Path, name: str) -> Material:
    import numpy as np

    from bench.retrieval_data import Corpus, Query

    saved = json.loads((root / "set.json").read_text("utf-8"))
    corpus = Corpus(name, saved["documents"], [Query(**query) for query in saved["queries"]])
    vectors = np.load(root / "vectors.npy")
    # Some systems trim what they are given.
    texts = [" ".join(text.split()) for text in saved["texts"]]
    return Material(corpus, dict(zip(texts, vectors, strict=True)))


def installed(package: str) -> tuple[int, int]:
    """The bytes and number of packages that installing one brings, itself included."""
    from packaging.requirements import Requirement

    found: dict[str, int] = {}
    waiting = [package] if package else []
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[name] = _size(name, distribution)
        needed = [Requirement(text) for text in distribution.requires or ()]
        waiting += [r.name for r in needed if not r.marker or r.marker.evaluate({"extra": ""})]
    return sum(found.values()), len(found)


def _size(name: str, distribution: metadata.Distribution) -> int:
    if name == "passdown":  # may be a link to a checkout
        import passdown

        folder = Path(passdown.__file__).parent
        return sum(
            f.stat().st_size for f in folder.rglob("*") if f.suffix != ".pyc" and f.is_file()
        )
    files = (Path(str(distribution.locate_file(file))) for file in distribution.files or ())
    return sum(f.stat().st_size for f in files if f.suffix != ".pyc" and f.is_file())


def _fill_ours(root: Path, material: Material) -> None:
    embed = Embedder()
    loaded = load(root / "store", material.corpus, embed)
    loaded.workspace.close()
    (root / "addresses.json").write_text(json.dumps(loaded.address), "utf-8")


def _ask_ours(root: Path, material: Material) -> Ranking:
    import passdown
    from passdown.search.embedders import MINILM, NamedEmbedder

    workspace = passdown.open(str(root / "store"), create=False)

    def embed(texts: Sequence[str]) -> Any:
        import numpy as np

        return np.array(material.embed(texts))

    workspace._context.embeddings._loaded[MINILM] = NamedEmbedder(MINILM, embed)
    address = json.loads((root / "addresses.json").read_text("utf-8"))
    names: dict[str, str] = {}
    for name, at in address.items():
        names.setdefault(at, name)
    loaded = Loaded(workspace, material.corpus, address)
    return lambda query: [names[at] for at in loaded.recall(query, DEPTH)]


def _fill_fts(root: Path, material: Material) -> None:
    (root / "store").mkdir()
    with sqlite3.connect(root / "store" / "fts.db") as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(said, name UNINDEXED, place UNINDEXED, "
            "tokenize='porter unicode61')"
        )
        connection.executemany(
            "INSERT INTO texts VALUES (?, ?, ?)",
            [(said(d), name, d["group"]) for name, d in material.corpus.documents.items()],
        )
    connection.close()


def _ask_fts(root: Path, material: Material) -> Ranking:
    connection = sqlite3.connect(root / "store" / "fts.db")
    statement = (
        "SELECT name FROM texts WHERE texts MATCH ? AND place = ? ORDER BY bm25(texts) LIMIT ?"
    )

    def ranking(query: Query) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query.text))
        return [row[0] for row in connection.execute(statement, (words, query.group, DEPTH))]

    return ranking


def _collection(root: Path) -> Any:
    import chromadb

    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(root / "store"), settings)
    return client.get_or_create_collection(
        "documents", embedding_function=None, metadata={"hnsw:space": "cosine"}
    )


def _fill_chroma(root: Path, material: Material) -> None:
    collection = _collection(root)
    documents = list(material.corpus.documents.items())
    for start in range(0, len(documents), _PAGE):
        part = documents[start : start + _PAGE]
        texts = [said(document) for _, document in part]
        collection.add(
            [name for name, _ in part],
            embeddings=material.embed(texts),
            documents=texts,
            metadatas=[{"group": document["group"]} for _, document in part],
        )


def _ask_chroma(root: Path, material: Material) -> Ranking:
    collection = _collection(root)

    def ranking(query: Query) -> list[str]:
        answer = collection.query(
            query_embeddings=material.embed([query.text]),
            where={"group": query.group},
            n_results=DEPTH,
            include=["documents"],
        )
        return answer["ids"][0]

    return ranking


def _fill_langgraph(store: Any, material: Material) -> None:
    for name, document in material.corpus.documents.items():
        store.put(
            (document["group"].replace(".", "-"),),
            name,
            {"text": said(document)},
            index=["text"],
        )


def _langgraph_ranking(store: Any) -> Ranking:
    def ranking(query: Query) -> list[str]:
        place = (query.group.replace(".", "-"),)
        return [item.key for item in store.search(place, query=query.text, limit=DEPTH)]

    return ranking


def _index(material: Material) -> Any:
    return {"dims": _DIMENSIONS, "embed": material.embed, "fields": ["text"]}


def _fill_nothing(root: Path, material: Material) -> None:
    """A store in memory is filled by who asks it."""
    (root / "store").mkdir()


def _ask_in_memory(root: Path, material: Material) -> Ranking:
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore(index=_index(material))
    _fill_langgraph(store, material)
    return _langgraph_ranking(store)


def _sqlite_store(root: Path, material: Material) -> Any:
    from langgraph.store.sqlite import SqliteStore

    (root / "store").mkdir(exist_ok=True)
    connection = sqlite3.connect(
        root / "store" / "langgraph.db", check_same_thread=False, isolation_level=None
    )
    store = SqliteStore(connection, index=_index(material))
    store.setup()
    return store


def _fill_sqlite_store(root: Path, material: Material) -> None:
    _fill_langgraph(_sqlite_store(root, material), material)


def _ask_sqlite_store(root: Path, material: Material) -> Ranking:
    return _langgraph_ranking(_sqlite_store(root, material))


def _mem0(root: Path, material: Material) -> Any:
    folder = root / "store"
    folder.mkdir(exist_ok=True)
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(folder))
    from mem0 import Memory

    class Known:
        """The vectors that we have, as mem0 asks for them."""

        def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
            return material.embed([text])[0]

        def embed_batch(self, texts: list[str], *_: Any, **__: Any) -> list[list[float]]:
            return material.embed(texts)

    vectors = {"path": str(folder / "qdrant"), "embedding_model_dims": _DIMENSIONS, "on_disk": True}
    unused = {"provider": "openai", "config": {"api_key": "none"}}
    memory = Memory.from_config(
        {
            "embedder": unused,
            "vector_store": {"provider": "qdrant", "config": vectors},
            "llm": unused,  # with `infer=False` no model is asked
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model = Known()
    return memory


def _fill_mem0(root: Path, material: Material) -> None:
    memory = _mem0(root, material)
    for name, document in material.corpus.documents.items():
        memory.add(said(document), user_id=document["group"], metadata={"name": name}, infer=False)
    memory.vector_store.client.close()


def _ask_mem0(root: Path, material: Material) -> Ranking:
    memory = _mem0(root, material)

    def ranking(query: Query) -> list[str]:
        only = {"user_id": query.group}
        found = memory.search(query.text, filters=only, top_k=DEPTH, threshold=0.0)["results"]
        return [each["metadata"]["name"] for each in found]

    return ranking


SYSTEMS = {
    "Passdown": System("passdown", _fill_ours, _ask_ours),
    "SQLite FTS5": System("", _fill_fts, _ask_fts),
    "Chroma": System("chromadb", _fill_chroma, _ask_chroma),
    "LangGraph InMemoryStore": System("langgraph", _fill_nothing, _ask_in_memory),
    "LangGraph SqliteStore": System(
        "langgraph-checkpoint-sqlite", _fill_sqlite_store, _ask_sqlite_store
    ),
    "mem0": System("mem0ai", _fill_mem0, _ask_mem0),
}


def _answered(system: System, root: Path, material: Material) -> dict[str, Any]:
    before = resident()
    ranking = system.ask(root, material)
    found, seconds = list[list[str]](), list[float]()
    for query in material.corpus.queries:
        started = time.perf_counter()
        found.append(list(ranking(query)))
        seconds.append(time.perf_counter() - started)
    memory = resident() - before
    size = disk(root / "store")
    return {"found": found, "seconds": seconds, "memory": memory, "disk": size}


def main() -> None:
    phase, name, set_name, folder = sys.argv[1:]
    system, root = SYSTEMS[name], Path(folder) / re.sub(r"\W+", "-", name)
    told: dict[str, Any] = {}
    try:
        if phase == "installed":
            told = {"installed": installed(system.package)}
        elif phase == "fill":
            root.mkdir()
            system.fill(root, _material(Path(folder), set_name))
        else:
            told = _answered(system, root, _material(Path(folder), set_name))
    except (AttributeError, ImportError, OSError, RuntimeError, sqlite3.Error) as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write("\n" + json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
