"""Random work on a workspace, beside a small model of what it should say.

After every write: versions count up by one, the delta leads from the old state to the new one,
nothing is lost, every state file says what the ledger says, and the state keeps to its schema.
At the end of a run: verify finds nothing, a rebuild changes nothing, and every past version is
what was read when it was current.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

import passdown
from passdown import Settings
from passdown.core.state_files import state_problems
from passdown.errors import Conflict, GateRefused, InvalidInput, KeyReused
from passdown.testing import fixed_clock, write_files
from tests.faults.tools import soak_count
from tests.postgres import name_store, new_database, new_workspace

Document = dict[str, Any]

TASKS = ("T-1", "T-2", "T-3")
AGENTS = ("planner", "coder", "tester")
PHASES = ("", "planning", "implementing", "reviewing", "completed")
FILES = ("src/a.py", "src/b.py", "docs/c.md")
LISTS = (
    "handoffs",
    "decisions",
    "artifacts",
    "patterns",
    "gotchas",
    "reading",
    "questions",
    "next_steps",
    "blockers",
    "warnings",
    "gates",
)
SEARCHED_LISTS = tuple(set(LISTS) - {"artifacts", "reading", "gates"})
# What other tasks say of a task: it changes without a version of the task's own.
FROM_OTHERS = ("blocked_by", "status")

BLOCKERS = (
    {"blocker": "b1", "suggested_resolution": "do", "blocking_tasks": ["T-2"]},
    {"blocker": "b2", "suggested_resolution": "do", "blocking_tasks": ["T-1", "T-3"]},
    {
        "blocker": "b3",
        "suggested_resolution": "ask",
        "blocking_tasks": ["T-3"],
        "requires_human": True,
    },
)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "decisions": st.lists(
        st.sampled_from(["d1", "d2"]).map(lambda s: {"summary": s, "rationale": "why"}), max_size=2
    ),
    "patterns_discovered": st.lists(
        st.just({"pattern": "p", "location": "src", "applies_to": ["x"]}), max_size=1
    ),
    "gotchas": st.lists(st.just({"issue": "g", "mitigation": "m", "severity": "high"}), max_size=1),
    "dependencies_for_next": st.lists(
        st.sampled_from(FILES).map(lambda f: {"file": f, "reason": "r"}), max_size=2
    ),
    "open_questions": st.lists(
        st.sampled_from(["q1", "q2"]).map(lambda q: {"question": q}), max_size=2
    ),
    "suggested_next_steps": st.lists(
        st.sampled_from(["n1", "n2", "n3"]).map(lambda n: {"step": n}), min_size=1, max_size=2
    ),
    "warnings": st.lists(st.sampled_from(["w1", "w2"]), max_size=1),
    "gates": st.lists(
        st.sampled_from(["passed", "failed"]).map(lambda r: {"name": "lint", "result": r}),
        max_size=1,
    ),
    "files_created": st.lists(
        st.sampled_from(FILES).map(lambda f: {"path": f, "purpose": "p"}),
        max_size=2,
        unique_by=lambda f: f["path"],
    ),
    "summary": st.sampled_from(["", "so far", "done"]),
    "phase": st.sampled_from(PHASES),
}


def texts(entries: list[Document], field: str) -> list[str]:
    """What the open items of a list say."""
    return sorted(entry[field] for entry in entries if entry["status"] == "open")


def comparable(document: Document) -> Document:
    """A state without what other tasks say of it."""
    kept = {name: value for name, value in document.items() if name not in FROM_OTHERS}
    kept["decisions"] = [
        {name: part for name, part in decision.items() if name not in ("status", "superseded_by")}
        for decision in kept["decisions"]
    ]
    return kept


CURRENT = {"next_steps": "suggested_next_steps", "reading": "dependencies_for_next"}


class Expected:
    """What the model knows of one task."""

    def __init__(self) -> None:
        self.version = 1
        self.base_status = "open"
        self.open: dict[str, set[str]] = {
            "questions": set(),
            "next_steps": set(),
            "reading": set(),
            "blockers": set(),
        }
        self.pending = self.rejected = False
        self.counts: dict[str, int] = dict.fromkeys(
            ("decisions", "patterns", "gotchas", "warnings"), 0
        )
        self.read: dict[int, Document] = {}

    def hand_off(self, handoff: Document) -> None:
        given = {
            "questions": {q["question"] for q in handoff.get("open_questions", ())},
            "next_steps": {n["step"] for n in handoff.get("suggested_next_steps", ())},
            "reading": {r["file"] for r in handoff.get("dependencies_for_next", ())},
            "blockers": {b["blocker"] for b in handoff.get("blockers", ())},
        }
        self.open["questions"] |= given["questions"]
        # What a person rejected stays open until a person settles it; listed again, they are asked.
        self.rejected = self.rejected and "b3" not in given["blockers"]
        given["blockers"] |= {"b3"} if self.rejected else set()
        # A list that is given is the current one, empty or not.
        for name, field in CURRENT.items():
            self.open[name] = given[name] if field in handoff else self.open[name]
        for name in ("decisions", "gotchas", "warnings"):
            self.counts[name] += len(handoff.get(name, ()))
        self.counts["patterns"] += len(handoff.get("patterns_discovered", ()))
        self.open["blockers"] = given["blockers"]
        listed = "b3" in given["blockers"] and not self.rejected
        self.pending = listed and (self.pending or self.asks_anew)
        self.asks_anew = not listed
        outcome, phase = (
            handoff["outcome"],
            handoff.get("phase") or self.read[self.version]["phase"],
        )
        finished = outcome == phase == "completed"
        self.base_status = {"failed": "failed", "blocked": "blocked"}.get(
            outcome, "completed" if finished else "open"
        )

    asks_anew = True

    def unblock(self) -> None:
        if self.base_status == "blocked" and not self.open["blockers"]:
            self.base_status = "open"


def without_held(summary: str) -> str:
    """A summary without the gates that hold the task: those that were answered aren't named."""
    return re.sub(r", held by [^\n]* until a person answers", "", summary)


