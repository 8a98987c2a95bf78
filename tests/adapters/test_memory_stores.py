"""What is particular to each memory store, and what the values keep."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown.adapters.chroma import (
    ChromaMemory,
    _scan_all,  # pyright: ignore[reportPrivateUsage]
    folder_at,
)
from passdown.adapters.memory import (
    MEMORY_PREFIX,
    LedgerMemory,
    MemoryResult,
    MemoryStore,
    RelatedNode,
    Relation,
    name_of_node,
    node_of_name,
    prepare_memory,
    project_folder,
)
from passdown.core.graph import Node, edge_key, relations_of, with_relation
from passdown.errors import MissingExtra
from passdown.knowledge.graph_files import EdgeFile, read_graph
from passdown.workspace.search import default_embedder
from tests.adapters.stores import KINDS, decision, opened, trigrams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.core.graph import Edge
    from tests.adapters.stores import Memory

ROOT = Path(__file__).resolve().parent.parent.parent
OTHERS = 1_010

# Pairs that say the same in other words, each far from all the rest.
MEANINGS = {
    "The customer can't sign in after changing the password": "login is broken for a user",
    "We store money as whole cents": "how amounts of currency are represented",
    "The server ran out of memory during the import": "crash caused by too little RAM",
    "Pictures are made smaller before they are uploaded": "image resizing",
    "Translations for German are missing": "text is not available in another language",
}


async def filled(memory: Memory, others: int) -> None:
    """Many memories that are worded like the decisions, written at once."""
    texts = [f"We decided on buttons, colour {number}" for number in range(others)]
    if isinstance(memory, ChromaMemory):
        folder, name = memory._folder, memory._name  # pyright: ignore[reportPrivateUsage]
        with folder.turn(name, writes=True) as collection:
            collection.upsert(
                ids=[f"memory:other {number}" for number in range(others)],
                documents=texts,
                metadatas=[{"type": "memory", "json": "{}"}] * others,
                embeddings=trigrams(texts),
            )
        return
    about = {"metadata": "{}"}
    nodes = [
        Node(f"{MEMORY_PREFIX}other {number}", "insight", text, (), {"description": text, **about})
        for number, text in enumerate(texts)
    ]
    await asyncio.to_thread(memory.workspace.knowledge.add, nodes, agent="memory")


@pytest.mark.promise("S0-14")
@pytest.mark.parametrize("kind", KINDS)
def test_k_decisions_are_found_among_a_thousand_other_entries(kind: str, tmp_path: Path) -> None:
    """Filters are exact: not one of k is missing because others are nearer."""
    decisions = [
        decision(
            f"We decided on buttons, case {number}", ("planner", "coder")[number % 2], number=number
        )
        for number in range(10)
    ]

    async def main() -> None:
        async with opened(kind, tmp_path) as memory:
            for each in decisions[:5]:
                await memory.store_decision(each)
            await filled(memory, OTHERS)
            for each in decisions[5:]:
                await memory.store_decision(each)
            for question in ("We decided on buttons, colour 7", "something quite different"):
                found = await memory.query_decisions(question, k=10)
                assert sorted(f.decision.summary for f in found) == sorted(
                    each.summary for each in decisions
                )
                own = await memory.query_decisions(question, agent="coder", k=5)
                assert [each.decision.agent for each in own] == ["coder"] * 5
                scores = [each.score for each in found]
                assert scores == sorted(scores, reverse=True)
            assert len(await memory.search_similar("buttons", k=1_000)) == 1_000

    asyncio.run(main())


@pytest.mark.promise("S0-14")
def test_what_the_index_of_chromadb_misses_is_compared_by_hand(tmp_path: Path) -> None:
    """The slow way gives the same decisions in the same order as the index where that has all."""

    async def main() -> None:
        async with ChromaMemory(tmp_path, "shop", trigrams) as memory:
            for number, word in enumerate(["green", "blue", "greenish", "red", "grey"]):
                await memory.store_decision(decision(f"Buttons are {word}", number=number))
                await memory.store_embedding(word, f"Buttons are {word}")
            found = await memory.query_decisions("green buttons", k=5)
            vector = trigrams(["green buttons"])[0]
            with folder_at(str(tmp_path)).turn("passdown-shop-memory", writes=False) as collection:
                by_hand = _scan_all(collection, vector, {"type": "decision"})
            by_hand.sort(key=lambda each: -each.score)
            assert [each.id for each in by_hand] == [f"decision:{each.key}" for each in found]
            assert [each.score for each in by_hand] == pytest.approx(
                [each.score for each in found], abs=1e-5
            )

    asyncio.run(main())


@pytest.mark.promise("S0-15")
@pytest.mark.skipif(default_embedder() is None, reason="the offline model is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_the_offline_embedder_finds_what_is_said_in_other_words(kind: str, tmp_path: Path) -> None:
    """It is the default of both, asks nobody, and knows the same thing by another name."""

    async def main() -> None:
        memory: Memory
        if kind == "ledger":
            memory = await LedgerMemory.open(tmp_path, "shop")
        else:
            memory = ChromaMemory(tmp_path, "shop")
        async with memory:
            for sentence in MEANINGS:
                await memory.store_embedding(sentence[:20], sentence)
            for sentence, question in MEANINGS.items():
                found = await memory.search_similar(question, k=5)
                assert found[0].content == sentence, question

    asyncio.run(main())


@pytest.mark.promise("S0-15")
@pytest.mark.parametrize("kind", KINDS)
def test_the_embedder_is_whatever_the_program_gives(kind: str, tmp_path: Path) -> None:
    """Of two texts without a word of the question, the one that the embedder puts near it wins."""
    asked: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, 0.0] if "apple" in t or "pear" in t else [0.0, 1.0] for t in texts]

    async def main() -> None:
        memory: Memory
        if kind == "ledger":
            memory = await LedgerMemory.open(tmp_path, "shop")
            memory.workspace.embeddings.use("fruit", embed)
        else:
            memory = ChromaMemory(tmp_path, "shop", embed)
        async with memory:
            await memory.store_embedding("one", "One apple")
            await memory.store_embedding("two", "A red car")
            assert [r.key for r in await memory.search_similar("pear")] == ["one", "two"]

    asyncio.run(main())
    assert any("One apple" in text for text in asked)
    assert "pear" in asked


def test_a_memory_on_a_workspace_finds_what_its_agents_recorded(tmp_path: Path) -> None:
    """Items come with their address as key; what is stored as a memory is found by the workspace,
    and nodes that others wrote keep a name of their own.
    """

    async def main() -> None:
        with passdown.open(str(tmp_path)) as ws:
            ws.create_task("T-1", title="Buttons", agent="planner")
            ws.note(
                "gotcha",
                task="T-1",
                agent="coder",
                issue="Green buttons vanish on green",
                mitigation="add a border",
                severity="high",
            )
            node = {"id": "api", "type": "component", "summary": "The API draws green buttons"}
            ws.knowledge.add([node], agent="coder")
            memory = LedgerMemory(ws)
            await memory.store_embedding("api", "Green buttons are our brand", {"by": "kim"})
            await memory.store_relationship("api", "node:api", "describes")
            await memory.store_relationship("T-1#g1", "api", "about")
            found = {r.key: r for r in await memory.search_similar("green buttons")}
            assert set(found) == {"T-1#g1", "node:api", "api"}
            gotcha = found["T-1#g1"]
            assert gotcha.content.startswith("Green buttons vanish on green\nadd a border")
            assert (gotcha.metadata["kind"], gotcha.metadata["agent"]) == ("gotcha", "coder")
            assert found["node:api"].metadata["type"] == "component"
            assert found["api"].metadata == {"by": "kim"}
            path = (Relation("T-1#g1", "about", "api"), Relation("api", "describes", "node:api"))
            assert RelatedNode("node:api", 2, path) in await memory.get_related("T-1#g1", 2)
            assert "node:memory:api" in {answer.address for answer in ws.recall("our brand")}
            key = await memory.store_decision(decision("Use a border"), "T-1")
            assert key == "T-1#d1"
            assert ws.show(key).summary == "Use a border"

    asyncio.run(main())


def test_projects_that_differ_in_case_have_folders_that_differ_without_it() -> None:
    """Some file systems don't tell `Shop` from `shop`."""
    names = ["shop", "Shop", "SHOP", "sHop", "shop-8", "s.h_op"]
    folders = [project_folder(name).lower() for name in names]
    assert len(set(folders)) == len(names)
    assert all(os.path.basename(folder) == folder for folder in folders)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20))
