"""The API: versions, keys, pages, problems, names that are claimed, and text that is hostile."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import Conflict, KeyReused, NotAllowed, PassdownError
from passdown.testing import full_handoff
from tests.interfaces.web.asking import ask
from tests.serving import EVERY_RIGHT

if TYPE_CHECKING:
    from tests.interfaces.web.asking import Reply
    from tests.serving import Served

Document = dict[str, Any]


def post(server: Served, path: str, token: str, body: Any, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(server.port, "POST", path, token=token, body=body, headers=named)


@pytest.mark.promise("W-3")
def test_the_version_is_the_tag_of_a_task(server: Served) -> None:
    """What has not changed is not sent again, and a write from an old version names both."""
    token = server.token("coder", "read", "write")
    first = ask(server.port, "GET", "/api/tasks/T-1", token=token)
    assert (first.headers["etag"], first.document["version"]) == ('"1"', 1)
    known = {"If-None-Match": '"1"'}
    for path in ("/api/tasks/T-1", "/api/tasks/T-1/state"):
        again = ask(server.port, "GET", path, token=token, headers=known)
        assert (again.status, again.body) == (304, b"")
    changed = ask(
        server.port,
        "PATCH",
        "/api/tasks/T-1",
        token=token,
        body={"title": "Sign in"},
        headers={"If-Match": '"1"'},
    )
    assert (changed.status, changed.headers["etag"]) == (200, '"2"')
    for path, body in (
        ("/api/tasks/T-1/handoffs", {"outcome": "completed"}),
        ("/api/decisions", {"task": "T-1", "summary": "s", "rationale": "r"}),
        ("/api/handoffs", {"handoff": "task: T-1\nfrom_agent: coder\noutcome: completed\n"}),
    ):
        stale = post(server, path, token, body, If_Match='"1"')
        assert (stale.status, stale.codes) == (412, {"conflict"}), path
        assert (stale.document["expected"], stale.document["actual"]) == (1, 2)
        assert "diff T-1 1 2" in stale.document["next_step"]
    inside = post(
        server,
        "/api/handoffs",
        token,
        {"handoff": full_handoff(expect_version=1, to_agent="tester")},
    )
    assert (inside.status, inside.codes) == (409, {"conflict"})
    for odd in ('W/"2"', "2", '"x"', '"1", "2"', ""):
        reply = post(server, "/api/tasks/T-1/handoffs", token, {}, If_Match=odd)
        assert (reply.status, "invalid_form" in reply.codes) == (400, True), odd


@pytest.mark.promise("W-3")
def test_of_two_writers_from_one_version_one_is_told(server: Served) -> None:
    """Eight at once, from the same version: one is recorded, seven hear of it."""
    token = server.token("coder", "read", "write")
    replies: list[Reply] = []

    def write(number: int) -> None:
        body = {"task": "T-1", "summary": f"choice {number}", "rationale": "r"}
        replies.append(post(server, "/api/decisions", token, body, If_Match='"1"'))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert sorted(reply.status for reply in replies) == [201] + [412] * 7
    assert len(server.workspace.files.state_document("T-1")["decisions"]) == 1


@pytest.mark.promise("W-3")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/tasks", {"task": "T-2", "title": "Pay"}),
        ("/api/decisions", {"task": "T-1", "summary": "s", "rationale": "r"}),
        ("/api/notes", {"task": "T-1", "kind": "pattern", "pattern": "p", "location": "l"}),
        ("/api/warnings", {"task": "T-1", "text": "w"}),
        ("/api/gates", {"task": "T-1", "name": "lint", "passed": True}),
        ("/api/tasks/T-1/handoffs", {"outcome": "completed", "to_agent": "tester"}),
        ("/api/knowledge", {"nodes": [{"id": "n1", "type": "pattern", "summary": "s"}]}),
        ("/api/items/T-1%23q1/marks", {"status": "answered", "reason": "15"}),
        ("/api/gates/T-1%23k1/approve", {"reason": "seen"}),
    ],
)
def test_a_key_makes_a_retry_safe_everywhere(server: Served, path: str, body: Document) -> None:
    """The same again is the same record; other content under the key is refused."""
    human = [{"blocker": "b", "suggested_resolution": "r", "requires_human": True}]
    if "gates/T-1" in path or "items" in path:
        server.workspace.hand_off(full_handoff(blockers=human, gates=[]))
    token = server.token("kim", *EVERY_RIGHT, is_person=True)
    first = post(server, path, token, body, Idempotency_Key="once")
    assert first.status == 201, first
    heads = {k: v for k, v in server.workspace.maintenance.heads().heads.items() if k != "access"}
    again = post(server, path, token, body, Idempotency_Key="once")
    assert (again.status, again.document["is_replay"]) == (201, True)
    assert again.document["version"] == first.document["version"]
    name = next(iter(body.keys() - {"task", "kind", "outcome", "nodes", "passed"}), "")
    other = {**body, name: "another"} if name else {"nodes": [{**body["nodes"][0], "summary": "t"}]}
    refused = post(server, path, token, other, Idempotency_Key="once")
    assert (refused.status, refused.codes) == (409, {"key_reused"}), refused
    now = {k: v for k, v in server.workspace.maintenance.heads().heads.items() if k != "access"}
    assert now == heads


def test_pages_join_without_a_gap(server: Served) -> None:
    for number in range(2, 26):
        server.workspace.create_task(f"T-{number}", title="t", agent="planner")
    for number in range(25):
        server.workspace.warn("T-1", agent="coder", text=f"warning {number}")
    token = server.token("coder", "read")
    for path, name in (("/api/tasks", "task"), ("/api/log", "seq"), ("/api/tasks/T-1/log", "seq")):
        seen: list[Any] = []
        cursor = ""
        while True:
            query = f"?limit=7{cursor}"
            page = ask(server.port, "GET", path + query, token=token).document
            seen += [entry[name] for entry in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert len(seen) == len(set(seen))
        assert len(seen) >= 25
        whole = ask(server.port, "GET", f"{path}?limit=1000", token=token).document
        assert [entry[name] for entry in whole["items"]] == seen


def test_what_concerns_all_work_is_listed_only_where_it_is_asked_for(server: Served) -> None:
    """Its place is no task: every door lists the same, and no page ends early for it."""
    server.workspace.note(
        "gotcha", agent="planner", issue="tabs", mitigation="spaces", severity="low"
    )
    server.workspace.create_task("T-2", title="t", agent="planner")
    token = server.token("coder", "read")
    with server.opened("coder", "read") as afar:
        for here in (server.workspace, afar):
            assert [task.task for task in here.tasks()] == ["T-1", "T-2"]
            assert [task.task for task in here.tasks(limit=2)] == ["T-1", "T-2"]
            every = [task.task for task in here.tasks(with_workspace=True)]
            assert every == ["T-1", "workspace", "T-2"]
    first = ask(server.port, "GET", "/api/tasks?limit=1", token=token).document
    path = f"/api/tasks?limit=1&cursor={first['next']}"
    second = ask(server.port, "GET", path, token=token).document
    assert [page["items"][0]["task"] for page in (first, second)] == ["T-1", "T-2"]
    assert second["next"] is None


@pytest.mark.promise("W-4")
def test_every_problem_is_told_at_once_with_its_path(server: Served) -> None:
    token = server.token("coder", "read", "write")
    query = "/api/tasks?limit=0&status=x&phase=Y&cursor=z&odd=1&agent=a&agent=b"
    reply = ask(server.port, "GET", query, token=token)
    assert reply.status == 422
    problems = {(p["path"], p["code"]) for p in reply.document["problems"]}
    assert problems == {
        ("limit", "out_of_range"),
        ("status", "invalid_choice"),
        ("phase", "invalid_form"),
        ("cursor", "invalid_form"),
        ("odd", "unknown_filter"),
        ("agent", "wrong_type"),
    }
    body = {"task": "../x", "title": " ", "criteria": ["", "fine"], "inputs": "none"}
    reply = post(server, "/api/tasks", token, body)
    assert reply.status == 422
    assert {p["path"] for p in reply.document["problems"]} == {
        "task",
        "title",
        "criteria[0]",
        "inputs",
    }
    assert reply.document["type"] == "urn:passdown:problem:invalid_input"


@pytest.mark.promise("W-4")
def test_a_slip_in_a_field_is_named_with_what_is_missing(server: Served) -> None:
    """Not said of a text that was never given: that it is empty."""
    token = server.token("coder", "read", "write")
    body = {"task": "T-1", "sumary": "JWT", "rationale": "scripts"}
    reply = post(server, "/api/decisions", token, body)
    assert reply.status == 422
    found = {p["path"]: p for p in reply.document["problems"]}
    assert set(found) == {"summary", "sumary"}
    assert (found["summary"]["code"], found["summary"]["message"]) == ("required", "is missing")
    assert found["sumary"]["code"] == "unknown_field"
    assert found["sumary"]["fix"] == "did you mean summary?"
    reply = post(server, "/api/tasks", token, {"titel": "Login"})
    found = {p["path"]: p for p in reply.document["problems"]}
    assert found["title"]["code"] == "required"
    assert found["titel"]["fix"] == "did you mean title?"
    reply = post(server, "/api/decisions", token, {**body, "summary": ""})
    assert "empty" in {p["code"] for p in reply.document["problems"]}


@pytest.mark.promise("W-4")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"task": ["T-1"], "title": {"a": 1}, "agent": 7}',
        b'{"task": "T-2", "title": "t", "key": "x", "expect_version": 1}',
        b'{"task": null, "title": null}',
    ],
)
def test_what_can_not_be_read_is_refused(server: Served, body: bytes) -> None:
    token = server.token("coder", "read", "write")
    before = server.workspace.maintenance.heads().heads
    for path in ("/api/tasks", "/api/decisions", "/api/handoffs", "/api/tasks/T-1/handoffs"):
        reply = post(server, path, token, body)
        assert reply.status in (400, 422), (path, reply)
        assert "invalid_input" in reply.codes
    assert server.workspace.maintenance.heads().heads == before


@pytest.mark.promise("W-2")
def test_an_agent_writes_as_itself_whatever_it_claims(server: Served) -> None:
    """Every door that records takes the token's name; the claim is answered with a warning."""
    token = server.token("coder", "read", "write")
    entry = {"task": "T-1", "agent": "planner"}
    claims: list[tuple[str, Document]] = [
        ("/api/decisions", {**entry, "summary": "s", "rationale": "r"}),
        ("/api/notes", {**entry, "kind": "pattern", "pattern": "p", "location": "l"}),
        ("/api/warnings", {**entry, "text": "w"}),
        ("/api/gates", {**entry, "name": "lint", "passed": True}),
        ("/api/tasks", {"task": "T-2", "title": "t", "agent": "planner"}),
        ("/api/tasks/T-1/handoffs", {"from_agent": "planner", "outcome": "completed"}),
        ("/api/handoffs", {"handoff": {"task": "T-1", "outcome": "completed", "summary": "x"},
                           "from_agent": "planner"}),
        ("/api/handoffs", {"handoff": "task: T-1\nfrom_agent: planner\noutcome: completed\n"
                                      "summary: y\n"}),
        ("/api/knowledge", {"agent": "planner", "nodes": [
            {"id": "n1", "type": "pattern", "summary": "s"}]}),
    ]  # fmt: skip
    for path, body in claims:
        reply = post(server, path, token, body)
        assert reply.status == 201, (path, reply)
        warned = [warning["code"] for warning in reply.document["warnings"]]
        assert "author_is_token" in warned, path
    identity = token.split("_")[1]
    records = [line for line in server.workspace.log(limit=100) if line.seq > 2]
    written = [line for line in records if line.author != "passdown"]
    assert {line.author for line in written} == {"coder"}
    assert {line.via for line in records} == {f"token:{identity}"}
    hidden = full_handoff(from_agent="planner", to_agent="tester")
    hidden["decisions"][0]["agent"] = "planner"
    assert post(server, "/api/handoffs", token, {"handoff": hidden}).status == 201
    decisions = server.workspace.files.state_document("T-1")["decisions"]
    assert {decision["agent"] for decision in decisions} == {"coder"}
    assert server.workspace.verify().ok


