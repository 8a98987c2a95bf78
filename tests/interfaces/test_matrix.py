"""Every operation through every interface: the same input gives the same result and the same error.

Each row of the table has an example of good and of bad input. It is called in Python, in async
code, through the remote client and as a plain HTTP request; on the command line where it has a
verb, over MCP where it has a tool. Each call works on its own copy of one prepared store; those
that are refused share one.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode

import pytest

import passdown
from passdown import Decision, Settings, aio
from passdown.cli.main import main
from passdown.core.access import RIGHTS
from passdown.core.codec import encode
from passdown.errors import PassdownError, ProblemsError
from passdown.mcp.tools import call_tool
from passdown.operations import OPERATION, OPERATIONS, Operation, load
from passdown.testing import full_handoff, write_files
from passdown.workspace.tokens import Tokens
from tests.interfaces.running import data_of
from tests.interfaces.web.asking import ask
from tests.relay.relays import document, leg
from tests.relay.staging import Stage, reply
from tests.serving import Lent, served

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from passdown.core.results import HandoffCommand
    from passdown.workspace import Workspace
    from tests.serving import Served

AT = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)
# Where there is more is said to a client in other words; with enough room, nothing else differs.
QUICK = Settings(durability="normal", embedder="none", switch_budget=1_200)
INTERFACES = ("python", "async", "remote", "http", "cli", "mcp")


class Call(NamedTuple):
    """Arguments of an operation, by position and by name."""

    args: tuple[Any, ...]
    given: dict[str, Any]


def call(*args: Any, **given: Any) -> Call:
    return Call(args, given)


class Of(NamedTuple):
    """An argument that only the prepared workspace has."""

    field: str


class Example(NamedTuple):
    """Good and bad input of an operation, the same as a command and as a tool call."""

    good: Call
    bad: Call
    cli: tuple[str, str] = ("", "")
    mcp: tuple[str, dict[str, Any], dict[str, Any]] | None = None


class Prepared(NamedTuple):
    """A folder with a workspace that has something of everything, to be copied."""

    root: Path
    token: str
    command: HandoffCommand
    forged: HandoffCommand
    heads: dict[str, Any]
    run: str
    stored: str
    summary: str


NOTE = {"id": "x1", "kind": "file_task", "path": "NOTES.md", "content": "hi\n", "reason": "asked"}
DECISION = Decision(summary="Use Redis", rationale="Logout is immediate", agent="kim", at=AT)
NODE = {"id": "Cache", "type": "component", "summary": "Keeps sessions", "tags": ["auth"]}


ADR = "# 1. Use Redis\n\n## Status\n\nAccepted\n\n## Decision\n\nUse it.\n"


def prepare(root: Path) -> Prepared:
    write_files(str(root))
    (root / "agents").mkdir()
    for name in ("planner", "coder"):
        (root / "agents" / f"{name}.md").write_text(f"I am the {name}\n")
    for given in (["init", "-q", "--template="], ["add", "src"]):
        subprocess.run(["git", *given], cwd=root, check=True)
    adr = root / "docs" / "adr"
    adr.mkdir(parents=True)
    (adr / "0001-redis.md").write_text(
        "# 1. Use Redis\n\n## Status\n\nAccepted\n\n## Decision\n\nUse it.\n"
    )
    with passdown.open(str(root / "agents" / "other.db"), settings=QUICK) as other:
        other.create_task("T-8", title="From another store", agent="kim")
        other.maintenance.export(str(root / "in.zip"), "T-8")
    with passdown.open(str(root), settings=QUICK, clock=lambda: AT) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.create_task("T-2", title="Login page", agent="planner", depends_on=["T-1"])
        ws.create_task("T-3", title="Payment", agent="planner")
        question = {"blocker": "Is this legal?", "requires_human": True}
        held = {"task": "T-3", "outcome": "partial", "from_agent": "planner", "to_agent": "coder"}
        steps = [{"step": "ask"}]
        ws.hand_off({**held, "blockers": [question], "suggested_next_steps": steps})
        node = {"id": "Auth", "type": "component", "summary": "Signs in", "tags": ["auth"]}
        edge = {"source": "Auth", "relation": "uses", "target": "T-1#d1"}
        command = ws.hand_off(full_handoff(blockers=[], outcome="completed"))
        ws.knowledge.add([node], [edge], agent="coder")
        stored = ws.decisions.store(DECISION, "T-1")
        ws.brief("T-1", agent="coder")
        ws.context.save_switch("T-1", to_agent="tester")
        ws.relay.send_express({**NOTE, "id": "x0", "by": "kim"})
        ws.create_task("T-4", title="Run", agent="planner")
        again = {"when": {"outcome": "partial"}, "go": "code", "at_most": 3}
        agents: dict[str, Any] = {"coder": {"runner": {"script": "s"}, "limits": {"loops": 1}}}
        agents["helper"] = {"runner": {"command": ["echo", "Yes."]}}
        stage = Stage(ws)
        run = stage.start(document(leg("code", "coder", again), agents=agents), task="T-4")
        stage.advance(run.run, lambda _: reply("partial", summary="half"))
        summary = ws.context.summary("T-1")
        minted = Tokens(ws).new("kim", RIGHTS, by="tests", is_person=True)
        heads, forged = ws.maintenance.heads().to_dict(), command._replace(digest="sha256:0")
        return Prepared(root, minted.token, command, forged, heads, run.run, stored, summary)


UNKNOWN = call(nonsense=1)
"""What an operation without parameters can't be given: a usage error everywhere."""
MIXED = full_handoff("T-2", outcome="completed", blockers=[])


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0] for _ in texts]


