"""One story told to both stores: the same rows, the same answers, in the same order."""

from __future__ import annotations

import hashlib
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.store import open_store
from passdown.testing import fixed_clock
from tests.postgres import name_store, new_workspace
from tests.search.test_filters import AGENTS, PATHS, TAGS, TASKS, WORDS, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown import Workspace

STEPS = 150
SETTINGS = Settings(durability="normal", embedder="none", artifacts_on_disk=False)


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """A vector of 48 numbers that follows from a text's words."""
    found: list[list[float]] = []
    for text in texts:
        digests = [hashlib.sha384(word.encode()).digest() for word in text.lower().split()]
        found.append([sum(digest[i] - 127.5 for digest in digests) for i in range(48)])
    return found


def tell(ws: Workspace) -> None:
    for task in TASKS:
        ws.create_task(task, title=f"Work on {task}", agent="planner")
    writer = Writer(ws, seed=11)
    for _ in range(STEPS):
        writer.step()
    for number, task in enumerate([*TASKS, *TASKS]):
        facts = [f"port: {8000 + number}", {"key": "ready", "value": number > 3}]
        ws.hand_off(task=task, from_agent="planner", outcome="completed", facts=facts)


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, postgres_database: str
) -> Iterator[tuple[Workspace, Workspace]]:
    """The same story in a file and in a database."""
    folders = [tmp_path_factory.mktemp(name) for name in ("file", "server")]
    name_store(folders[1], new_workspace(postgres_database))
    spaces = [
        passdown.open(str(folder), settings=SETTINGS, clock=fixed_clock()) for folder in folders
    ]
    for ws in spaces:
        with pytest.MonkeyPatch.context() as patch:
            # Keys that nobody gives are drawn at random; here both draw the same.
            patch.setattr(os, "urandom", random.Random(5).randbytes)
            tell(ws)
    yield spaces[0], spaces[1]
    for ws in spaces:
        ws.close()


def content(ws: Workspace) -> dict[str, Any]:
    store = open_store(ws.store_url)
    try:
        with store.reading() as reader:
            rows = {table: [tuple(row) for row in rows] for table, rows in reader.dump().items()}
            return {"records": list(reader.tail()), "heads": list(reader.heads()), **rows}
    finally:
        store.close()


@pytest.mark.promise("S8-1")
def test_records_digests_and_derived_rows_are_the_same(told: tuple[Workspace, Workspace]) -> None:
    here, there = map(content, told)
    assert here.keys() == there.keys()
    for name in here:
        assert here[name] == there[name], name
    assert len(here["records"]) > STEPS
    assert [ws.verify().findings for ws in told] == [(), ()]
    assert there == content(told[1])


QUESTIONS = [
    *WORDS[:6],
    "retry the queue of invoices",
    "which page has an upload form",
    "session token cookie",
    "what did ana decide about the cache",
    "the of and",
    "nothing like it",
]


def asked(rng: random.Random) -> dict[str, Any]:
    """A mix of filters."""
    known: dict[str, Any] = {
        "kinds": rng.sample(["decision", "pattern", "warning", "knowledge", "question"], 2),
        "agent": rng.choice(AGENTS),
        "task": rng.choice(TASKS),
        "tags": [rng.choice(TAGS)],
        "path": rng.choice(PATHS),
        "live_only": True,
    }
    return {name: known[name] for name in rng.sample(sorted(known), rng.randint(0, 3))}


@pytest.mark.promise("S8-1", "P-13")
@pytest.mark.parametrize("by_meaning", [False, True], ids=["words", "meaning"])
def test_a_search_has_the_same_answers_in_the_same_order(
    told: tuple[Workspace, Workspace], by_meaning: bool
) -> None:
    here, there = told
    if by_meaning:
        for ws in told:
            ws.embeddings.use("hashes", vectors)
            assert ws.embeddings.update().is_complete
    rng = random.Random(3)
    for number in range(60):
        query, filters = rng.choice(QUESTIONS), asked(rng)
        limit = rng.choice([1, 5, 20])
        found = [ws.recall(query, limit=limit, **filters) for ws in (here, there)]
        assert found[0] == found[1], (number, query, filters)
        assert found[0] or filters


def test_briefs_and_states_are_the_same(told: tuple[Workspace, Workspace]) -> None:
    here, there = told
    for task in TASKS:
        assert here.files.state_document(task) == there.files.state_document(task)
        briefs = [ws.brief(task, agent="ana", budget=400) for ws in told]
        assert briefs[0].text == briefs[1].text
        assert here.knowledge.journal(task) == there.knowledge.journal(task)
    assert here.knowledge.render("json") == there.knowledge.render("json")
