"""Attacks on every route that is derived from the table: whatever is sent, the server refuses it by
name, writes nothing in another name, and goes on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

import passdown
from passdown.core.names import MAX_KEY
from passdown.errors import StoreUnavailable
from passdown.testing import full_handoff, write_files
from passdown.web.app import ROUTES
from tests.interfaces.web.asking import ask
from tests.interfaces.web.conftest import QUICK
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.web.requests import ApiRoute
    from tests.interfaces.web.asking import Reply
    from tests.serving import Served

PATH = {"task": "T-1", "item": "T-1#d1", "gate": "T-3#k1", "agent": "coder", "run": "R-1"}
NAMED = {**PATH, "format": "dot"}
SENT: dict[str, Any] = {
    "task": "T-1",
    "title": "Login",
    "kind": "gotcha",
    "issue": "x",
    "mitigation": "y",
    "severity": "low",
    "summary": "s",
    "rationale": "r",
    "text": "t",
    "status": "retracted",
    "name": "lint",
    "passed": True,
    "reason": "because",
    "handoff": {"task": "T-1", "outcome": "completed", "summary": "did it"},
    "outcome": "completed",
    "decision": {"summary": "s", "rationale": "r"},
    "nodes": [{"id": "N", "type": "component", "summary": "x"}],
    "source": "T-1",
    "relation": "relates_to",
    "target": "T-2",
    "to_agent": "tester",
    "item": {"id": "x9", "kind": "file_task", "path": "a.md", "content": "x", "reason": "asked"},
    "verdict": "continue",
    "query": "login",
    "node": "N",
    "tags": "auth",
    "tag": "auth",
    "key": "k",
    "old": "1",
    "new": "1",
    "budget": 100,
    "used": "1",
    "path": "src/config.py",
    "prefix": "run/",
    "stream": "run/R-1",
    "bundle": "AAAA",
    "command": {},
}
"""A value that fits each parameter that has to be given."""
WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -(2**70),
    10**400,
    1.5,
    "",
    " ",
    "x" * 5_000,
    "a\0b",
    "\u202eevil",
    "../../etc/passwd",
    "%2e%2e%2f",
    "'; DROP TABLE records; --",
    [],
    ["x"] * 2_000,
    {},
    {"__class__": "x"},
    [[[[]]]],
)
ODD_NAMES = ("../../../etc/passwd", "a\0b", "x" * 2_000, "%2f..%2f", " ", "T-1\n", "..", "'")
ROWS = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
SLOW = ("maintenance_backup", "maintenance_reindex", "embeddings_update")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = str(tmp_path_factory.mktemp("attacked"))
    write_files(root)
    with passdown.open(root, settings=QUICK) as ws, served(ws) as found:
        for task in ("T-1", "T-2", "T-3"):
            ws.create_task(task, title="Login", agent="planner")
        ws.hand_off(full_handoff(gates=[]))
        asks = {"blocker": "legal?", "requires_human": True}
        held = {"task": "T-3", "outcome": "partial", "from_agent": "planner", "blockers": [asks]}
        ws.hand_off({**held, "suggested_next_steps": [{"step": "ask"}]})
        yield found


@pytest.fixture(scope="module")
def tokens(server: Served) -> dict[str, str]:
    found = {right: server.token(f"only-{right}", right) for right in ("read", "write")}
    found |= {
        right: server.token(f"only-{right}", right, is_person=True)
        for right in ("approve", "admin")
    }
    found["mallory"] = server.token("mallory", "read", "write")
    found["all"] = server.token("kim", *EVERY_RIGHT, is_person=True)
    return found


def path_of(route: ApiRoute, **named: str) -> str:
    values = {name: NAMED.get(name, "x") for name in route.parameters} | named
    return route.path.format(**{name: quote(value, safe="") for name, value in values.items()})


def good(route: ApiRoute) -> tuple[str, dict[str, Any] | None]:
    """The query and the body of a request that has what it needs."""
    query = "&".join(
        f"{name}={quote(str(SENT.get(name, 'x')))}"
        for name, schema in route.query.items()
        if schema.get("required")
    )
    if route.body is None:
        return query, None
    needed = route.body.get("required", SENT if "$ref" in route.body else ())
    return query, {name: SENT.get(name, "x") for name in needed}


def send(server: Served, route: ApiRoute, token: str, **changes: Any) -> Reply:
    query, body = good(route)
    body = None if body is None else {**body, **changes.pop("body", {})}
    query = "&".join(part for part in (query, changes.pop("query", "")) if part)
    path = changes.pop("path", "") or path_of(route)
    address = f"{path}?{query}" if query else path
    return ask(server.port, route.method, address, token=token, body=body, **changes)


def refused_by_name(reply: Reply) -> None:
    """A problem document that names what is wrong and what to do; never a fault of the server."""
    assert reply.status < 500 or reply.status == 503, reply
    if reply.status >= 400:
        document = json.loads(reply.body)
        assert document["next_step"]
        assert "Traceback" not in document["detail"]


@ROWS
def test_wrong_values_of_every_parameter_are_refused_by_name(
    server: Served, tokens: dict[str, str], route: ApiRoute
) -> None:
    token = tokens["all"]
    wrong = WRONG if route.name not in SLOW else WRONG[:3]
    spelled = [value for value in wrong if not isinstance(value, list | dict | None)]
    for name in (route.body or {}).get("properties", ()):
        for value in wrong:
            refused_by_name(send(server, route, token, body={name: value}))
    for name in route.query:
        for value in spelled:
            written = quote(str(value)[:9_000], errors="replace")
            refused_by_name(send(server, route, token, query=f"{name}={written}"))
    for name in (*route.query, "unheard_of"):
        refused_by_name(send(server, route, token, query=f"{name}=a&{name}=b"))
        refused_by_name(send(server, route, token, query=f"{name}=%ed%a0%80&{name}=%ff"))
    for value in wrong[:2]:
        refused_by_name(send(server, route, token, query=f"unheard_of={value}"))
        if route.body:
            refused_by_name(send(server, route, token, body={"unheard_of": value}))
    for name in route.parameters:
        for value in ODD_NAMES:
            refused_by_name(send(server, route, token, path=path_of(route, **{name: value})))


@ROWS
def test_other_methods_are_refused(server: Served, tokens: dict[str, str], route: ApiRoute) -> None:
    known = {each.method for each in ROUTES if each.path == route.path}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - known:
        reply = ask(server.port, method, path_of(route), token=tokens["all"])
        assert reply.status == 405 or (reply.status == 404 and "{" in route.path), (method, reply)


@pytest.mark.promise("W-2")
@ROWS
@pytest.mark.parametrize("right", ["read", "write", "approve", "admin"])
def test_a_token_does_only_what_it_allows(
    server: Served, tokens: dict[str, str], route: ApiRoute, right: str
) -> None:
    """Every row with every right alone; without a token, nothing."""
    reply = send(server, route, tokens[right])
    is_refused = reply.status == 403 and "not_allowed" in reply.codes
    if route.right in ("read", right):
        assert not is_refused or route.name == "relay_conversations", reply
    else:
        assert is_refused, reply
    assert send(server, route, "").status == 401


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.writes and route.right == "write"],
    ids=lambda route: route.name,
)
def test_a_token_s_name_wins_over_every_claim(
    server: Served, tokens: dict[str, str], route: ApiRoute
) -> None:
    """No record bears the name of somebody whom a request only names."""
    ws = server.workspace
    before = ws.changes(None).last
    for name in ("agent", "by", "from_agent", "author", "from", "told_to"):
        send(server, route, tokens["mallory"], body={name: "planner"})
        nested = {"summary": "s", "rationale": "r", "agent": "planner"}
        send(server, route, tokens["mallory"], body={"decisions": [nested], "decision": nested})
        handoff = {**SENT["handoff"], name: "planner", "decisions": [nested]}
        send(server, route, tokens["mallory"], body={"handoff": handoff})
        send(server, route, tokens["mallory"], body={"item": {**SENT["item"], name: "planner"}})
    for entry in ws.changes(before).changes:
        assert entry.author in ("mallory", "passdown"), entry
    via = f"token:{tokens['mallory'].split('_')[1]}"
    for entry in ws.context.deliveries(limit=200):
        written = entry.to_dict()
        author = written.get("from_agent", entry.agent)
        assert written.get("via") != via or author == "mallory", entry


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.writes], ids=lambda route: route.name
)
def test_conditions_and_keys_hold_or_are_refused(
    server: Served, tokens: dict[str, str], route: ApiRoute
) -> None:
    """A condition that can't be kept is refused, and so is a key that is none; the same key twice
    writes once.
    """
    if route.name in SLOW:
        return
    token, ws = tokens["all"], server.workspace
    for given in ('"x"', 'W/"1"', '"1", "2"', '"99999999999999999999"', "1"):
        before = ws.changes(None).last
        reply = send(server, route, token, headers={"If-Match": given})
        assert reply.status in (400, 403, 404, 409, 412, 422), (given, reply)
        assert ws.changes(None).last == before
    if route.takes_key:
        for key in ("", " ", "k" * (MAX_KEY + 1)):
            before = ws.changes(None).last
            reply = send(server, route, token, headers={"Idempotency-Key": key})
            assert reply.status in (400, 403, 404, 409, 422), (key, reply)
            assert ws.changes(None).last == before
        first = send(server, route, token, headers={"Idempotency-Key": f"twice-{route.name}"})
        last = ws.changes(None).last
        again = send(server, route, token, headers={"Idempotency-Key": f"twice-{route.name}"})
        assert (again.status, ws.changes(None).last) == (first.status, last)


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if "cursor" in route.query], ids=lambda route: route.name
)
@pytest.mark.parametrize("cursor", ["-1", "x", "1e3", "9" * 18, "9" * 19, "0", "", "\uff11", "+1"])
def test_a_cursor_leads_to_a_page_or_is_refused(
    server: Served, tokens: dict[str, str], route: ApiRoute, cursor: str
) -> None:
    reply = send(server, route, tokens["all"], query=f"cursor={quote(cursor)}&limit=2")
    refused_by_name(reply)
    if reply.status == 200:
        assert len(reply.document["items"]) <= 2


def test_a_client_goes_on_after_the_server_was_restarted(server: Served) -> None:
    """While it is away, calls say so; a write with a key is there once."""
    ws = server.workspace
    with served(ws) as first, first.opened("mallory", "read", "write") as client:
        before = client.warn("T-2", agent="mallory", text="one", key="restart-1")
        port = first.port
    token = server.token("mallory", "read", "write")
    with passdown.open(f"http://127.0.0.1:{port}", token=token) as client:
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            client.warn("T-2", agent="mallory", text="two", key="restart-2")
        with served(ws, port=port):
            again = client.warn("T-2", agent="mallory", text="one", key="restart-1")
            assert (again.version, again.is_replay) == (before.version, True)
            after = client.warn("T-2", agent="mallory", text="two", key="restart-2")
        with served(ws, port=port):
            assert client.warn("T-2", agent="mallory", text="two", key="restart-2").is_replay
    assert ws.task("T-2").version == after.version


def test_the_store_is_whole_after_all_of_it(server: Served) -> None:
    assert server.workspace.verify().ok