NEVER_REFUSING = ("check_handoff", "inbox", "embeddings.update", "maintenance.recover")
"""Operations that answer to anything of the right type; where nothing was lost, to nothing."""

EXAMPLES: dict[str, Example] = {
    "create_task": Example(
        call("T-9", title="New", agent="kim", criteria=["it works"]),
        call("T 9", title="", agent="kim"),
        (
            "task new T-9 --title New --criterion 'it works' --agent kim",
            "task new 'T 9' --title '' --agent kim",
        ),
        (
            "task_new",
            {"task": "T-9", "title": "New", "criteria": ["it works"], "agent": "kim"},
            {"task": "T 9", "title": "", "agent": "kim"},
        ),
    ),
    "update_task": Example(
        call("T-2", agent="kim", title="Page", expect_version=1),
        call("T-2", agent="kim", title="Page", expect_version=7),
        (
            "task set T-2 --title Page --agent kim --expect-version 1",
            "task set T-2 --title Page --agent kim --expect-version 7",
        ),
    ),
    "task": Example(call("T-1"), call("T-9"), ("task show T-1", "task show T-9")),
    "tasks": Example(
        call(limit=2, agent="coder"),
        call(status="nothing"),
        ("task list --limit 2 --agent coder", "task list --status nothing"),
        ("tasks", {"limit": 2, "holder": "coder"}, {"status": "nothing"}),
    ),
    "hand_off": Example(
        call(MIXED, key="k-1"),
        call({"task": "T-2", "outcome": "maybe", "from_agent": "kim", "blockers": [1]}),
        mcp=("handoff", MIXED, {"task": "T-2", "outcome": "maybe", "blockers": [1]}),
    ),
    "check_handoff": Example(
        call(MIXED), call({"task": "T-2", "outcome": "maybe", "from_agent": "kim"})
    ),
    "prepare_handoff": Example(
        call("T-2", "coder", "implementing", from_agent="kim"),
        call("T-2", "coder", "nowhere", from_agent="kim"),
    ),
    "receive_handoff": Example(call(Of("command")), call(Of("forged"))),
    "decide": Example(
        call(agent="kim", summary="Use Redis", rationale="Fast", task="T-1", tags=["auth"]),
        call(agent="kim", summary="", rationale="Fast", task="T-1"),
        (
            "decide 'Use Redis' --why Fast --task T-1 --tag auth --agent kim",
            "decide '' --why Fast --task T-1 --agent kim",
        ),
        (
            "decide",
            {"summary": "Use Redis", "rationale": "Fast", "task": "T-1", "tags": ["auth"]},
            {"summary": "", "rationale": "Fast", "task": "T-1"},
        ),
    ),
    "note": Example(
        call("gotcha", agent="kim", task="T-1", issue="UTC", mitigation="convert", severity="low"),
        call("gotcha", agent="kim", task="T-1", issue="UTC", severity="huge", mitigation="convert"),
        (
            "note gotcha UTC --mitigation convert --severity low --task T-1 --agent kim",
            "",
        ),
        (
            "note",
            {
                "kind": "gotcha",
                "text": "UTC",
                "mitigation": "convert",
                "severity": "low",
                "task": "T-1",
            },
            {
                "kind": "gotcha",
                "text": "UTC",
                "mitigation": "convert",
                "severity": "huge",
                "task": "T-1",
            },
        ),
    ),
    "warn": Example(
        call("T-1", agent="kim", text="Mind the gap"),
        call("T-1", agent="kim", text=""),
        ("warn T-1 'Mind the gap' --agent kim", "warn T-1 '' --agent kim"),
    ),
    "set_status": Example(
        call("T-1#n1", "done", agent="kim"),
        call("T-1#n1", "superseded", agent="kim"),
        ("mark T-1#n1 done --agent kim", "mark T-1#n1 superseded --agent kim"),
    ),
    "gates": Example(
        call(all=True),
        call("T 9"),
        ("gate list --all", ""),
        ("gates", {"all": True}, {"all": "perhaps"}),
    ),
    "record_gate": Example(
        call("T-1", agent="kim", name="lint", passed=True),
        call("T-1", agent="kim", name="", passed=True),
        (
            "gate record T-1 --name lint --passed --agent kim",
            "gate record T-1 --name '' --passed --agent kim",
        ),
    ),
    "approve": Example(
        call("T-3#k1", by="kim", reason="it is"),
        call("T-3#k9", by="kim"),
        ("gate approve T-3#k1 --by kim --reason 'it is'", "gate approve T-3#k9 --by kim"),
    ),
    "reject": Example(
        call("T-3#k1", by="kim", reason="not yet"),
        call("T-3#k1", by="kim", reason=""),
        (
            "gate reject T-3#k1 --by kim --reason 'not yet'",
            "gate reject T-3#k1 --by kim --reason ''",
        ),
    ),
    "state": Example(call("T-1", 1), call("T-1", 99)),
    "log": Example(call("T-1", limit=2), call("T-9"), ("log T-1 --limit 2", "log T-9")),
    "changes": Example(call(None, limit=5), call(-1)),
    "show": Example(
        call("T-1#d1"),
        call("T-1#d99"),
        ("show T-1#d1", "show T-1#d99"),
        ("show", {"id": "T-1#d1"}, {"id": "T-1#d99"}),
    ),
    "diff": Example(call("T-1", 1, 2), call("T-1", 1, 99), ("diff T-1 1 2", "diff T-1 1 99")),
    "inbox": Example(call("coder"), call("two words"), ("inbox coder", "")),
    "artifacts": Example(call("T-1"), call("T-9")),
    "brief": Example(
        call("T-1", agent="coder", budget=400, counter="chars4", record=False),
        call("T-1", agent="coder", budget=0, record=False),
        (
            "brief T-1 --agent coder --budget 400 --counter chars4 --no-record",
            "brief T-1 --agent coder --budget 0 --no-record",
        ),
        ("brief", {"task": "T-1", "agent": "coder"}, {"task": "T-9", "agent": "coder"}),
    ),
    "switch": Example(
        call("T-1", to_agent="coder", from_agent="planner", record=False),
        call("T-1", to_agent="two words", record=False),
    ),
    "recall": Example(
        call("cookie", limit=3, by_words=True),
        call("cookie", kinds=["nothing"], by_words=True),
        ("", "recall cookie --kind nothing --words"),
        ("recall", {"query": "cookie", "limit": 3}, {"query": "cookie", "kind": "nothing"}),
    ),
    "verify": Example(call(Of("heads")), call("no heads"), ("verify", "")),
    "context.check_preconditions": Example(
        call("T-1", agent="kim"),
        call("T-9", agent="kim"),
        ("check T-1 --agent kim", "check T-9 --agent kim"),
    ),
    "context.deliveries": Example(call("T-1", limit=5), call("T 9", limit=5)),
    "context.why": Example(
        call("T-1#d1", agent="coder"),
        call("T-1#d99", agent="coder"),
        ("why T-1#d1 --agent coder", "why T-1#d99 --agent coder"),
    ),
    "context.prompt": Example(
        call("@coder go on", task="T-1", active="planner", record=False),
        call("@coder go on", task="T-9", active="planner", record=False),
    ),
    "context.summary": Example(
        call("T-1", 200), call("T-9", 200), ("summary T-1 --budget 200", "summary T-9")
    ),
    "context.check": Example(call("T-1", Of("summary")), call("T-9", Of("summary"))),
    "context.left_out": Example(call("T-1", agent="coder", budget=40), call("T-9", agent="coder")),
    "context.injection": Example(call("T-2"), call("T-9")),
    "context.computed": Example(call("T-2", "complex"), call("T-2", "nothing")),
    "context.compact": Example(call("T-1"), call("T-9")),
    "context.next_steps": Example(call("T-1"), call("T-9")),
    "context.handoff_context": Example(call("T-1", agent="coder"), call("T-9")),
    "context.subagent_prompt": Example(call("coder", "Do it"), call("nobody", "Do it")),
    "context.save_switch": Example(
        call("T-1", to_agent="tester", from_agent="coder"), call("T-1", to_agent="two words")
    ),
    "context.saved_switches": Example(call(task="T-1"), call()),
    "context.compaction": Example(call(10), UNKNOWN),
    "context.profile": Example(call("coder"), call()),
    "context.executor": Example(call("review"), UNKNOWN),
    "context.agents": Example(call(), UNKNOWN),
    "rules.inject": Example(call("hello", session="s"), call("hello", session="")),
    "rules.report": Example(call(), UNKNOWN),
    "decisions.store": Example(
        call(Decision(summary="Use JWT", rationale="why", agent="kim", at=AT), "T-1"),
        call(Decision(summary="", rationale="why", agent="kim", at=AT), "T-1"),
    ),
    "decisions.get": Example(call(Of("stored"), "T-1"), call("nothing", "T-1")),
    "decisions.address": Example(call(Of("stored"), "T-1"), call("nothing", "T-1")),
    "files.load": Example(call("T-1"), call()),
    "files.state_document": Example(call("T-1"), call("T-9"), ("state T-1", "state T-9")),
    "files.state_file": Example(call("T-1"), call("T-9")),
    "files.history": Example(
        call("T-1", "src/auth/jwt.py"),
        call("T-9", "src/auth/jwt.py"),
        ("history T-1 src/auth/jwt.py", "history T-9 src/auth/jwt.py"),
    ),
    "files.inline_plan": Example(call("T-1", 500), call("T-9", 500)),
    "files.checkout": Example(call(), UNKNOWN),
    "knowledge.add": Example(
        call([NODE], [{"source": "Cache", "relation": "uses", "target": "Auth"}], agent="kim"),
        call([{**NODE, "type": "nothing"}], agent="kim"),
    ),
    "knowledge.relate": Example(
        call("Auth", "relates_to", "T-2", agent="kim"), call("Auth", "", "T-2", agent="kim")
    ),
    "knowledge.written": Example(call(1), UNKNOWN),
    "knowledge.graph": Example(call(task="T-1", depth=2), call(types=["nothing"])),
    "knowledge.render": Example(call("dot", task="T-1"), call("nothing")),
    "knowledge.edges": Example(call(source="Auth"), UNKNOWN),
    "knowledge.neighbours": Example(
        call("Auth", depth=3, direction="both"), call("Auth", direction="up")
    ),
    "knowledge.tagged": Example(call(["auth"], limit=5), call(["auth"], limit=0)),
    "knowledge.tasks_about": Example(call("auth", types=["pattern"]), call("auth", types=["x"])),
    "knowledge.pack": Example(
        call("T-2", nodes=5), call("T-2", nodes=0), ("", "knowledge pack T-2 --nodes 0")
    ),
    "knowledge.sync": Example(call(agent="kim"), call("/etc/passwd", agent="kim")),
    "knowledge.journal": Example(
        call("T-1"), call("T-1", limit=0), ("journal T-1", "journal T-1 --limit 0")
    ),
    "knowledge.audit": Example(call(limit=5), call(limit=0), ("audit --limit 5", "")),
    "imports.run": Example(call("docs/adr", agent="kim"), call("nowhere", agent="kim")),
    "imports.migrate": Example(
        call(
            "# Notes\n\nWe decided to use Redis because logout is immediate.\n",
            agent="kim",
            task="T-1",
        ),
        call("nowhere.md", agent="kim", task="T-1"),
    ),
    "embeddings.update": Example(call(limit=1), call(limit=-1)),
    "embeddings.use": Example(call("mine", embed), call("", None)),
    "embeddings.status": Example(call(), UNKNOWN),
    "maintenance.heads": Example(call(), UNKNOWN, ("heads export", "")),
    "maintenance.backup": Example(
        call("copy.db"), call("agents"), ("backup copy.db", "backup agents")
    ),
    "maintenance.export": Example(call("out.zip", "T-1"), call("out.zip", "T-9")),
    "maintenance.import_bundle": Example(call("in.zip", agent="kim"), call("src/config.py")),
    "maintenance.reindex": Example(call(), UNKNOWN, ("reindex", "")),
    "maintenance.recover": Example(call("T-1", by="kim"), call("T-1", by="two words")),
    "maintenance.attention": Example(call(), call(limit=0)),
    "maintenance.doctor": Example(call(), UNKNOWN, ("", "")),
    "relay.runs": Example(call(), call("nothing")),
    "relay.run": Example(call(Of("run")), call("R-99")),
    "relay.resume": Example(call(Of("run"), by="kim"), call("R-99", by="kim")),
    "relay.answer": Example(
        call(Of("run"), "continue", by="kim"), call(Of("run"), "nothing", by="kim")
    ),
    "relay.stop": Example(call(Of("run"), by="kim", reason="obsolete"), call("R-99", by="kim")),
    "relay.replay": Example(
        call(Of("run"), "code", by="kim"), call(Of("run"), "nothing", by="kim")
    ),
    "relay.replays": Example(call(Of("run")), call("R-99")),
    "relay.ask": Example(
        call(Of("run"), "helper", "Fine?", by="kim"), call(Of("run"), "nobody", "Fine?", by="kim")
    ),
    "relay.workers": Example(call(), UNKNOWN),
    "relay.agents": Example(call(), UNKNOWN),
    "relay.conversations": Example(call("T-4", "coder"), call("T-4")),
    "relay.express_items": Example(call("sent"), UNKNOWN),
    "relay.express_item": Example(call("x0"), call("x9")),
    "relay.send_express": Example(
        call({**NOTE, "by": "kim"}), call({"kind": "nothing", "by": "kim"})
    ),
}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="session")
def server(prepared: Prepared) -> Iterator[tuple[Served, Lent]]:
    """One server for all cases; each case lends it another copy."""
    with passdown.open(str(prepared.root), settings=QUICK) as first:
        lent = Lent(first)
        with served(first, lent=lent) as found:
            yield found, lent