class Work(RuleBasedStateMachine):
    """Agents at work on three tasks."""

    database = ""
    """The address of the PostgreSQL database that keeps the records; empty for a file."""

    @initialize()
    def begin(self) -> None:
        memory = "/dev/shm"  # the disk isn't what is tested here
        place = memory if os.access(memory, os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="passdown-", dir=place)
        if self.database:
            name_store(Path(self.folder), new_workspace(self.database))
        write_files(self.folder, dict.fromkeys(FILES, "one\n"))
        self.clock = fixed_clock()
        self.tasks: dict[str, Expected] = {}
        self.nodes: dict[str, str] = {}
        self.keyed: list[tuple[Document, str, passdown.HandoffCommand]] = []
        self.keys = 0
        self.edits = 0
        self.open()

    def open(self) -> None:
        chosen = Settings(durability="normal", kept_versions=2)
        self.ws = passdown.open(self.folder, settings=chosen, clock=self.clock)

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.check_the_whole()
        finally:
            self.ws.close()
            shutil.rmtree(self.folder)

    # -- steps

    @rule(task=st.sampled_from(TASKS), needs=st.sets(st.sampled_from(TASKS), max_size=2))
    def create_task(self, task: str, needs: set[str]) -> None:
        fields: Document = {"title": f"The {task}", "agent": "planner", "depends_on": sorted(needs)}
        if task in self.tasks:
            self.refused(Conflict, lambda: self.ws.create_task(task, key=self.key(), **fields))
        elif self.would_circle(task, needs):
            self.refused(InvalidInput, lambda: self.ws.create_task(task, **fields))
        else:
            assert self.ws.create_task(task, **fields).version == 1
            self.tasks[task] = Expected()
            self.wrote(task, None)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), needs=st.sets(st.sampled_from(TASKS), max_size=2))
    def change_needs(self, data: st.DataObject, needs: set[str]) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        if self.would_circle(task, needs):
            self.refused(
                InvalidInput,
                lambda: self.ws.update_task(task, agent="coder", depends_on=sorted(needs)),
            )
            return
        before = self.ws.files.state_document(task)
        self.ws.update_task(task, agent="coder", depends_on=sorted(needs))
        self.tasks[task].version += 1
        self.wrote(task, before)

    @precondition(lambda self: self.tasks)
    @rule(
        data=st.data(),
        parts=st.fixed_dictionaries({}, optional=PARTS),
        outcome=st.sampled_from(["completed", "partial", "failed", "blocked"]),
        blockers=st.lists(st.sampled_from(BLOCKERS), max_size=2, unique_by=lambda b: b["blocker"]),
    )
    def hand_off(
        self, data: st.DataObject, parts: Document, outcome: str, blockers: list[Document]
    ) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        sender, receiver = data.draw(st.permutations(AGENTS))[:2]
        handoff: Document = {
            **parts,
            "task": task,
            "outcome": outcome,
            "from_agent": sender,
            "to_agent": receiver,
            "blockers": blockers,
        }
        if outcome != "completed" and not blockers:
            handoff["outcome"] = "completed"
        if outcome == "partial":
            handoff.setdefault("suggested_next_steps", [{"step": "n1"}])
        expected = self.tasks[task]
        if (handoff.get("phase") or expected.read[expected.version]["phase"]) == "completed":
            handoff["despite"] = "what is open is known"
        if expected.pending:
            self.refused(GateRefused, lambda: self.ws.hand_off(handoff, key=self.key()))
            return
        key = self.key()
        before = self.ws.files.state_document(task)
        command = self.ws.hand_off(handoff, key=key)
        expected.hand_off(handoff)
        expected.version += 1
        assert (command.version, command.is_replay) == (expected.version, False)
        assert bool(command.held_by) == expected.pending
        after = self.ws.files.state_document(task)
        rebuilt = passdown.apply_delta(before, command.state_delta)
        assert comparable(rebuilt) == comparable(after)
        self.keyed.append((handoff, key, command))
        self.wrote(task, before)

    @precondition(lambda self: self.keyed)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """The same key and content give the same command, however much has happened since."""
        handoff, key, command = data.draw(st.sampled_from(self.keyed))
        heads = self.heads()
        again = self.ws.hand_off(handoff, key=key)
        now = {"is_replay": True, "held_by": again.held_by, "warnings": again.warnings}
        assert again._replace(context_summary="") == command._replace(**now, context_summary="")
        assert without_held(again.context_summary) == without_held(command.context_summary)
        assert self.heads() == heads
        other = {**handoff, "summary": "something else"}
        self.refused(KeyReused, lambda: self.ws.hand_off(other, key=key))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), off=st.sampled_from([-1, 1, 7]))
    def stale(self, data: st.DataObject, off: int) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        worked_from = self.tasks[task].version + off
        handoff = {
            "task": task,
            "outcome": "completed",
            "from_agent": "coder",
            "expect_version": worked_from,
        }
        error = self.refused(Conflict, lambda: self.ws.hand_off(handoff))
        assert (error.expected, error.actual) == (worked_from, self.tasks[task].version)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), summary=st.sampled_from(["d1", "d2", "d3"]))
    def decide(self, data: st.DataObject, summary: str) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        known = [
            entry["address"]
            for name in sorted(self.tasks)
            for entry in self.ws.files.state_document(name)["decisions"]
        ]
        supersedes = (
            data.draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        )
        before = self.ws.files.state_document(task)
        receipt = self.ws.decide(
            task=task,
            agent="coder",
            summary=summary,
            rationale="since",
            supersedes=supersedes,
            key=self.key(),
        )
        expected = self.tasks[task]
        expected.version += 1
        expected.counts["decisions"] += 1
        assert receipt.items == (f"{task}#d{expected.counts['decisions']}",)
        self.wrote(task, before)
        for address in supersedes:
            assert self.ws.show(address).status == "superseded"
            by = self.ws.show(self.ws.show(address).superseded_by)
            assert address in by.supersedes

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), kind=st.sampled_from(["pattern", "gotcha", "warning", "gate"]))
    def note(self, data: st.DataObject, kind: str) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        before = self.ws.files.state_document(task)
        number = f"{kind} {self.key()}"
        if kind == "pattern":
            self.ws.note(kind, task=task, agent="coder", pattern=number, location="src")
        elif kind == "gotcha":
            given: Document = {"issue": number, "mitigation": "m", "severity": "low"}
            self.ws.note(kind, task=task, agent="coder", **given)
        elif kind == "warning":
            self.ws.warn(task, agent="coder", text=number)
        else:
            passed = data.draw(st.booleans())
            self.ws.record_gate(task, agent="coder", name="types", passed=passed)
            after = self.ws.files.state_document(task)
            assert ("types" in after["gates_passed"]) is passed
        expected = self.tasks[task]
        expected.version += 1
        if kind != "gate":
            expected.counts[f"{kind}s"] += 1
        self.wrote(task, before)

    @precondition(lambda self: self.tasks)
    @rule(
        data=st.data(),
        status=st.sampled_from(["done", "answered", "resolved", "accepted", "reverted", "dropped"]),
        reason=st.sampled_from(["", "because"]),
    )
    def mark(self, data: st.DataObject, status: str, reason: str) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        before = self.ws.files.state_document(task)
        items = [entry["address"] for name in LISTS for entry in before[name]]
        if not items:
            return
        item = data.draw(st.sampled_from(items))
        heads = self.heads()
        try:
            self.ws.set_status(item, status, agent="tester", reason=reason)
        except InvalidInput:
            assert self.heads() == heads
            return
        expected = self.tasks[task]
        expected.version += 1
        shown = self.ws.show(item).to_dict()
        fields = {"q": "question", "n": "step", "r": "file", "b": "blocker"}
        letter = item.partition("#")[2][0]
        was = next(e for name in LISTS for e in before[name] if e["address"] == item)["status"]
        if letter in fields and was == "open":
            lists = {"q": "questions", "n": "next_steps", "r": "reading", "b": "blockers"}
            expected.open[lists[letter]].discard(shown[fields[letter]])
            if shown.get("requires_human"):
                expected.pending, expected.asks_anew = False, True
        expected.unblock()
        self.wrote(task, before)

    @precondition(lambda self: any(t.pending or t.rejected for t in self.tasks.values()))
    @rule(data=st.data(), yes=st.booleans())
    def answer(self, data: st.DataObject, yes: bool) -> None:
        waiting = [name for name, t in self.tasks.items() if t.pending or t.rejected]
        task = data.draw(st.sampled_from(sorted(waiting)))
        (gate,) = [g.address for g in self.ws.gates(task) if g.kind == "human"]
        before = self.ws.files.state_document(task)
        expected = self.tasks[task]
        if expected.rejected and not yes:
            self.refused(GateRefused, lambda: self.ws.reject(gate, by="ana", reason="no"))
            return
        if yes:
            self.ws.approve(gate, by="ana")
            expected.open["blockers"].discard("b3")
            expected.unblock()
        else:
            self.ws.reject(gate, by="ana", reason="not yet")
        expected.pending, expected.asks_anew, expected.rejected = False, True, not yes
        expected.version += 1
        self.wrote(task, before)
        self.refused(GateRefused, lambda: self.ws.reject(gate, by="ana", reason="no"))

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), name=st.sampled_from("ABC"), summary=st.sampled_from(["one", "two"]))
    def learn(self, data: st.DataObject, name: str, summary: str) -> None:
        """What is known already is not written again; what is new takes the old one's place."""
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        before = self.ws.files.state_document(task)
        node = {"id": name, "type": "component", "summary": summary}
        edges = [
            {"source": name, "relation": "uses", "target": other} for other in sorted(self.nodes)
        ]
        is_news = self.nodes.get(name) != summary
        receipt = self.ws.knowledge.add([node], edges if is_news else (), agent="coder", task=task)
        assert receipt.is_replay is not is_news
        if is_news:
            self.nodes[name] = summary
            self.tasks[task].version += 1
            self.wrote(task, before)
        known = self.ws.knowledge.graph(types=["component"])
        assert {found.id: found.summary for found in known.nodes} == self.nodes

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.tasks)))
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        before = self.ws.files.state_document(task)
        self.ws.knowledge.add(agent="coder", task=task, forget_nodes=[name])
        del self.nodes[name]
        self.tasks[task].version += 1
        self.wrote(task, before)
        assert not [
            edge for edge in self.ws.knowledge.edges() if name in (edge.source, edge.target)
        ]

    @rule(query=st.sampled_from(["d1 why", "one", "the", "w2 g"]))
    def recall(self, query: str) -> None:
        """Everything that was recorded can be found, with the status that it has."""
        found = self.ws.recall(query, limit=1_000, by_words=True)
        expected = {f"node:{name}": "current" for name in self.nodes}
        for task in self.tasks:
            document = self.ws.files.state_document(task)
            expected |= {
                entry["address"]: entry["status"]
                for name in SEARCHED_LISTS
                for entry in document[name]
                if name != "handoffs" or entry.get("summary")
            }
        assert {answer.address: answer.status for answer in found} == expected

    @rule(path=st.sampled_from(FILES))
    def edit_file(self, path: str) -> None:
        self.edits += 1
        write_files(self.folder, {path: f"edit {self.edits}\n"})

    @rule()
    def reopen(self) -> None:
        heads = self.heads()
        self.ws.close()
        self.open()
        assert self.heads() == heads

    # -- what has to hold

    def key(self) -> str:
        self.keys += 1
        return f"key-{self.keys}"

    def heads(self) -> Document:
        heads: Document = self.ws.maintenance.heads().heads
        return heads

    def would_circle(self, task: str, needs: set[str]) -> bool:
        known = {name: self.ws.files.state_document(name)["depends_on"] for name in self.tasks}
        seen: set[str] = set()
        waiting = list(needs)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += known.get(name, [])
        return task in seen

    def refused(self, kind: type[Any], call: Any) -> Any:
        """The error of a call that must change nothing."""
        before = (self.heads(), self.ws.tasks())
        with pytest.raises(kind) as caught:
            call()
        assert (self.heads(), self.ws.tasks()) == before
        return caught.value

    def wrote(self, task: str, before: Document | None) -> None:
        """Everything that has to be true right after a write."""
        expected = self.tasks[task]
        document = self.ws.files.state_document(task)
        assert document["version"] == expected.version
        assert state_problems(document) == []
        expected.read[expected.version] = document
        if before is not None:
            self.check_nothing_lost(task, before, document)
        self.check_model(task, document)
        for name in self.tasks:
            self.check_handle(name)

    def check_nothing_lost(self, task: str, old: Document, new: Document) -> None:
        """Every item stays, with its content; an artifact gives way only to a newer entry."""
        gone = self.ws.diff(task, old["version"], new["version"]).removed
        assert gone == {}
        for name in LISTS:
            now = {entry["address"]: entry for entry in new[name]}
            for entry in old[name]:
                kept = now.get(entry["address"]) or self.ws.show(entry["address"]).to_dict()
                for field, value in entry.items():
                    if not field.startswith(("status", "superseded_by")):
                        assert kept[field] == value

    def check_model(self, task: str, document: Document) -> None:
        expected = self.tasks[task]
        fields = {
            "questions": "question",
            "next_steps": "step",
            "reading": "file",
            "blockers": "blocker",
        }
        for name, field in fields.items():
            assert set(texts(document[name], field)) == expected.open[name]
        for name, count in expected.counts.items():
            assert len(document[name]) == count
        blocked = {
            target
            for name in self.tasks
            for entry in self.ws.files.state_document(name)["blockers"]
            if entry["status"] == "open"
            for target in entry["blocking_tasks"]
        }
        for name, other in self.tasks.items():
            base = other.base_status
            is_blocked = name in blocked and base != "completed"
            assert self.ws.task(name).status == ("blocked" if is_blocked else base)

    def check_handle(self, task: str) -> None:
        """The file on disk says what the ledger says: the same fields, the same items."""
        path = os.path.join(self.folder, ".passdown", "state", f"{task}.json")
        with open(path, encoding="utf-8") as file:
            handle = passdown.read_state_file(file.read())
        state = self.ws.files.state_document(task)
        for name, value in state.items():
            if name not in LISTS:
                assert handle[name] == value
        through = handle["archive"]["through_version"]
        # What failed is listed until it passes; what waits for a person is in the file until then.
        waiting = {gate.address for gate in self.ws.gates(task) if gate.status != "failed"}
        for name in LISTS:
            recent = [
                e
                for e in state[name]
                if e["version"] > through
                or e["status"] in ("open", "pending")
                or e["address"] in waiting
            ]
            assert handle[name] == recent

    def check_the_whole(self) -> None:
        verified = self.ws.verify()
        assert verified.findings == ()
        assert verified.records == sum(expected.version for expected in self.tasks.values())
        assert self.ws.maintenance.reindex().differing == ()
        for task, expected in self.tasks.items():
            for version, read in expected.read.items():
                past = self.ws.files.state_document(task, version)
                if version == expected.version:
                    assert comparable(past) == comparable(read)
                else:
                    assert past == read
            assert [line.version for line in self.ws.log(task, limit=1_000)] == list(
                range(expected.version, 0, -1)
            )


