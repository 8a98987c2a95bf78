"""Filters are exact: as many answers as pass, up to the limit, and nothing that doesn't pass.

One store with some hundred entries of every kind, beside a plain list of what each of them is; any
mix of filters has to give what that list gives.
"""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.errors import InvalidInput
from passdown.testing import fixed_clock
from tests.postgres import name_store, new_workspace
from tests.search.workers import letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from passdown import Workspace

WORDS = "cookie token session invoice retry queue cache index page route form upload".split()
TAGS = ("auth-x", "billing-x", "ops-x")
PATHS = ("src/auth/jwt.py", "src/auth/form.py", "src/pay/api.py", "docs/notes.md", "top.py")
TASKS = ("T-1", "T-2", "T-3")
AGENTS = ("ana", "ben", "cleo")
START = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)
SETTLED = {"superseded", "reverted", "retracted", "done", "answered", "replaced", "legacy"}


class Known(NamedTuple):
    """What the test wrote, and what has to be found of it."""

    address: str
    kind: str
    agent: str
    task: str
    status: str
    at: str
    tags: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()


class Store(NamedTuple):
    ws: Workspace
    known: dict[str, Known]


class Writer:
    """Writes at random and remembers."""

    def __init__(self, ws: Workspace, seed: int) -> None:
        self.ws = ws
        self.rng = random.Random(seed)
        self.known: dict[str, Known] = {}

    def text(self) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(3, 12)))

    def some(self, values: tuple[str, ...]) -> list[str]:
        return self.rng.sample(values, self.rng.randint(0, 2))

    def keep(self, task: str, *entries: Known) -> None:
        at = self.ws.log(task, limit=1)[0].at
        for entry in entries:
            self.known[entry.address] = entry._replace(at=at)

    def settle(self, address: str, status: str) -> None:
        self.known[address] = self.known[address]._replace(status=status)

    def step(self) -> None:
        name = self.rng.choice(["decide", "pattern", "gotcha", "warn", "hand_off", "learn"])
        getattr(self, name)(self.rng.choice(TASKS), self.rng.choice(AGENTS))

    def decide(self, task: str, agent: str) -> None:
        tags, paths = self.some(TAGS), self.some(PATHS)
        standing = [k.address for k in self.known.values() if k.kind == "decision"]
        gone = [self.rng.choice(standing)] if standing and self.rng.random() < 0.3 else []
        fields: dict[str, Any] = {"tags": tags, "paths": paths, "supersedes": gone}
        item = self.ws.decide(
            task=task, agent=agent, summary=self.text(), rationale=self.text(), **fields
        ).items[0]
        entry = Known(item, "decision", agent, task, "accepted", "", frozenset(tags), above(paths))
        self.keep(task, entry)
        for address in gone:
            self.settle(address, "superseded")

    def pattern(self, task: str, agent: str) -> None:
        tags, path = [self.rng.choice(TAGS)], self.rng.choice(PATHS)
        fields: dict[str, Any] = {"pattern": self.text(), "location": f"{path}:12"}
        item = self.ws.note("pattern", task=task, agent=agent, applies_to=tags, **fields).items[0]
        entry = Known(item, "pattern", agent, task, "active", "", frozenset(tags), above([path]))
        self.keep(task, entry)
        if self.rng.random() < 0.3:
            self.ws.set_status(item, "retracted", agent=agent)
            self.settle(item, "retracted")

    def gotcha(self, task: str, agent: str) -> None:
        fields = {"issue": self.text(), "mitigation": self.text(), "severity": "low"}
        item = self.ws.note("gotcha", task=task, agent=agent, **fields).items[0]
        self.keep(task, Known(item, "gotcha", agent, task, "active", ""))

    def warn(self, task: str, agent: str) -> None:
        item = self.ws.warn(task, agent=agent, text=self.text()).items[0]
        self.keep(task, Known(item, "warning", agent, task, "active", ""))

    def hand_off(self, task: str, agent: str) -> None:
        """Next steps take the place of those before; questions stay open until answered."""
        command = self.ws.hand_off(
            {
                "task": task,
                "from_agent": agent,
                "outcome": "completed",
                "summary": self.text(),
                "open_questions": [{"question": f"{self.text()} {len(self.known)}?"}],
                "suggested_next_steps": [{"step": f"{self.text()} {len(self.known)}"}],
            }
        )
        state = self.ws.files.state_document(task)
        for old in [k for k in self.known.values() if (k.task, k.kind) == (task, "next_step")]:
            if old.status == "open":
                self.settle(old.address, "replaced")
        lists = {"handoff": "handoffs", "question": "questions", "next_step": "next_steps"}
        for kind, field in lists.items():
            (found,) = (e for e in state[field] if e["version"] == command.version)
            status = "recorded" if kind == "handoff" else "open"
            self.keep(task, Known(found["address"], kind, agent, task, status, ""))
        for kind, field in lists.items():
            (found,) = (e for e in state[field] if e["version"] == command.version)
            if kind == "question" and self.rng.random() < 0.5:
                self.ws.set_status(found["address"], "answered", agent=agent, reason="yes")
                self.settle(found["address"], "answered")

    def learn(self, task: str, agent: str) -> None:
        tags, path = self.some(TAGS), self.rng.choice(PATHS)
        status = self.rng.choice(["current", "legacy"])
        name = f"K{self.rng.randint(1, 30)}"
        node = {"id": name, "type": "component", "summary": f"{self.text()} {len(self.known)}"}
        self.ws.knowledge.add(
            [{**node, "tags": tags, "path": path, "status": status}], task=task, agent=agent
        )
        entry = Known(f"node:{name}", "knowledge", agent, task, status, "", frozenset(tags))
        self.keep(task, entry._replace(paths=above([path])))


