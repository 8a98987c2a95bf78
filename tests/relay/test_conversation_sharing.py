"""From one context for all peers to one for each, step by step and without a change of data."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from passdown.errors import InvalidInput
from passdown.relay.conversations import review
from passdown.relay.messages import Message
from passdown.workspace.streams import WorkspaceStreams
from tests.relay.talking import Table, asks, held, opened, texts

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.workspace import Workspace

SHARED = "conversation/workspace/architect/*"


@pytest.fixture
def leases() -> Table:
    table = Table()
    for number, peer in enumerate(("coder-1", "coder-2", "coder-3"), 1):
        table.put(peer, f"T-{number}")
    return table


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return opened(tmp_path, "T-1", "T-2", "T-3")


def ask_all(ws: Workspace, leases: Table, sharing: object) -> dict[str, list[str]]:
    """Who of three peers is in whose context."""
    conversations = held(ws, leases, sharing=sharing)
    peers = ("coder-1", "coder-2", "coder-3")
    for peer in peers:
        review(conversations, peer, "plan", f"{peer} plans", lambda _: "APPROVED")
    return {
        peer: [m.by for m in conversations.with_peer(peer).messages() if m.role == "user"]
        for peer in peers
    }


def tables(ws: Workspace) -> list[tuple[str, str]]:
    """The schema of the store, as the database itself has it."""
    path = ws.store_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


@pytest.mark.promise("S4-32")
def test_contexts_are_parted_for_none_for_some_and_for_all(ws: Workspace, leases: Table) -> None:
    """The single context is what all others go on sharing; each step is one argument."""
    everybody = ["coder-1", "coder-2", "coder-3"]
    assert ask_all(ws, leases, "all") == dict.fromkeys(everybody, everybody)
    found = ask_all(ws, leases, {("architect", "coder-2"), ("reviewer", "coder-1")})
    rest = [*everybody, "coder-1", "coder-3"]
    assert found == {"coder-1": rest, "coder-2": ["coder-2"], "coder-3": rest}
    found = ask_all(ws, leases, "off")
    assert found == {
        "coder-1": ["coder-1"],
        "coder-2": ["coder-2", "coder-2"],
        "coder-3": ["coder-3"],
    }
    assert len(ask_all(ws, leases, "all")["coder-2"]) == 8


@pytest.mark.promise("S4-32")
def test_the_single_context_outlives_the_tasks_of_its_peers(ws: Workspace, leases: Table) -> None:
    """A change of task or SETUP of one peer doesn't take the others' words; a reset does."""
    conversations = held(ws, leases, sharing="all")
    talk = conversations.with_peer("coder-1")
    assert talk is conversations.with_peer("coder-2")
    talk.add(Message("user", "first", "coder-1"))
    leases.put("coder-1", "T-3")
    conversations.entered_setup("coder-1")
    talk.add(Message("user", "second", "coder-2"))
    with pytest.raises(InvalidInput, match="expected the sender"):
        talk.add(asks("nobody's"))
    assert texts(talk.messages()) == ["first", "second"]
    assert WorkspaceStreams(ws).position(SHARED) == 3
    conversations.reset("coder-2")
    assert texts(talk.messages()) == []


@pytest.mark.promise("S4-33")
def test_conversations_add_records_and_change_nothing_else(tmp_path: Path) -> None:
    """A store from before is used as it is: the same tables, and tasks byte for byte the same,
    whether the conversations are read or not.
    """
    ws = opened(tmp_path, "T-1", "T-2", "T-3")
    document = ws.files.state_document("T-1")
    heads = WorkspaceStreams(ws).streams("task/")
    ws.close()
    ws = opened(tmp_path)
    leases = Table()
    for peer, task in (("coder-1", "T-1"), ("coder-2", "T-2"), ("coder-3", "T-3")):
        leases.put(peer, task)
    schema = tables(ws)
    for sharing in ("all", {("architect", "coder-2")}, "off"):
        ask_all(ws, leases, sharing)
    assert tables(ws) == schema
    assert ws.files.state_document("T-1") == document
    assert WorkspaceStreams(ws).streams("task/") == heads
    ws.maintenance.reindex()
    assert ws.files.state_document("T-1") == document
    assert ws.verify().findings == ()


@pytest.mark.parametrize("sharing", ["some", [("architect",)], ("architect", "coder-1")])
def test_an_unknown_way_to_share_is_refused(ws: Workspace, leases: Table, sharing: object) -> None:
    with pytest.raises(InvalidInput, match="sharing"):
        held(ws, leases, sharing=sharing)