@pytest.mark.promise(
    "P-2", "P-3", "P-4", "P-9", "S1-18", "S1-21", "S1-24", "S1-33", "S1-34", "S3-26"
)
def test_random_work_keeps_every_promise() -> None:
    """However agents write, retry, overtake one another and answer gates, all of it holds."""
    run_state_machine_as_test(Work, settings=settings(stateful_step_count=50))


def run_in(database: str, chosen: settings) -> None:
    kind = type("WorkInDatabase", (Work,), {"database": database})
    run_state_machine_as_test(kind, settings=chosen)


@pytest.mark.promise("S8-1")
def test_random_work_keeps_every_promise_in_postgres(postgres_database: str) -> None:
    """The same machine against the same model; fewer runs, since each makes a workspace."""
    run_in(postgres_database, settings(stateful_step_count=50, max_examples=8))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_random_work_soaked(kind: str, request: pytest.FixtureRequest) -> None:
    """Another thousand stories each time, whatever the profile: ten databases of a hundred."""
    chosen = settings(stateful_step_count=50, max_examples=100, derandomize=False, database=None)
    for _ in range(soak_count("STATEFUL", 1_000) // 100):
        if kind == "sqlite":
            run_in("", chosen)
        else:
            run_in(new_database(request.getfixturevalue("postgres_server")), chosen)