@pytest.mark.promise("W-2")
def test_a_token_for_others_speaks_for_them_and_is_named(server: Served) -> None:
    """A relay's token records what several agents did; the record still says which it was."""
    token = server.token("relay", "read", "write", "others")
    body = {"task": "T-1", "agent": "tester", "summary": "s", "rationale": "r"}
    assert post(server, "/api/decisions", token, body).document["warnings"] == []
    (line, *_) = server.workspace.log("T-1", limit=1)
    assert (line.author, line.via) == ("tester", f"token:{token.split('_')[1]}")


@pytest.mark.promise("W-2")
def test_only_people_answer_gates(server: Served) -> None:
    """An agent's token can't be made to, with every right that it can have."""
    human = [{"blocker": "b", "suggested_resolution": "r", "requires_human": True}]
    server.workspace.hand_off(full_handoff(outcome="failed", blockers=human, gates=[]))
    with pytest.raises(PassdownError, match="no token was made"):
        server.token("coder", "read", "write", "approve")
    agent = server.token("coder", "read", "write", "others")
    for verb in ("approve", "reject"):
        path = f"/api/gates/T-1%23k1/{verb}"
        reply = post(server, path, agent, {"by": "kim", "reason": "go"})
        assert (reply.status, reply.codes) == (403, {"not_allowed"})
    assert [gate.status for gate in server.workspace.gates("T-1")] == ["pending"]
    person = server.token("kim", "approve", is_person=True)
    answered = post(server, "/api/gates/T-1%23k1/approve", person, {"by": "ana", "reason": "go"})
    assert answered.status == 201
    (gate,) = [g for g in server.workspace.gates(all=True) if g.status == "approved"]
    assert gate.answered_by == "kim"


