"""A context is emptied in four ways and in one place, and nothing is lost by it."""

from __future__ import annotations

import ast
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import passdown.relay
from passdown.errors import InvalidInput
from passdown.relay.agents import AgentStates, Lease
from passdown.relay.conversations import Conversations, review
from passdown.workspace.streams import WorkspaceStreams
from tests.relay.talking import Table, asks, held, opened, resets, says, texts

if TYPE_CHECKING:
    from passdown.workspace import Workspace

STREAM = "conversation/T-1/architect/coder-1"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 9, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases() -> Table:
    table = Table()
    table.put("coder-1", "T-1")
    return table


@pytest.fixture
def ws(tmp_path: Path, clock: Clock) -> Workspace:
    return opened(tmp_path, "T-1", "T-2", clock=clock)


@pytest.mark.promise("S4-3", "S4-9")
def test_a_reset_empties_and_sets_a_new_system_message(ws: Workspace, leases: Table) -> None:
    """Asked for: what was said is gone from the context, and the task is told as it is now."""
    conversations = held(ws, leases)
    talk = conversations.with_peer("coder-1")
    talk.add(asks("Old words"))
    ws.update_task("T-1", agent="planner", title="Another title")
    assert "Title of T-1" in talk.messages()[0].content
    conversations.reset("coder-1")
    (system,) = talk.messages()
    assert "Another title" in system.content
    assert "Title of T-1" not in system.content
    assert [body["why"] for body in resets(ws, STREAM)] == ["lease", "asked"]


@pytest.mark.promise("S4-7")
def test_entering_setup_empties_the_context(ws: Workspace, leases: Table) -> None:
    """For the task that the lease names; said twice it is done once."""
    conversations = held(ws, leases)
    conversations.with_peer("coder-1").add(asks("Old words"))
    conversations.entered_setup("coder-1")
    conversations.entered_setup("coder-1")
    assert texts(conversations.with_peer("coder-1").messages()) == []
    assert [body["why"] for body in resets(ws, STREAM)] == ["lease", "setup"]


@pytest.mark.promise("S4-7", "S4-8", "S4-11")
def test_the_states_of_agents_drive_the_resets(ws: Workspace) -> None:
    """With real leases: entering SETUP empties; a lease that ended and came again does as well."""

    def in_setup(agent: str) -> None:
        conversations.entered_setup(agent)

    states = AgentStates(ws, on_setup=in_setup)
    conversations = Conversations(ws, "architect", leases=states, counter="chars4")
    talk = conversations.with_peer("coder-1")
    talk.add(asks("Without a task"))
    states.lease("coder-1", "T-1")
    states.move("coder-1", "SETUP")
    assert [body["why"] for body in resets(ws, STREAM)] == ["setup"]
    talk.add(asks("First lease"))
    states.move("coder-1", "PLANNING")
    assert texts(talk.messages()) == ["First lease"]
    states.release("coder-1")
    assert texts(talk.messages()) == ["Without a task"]
    states.lease("coder-1", "T-1")
    assert texts(talk.messages()) == []
    assert [body["why"] for body in resets(ws, STREAM)] == ["setup", "lease"]
    assert len(talk.transcript()) == 5


def test_a_repeated_event_does_not_empty_twice(ws: Workspace, leases: Table) -> None:
    """An event that comes again, after more was said, is known by its key."""
    conversations = held(ws, leases)
    conversations.entered_setup("coder-1", key="step-7")
    talk = conversations.with_peer("coder-1")
    talk.add(asks("New words"))
    ws.update_task("T-1", agent="planner", title="Another title")
    conversations.entered_setup("coder-1", key="step-7")
    assert texts(talk.messages()) == ["New words"]


@pytest.mark.promise("S4-5", "S4-8")
def test_a_request_under_another_lease_empties_the_context(ws: Workspace, leases: Table) -> None:
    """Another task, or the same task leased anew: nothing of before is in the request."""
    conversations = held(ws, leases)
    seen: list[str] = []

    def answer(messages: list[dict[str, str]]) -> str:
        seen.append("\n".join(message["content"] for message in messages))
        return "APPROVED"

    review(conversations, "coder-1", "plan", "Words about one", answer)
    leases.put("coder-1", "T-2")
    review(conversations, "coder-1", "plan", "Words about two", answer)
    leases.put("coder-1", "T-1")
    review(conversations, "coder-1", "plan", "Words about one again", answer)
    assert "Title of T-2" in seen[1]
    assert not any(old in seen[1] for old in ("T-1", "about one"))
    assert not any(old in seen[2] for old in ("T-2", "Words about one\n", "about two"))
    assert [body["lease"]["number"] for body in resets(ws, STREAM)] == [1, 3]


@pytest.mark.promise("S4-10")
def test_an_old_context_is_emptied(ws: Workspace, leases: Table, clock: Clock) -> None:
    """Past its hours, with a task or without; not before."""
    conversations = held(ws, leases, max_age_hours=2)
    for peer in ("coder-1", "pm"):
        conversations.with_peer(peer).add(asks("Old words"))
    clock.now += timedelta(hours=2)
    for peer in ("coder-1", "pm"):
        assert texts(conversations.with_peer(peer).messages()) == ["Old words"]
    clock.now += timedelta(seconds=1)
    for peer in ("coder-1", "pm"):
        assert texts(conversations.with_peer(peer).messages()) == []
    assert [body["why"] for body in resets(ws, STREAM)] == ["lease", "age"]


