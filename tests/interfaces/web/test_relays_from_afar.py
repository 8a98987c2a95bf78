"""Runs and express items through a server: read back whole, decided by people, sent by agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import InvalidInput, KeyReused, NotAllowed, NotFound, PassdownError
from passdown.relay.agents import AgentStates
from passdown.relay.conversations import Conversations, review
from passdown.relay.express import carry_out, express_record, express_records, send
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from passdown.workspace.streams import WorkspaceStreams
from tests.interfaces.web.asking import ask
from tests.interfaces.web.conftest import QUICK
from tests.relay.relays import document, leg
from tests.relay.repositories import make_repository
from tests.relay.staging import Stage, reply
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace
    from passdown.relay.run import Run
    from passdown.relay.runners import AgentRequest
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-12")

NOTE = {"kind": "file_task", "path": "NOTES.md", "content": "hello\n", "reason": "asked for"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    root = make_repository(tmp_path / "project")
    with passdown.open(str(root), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        with served(ws) as found:
            yield found


@pytest.fixture
def kim(server: Served) -> Iterator[Workspace]:
    with server.opened("kim", "approve", is_person=True) as remote:
        yield remote


@pytest.fixture
def coder(server: Served) -> Iterator[Workspace]:
    with server.opened("coder", "read", "write") as remote:
        yield remote


def half(_: AgentRequest) -> str:
    return reply("partial", summary="half")


def reviewed(server: Served) -> Run:
    """A run that waits for a person: its only agent has used up its loops."""
    again = {"when": {"outcome": "partial"}, "go": "code", "at_most": 3}
    relay = document(
        leg("code", "coder", again),
        agents={"coder": {"runner": {"script": "s"}, "limits": {"loops": 1}}},
    )
    run = Stage(server.workspace).run(relay, half)
    assert run.asked
    return run


def test_a_run_reads_back_the_same(server: Served, coder: Workspace) -> None:
    """Every field, folded here from records whose digests are checked here."""
    run = reviewed(server)
    assert Runs(coder).all() == Runs(server.workspace).all() == [run]
    assert Runs(coder).position(run.run) == run.position
    with pytest.raises(NotFound):
        Runs(coder).get("R-9")


def test_a_person_answers_and_stops_a_run(server: Served, kim: Workspace, coder: Workspace) -> None:
    run = reviewed(server)
    with pytest.raises(NotAllowed, match="people do"):
        coder.relay.answer(run.run, "continue", by="coder")
    with pytest.raises(NotAllowed, match="people do"):
        coder.relay.stop(run.run, by="coder")
    answered = kim.relay.answer(run.run, "continue", by="eva", guidance="shorter")
    assert answered["status"] == "running"
    with pytest.raises(InvalidInput, match="waits for no review"):
        kim.relay.answer(run.run, "continue", by="kim")
    stopped = kim.relay.stop(run.run, by="kim", reason="obsolete")
    assert (stopped["status"], stopped["why"]) == ("stopped", "obsolete")
    assert kim.relay.stop(run.run, by="kim")["status"] == "stopped"
    records = WorkspaceStreams(server.workspace).records(f"run/{run.run}")
    said = [(r.author, r.document()["via"][:6]) for r in records if r.kind in ("answered", "ended")]
    assert said == [("kim", "token:"), ("kim", "token:")]
    assert server.workspace.verify().ok


def test_nothing_else_beside_the_tasks_can_be_read_or_written(
    server: Served, coder: Workspace
) -> None:
    """Tokens and conversations are nobody's business, runs are started where agents run."""
    token = server.token("coder", "read")
    for stream in ("access", "conversation/T-1/coder/planner", "task/T-1", "run", ""):
        path = f"/api/streams/records?stream={stream}"
        assert ask(server.port, "GET", path, token=token).status in (404, 422)
        path = f"/api/streams?prefix={stream}"
        assert ask(server.port, "GET", path, token=token).status in (404, 422)
    with pytest.raises(PassdownError) as caught:
        Runs(coder).start(check_relay(document(leg("code", "coder"))), "T-1", by="coder")
    assert caught.value.code == "not_offered"


def test_a_conversation_is_read_by_its_two_agents_alone(server: Served) -> None:
    leases = AgentStates(server.workspace)
    leases.lease("coder", "T-1")
    talk = Conversations(server.workspace, "architect", leases=leases)
    review(talk, "coder", "plan", "THE-PLAN", lambda _: "APPROVED")
    for name in ("architect", "coder"):
        with server.opened(name, "read") as reader:
            found = reader.relay.conversations("T-1", "architect", "coder")
            assert "THE-PLAN" in str(found)
    with server.opened("coder", "read") as reader, pytest.raises(NotAllowed):
        reader.relay.conversations("T-1", "architect")
    with server.opened("qa", "read") as reader, pytest.raises(NotAllowed):
        reader.relay.conversations("T-1", "architect", "coder")


def test_an_express_item_bears_the_token_s_name_and_is_sent_once(
    server: Served, coder: Workspace
) -> None:
    sent = send(coder, {**NOTE, "id": "x1", "by": "planner"})
    assert (sent.item.by, sent.status) == ("coder", "sent")
    assert send(coder, {**NOTE, "id": "x1"}) == sent
    with pytest.raises(KeyReused):
        send(coder, {**NOTE, "id": "x1", "content": "other\n"})
    with pytest.raises(InvalidInput, match="kind"):
        send(coder, {"kind": "nothing"})
    done = carry_out(server.workspace, sent.item)
    assert done.status == "done"
    assert express_records(coder) == express_records(server.workspace)
    assert express_record(coder, "x1").result["commit"] == done.result["commit"] != ""


def test_an_express_item_is_queued_where_the_store_is(server: Served, coder: Workspace) -> None:
    """The answer says so; a worker there takes it."""
    from passdown.relay.worker import open_engine

    token = server.token("coder", "write")
    body: Any = {"item": {**NOTE, "id": "x2"}}
    found = ask(server.port, "POST", "/api/express", token=token, body=body).document
    assert (found["queued"], found["not_queued"]) == (True, "")
    with open_engine(server.workspace) as engine:
        assert engine.waiting("express") == 1
    listed = ask(server.port, "GET", "/api/express", token=token).document["items"]
    assert [(item["id"], item["by"], item["status"]) for item in listed] == [
        ("x2", "coder", "sent")
    ]
