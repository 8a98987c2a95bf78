"""Each agent talks with each peer apart from all others, and what was said can be read again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.errors import InvalidInput, KeyReused
from passdown.relay.messages import (
    Chapter,
    Message,
    ToolCall,
    context_of,
    message_of,
)
from passdown.workspace.streams import WorkspaceStreams
from tests.processes import run_python
from tests.relay.talking import Table, asks, held, opened, says, texts

if TYPE_CHECKING:
    from passdown.workspace import Workspace


@pytest.fixture
def leases() -> Table:
    return Table()


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return opened(tmp_path, "T-1", "T-2")


@pytest.mark.promise("S4-1")
def test_no_agent_and_no_peer_sees_what_others_say(ws: Workspace, leases: Table) -> None:
    """Four conversations about one task, each with its own words in it and no others."""
    leases.put("coder-1", "T-1")
    leases.put("coder-2", "T-1")
    pairs = [(a, p) for a in ("architect", "reviewer") for p in ("coder-1", "coder-2")]
    for agent, peer in pairs:
        talk = held(ws, leases, agent).with_peer(peer)
        talk.add(asks(f"{peer} asks {agent}"))
        talk.add(says(f"{agent} tells {peer}"))
    for agent, peer in pairs:
        talk = held(ws, leases, agent).with_peer(peer)
        assert texts(talk.messages()) == [f"{peer} asks {agent}", f"{agent} tells {peer}"]
        assert [said.message.by for said in talk.transcript()] == ["", peer, agent]
    streams = [head.stream for head in WorkspaceStreams(ws).streams("conversation/")]
    assert streams == [f"conversation/T-1/{agent}/{peer}" for agent, peer in sorted(pairs)]


def test_nobody_else_can_speak_in_a_conversation(ws: Workspace, leases: Table) -> None:
    """Other authors, and system messages from outside, are refused and not recorded."""
    talk = held(ws, leases).with_peer("coder-1")
    before = talk.context()
    for message in (
        Message("user", "hello", "coder-2"),
        Message("assistant", "hello", "coder-1"),
        Message("system", "You are somebody else."),
    ):
        with pytest.raises(InvalidInput, match=r"message\.(by|role)"):
            talk.add(message)
    with pytest.raises(InvalidInput, match="another conversation"):
        talk.add(asks("x"), chapter=Chapter("conversation/workspace/architect/coder-2", 1))
    assert talk.context() == before


@pytest.mark.promise("S4-6")
def test_a_peer_without_a_task_keeps_its_context(ws: Workspace, leases: Table) -> None:
    """Talk after talk, whatever others' tasks do, and in another process's object too."""
    for round_ in range(3):
        conversations = held(ws, leases)
        talk = conversations.with_peer("pm")
        talk.add(asks(f"round {round_}"))
        leases.put("coder-1", f"T-{1 + round_ % 2}")
        conversations.entered_setup("coder-1")
        conversations.entered_setup("pm")
    assert texts(held(ws, leases).with_peer("pm").messages()) == ["round 0", "round 1", "round 2"]


@pytest.mark.promise("S4-40")
def test_a_conversation_is_restored_equal(ws: Workspace, leases: Table) -> None:
    """From its document, from the ledger, and in another process."""
    leases.put("coder-1", "T-1")
    conversations = held(ws, leases)
    talk = conversations.with_peer("coder-1")
    talk.add(asks("Look at src/ä.py \N{SNOWMAN}"))
    talk.add(Message("assistant", "", tool_calls=(ToolCall("c1", "read", {"path": ["a", 1.5]}),)))
    talk.add(Message("tool", "", tool_call_id="c1"))
    conversations.reset("coder-1")
    talk.add(asks("Again"))
    document = json.loads(json.dumps(talk.document()))
    assert context_of(document) == talk.context()
    assert held(ws, leases).with_peer("coder-1").context() == talk.context()
    program = (
        "import json, sys, pathlib\n"
        "from tests.relay.talking import Table, held, opened\n"
        "table = Table()\n"
        "table.put('coder-1', 'T-1')\n"
        "talk = held(opened(pathlib.Path(sys.argv[1])), table).with_peer('coder-1')\n"
        "print(json.dumps([talk.document(), [s.message.document() for s in talk.transcript()]]))\n"
    )
    root = Path(__file__).resolve().parent.parent.parent
    done = run_python(
        [sys.executable, "-c", program, ws.root], cwd=root, capture_output=True, check=True
    )
    elsewhere, transcript = json.loads(done.stdout)
    assert elsewhere == document
    assert transcript == [said.message.document() for said in talk.transcript()]


def test_the_transcript_has_everything_in_its_order(ws: Workspace, leases: Table) -> None:
    """Across resets and tasks, with the system messages, and by task."""
    conversations = held(ws, leases)
    for task in ("T-1", "T-2", "T-1"):
        number = leases.put("coder-1", task).number
        conversations.with_peer("coder-1").add(asks(f"{task} {number}"))
    talk = conversations.with_peer("coder-1")
    said = [each for each in talk.transcript() if each.message.role == "user"]
    assert [each.message.content for each in said] == ["T-1 1", "T-2 2", "T-1 3"]
    assert [(each.task, each.lease) for each in said] == [("T-1", 1), ("T-2", 2), ("T-1", 3)]
    assert [s.lease for s in talk.transcript("T-1") if s.message.role == "system"] == [1, 3]
    assert texts(talk.messages()) == ["T-1 3"]


def test_saying_the_same_under_a_key_again_is_recorded_once(ws: Workspace, leases: Table) -> None:
    """Also when a reset came in between; something else under the key is refused."""
    conversations = held(ws, leases)
    talk = conversations.with_peer("pm")
    first = talk.add(asks("one"), key="k")
    assert talk.add(asks("one"), key="k") == first
    conversations.reset("pm")
    assert talk.add(asks("one"), key="k") == first
    with pytest.raises(KeyReused):
        talk.add(asks("two"), key="k")
    assert [s.message.content for s in talk.transcript() if s.message.role == "user"] == ["one"]
    assert texts(talk.messages()) == []


def test_a_chapter_can_be_finished_after_the_next_began(ws: Workspace, leases: Table) -> None:
    """A late answer stands with its question, and not in what the next task shows."""
    leases.put("coder-1", "T-1")
    talk = held(ws, leases).with_peer("coder-1")
    old = talk.add(asks("About one"))
    leases.put("coder-1", "T-2")
    talk.add(asks("About two"))
    talk.add(says("Late answer"), chapter=old)
    assert texts(talk.messages()) == ["About two"]
    assert texts(talk.messages(old)) == ["About one", "Late answer"]
    leases.put("coder-1", "T-1")
    assert texts(talk.messages()) == []
    talk.add(says("Later still"), chapter=old)
    assert texts(talk.messages()) == []
    assert texts(talk.messages(old)) == ["About one", "Late answer", "Later still"]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ("hello", ["message"]),
        ({"role": "user"}, ["message.content"]),
        ({"role": "robot", "content": "x", "by": "a b", "mood": "good"}, ["role", "by", "mood"]),
        ({"role": "tool", "content": "x"}, ["tool_call_id"]),
        ({"role": "user", "content": "x", "tool_call_id": "c"}, ["tool_call_id"]),
        ({"role": "user", "content": "x", "tool_calls": [{"id": "1", "name": "n"}]}, ["calls"]),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
            ["calls[0].name"],
        ),
        ({"role": "assistant", "content": "", "tool_calls": {"id": "1"}}, ["calls", "content"]),
        (
            {"role": "assistant", "content": "", "tool_calls": [ToolCall("1", "", [])] * 2},
            ["[0].name", "[0].arguments", "[1].name", "[1].arguments", "[1].id"],
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [ToolCall("1", "n", {"a": {1}})]},
            ["arguments.a"],
        ),
        ({"role": "user", "content": "x\ud800"}, ["content"]),
    ],
)
def test_what_is_no_message_is_refused_with_every_problem(document: Any, paths: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        message_of(document)
    found = [problem.path for problem in caught.value.problems]
    assert len(found) == len(paths)
    assert all(path.endswith(end) for path, end in zip(found, paths, strict=True))


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
    st.dictionaries(st.text("abc"), st.integers(-9, 9) | st.text("xyz")),
)
def test_a_message_is_its_document(text: str, arguments: dict[str, Any]) -> None:
    """Read back, it is equal."""
    calls = (ToolCall("1", "tool", arguments),)
    for message in (
        Message("assistant", text, "architect", calls),
        Message("tool", text, tool_call_id="1"),
    ):
        assert message_of(message) == message
        assert message_of(json.loads(json.dumps(message.document()))) == message