class Outcome(NamedTuple):
    """What a call gave: a result as JSON, or an error; and the tasks' states afterwards."""

    result: Any
    error: Any
    states: Any


class Bench:
    """Calls one operation through each interface, on a copy for each."""

    def __init__(self, prepared: Prepared, server: tuple[Served, Lent], folder: Path) -> None:
        self.prepared = prepared
        self.server, self.lent = server
        self.folder = folder
        self._shared: Workspace | None = None

    @contextmanager
    def sharing(self) -> Generator[None]:
        """One copy for all calls meanwhile: what is refused changes nothing."""
        with self.copy("shared") as self._shared:
            yield
        self._shared = None

    @contextmanager
    def copy(self, interface: str) -> Generator[Workspace]:
        """A copy of the prepared project, which is the current folder meanwhile."""
        if self._shared is not None:
            yield self._shared
            return
        root = self.folder / "project"
        shutil.copytree(self.prepared.root, root, symlinks=True)
        back = os.getcwd()
        os.chdir(root)
        try:
            with passdown.open(str(root), settings=QUICK, clock=lambda: AT) as ws:
                yield ws
        finally:
            os.chdir(back)
            shutil.move(root, self.folder / interface)

    def outcome(self, interface: str, operation: Operation, given: Call) -> Outcome:
        with self.copy(interface) as ws:
            self.lent.lent = ws
            try:
                found = getattr(self, f"_{interface}")(ws, operation, given)
                result, error = plain(found), None
            except (PassdownError, TypeError) as refused:
                result, error = None, error_of(refused)
            return Outcome(result, error, self._states(ws))

    def _python(self, ws: Workspace, operation: Operation, given: Call) -> Any:
        return encode(attrgetter(operation.name)(ws)(*given.args, **given.given))

    def _async(self, ws: Workspace, operation: Operation, given: Call) -> Any:
        async def run() -> Any:
            awaited = aio.AsyncWorkspace(ws)
            return await attrgetter(operation.name)(awaited)(*given.args, **given.given)

        return encode(asyncio.run(run()))

    def _remote(self, ws: Workspace, operation: Operation, given: Call) -> Any:
        with passdown.open(self.server.url, token=self.prepared.token) as remote:
            return encode(attrgetter(operation.name)(remote)(*given.args, **given.given))

    def _http(self, ws: Workspace, operation: Operation, given: Call) -> Any:
        method, path, body, headers = http_request(operation, given)
        reply = ask(
            self.server.port, method, path, token=self.prepared.token, body=body, headers=headers
        )
        if reply.status >= 400:
            raise HttpError(reply.document)
        if operation.media:
            return reply.body.decode("utf-8", "replace")
        found = reply.document
        kind = load(operation.function).__annotations__["return"]
        for prefix, field in (("list", "items"), ("tuple", "items"), ("str", "text")):
            if kind.startswith(prefix):
                return found[field]
        return found["value"] if kind in ("bool", "int") else found

    def command(self, interface: str, line: str) -> Outcome:
        """What a command prints as JSON."""
        with self.copy(interface) as ws:
            out, err = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                code = main([*shlex.split(line), "--json"])
            said = data_of(out.getvalue() or err.getvalue())
            error = None
            if code and "error" in said:
                error = (said["error"], sorted(p["code"] for p in said.get("problems", ())))
            return Outcome(plain(said), error, self._states(ws))

    def tool(self, interface: str, name: str, given: dict[str, Any]) -> Outcome:
        """What a tool says."""
        with self.copy(interface) as ws:
            answer = call_tool(cast("Any", Lent(ws)), name, given, "kim")
            error = answer.text if answer.is_error else None
            return Outcome(answer.text, error, self._states(ws))

    def prepared_handoff(self, interface: str) -> PreparedSteps:
        """Prepare a handoff, record it, and try to record another that is old by then."""
        with self.copy(f"prepared by {interface}") as ws:
            self.lent.lent = ws
            send = getattr(self, f"_send_{interface}")
            before = self._states(ws)
            command = send(ws, MIXED, True)
            late = send(ws, {**MIXED, "summary": "Something else."}, True)
            unchanged = self._states(ws)
            recorded = send(ws, command, False)
            try:
                send(ws, late, False)
                stale = ""
            except PassdownError as error:
                stale = error.code
            return PreparedSteps(before, command, unchanged, recorded, stale, self._states(ws))

    def _send_python(self, ws: Workspace, handoff: dict[str, Any], dry_run: bool) -> Any:
        if dry_run:
            return encode(ws.prepare_handoff(**handoff))
        return encode(ws.hand_off(handoff))

    def _send_async(self, ws: Workspace, handoff: dict[str, Any], dry_run: bool) -> Any:
        async def run() -> Any:
            own = aio.AsyncWorkspace(ws)
            if dry_run:
                return await own.prepare_handoff(**handoff)
            return await own.hand_off(handoff)

        return encode(asyncio.run(run()))

    def _send_remote(self, ws: Workspace, handoff: dict[str, Any], dry_run: bool) -> Any:
        with passdown.open(self.server.url, token=self.prepared.token) as remote:
            return self._send_python(remote, handoff, dry_run)

    def _send_http(self, ws: Workspace, handoff: dict[str, Any], dry_run: bool) -> Any:
        body = {"handoff": handoff, "dry_run": dry_run}
        token = self.prepared.token
        reply = ask(self.server.port, "POST", "/api/handoffs", token=token, body=body)
        if reply.status >= 400:
            raise HttpError(reply.document)
        assert reply.status == (200 if dry_run else 201)
        return reply.document

    def _send_cli(self, ws: Workspace, handoff: dict[str, Any], dry_run: bool) -> Any:
        file = "given.json"
        with open(file, "w", encoding="utf-8") as given:
            json.dump(handoff, given)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["handoff", file, "--json", *(["--dry-run"] if dry_run else [])])
        said = data_of(out.getvalue() or err.getvalue())
        if code:
            raise PassdownError(said["message"], code=said["error"])
        return said["command"] if dry_run else said

    def _states(self, ws: Workspace) -> Any:
        return [plain(ws.files.state_document(task.task)) for task in ws.tasks()]