def above(paths: list[str]) -> frozenset[str]:
    """Paths and the folders that they lie in."""
    parts = [path.split("/") for path in paths]
    return frozenset("/".join(p[:end]) for p in parts for end in range(1, len(p) + 1))


class Halfway:
    """Gives vectors to questions always, but to entries only until half of them have theirs."""

    def __init__(self) -> None:
        self.is_enough = False

    def __call__(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.is_enough and len(texts) > 1:
            raise RuntimeError("half of them is enough")
        return letters(texts)


def give_vectors(ws: Workspace, count: int) -> None:
    """To all entries, or to so many."""
    embedder = Halfway()
    ws.embeddings.use("letters", embedder)
    ws.embeddings.update(limit=count)
    embedder.is_enough = True


CHOSEN = Settings(durability="normal", embedder="none")


def filled(folder: Path) -> dict[str, Known]:
    """Write everything; gives what has to be found."""
    with passdown.open(str(folder), settings=CHOSEN, clock=fixed_clock(START, 3_600)) as ws:
        for task in TASKS:
            ws.create_task(task, title="Work", agent="planner")
        writer = Writer(ws, seed=4)
        for _ in range(260):
            writer.step()
        return writer.known


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Known]]:
    """A folder to be copied, and what is in it."""
    folder = tmp_path_factory.mktemp("prepared")
    return folder, filled(folder)


@pytest.fixture(
    scope="module", params=["sqlite", "sqlite, vectors", "sqlite, half of the vectors", "postgres"]
)
def store(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("filters")
    if request.param == "postgres":
        database: str = request.getfixturevalue("postgres_database")
        name_store(folder, new_workspace(database))
        known = filled(folder)
    else:
        original, known = request.getfixturevalue("prepared")
        shutil.copytree(original, folder, dirs_exist_ok=True)
    with passdown.open(str(folder), settings=CHOSEN, clock=fixed_clock(START, 3_600)) as ws:
        if "vectors" in request.param:
            pytest.importorskip("numpy")
            give_vectors(ws, len(known) // 2 if "half" in request.param else 0)
        yield Store(ws, known)


MOMENTS = st.integers(0, 500).map(lambda hours: START + timedelta(hours=hours))
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(
            st.sampled_from(
                "decision pattern gotcha question next_step warning handoff knowledge".split()
            ),
            max_size=3,
        ),
        "agent": st.sampled_from([*AGENTS, "nobody"]),
        "task": st.sampled_from(TASKS),
        "tags": st.lists(st.sampled_from(TAGS), max_size=2),
        "path": st.sampled_from([*PATHS, "src", "src/auth", "./docs/", "src/au"]),
        "statuses": st.lists(
            st.sampled_from("accepted superseded active open retracted replaced legacy".split()),
            max_size=2,
        ),
        "since": MOMENTS.map(datetime.isoformat),
        "until": MOMENTS.map(datetime.isoformat),
        "live_only": st.booleans(),
    },
).filter(lambda asked: str(asked.get("since", "")) <= str(asked.get("until", "9")))