def test_a_name_and_its_node_can_be_told_from_each_other(name: str) -> None:
    """Every node has one name, and every name leads back to its node."""
    for each in (
        name,
        f"node:{name}",
        f"agent:{name}",
        f"T-1#d{len(name)}",
        f"{MEMORY_PREFIX}{name}",
    ):
        node = node_of_name(each)
        assert node_of_name(name_of_node(node)) == node
        if not each.startswith("node:"):
            assert name_of_node(node) == each


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.promise("S0-17")
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_metadata_come_back_equal_and_detached(metadata: dict[str, Any]) -> None:
    """Any JSON, through the text that is stored; later changes to what was given don't show."""
    text = prepare_memory("key", "content", metadata).metadata
    text.encode()
    result = MemoryResult("key", "content", 0.5, json.loads(text))
    assert result.metadata == metadata
    assert json.loads(prepare_memory("key", "content", result.metadata).metadata) == metadata
    own = MemoryResult("key", "content", 0.5, metadata)
    assert own == result
    assert len({own, result}) == 1
    metadata["new"] = 1
    assert own == result


@pytest.mark.promise("S0-17")
@pytest.mark.parametrize("score", [-0.01, 1.01, math.nan, math.inf])
def test_a_score_is_from_0_to_1(score: float) -> None:
    """Anything else is refused, whoever makes the result."""
    with pytest.raises(ValueError, match="score"):
        MemoryResult("key", "content", score, {})