class PreparedSteps(NamedTuple):
    """States and answers around a handoff that was prepared and recorded."""

    before: Any
    command: dict[str, Any]
    prepared_states: Any
    recorded: dict[str, Any]
    stale: str
    states: Any


class HttpError(PassdownError):
    """A problem document."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(document["detail"], code=document["code"])
        self.document = document


def http_request(operation: Operation, given: Call) -> tuple[str, str, Any, dict[str, str]]:
    """A call as a request, spelled by the conventions of the table and by nothing of the client."""
    bound = inspect.signature(load(operation.function)).bind_partial(None, *given.args)
    arguments = {**dict(list(bound.arguments.items())[1:]), **given.given}
    method, _, path = operation.http.partition(" ")
    path = re.sub(r"\[(.*?)\]", lambda m: m[1] if arguments.get("task") else "", path)
    if missing := set(re.findall(r"{(\w+)}", path)) - arguments.keys():
        raise TypeError(f"{missing} belong into the path")
    path = re.sub(r"{(\w+)}", lambda m: quote(str(arguments.pop(m[1])), safe=""), path)
    headers: dict[str, str] = {}
    if operation.right != "read" and (key := arguments.pop("key", None)) is not None:
        headers["Idempotency-Key"] = key
    if (version := arguments.pop("expect_version", None)) is not None:
        headers["If-Match"] = f'"{version}"'
    arguments = encode(arguments)
    if method != "GET":
        return method, path, arguments, headers
    words = {name: _word(value) for name, value in arguments.items()}
    return method, path + ("?" + urlencode(words, doseq=True) if words else ""), None, headers


def _word(value: Any) -> Any:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value


_CHANGING = frozenset(
    "at digest previous via bytes created_at updated_at handoff_at phase_started_at seq key "
    "checksum timestamp saved_at file path artifact_file full_record state_file since seconds "
    "commit size_bytes tokens parts budget total_bytes ms duration_ms".split()
)
"""What differs between two copies, between two moments, or between a server and its client."""
_PLACES = re.compile(
    r"(State: |State file: |More: |passdown state T-\d+, or GET )\S.*"
    r"|/api/tasks/\S*|/\S*/(project|python|async|remote|http|cli|mcp)\b|\.passdown/\S*|sha256:[0-9a-f]+"
)


_METHODS = re.compile(r'ws\.(state|show|log)\("([^"]*)"\)')
"""What a brief names in a program, where it names commands in a terminal."""


def plain(value: Any) -> Any:
    """A result as JSON, without what differs between two copies of a store."""
    if isinstance(value, str):
        return _PLACES.sub("", _METHODS.sub(r"passdown \1 \2", value))
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return {name: plain(part) for name, part in entries if name not in _CHANGING}
    if isinstance(value, list | tuple):
        return [plain(part) for part in cast("list[Any]", value)]
    return value


def are(kind: Any, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


def differing(found: Any, expected: Any, path: str = "") -> list[str]:
    """Where two plain values differ."""
    if are(dict, found, expected):
        names = sorted(found.keys() | expected.keys())
        return [d for n in names for d in differing(found.get(n), expected.get(n), f"{path}.{n}")]
    if are((list, tuple), found, expected) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return [d for n, pair in pairs for d in differing(*pair, f"{path}[{n}]")]
    return [] if found == expected else [f"{path}: {found!r} != {expected!r}"]


def within(printed: Any, result: Any) -> Any:
    """What a command prints of a result: it may add fields, and wrap a text or a list in some."""
    if are(dict, printed) and not are(dict, result):
        kept = [value for value in printed.values() if type(value) is type(result)]
        printed = result if result in kept else kept[0]
    if are(dict, printed, result):
        return {name: within(printed.get(name), part) for name, part in result.items()}
    if are(list, printed, result) and len(printed) == len(result):
        return [within(*pair) for pair in zip(printed, result, strict=True)]
    return printed


def error_of(error: PassdownError | TypeError) -> Any:
    """Code of an error, with places and codes of its problems; usage errors have none."""
    if isinstance(error, TypeError):
        return "usage"
    if isinstance(error, HttpError):
        found = {(p["path"], p["code"]) for p in error.document.get("problems", ())}
        is_usage = found & {("nonsense", "unknown_filter"), ("nonsense", "unknown_field")}
        return "usage" if is_usage else (error.code, sorted(found))
    problems = error.problems if isinstance(error, ProblemsError) else ()
    return error.code, sorted((problem.path, problem.code) for problem in problems)


@pytest.fixture
def bench(prepared: Prepared, server: tuple[Served, Lent], tmp_path: Path) -> Bench:
    return Bench(prepared, server, tmp_path)


EVERY = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def test_every_operation_has_an_example() -> None:
    assert list(EXAMPLES) == list(OPERATION)


@pytest.mark.promise("W-7", "W-10")
@pytest.mark.parametrize("kind", ["good", "bad"])
@EVERY
def test_every_interface_gives_the_same(bench: Bench, operation: Operation, kind: str) -> None:
    is_refused = kind == "bad" and operation.name not in NEVER_REFUSING
    with bench.sharing() if is_refused else nullcontext():
        check_every_interface(bench, operation, kind)


def check_every_interface(bench: Bench, operation: Operation, kind: str) -> None:
    example = EXAMPLES[operation.name]
    given: Call = example.bad if kind == "bad" else example.good
    args = [getattr(bench.prepared, a.field) if isinstance(a, Of) else a for a in given.args]
    given = Call(tuple(args), given.given)
    expected = bench.outcome("python", operation, given)
    if operation.name not in NEVER_REFUSING:
        assert (expected.error is not None) is (kind == "bad"), expected
    assert not differing(bench.outcome("async", operation, given), expected)
    remote = bench.outcome("remote", operation, given)
    if operation.instead[0]:
        assert remote.error == ("not_offered", [])
    else:
        assert not differing(remote, expected)
    if operation.http and not operation.has_client:
        assert not differing(bench.outcome("http", operation, given), expected)
    if line := example.cli[kind == "bad"]:
        printed = bench.command("cli", line)
        assert not differing(printed.states, expected.states)
        if kind == "good":
            assert not differing(within(printed.result, expected.result), expected.result)
        else:
            code, problems = expected.error
            usual = (code, sorted(code for _, code in problems))
            assert printed.error in (usual, ("usage_error", []))
    if example.mcp:
        name, *calls = example.mcp
        said = bench.tool("mcp", name, calls[kind == "bad"])
        assert (said.error is not None) is (kind == "bad"), said.result
        assert not differing(said.states, expected.states)


@pytest.mark.promise("S1-22", "W-10")
@pytest.mark.parametrize("interface", ["async", "remote", "http", "cli"])
def test_a_handoff_is_prepared_and_recorded_alike(bench: Bench, interface: str) -> None:
    """Preparing shows the same changes and records nothing; recording is refused once it is old."""
    steps = bench.prepared_handoff(interface)
    assert steps.before == steps.prepared_states
    assert steps.command["prepared"]["expect_version"] == 1
    assert (steps.command["version"], steps.command["digest"]) == (2, "")
    python = bench.prepared_handoff("python")
    assert not differing(plain(steps.command), plain(python.command))
    assert not differing(steps.states, python.states)
    assert steps.recorded["version"] == 2
    assert steps.recorded["state_delta"]["set"].keys() == steps.command["state_delta"]["set"].keys()
    assert steps.stale == "conflict"


NUMBERS = [
    (operation, name, value)
    for operation in OPERATIONS
    for name, kind in load(operation.function).__annotations__.items()
    if kind in ("int", "int | None") and not operation.instead[0]
    for value in (True, 0)
    if value or (name == "limit" and load(operation.function).__kwdefaults__[name] != value)
]


@pytest.mark.promise("W-10")
@pytest.mark.parametrize(("operation", "name", "value"), NUMBERS)
def test_a_number_is_refused_alike_by_every_interface(
    bench: Bench, operation: Operation, name: str, value: object
) -> None:
    """What is no whole number, and a page of nothing: the same place, the same code."""
    good = EXAMPLES[operation.name].good
    bound = inspect.signature(load(operation.function)).bind_partial(None, *good.args)
    arguments = {**dict(list(bound.arguments.items())[1:]), **good.given, name: value}
    given = Call(
        (),
        {
            n: getattr(bench.prepared, v.field) if isinstance(v, Of) else v
            for n, v in arguments.items()
        },
    )
    interfaces = ["python", "async", "remote"]
    # Two have a place of their own there: a header, and the cursor of a page.
    if (
        operation.http
        and not operation.has_client
        and name not in ("expect_version", operation.paged)
    ):
        interfaces.append("http")
    code = "not_an_integer" if value else "out_of_range"
    with bench.sharing():
        for interface in interfaces:
            found = bench.outcome(interface, operation, given)
            assert found.error == ("invalid_input", [(name, code)]), interface


@pytest.mark.promise("W-10")
def test_what_a_server_does_not_offer_is_a_short_list_with_a_way_out() -> None:
    """None reaches for a store that isn't there; a new operation has to choose."""
    for row in OPERATIONS:
        assert row.http or row.has_client or row.on_workspace or row.instead[0], row.name
        assert not row.instead[0] or len(row.instead[1]) > 20
    assert [row.name for row in OPERATIONS if row.instead[0]] == [
        "rules.inject",
        "rules.report",
        "files.state_file",
        "imports.run",
        "imports.migrate",
        "embeddings.use",
        "relay.replay",
    ]