def passes(entry: Known, asked: dict[str, Any]) -> bool:
    path = asked.get("path", "").removeprefix("./").rstrip("/")
    at = datetime.fromisoformat(entry.at)
    return (
        (not asked.get("kinds") or entry.kind in asked["kinds"])
        and asked.get("agent", entry.agent) == entry.agent
        and asked.get("task", entry.task) == entry.task
        and (not asked.get("tags") or not entry.tags.isdisjoint(asked["tags"]))
        and (not path or path in entry.paths)
        and (not asked.get("statuses") or entry.status in asked["statuses"])
        and not (asked.get("live_only") and entry.status in SETTLED)
        and ("since" not in asked or datetime.fromisoformat(asked["since"]) <= at)
        and ("until" not in asked or at <= datetime.fromisoformat(asked["until"]))
    )


@pytest.mark.promise("P-13")
@given(
    asked=FILTERS,
    query=st.sampled_from(["cookie", "retry the queue", "the of and", "nothing like it", "form"]),
    limit=st.sampled_from([1, 5, 40, 1_000]),
)
def test_a_filter_gives_what_passes_and_as_much_as_there_is(
    store: Store, asked: dict[str, Any], query: str, limit: int
) -> None:
    expected = {entry.address for entry in store.known.values() if passes(entry, asked)}
    found = store.ws.recall(query, limit=limit, **asked)
    addresses = [answer.address for answer in found]
    assert len(addresses) == len(set(addresses)) == min(limit, len(expected))
    assert set(addresses) <= expected
    assert [a.score for a in found] == sorted((a.score for a in found), reverse=True)


def test_an_answer_says_what_was_recorded(store: Store) -> None:
    found = store.ws.recall("cookie", limit=1_000)
    assert {a.address for a in found} == store.known.keys()
    for answer in found:
        known = store.known[answer.address]
        assert (answer.kind, answer.agent, answer.task, answer.at, answer.status) == (
            known.kind,
            known.agent,
            known.task,
            known.at,
            known.status,
        )
        assert 0 <= answer.score <= 1
        assert answer.title
        assert answer.passage


def test_times_include_both_ends_and_a_date_its_whole_day(store: Store) -> None:
    every = sorted(entry.at for entry in store.known.values())
    middle = every[len(every) // 2]
    day = middle[:10]
    exact = store.ws.recall("cookie", since=middle, until=middle, limit=1_000)
    assert {answer.at for answer in exact} == {middle}
    on_day = store.ws.recall("cookie", since=day, until=day, limit=1_000)
    assert len(on_day) == sum(at.startswith(day) for at in every)


def test_two_spellings_of_a_moment_are_the_same(store: Store) -> None:
    utc = store.ws.recall("form", since="2026-01-12T10:00:00Z", limit=1_000)
    local = store.ws.recall("form", since="2026-01-12T12:00:00+02:00", limit=1_000)
    assert utc == local


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ({"kinds": ["idea"]}, ["kinds[0]"]),
        ({"limit": 0}, ["limit"]),
        ({"limit": 1_001}, ["limit"]),
        ({"limit": True}, ["limit"]),
        ({"since": "soon"}, ["since"]),
        ({"since": "0001-01-01T00:00:00+23:59", "until": "9999-12-31T23:59:59-20:00"}, [""]),
        ({"agent": "\ud800", "task": "\ud800", "path": "\ud800", "tags": ["\ud800"]}, [""]),
        ({"told_to": "a b"}, ["told_to"]),
    ],
)
def test_a_filter_that_can_not_be_is_refused_with_its_name(
    store: Store, asked: dict[str, Any], paths: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        store.ws.recall("cookie", **asked)
    named = [problem.path for problem in caught.value.problems]
    assert named == paths if paths != [""] else len(named) == len(asked)