@pytest.mark.promise("S4-11")
def test_the_four_ways_give_the_same_and_may_be_repeated(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each way leaves one record of one shape, the same context, and a line in the log."""
    contexts: list[object] = []
    for way in ("setup", "lease", "asked", "age"):
        (tmp_path / way).mkdir()
        ws, table = opened(tmp_path / way, "T-1", clock=clock), Table()
        table.put("coder-1", "T-1")
        conversations = held(ws, table, max_age_hours=1)
        talk = conversations.with_peer("coder-1")
        talk.add(asks("Old words"))
        table.number = 1
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="passdown.relay"):
            for _ in range(3):
                if way == "setup":
                    conversations.entered_setup("coder-1")
                elif way == "asked":
                    conversations.reset("coder-1")
                elif way == "lease":
                    table.leases["coder-1"] = Lease("coder-1", "T-1", 2)
                    talk.messages()
                else:
                    clock.now += (
                        timedelta(hours=1, seconds=1) if talk.context().entries else timedelta()
                    )
                    talk.messages()
        assert [vars(record)["why"] for record in caplog.records] == [way]
        assert [body["why"] for body in resets(ws, STREAM)] == ["lease", way]
        assert [set(body) for body in resets(ws, STREAM)] == [{"lease", "why", "system"}] * 2
        contexts.append(talk.context()._replace(begun_at="", lease=0))
    assert contexts == [contexts[0]] * 4


@pytest.mark.promise("S4-11")
def test_there_is_one_place_that_resets() -> None:
    """In the sources, one expression records a reset, and one function holds it."""
    found: list[str] = []
    for path in sorted(Path(passdown.relay.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found += [
                    f"{path.name}:{node.name}"
                    for call in ast.walk(node)
                    if isinstance(call, ast.Call)
                    and ast.unparse(call.func) == "StreamEntry"
                    and "RESET" in ast.unparse(call)
                ]
    assert found == ["conversations.py:_begin"]


@pytest.mark.promise("S4-11")
def test_the_task_comes_from_the_lease_and_not_from_the_request(
    ws: Workspace, leases: Table
) -> None:
    """A request that claims another task is refused, and nothing is recorded of it."""
    conversations = held(ws, leases)
    conversations.with_peer("coder-1")
    before = WorkspaceStreams(ws).streams("conversation/")
    for sender, task in (("coder-1", "T-2"), ("pm", "T-1")):
        with pytest.raises(InvalidInput, match="other_task"):
            review(conversations, sender, "plan", "A plan", lambda _: "APPROVED", task=task)
    assert WorkspaceStreams(ws).streams("conversation/") == before
    review(conversations, "coder-1", "plan", "About T-2", lambda _: "APPROVED", task="T-1")
    assert len(WorkspaceStreams(ws).streams("conversation/T-2/")) == 0


@pytest.mark.promise("S4-12")
def test_a_template_that_fails_does_not_keep_the_old_context(
    ws: Workspace, leases: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Twice in a row, and healed after that; the fault is recorded and logged."""
    folder = tmp_path / "own"
    folder.mkdir()
    conversations = held(ws, leases, templates=str(folder))
    talk = conversations.with_peer("coder-1")
    (folder / "system.md").write_text("{{nonsense}}", "utf-8")
    for round_ in range(2):
        talk.add(asks(f"Words {round_}"))
        caplog.clear()
        conversations.reset("coder-1")
        (system,) = talk.messages()
        assert system.content == (
            "You are architect. You work with coder-1 on T-1. "
            "Record lasting findings with knowledge_add (`passdown knowledge add`)."
        )
        assert "{{nonsense}}" in resets(ws, STREAM)[-1]["fault"]
        assert "{{nonsense}}" in caplog.text
    (folder / "system.md").unlink()
    talk.add(says("More"))
    conversations.reset("coder-1")
    assert "Title of T-1" in talk.messages()[0].content
    assert "fault" not in resets(ws, STREAM)[-1]
    assert len(talk.transcript()) == 7


def test_a_task_that_is_not_there_gives_a_minimal_system_message(
    ws: Workspace, leases: Table
) -> None:
    """Whatever keeps the message from being made, the conversation can be held."""
    leases.put("coder-1", "T-9")
    talk = held(ws, leases).with_peer("coder-1")
    assert talk.messages()[0].content.startswith("You are architect. You work with coder-1 on T-9.")


def test_a_lease_that_moves_on_while_it_is_looked_at_is_followed(
    ws: Workspace, leases: Table
) -> None:
    """What another process began for a later lease isn't undone by one that read the earlier."""
    other = held(ws, leases).with_peer("coder-1")

    class Slow(Table):
        """Answers first with the lease of a moment ago."""

        is_late = False

        def current_lease(self, agent: str) -> Lease | None:
            lease = leases.leases[agent]
            if self.is_late:
                self.is_late = False
                leases.put("coder-1", "T-1")
                other.add(asks("Under the later lease"))
            return lease

    slow = Slow()
    talk = held(ws, slow).with_peer("coder-1")
    slow.is_late = True
    assert texts(talk.messages()) == ["Under the later lease"]
    assert [body["lease"]["number"] for body in resets(ws, STREAM)] == [1, 2]
