"""The nearest vectors, by our index and by Chroma: the same vectors, a process for each.

    python -m bench.recall_beside ours|chroma FOLDER

prints what one of them takes. Both are asked in a process of their own, so that memory can be told
apart; both get the question's vector. Chroma is used as it comes, with its index on disk.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import Row, ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.figures import Measured
    from bench.recall_store import Material
    from bench.run import Run

COUNT = 10
QUERIES = 100
FILTER = "agent-10"
_PAGE = 5_000
_MIB = 1_048_576


def measure(found: Measured, root: Path, stuff: Material, size: int, run: Run) -> None:
    """Run both, and put them side by side."""
    from importlib.util import find_spec

    from passdown.search.minilm import MiniLM

    if find_spec("chromadb") is None:
        found.notes.append("Not beside Chroma: the package chromadb is not installed.")
        return
    import numpy as np

    count = 30 if run.quick else QUERIES
    np.save(root / "queries.npy", MiniLM()(stuff.questions[-count:]))
    told = {name: child("bench.recall_beside", name, str(root)) for name in ("ours", "chroma")}
    ours, theirs = told["ours"], told["chroma"]
    label = f"{size:,} vectors"
    for what, key in (("nearest ten", "ms"), ("the same, one agent of 10 %", "filtered_ms")):
        found.rows.append(
            Row(
                f"{label}: {what}, median",
                ms(ours[key] / 1e3),
                f"{ms(theirs[key] / 1e3)} Chroma",
                ours[key] / theirs[key],
            )
        )
    found.rows += [
        Row(
            f"{label}: of the ten nearest in truth",
            f"{ours['recall']:.3f}",
            f"{theirs['recall']:.3f} Chroma; filtered {ours['filtered_recall']:.3f} beside "
            f"{theirs['filtered_recall']:.3f}",
        ),
        Row(
            f"{label}: memory for it",
            f"{ours['memory'] / _MIB:.0f} MiB",
            f"{theirs['memory'] / _MIB:.0f} MiB Chroma",
            ours["memory"] / theirs["memory"],
        ),
        Row(
            f"{label}: on disk",
            f"{ours['disk'] / _MIB:.0f} MiB",
            f"{theirs['disk'] / _MIB:.0f} MiB Chroma; ours holds records and words as well",
        ),
    ]
    found.figures[f"beside_{size}"] = told


def child(module: str, *arguments: str, python: str = sys.executable) -> dict[str, Any]:
    """What a module, run as a program of its own, prints as its last line."""
    command = [python, "-m", module, *arguments]
    here = Path(__file__).parent.parent
    path = os.pathsep.join([str(here), str(here / "src"), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path, "ANONYMIZED_TELEMETRY": "False"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=3_600,
    )
    return json.loads(result.stdout.splitlines()[-1])


def resident() -> int:
    """The memory of this process."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def disk(folder: Path) -> int:
    """The size of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _timed(ask: Callable[[Any], list[int]], queries: Any) -> tuple[list[list[int]], float]:
    answers, times = list[list[int]](), list[float]()
    for query in queries:
        started = time.perf_counter()
        answers.append(ask(query))
        times.append(time.perf_counter() - started)
    return answers, statistics.median(times) * 1e3


def _hits(answers: list[list[int]], truth: list[list[int]]) -> float:
    pairs = list(zip(answers, truth, strict=True))
    return sum(len(set(a) & set(t)) for a, t in pairs) / sum(len(t) for _, t in pairs)


def _ours(root: Path, queries: Any) -> dict[str, Any]:
    import numpy as np

    import passdown
    from passdown.search.query import SearchFilter
    from passdown.search.vectors import VectorIndex

    workspace = passdown.open(str(root), create=False)
    before = resident()
    with workspace._context.store.reading() as reader:
        known = reader.embedders()[0]
        index = VectorIndex(known.id, known.dimensions)
        index.refresh(reader)

        def ask(only: SearchFilter) -> Callable[[Any], list[int]]:
            within = index.within(reader, only)
            return lambda q: index.nearest(reader, q, within, lambda ids: ids, count=COUNT)

        ask(SearchFilter())(queries[0])
        answers, median_ms = _timed(ask(SearchFilter()), queries)
        filtered, filtered_ms = _timed(ask(SearchFilter(agent=FILTER)), queries)
        memory = resident() - before
        ids, vectors, agents = _all(reader, known.id, known.dimensions)
    np.savez(root / "vectors.npz", ids=ids, vectors=vectors, agents=agents)
    scores = queries @ vectors.T
    truth = [ids[np.argsort(-row)[:COUNT]].tolist() for row in scores]
    scores[:, agents != FILTER] = -2
    some = [ids[np.argsort(-row)[:COUNT]].tolist() for row in scores]
    (root / "truth.json").write_text(json.dumps([truth, some]), "ascii")
    workspace.close()
    return {
        "ms": median_ms,
        "filtered_ms": filtered_ms,
        "recall": _hits(answers, truth),
        "filtered_recall": _hits(filtered, some),
        "memory": memory,
        "disk": disk(root / ".passdown"),
    }


def _all(reader: Any, embedder: int, dimensions: int) -> tuple[Any, Any, Any]:
    """Every vector as floats of length one, with its number and agent."""
    import numpy as np

    from passdown.search.vectors import unpack_vectors

    ids, parts, agents, last = list[int](), list[Any](), list[str](), 0
    while page := reader.vectors_after(embedder, last, _PAGE):
        ids += [row.id for row in page]
        agents += [row.agent for row in page]
        parts.append(unpack_vectors([row.vector for row in page], dimensions).astype(np.float32))
        last = ids[-1]
    vectors = np.concatenate(parts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.array(ids), vectors, np.array(agents)


def _chroma(root: Path, queries: Any) -> dict[str, Any]:
    if not (root / "chroma").exists():
        subprocess.run([sys.executable, "-m", "bench.recall_beside", "fill", str(root)], check=True)
    before = resident()
    collection = _collection(root)

    def ask(only: dict[str, Any] | None) -> Callable[[Any], list[int]]:
        def asked(query: Any) -> list[int]:
            answer = collection.query(
                query_embeddings=[query], n_results=COUNT, where=only, include=[]
            )
            return [int(name) for name in answer["ids"][0]]

        return asked

    ask(None)(queries[0])
    answers, median_ms = _timed(ask(None), queries)
    filtered, filtered_ms = _timed(ask({"agent": FILTER}), queries)
    memory = resident() - before
    truth, some = json.loads((root / "truth.json").read_text("ascii"))
    return {
        "ms": median_ms,
        "filtered_ms": filtered_ms,
        "recall": _hits(answers, truth),
        "filtered_recall": _hits(filtered, some),
        "memory": memory,
        "disk": disk(root / "chroma"),
    }


def _collection(root: Path) -> Any:
    import chromadb

    settings = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(root / "chroma"), settings)
    return client.get_or_create_collection(
        "entries", embedding_function=None, metadata={"hnsw:space": "cosine"}
    )


def _fill(root: Path, _: Any) -> dict[str, Any]:
    import numpy as np

    collection = _collection(root)
    data = np.load(root / "vectors.npz")
    ids, vectors, agents = data["ids"].tolist(), data["vectors"], data["agents"].tolist()
    for start in range(0, len(ids), _PAGE):
        part = slice(start, start + _PAGE)
        collection.add(
            [str(number) for number in ids[part]],
            embeddings=vectors[part],
            metadatas=[{"agent": agent} for agent in agents[part]],
        )
    return {}


def main() -> None:
    import numpy as np

    name, folder = sys.argv[1], Path(sys.argv[2])
    queries = np.load(folder / "queries.npy")
    told = {"ours": _ours, "chroma": _chroma, "fill": _fill}[name](folder, queries)
    if name != "fill":
        print(json.dumps(told))


if __name__ == "__main__":
    main()