def test_few_operations_need_a_function_of_their_own() -> None:
    """Each one is a place where two interfaces could disagree."""
    assert sum(row.has_handler + row.has_client for row in OPERATIONS) <= 18


@EVERY
def test_a_closed_client_refuses(server: tuple[Served, Lent], operation: Operation) -> None:
    remote = passdown.open(server[0].url, token="pd_closed")
    remote.close()
    with pytest.raises(PassdownError, match="the workspace is closed"):
        attrgetter(operation.name)(remote)()


@pytest.mark.promise("W-10")
def test_what_a_client_is_told_names_no_file_of_the_server(bench: Bench) -> None:
    """Where there is more is a command or an address that the client can use, and it answers."""
    with (
        bench.copy("remote") as ws,
        passdown.open(bench.server.url, token=bench.prepared.token) as there,
    ):
        bench.lent.lent = ws
        told = [
            there.context.summary("T-1"),
            there.switch("T-1", to_agent="coder", record=False).text,
            *there.brief("T-1", agent="coder", record=False).reach,
            *(e["artifact"]["full_record"] for e in there.context.saved_switches(task="T-1")),
        ]
        assert [text for text in told if ".passdown/" in text] == []
        assert "State: passdown state T-1, or GET /api/tasks/T-1/state" in told[0]
        assert "More: passdown state T-1" in told[1]