NAMES = st.sampled_from(["a", "b", "c", "agent:x", "file:y z"])
RELATIONS = st.builds(Relation, NAMES, st.sampled_from(["uses", "relates_to", "x", "y, z"]), NAMES)


@pytest.mark.promise("S0-19")
@given(st.lists(RELATIONS, max_size=12))
def test_edges_keep_every_relation_once(relations: list[Relation]) -> None:
    """Whatever their names and order."""
    edges: dict[tuple[str, str, str], Edge] = {}
    for relation in relations:
        edge = with_relation(edges.get(edge_key(relation)), relation)
        assert with_relation(edge, relation) is edge
        edges[edge.key] = edge
    kept = [relation for edge in edges.values() for relation in relations_of(edge)]
    assert sorted(kept) == sorted(set(relations))


@pytest.mark.promise("S0-19")
def test_the_file_of_relationships_is_a_graph_for_every_tool(tmp_path: Path) -> None:
    """It reads as the JSON form; what is there already isn't written again; another process's
    relation is seen.
    """
    file = tmp_path / "edges.json"
    edges = EdgeFile(str(file))
    relations = [Relation("a", "uses", "b"), Relation("a", "contradicts", "agent:x")]
    assert (edges.add(relations), edges.add(relations)) == (2, 0)
    written = file.stat().st_mtime_ns
    assert edges.add(relations[:1]) == 0
    assert file.stat().st_mtime_ns == written
    graph = read_graph(file.read_text("utf-8"))
    assert [node.id for node in graph.nodes] == ["a", "b"]
    assert [edge.key for edge in graph.edges] == [
        ("a", "relates_to", "agent:x"),
        ("a", "uses", "b"),
    ]
    EdgeFile(str(file)).add([Relation("b", "uses", "c")])
    assert [place.node for place in edges.reachable("a", 2)] == ["agent:x", "b", "c"]


TYPED = """
from collections.abc import Mapping
from typing import Any

from passdown import Decision
from passdown.adapters.chroma import ChromaMemory
from passdown.adapters.memory import DecisionResult, LedgerMemory, MemoryResult, MemoryStore


class Own:
    async def store_embedding(
        self, key: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None: ...

    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        return [MemoryResult("key", "content", 0.5, {})]

    async def store_relationship(self, source: str, target: str, relation: str) -> None: ...

    async def store_decision(self, decision: Decision, task: str | None = None) -> str:
        return "key"

    async def query_decisions(
        self, text: str, agent: str | None = None, k: int = 5
    ) -> list[DecisionResult]:
        return []


class Without:
    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        return []


def use(memory: MemoryStore) -> None: ...


def check(ledger: LedgerMemory, chroma: ChromaMemory) -> None:
    use(ledger)
    use(chroma)
    use(Own())
    use(Without())  # WRONG
"""


@pytest.mark.promise("S0-16")
def test_type_checkers_take_any_class_with_the_methods(tmp_path: Path) -> None:
    """Strictly: both stores and a class of the user pass, one that lacks methods doesn't."""
    (tmp_path / "own.py").write_text(TYPED, "utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    program = Path(sys.executable).parent / "pyright"
    command = [program, "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    found = json.loads(result.stdout)["generalDiagnostics"]
    wrong = TYPED.splitlines().index("    use(Without())  # WRONG")
    assert [problem["range"]["start"]["line"] for problem in found] == [wrong], result.stdout
    assert "store_embedding" in found[0]["message"]


@pytest.mark.promise("S0-16")
def test_a_class_with_the_methods_is_a_memory_store_at_run_time() -> None:
    """And one without them isn't."""
    names = (
        "store_embedding search_similar store_relationship store_decision query_decisions".split()
    )
    methods: Mapping[str, Any] = dict.fromkeys(names, lambda: None)
    assert isinstance(type("Own", (), dict(methods))(), MemoryStore)
    assert not isinstance(type("Without", (), {"search_similar": None})(), MemoryStore)


def test_without_chromadb_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module can be imported without it; making a memory can't."""
    monkeypatch.setitem(sys.modules, "chromadb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'passdown\[chroma\]"):
        ChromaMemory(tmp_path, "shop")


def test_chromadb_asks_nobody_on_the_network(tmp_path: Path) -> None:
    """Not even how it is used: every connection of a whole run is refused, and nothing is amiss."""
    script = (
        "import asyncio, pathlib, socket, sys\n"
        "def refused(*_): raise AssertionError('opened a connection')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused\n"
        "from tests.adapters.stores import opened\n"
        "async def main():\n"
        "    async with opened('chroma', pathlib.Path(sys.argv[1])) as memory:\n"
        "        await memory.store_embedding('a', 'Buttons are green')\n"
        "        print(len(await memory.search_similar('buttons')))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr
    assert "connection" not in result.stderr