@pytest.mark.promise("W-2")
def test_what_an_agent_was_told_is_recorded_of_that_agent_alone(server: Served) -> None:
    """Who asks for another's brief gets it, and nobody is recorded to have been told."""
    token = server.token("coder", "read")
    assert ask(server.port, "GET", "/api/tasks/T-1/brief?agent=tester", token=token).status == 200
    assert server.workspace.context.deliveries("T-1") == []
    own = ask(server.port, "GET", "/api/tasks/T-1/brief?budget=300", token=token).document
    assert own["agent"] == "coder"
    (told,) = server.workspace.context.deliveries("T-1")
    assert (told.agent, told.budget, told.via) == (
        "coder",
        300,
        f"token:{token.split('_')[1]}",
    )


@pytest.mark.promise("W-2")
def test_many_are_told_at_once_and_each_is_recorded_once(server: Served) -> None:
    """Briefs that go out together are recorded together, each with the token that asked; and who
    asks after a write is told of it.
    """
    tokens = {f"agent-{n}": server.token(f"agent-{n}", "read") for n in range(8)}
    versions: list[int] = []

    def listen(token: str) -> None:
        for _ in range(15):
            reply = ask(server.port, "GET", "/api/tasks/T-1/brief?budget=300", token=token)
            assert reply.document["warnings"] == []
            versions.append(reply.document["version"])

    threads = [threading.Thread(target=listen, args=(token,)) for token in tokens.values()]
    for thread in threads:
        thread.start()
    now = server.workspace.warn("T-1", agent="coder", text="the key has changed").version
    token = tokens["agent-0"]
    after = ask(server.port, "GET", "/api/tasks/T-1/brief?budget=300", token=token).document
    assert (after["version"], "the key has changed" in after["text"]) == (now, True)
    for thread in threads:
        thread.join(240)
    told = server.workspace.context.deliveries("T-1", limit=1_000)
    assert len(told) == len(versions) + 1 == 8 * 15 + 1
    assert {entry.agent: entry.via for entry in told} == {
        name: f"token:{token.split('_')[1]}" for name, token in tokens.items()
    }
    assert sorted(entry.version for entry in told) == sorted([*versions, now])
    assert server.workspace.verify().ok


