"""What every memory store does: one suite, run on a workspace and on ChromaDB."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from passdown import Decision
from passdown.adapters.memory import GraphStore, MemoryResult, MemoryStore, Relation
from passdown.errors import InvalidInput
from tests.adapters.stores import KINDS, decision, opened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.adapters.stores import Memory

    Steps = Callable[[Memory], Awaitable[None]]

SENTENCES = {
    "jwt": "The login keeps its JWT in a cookie that scripts can't read",
    "pool": "Database connections are pooled, ten for each worker",
    "colour": "Buttons of the checkout are green",
    "retry": "Payments are retried three times before they are given up",
    "backup": "Backups run every night and are kept for a month",
}
QUESTIONS = {
    "the cookie that the login keeps its JWT in": "jwt",
    "pooled database connections for a worker": "pool",
    "green buttons in the checkout": "colour",
    "how often payments are retried": "retry",
    "for how long nightly backups are kept": "backup",
}


@pytest.fixture(params=(*KINDS, "server"))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def run(kind: str, tmp_path: Path) -> Callable[..., None]:
    """Runs steps on a memory that is opened for them; again, it is the same one reopened."""

    def running(steps: Steps, project: str = "shop") -> None:
        async def main() -> None:
            async with opened(kind, tmp_path, project) as memory:
                await steps(memory)

        asyncio.run(main())

    return running


@pytest.mark.promise("S0-16")
def test_both_are_memory_stores_and_graph_stores(run: Callable[..., None]) -> None:
    """By their methods: neither names the protocol."""

    async def steps(memory: Memory) -> None:
        assert isinstance(memory, MemoryStore)
        assert isinstance(memory, GraphStore)
        assert MemoryStore not in type(memory).__mro__

    run(steps)


@pytest.mark.promise("S0-17", "S0-18")
@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"tags": ["a, b", "c:d"], "deep": {"n": [1, 2.5, None, True, {"x": "é\n\u0000"}]}},
        {"": "", "type": "decision", "json": "{}", "agent": "x", "kind": 5},
        {"half": "\ud800"},
    ],
)
def test_a_memory_comes_back_whole(run: Callable[..., None], metadata: dict[str, Any]) -> None:
    """Key, content and any JSON as metadata; the score is 0 to 1; nothing of it can be changed."""
    content = "The login keeps its JWT in a cookie,\n\tsaid: 'so far'."

    async def steps(memory: Memory) -> None:
        await memory.store_embedding("login/jwt: 1", content, metadata)
        (found,) = await memory.search_similar("JWT of the login")
        assert (found.key, found.content) == ("login/jwt: 1", content)
        assert found.metadata == metadata
        assert metadata == found.metadata
        assert 0 <= found.score <= 1
        assert isinstance(found, MemoryResult)
        for name in ("key", "content", "score", "metadata"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(found, name, "x")
        changeable: Any = found.metadata
        with pytest.raises(TypeError):
            changeable["new"] = 1
        with pytest.raises((AttributeError, KeyError)):
            changeable["tags"].append("new")
        await memory.store_embedding("again", found.content, found.metadata)
        assert [r.metadata for r in await memory.search_similar("JWT")] == [metadata, metadata]

    run(steps)


@pytest.mark.promise("S0-18")
def test_a_key_is_taken_over(run: Callable[..., None]) -> None:
    """Stored again, the newer content and metadata are the only ones, also after reopening."""

    async def store(memory: Memory) -> None:
        for content in ("Buttons are green", "Buttons are blue now"):
            await memory.store_embedding("buttons", content, {"content": content})

    async def look(memory: Memory) -> None:
        (found,) = await memory.search_similar("buttons", k=100)
        assert found.content == "Buttons are blue now"
        assert found.metadata == {"content": found.content}

    run(store)
    run(look)


@pytest.mark.promise("S0-18")
@pytest.mark.parametrize("key", ["T-1#d1", "task:T-1", "agent:planner", "file:a.py", "memory:x"])
def test_a_key_may_look_like_anything(run: Callable[..., None], key: str) -> None:
    """What means something elsewhere is only a key here."""

    async def steps(memory: Memory) -> None:
        await memory.store_embedding(key, "Buttons are green", {})
        await memory.store_embedding("x", "Buttons are blue", {})
        assert {r.key for r in await memory.search_similar("buttons")} == {key, "x"}

    run(steps)


@pytest.mark.promise("S0-18")
def test_an_empty_store_and_a_large_k_are_fine(run: Callable[..., None]) -> None:
    """Nothing gives an empty list, one entry gives one however many are asked for."""

    async def steps(memory: Memory) -> None:
        assert await memory.search_similar("anything") == []
        assert await memory.query_decisions("anything") == []
        assert await memory.relationships() == []
        assert await memory.get_related("nothing", 3) == []
        await memory.store_embedding("one", "Buttons are green")
        assert len(await memory.search_similar("anything", k=1_000)) == 1

    run(steps)


@pytest.mark.promise("S0-18")
def test_projects_see_nothing_of_each_other(run: Callable[..., None]) -> None:
    """Memories, decisions and relationships stay in the project that they were stored in."""

    async def store(memory: Memory) -> None:
        await memory.store_embedding("secret", "Buttons are green")
        await memory.store_decision(decision("Use green buttons"))
        await memory.store_relationship("secret", "buttons", "describes")

    async def look(memory: Memory) -> None:
        assert await memory.search_similar("buttons") == []
        assert await memory.query_decisions("buttons") == []
        assert await memory.relationships() == []
        await memory.store_embedding("secret", "Mine")

    async def look_back(memory: Memory) -> None:
        assert len(await memory.search_similar("buttons")) == 2
        assert len(await memory.relationships(source="secret")) == 1

    run(store, "shop")
    for other in ("shop2", "sho", "Shop", "shop-memory"):
        run(look, other)
    run(look_back, "shop")


@pytest.mark.promise("S0-18")
@pytest.mark.parametrize(
    "project", ["", ".", "..", "../shop", "a/b", "a\\b", "/etc", "~", "nul", "a b", "ä", "x" * 129]
)
def test_a_bad_project_id_is_refused(kind: str, tmp_path: Path, project: str) -> None:
    """Nothing is made for it, inside or outside of the folder."""

    async def main() -> None:
        async with opened(kind, tmp_path / "in", project):
            raise AssertionError("was opened")

    with pytest.raises(InvalidInput) as caught:
        asyncio.run(main())
    assert caught.value.problems[0].path == "project"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("S0-15")
def test_similar_wording_ranks_above_unrelated_text(run: Callable[..., None]) -> None:
    """Each of five questions finds its own of five sentences first, among memories and decisions
    alike.
    """

    async def steps(memory: Memory) -> None:
        keys: dict[str, str] = {}
        for number, (name, sentence) in enumerate(SENTENCES.items()):
            await memory.store_embedding(name, sentence)
            keys[name] = await memory.store_decision(decision(sentence, number=number))
        for question, name in QUESTIONS.items():
            found = await memory.search_similar(question, k=10)
            assert {result.key for result in found[:2]} == {name, keys[name]}, question
            decided = await memory.query_decisions(question, k=5)
            assert decided[0].key == keys[name], question
            for scores in ([r.score for r in found], [r.score for r in decided]):
                assert scores == sorted(scores, reverse=True)
                assert 0 <= scores[-1] < scores[0] <= 1

    run(steps)


@pytest.mark.promise("S0-13")
def test_a_decision_is_related_to_its_artifacts_and_its_agent(run: Callable[..., None]) -> None:
    """By its key: `relates_to` each artifact, commas and all, and `decided_by` its agent."""
    given = decision("Use green", "planner", artifacts=("src/a, b.py", "docs/x.md"))

    async def steps(memory: Memory) -> None:
        key = await memory.store_decision(given)
        wanted = {
            Relation(key, "relates_to", "file:src/a, b.py"),
            Relation(key, "relates_to", "file:docs/x.md"),
            Relation(key, "decided_by", "agent:planner"),
        }
        assert wanted <= set(await memory.relationships(source=key))
        assert await memory.store_decision(given) == key
        assert {
            relation.source for relation in await memory.relationships(target="agent:planner")
        } == {key}
        reached = {place.node for place in await memory.get_related(key)}
        assert {"file:src/a, b.py", "file:docs/x.md", "agent:planner"} <= reached

    run(steps)
    run(steps)


@pytest.mark.promise("S0-13", "S0-12")
def test_a_decision_is_related_to_the_memories_that_it_names(run: Callable[..., None]) -> None:
    """An artifact that is the key of a memory leads to that memory, colons and commas and all, and
    not to a file of that name; so does one that can't be a file, before its memory is there.
    """
    keys = ("req-001", "spec:login, v2", "docs/notes: 3")
    given = decision("Use green", "planner", artifacts=(*keys, "src/a.py", "later: a key"))

    async def steps(memory: Memory) -> None:
        for name in keys:
            await memory.store_embedding(name, f"What {name} says")
        key = await memory.store_decision(given)
        found = await memory.relationships(source=key, relation="relates_to")
        targets = {each.target for each in found if not each.target.startswith("task:")}
        assert targets == {*keys, "file:src/a.py", "later: a key"}
        for name in (*keys, "later: a key"):
            assert [each.source for each in await memory.relationships(target=name)] == [key]
            assert name in {place.node for place in await memory.get_related(key)}
        assert [each.decision for each in await memory.query_decisions("green")] == [given]

    run(steps)
    run(steps)


@pytest.mark.promise("S0-13")
def test_a_memory_that_is_stored_later_is_what_a_decision_names(run: Callable[..., None]) -> None:
    """Whether or not the key could be a file's path; and each relationship is told once, with a key
    that looks like the id of a task or a file too.
    """
    keys = ("req-9", "post:1", "task:zzz", "file:src/b.py")
    given = decision("Use green", "planner", artifacts=(*keys, "src/c.py"))
    before = decision("Use blue", "planner", number=1, artifacts=keys)

    async def steps(memory: Memory) -> None:
        key = await memory.store_decision(given)
        for name in keys:
            await memory.store_embedding(name, f"What {name} says")
        await memory.store_embedding("req-9", "Said again")
        found = await memory.relationships(source=key)
        assert sorted((each.relation, each.target) for each in found) == [
            ("decided_by", "agent:planner"),
            ("relates_to", "file:req-9"),
            ("relates_to", "file:src/b.py"),
            ("relates_to", "file:src/c.py"),
            ("relates_to", "post:1"),
            ("relates_to", "req-9"),
            ("relates_to", "task:zzz"),
        ]
        for name in keys:
            assert [each.source for each in await memory.relationships(target=name)] == [key]
            assert name in {place.node for place in await memory.get_related(key)}
        second = await memory.store_decision(before)
        found = await memory.relationships(source=second, relation="relates_to")
        assert sorted(each.target for each in found) == sorted(keys)
        reached = sorted(place.node for place in await memory.get_related(second))
        assert reached == sorted([*keys, "agent:planner"])
        assert await memory.relationships(target="task:workspace") == []

    run(steps)


@pytest.mark.promise("S0-14")
def test_k_decisions_come_whenever_there_are_k(run: Callable[..., None]) -> None:
    """Best first, of one agent or of all, equal to what was stored, with memories beside them."""
    given = [
        decision(f"Buttons number {number} are green", agent, number=number)
        for number, agent in enumerate(["planner", "coder"] * 6)
    ]

    async def steps(memory: Memory) -> None:
        keys = [await memory.store_decision(each) for each in given]
        assert len(set(keys)) == 12
        for number in range(30):
            await memory.store_embedding(f"m{number}", f"Buttons number {number} are green")
        every = await memory.query_decisions("green buttons number 7", k=12)
        assert {each.key: each.decision for each in every} == dict(zip(keys, given, strict=True))
        assert every[0].decision == given[7]
        own = await memory.query_decisions("green buttons", agent="coder", k=6)
        assert [each.decision.agent for each in own] == ["coder"] * 6
        assert len(await memory.query_decisions("green", agent="coder", k=100)) == 6
        assert len(await memory.query_decisions("something quite different", k=5)) == 5
        assert await memory.query_decisions("green", agent="nobody") == []

    run(steps)


@pytest.mark.promise("S0-14")
def test_a_decision_comes_back_equal_field_by_field(run: Callable[..., None]) -> None:
    """Two of one instant have two keys; stored again, one has the key that it had."""
    first = Decision(
        summary="Use green, not: blue",
        rationale="a, b; 'c'\nd",
        agent="planner",
        at=datetime(2026, 1, 9, 10, 0, 0, 123456, tzinfo=UTC),
        alternatives=("blue, or", "red:"),
        artifacts=("a.py",),
        paths=("src",),
        tags=("ui",),
    )
    second = dataclasses.replace(first, summary="Use blue")

    async def steps(memory: Memory) -> None:
        keys = [await memory.store_decision(each) for each in (first, second, first)]
        assert keys[0] == keys[2] != keys[1]
        found = {each.key: each.decision for each in await memory.query_decisions("use")}
        assert found == {keys[0]: first, keys[1]: second}

    run(steps)
    run(steps)


@pytest.mark.promise("S0-19")
def test_a_relationship_is_stored_once_and_found_by_any_part(run: Callable[..., None]) -> None:
    """Also under a name that nobody has used before, and several between the same two."""
    given = {
        Relation("story", "blocks", "bug, 1"),
        Relation("story", "mentions", "bug, 1"),
        Relation("story", "relates_to", "bug, 1"),
        Relation("bug, 1", "depends_on", "story"),
        Relation("story", "blocks", "file:a.py"),
        Relation("epic", "blocks", "story"),
    }

    async def store(memory: Memory) -> None:
        for relation in sorted(given) * 2:
            await memory.store_relationship(relation.source, relation.target, relation.relation)

    async def look(memory: Memory) -> None:
        found = await memory.relationships()
        assert len(found) == len(given)
        assert set(found) == given
        for source in ("", "story", "nobody"):
            for target in ("", "bug, 1", "story"):
                for name in ("", "blocks", "relates_to", "mentions", "no"):
                    asked = await memory.relationships(source, target, name)
                    assert set(asked) == {
                        each
                        for each in given
                        if source in ("", each.source)
                        and target in ("", each.target)
                        and name in ("", each.relation)
                    }, (source, target, name)

    run(store)
    run(look)


@pytest.mark.promise("S0-19")
def test_what_can_be_reached_comes_with_its_path(run: Callable[..., None]) -> None:
    """Nearest first, by a shortest path, without the start, also round a cycle."""

    async def store(memory: Memory) -> None:
        for source, target in ("ab", "bc", "ca", "cd", "ad", "de", "aa", "zb"):
            await memory.store_relationship(source, target, "leads to")

    async def look(memory: Memory) -> None:
        one = await memory.get_related("a", depth=1)
        assert {(place.node, place.depth) for place in one} == {("b", 1), ("d", 1)}
        far = await memory.get_related("a", depth=50)
        assert {place.node: place.depth for place in far} == {"b": 1, "d": 1, "c": 2, "e": 2}
        assert [place.depth for place in far] == [1, 1, 2, 2]
        paths = {place.node: place.path for place in far}
        assert paths["c"] == (Relation("a", "leads to", "b"), Relation("b", "leads to", "c"))
        for depth in (0, -1, 51, True):
            with pytest.raises(InvalidInput):
                await memory.get_related("a", depth=depth)

    run(store)
    run(look)


@pytest.mark.promise("S0-18", "S0-19")
def test_bad_input_is_told_all_at_once_and_changes_nothing(run: Callable[..., None]) -> None:
    """Every problem has its place; the store is as empty as before."""
    endless: dict[str, Any] = {}
    endless["self"] = endless
    calls: list[tuple[tuple[Any, ...], set[str]]] = [
        (("", " ", {1: 2}), {"key", "content", "metadata"}),
        ((" x", "\ud800", {"x": float("nan")}), {"key", "content", "metadata"}),
        (("a\nb", "x" * 20_001, {"x": "y" * 20_001}), {"key", "content", "metadata"}),
        (("x" * 394, "x", endless), {"key", "metadata"}),
        ((5, None, ["x"]), {"key", "content", "metadata"}),
    ]

    async def steps(memory: Memory) -> None:
        for given, paths in calls:
            with pytest.raises(InvalidInput) as caught:
                await memory.store_embedding(*given)
            assert {problem.path for problem in caught.value.problems} == paths
        for ends in (("", "b", "uses"), ("a", "\x00", "uses"), ("a", "b", ""), ("a", "b", "x\n")):
            with pytest.raises(InvalidInput):
                await memory.store_relationship(*ends)
        for asked in (("", 5), ("x", 0), ("x", 1_001), ("x", True)):
            with pytest.raises(InvalidInput):
                await memory.search_similar(*asked)
            with pytest.raises(InvalidInput):
                await memory.query_decisions(asked[0], k=asked[1])
        no_decisions: list[Any] = ["x", {"summary": "x"}, None]
        for no_decision in no_decisions:
            with pytest.raises(TypeError, match="Decision"):
                await memory.store_decision(no_decision)
        with pytest.raises(InvalidInput):
            await memory.store_decision(dataclasses.replace(decision("x"), rationale=""))
        wrong: Any = 5
        for path, call in (
            ("node", memory.get_related(wrong)),
            ("agent", memory.query_decisions("x", agent=wrong)),
            ("source", memory.relationships(source=wrong)),
            ("relation", memory.store_relationship("a", "b", wrong)),
        ):
            with pytest.raises(InvalidInput) as caught:
                await call
            assert caught.value.problems[0].path == path
        assert await memory.search_similar("x") == []
        assert await memory.relationships() == []

    run(steps)


@pytest.mark.promise("S0-18")
def test_secrets_are_not_kept(run: Callable[..., None]) -> None:
    """Neither in content nor in metadata, whose form survives it."""
    token = "ghp_" + "a1B2" * 10
    key_block = "-----BEGIN RSA PRIVATE KEY-----\nMIIE"

    async def steps(memory: Memory) -> None:
        metadata = {"Authorization": f"Bearer {'x' * 20}", "log": [token], "key": key_block, "n": 1}
        await memory.store_embedding("x", f"The token is {token}", metadata)
        (found,) = await memory.search_similar("token")
        assert token not in found.content
        assert found.metadata["log"] == ["[redacted:github_token]"]
        assert found.metadata["n"] == 1
        assert "BEGIN RSA" not in str(found.metadata)

    run(steps)