def test_a_handoff_is_received_by_whom_it_is_for(server: Served) -> None:
    command = server.workspace.hand_off(full_handoff(blockers=[]) | {"outcome": "completed"})
    given = {"command": command.to_dict()}
    path = "/api/handoffs/receive"
    reply = post(server, path, server.token("tester", "read"), given)
    assert (reply.status, reply.codes) == (403, {"not_recipient"})
    assert [entry.task for entry in server.workspace.inbox("coder")] == ["T-1"]
    assert post(server, path, server.token("coder", "read"), given).status == 200


@pytest.mark.promise("W-4")
def test_hostile_text_comes_back_as_text(server: Served) -> None:
    """Whatever it looks like, it is JSON, and no bracket in it could open a tag."""
    token = server.token("coder", "read", "write")
    text = "<script>alert(1)</script>\u202e\x1b[31m\u2028 ${7*7} {{x}}\ndata: forged\n\nid: 9"
    body = {"task": "T-1", "summary": text, "rationale": "r"}
    assert post(server, "/api/decisions", token, body).status == 201
    for path in ("/api/tasks/T-1/state", "/api/items/T-1%23d1", "/api/tasks/T-1/brief",
                 "/api/recall?query=alert&by_words=true", "/api/log", "/api/graph",
                 "/api/journal"):  # fmt: skip
        reply = ask(server.port, "GET", path, token=token)
        assert reply.status == 200, reply
        assert b"<script" not in reply.body
        assert reply.headers["content-type"] == "application/json"
    shown = ask(server.port, "GET", "/api/items/T-1%23d1", token=token).document
    assert shown["summary"] == text
    svg = ask(server.port, "GET", "/api/graph.svg", token=token)
    assert svg.headers["content-type"] == "text/plain; charset=utf-8"
    odd = ask(server.port, "GET", "/api/tasks/%3Cscript%3E", token=token)
    assert (odd.status, b"<script" in odd.body) == (404, False)


@pytest.mark.promise("W-9", "W-2")
def test_no_record_and_no_file_holds_a_token(server: Served) -> None:
    """Its digest is kept; one that somebody pastes into a record is taken out."""
    import os

    token = server.token("coder", "read", "write")
    body = {"task": "T-1", "summary": f"use {token}", "rationale": "r"}
    assert post(server, "/api/decisions", token, body).status == 201
    shown = server.workspace.show("T-1#d1").summary
    assert shown == "use [redacted:passdown_token]"
    for folder, _, names in os.walk(server.workspace.root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert token.encode() not in file.read(), name


@pytest.mark.promise("W-7")
def test_a_client_raises_what_the_library_raises(server: Served) -> None:
    with server.opened("coder", "read", "write") as remote:
        with pytest.raises(passdown.errors.NotFound, match="no task 'T-9'"):
            remote.task("T-9")
        remote.decide(task="T-1", agent="coder", summary="s", rationale="r", key="k")
        with pytest.raises(KeyReused):
            remote.decide(task="T-1", agent="coder", summary="t", rationale="r", key="k")
        with pytest.raises(Conflict) as caught:
            remote.update_task("T-1", agent="coder", title="x", expect_version=1)
        assert (caught.value.task, caught.value.expected, caught.value.actual) == ("T-1", 1, 2)
        with pytest.raises(NotAllowed, match="people do"):
            remote.approve("T-1#k1", by="coder")
        with pytest.raises(NotAllowed, match="allows admin"):
            remote.maintenance.backup("/tmp/never")
        with pytest.raises(PassdownError, match="doesn't offer its state files") as not_here:
            remote.files.state_file("T-1")
        assert not_here.value.code == "not_offered"
        assert "passdown state" in not_here.value.next_step
        assert remote.store_url == server.url
    refused = pytest.raises(NotAllowed, match="unknown, expired or revoked")
    with passdown.open(server.url, token="pdt_x") as nobody, refused:
        nobody.tasks()


@pytest.mark.promise("W-4")
def test_the_description_names_every_operation(server: Served) -> None:
    """It is published without a token, and is what the rows say."""
    from passdown.web.app import ROUTES

    document = ask(server.port, "GET", "/api/openapi.json").document
    found = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    rows = {row.name: (row.method, row.path) for row in ROUTES}
    assert found == {**rows, "events": ("GET", "/api/events")}
    assert document["openapi"].startswith("3.1")
    json.dumps(document)


def test_what_watches_the_server_is_told(server: Served) -> None:
    token = server.token("coder", "read")
    assert ask(server.port, "GET", "/health").document == {"status": "alive"}
    assert ask(server.port, "GET", "/ready").document == {"status": "ready"}
    assert ask(server.port, "GET", "/metrics").status == 401
    ask(server.port, "GET", "/api/tasks", token=token)
    text = ask(server.port, "GET", "/metrics", token=token).body.decode()
    assert 'passdown_requests_total{operation="tasks",status="200"} 1' in text
    assert 'passdown_refused_total{reason="no_token"} 1' in text
    assert 'passdown_request_seconds_count{operation="tasks"} 1' in text
