"""Spans as they leave: programs of their own, and a collector that reads what they send."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from tests.interfaces.relay_stage import handoff, relay_file, says, until
from tests.interfaces.web.asking import ask
from tests.interfaces.web.test_mcp_http import SPEAKS
from tests.interfaces.web.test_process import PROGRAM, run, running
from tests.tracing.collector import collecting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.tracing.collector import Collector

TRACE, SENDER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = {"traceparent": f"00-{TRACE}-{SENDER}-01"}
WORDS = "words that nobody else may read"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    with passdown.open(str(folder)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
    return folder


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield found


def token_of(folder: Path) -> str:
    return (folder / ".passdown" / "serve.token").read_text("ascii").strip()


@pytest.mark.promise("O-1")
def test_a_request_is_a_span_of_its_caller_s_trace(project: Path, collector: Collector) -> None:
    """What it did is below it; who, what and how it ended stand on it, and no words anywhere."""
    with running(project) as server:
        token = token_of(project)
        body = {"task": "T-1", "summary": WORDS, "rationale": WORDS}
        path = "/api/decisions"
        reply = ask(server.port, "POST", path, token=token, body=body, headers=CALLER)
        assert reply.status == 201
        (top,) = collector.named("POST /api/decisions")
        (did,) = collector.named("workspace decide")
        collector.named("store write")
        server.process.send_signal(signal.SIGTERM)
        logged = server.process.communicate(timeout=240)[1]
    assert (top.trace, top.parent, top.kind, top.is_error) == (TRACE, SENDER, "server", False)
    assert (did.trace, did.parent, did.kind) == (TRACE, top.id, "internal")
    assert {child.name for child in collector.children(did)} == {"store read", "create_memory"}
    expected: dict[str, Any] = {
        "http.request.method": "POST",
        "http.route": "/api/decisions",
        "http.response.status_code": 201,
        "url.path": "/api/decisions",
        "url.scheme": "http",
        "server.address": "127.0.0.1",
        "server.port": server.port,
        "client.address": "127.0.0.1",
        "network.protocol.version": "1.1",
        "passdown.operation": "decide",
        "passdown.workspace": f"sqlite:///{project}/.passdown/ledger.db",
        "passdown.task": "T-1",
        "passdown.agent": "kim",
        "passdown.request": reply.headers["x-request-id"],
    }
    assert top.attributes == expected
    assert top.ms >= did.ms > 0
    (line,) = [json.loads(line) for line in logged.splitlines() if "decisions" in line]
    assert (line["trace_id"], line["span_id"]) == (TRACE, top.id)
    assert collector.paths == {"/v1/traces"}
    assert collector.resources[0]["service.name"] == "passdown"
    assert collector.resources[0]["service.version"] == passdown.__version__
    sent = b"".join(collector.raw)
    assert [odd for odd in (WORDS, token, "Login", "Bearer") if odd.encode() in sent] == []


@pytest.mark.promise("O-1")
def test_strangers_don_t_decide_about_traces(project: Path, collector: Collector) -> None:
    """Who isn't let in is told about, in a trace of its own; its query stays where it was."""
    with running(project) as server:
        secret = "pd_" + "x" * 40
        path = f"/api/tasks?token={secret}"
        assert ask(server.port, "GET", path, headers=CALLER).status == 401
        assert ask(server.port, "PROPFIND", "/odd", headers=CALLER).status == 401
        (top,) = [each for each in collector.named("GET") if "http.route" not in each.attributes]
        (odd,) = collector.named("HTTP")
    assert top.trace != TRACE
    assert (top.parent, top.is_error) == ("", False)
    assert top.attributes["http.response.status_code"] == 401
    assert odd.attributes["http.request.method"] == "_OTHER"
    assert secret.encode() not in b"".join(collector.raw)


@pytest.mark.promise("O-1")
def test_errors_are_told_by_their_codes(project: Path, collector: Collector) -> None:
    """What a caller did wrong is no error of the server; what the store can't do is."""
    with running(project) as server:
        token = token_of(project)
        assert ask(server.port, "GET", "/api/tasks/T-9/state", token=token).status == 404
        (top,) = collector.named("GET /api/tasks/{task}/state")
        (did,) = collector.named("workspace state")
        (project / ".passdown" / "ledger.db").write_bytes(b"no database " * 1_000)
        for name in ("ledger.db-wal", "ledger.db-shm"):
            (project / ".passdown" / name).unlink(missing_ok=True)
        status = ask(server.port, "GET", "/api/tasks", token=token).status
        assert status >= 500
        (failed,) = collector.named("GET /api/tasks") + collector.named("GET", 0)[-1:]
    assert not top.is_error
    assert (did.is_error, did.attributes["error.type"]) == (True, "not_found")
    assert did.events == [{"exception.type": "passdown.errors.NotFound"}]
    assert (failed.is_error, failed.attributes["error.type"]) == (True, str(status))


@pytest.mark.promise("O-1", "W-8")
def test_a_tool_called_over_mcp_is_a_span(project: Path, collector: Collector) -> None:
    """It goes on with the trace that the message names, and is linked to its request."""
    with running(project) as server:
        params = {
            "name": "decide",
            "arguments": {"task": "T-1", "summary": WORDS, "rationale": WORDS},
            "_meta": CALLER,
        }
        body = {"jsonrpc": "2.0", "id": WORDS, "method": "tools/call", "params": params}
        token = token_of(project)
        ask(server.port, "POST", "/mcp", token=token, body=body, headers=SPEAKS)
        odd = {**body, "params": {"name": WORDS}}
        ask(server.port, "POST", "/mcp", token=token, body=odd, headers=SPEAKS)
        tops = collector.named("POST /mcp", 2)
        (did,) = collector.named("tools/call decide")
        (refused,) = collector.named("tools/call")
        collector.named("store write")
    assert (did.trace, did.parent, did.kind) == (TRACE, SENDER, "internal")
    assert did.links == [tops[0].id]
    assert did.attributes["gen_ai.tool.name"] == "decide"
    assert did.attributes["mcp.method.name"] == "tools/call"
    assert did.attributes["passdown.agent"] == "kim"
    assert did.attributes["passdown.task"] == "T-1"
    assert "create_memory" in {child.name for child in collector.children(did)}
    assert (refused.is_error, refused.parent) == (True, tops[1].id)
    assert WORDS.encode() not in b"".join(collector.raw)


@pytest.mark.promise("O-1")
def test_a_worker_s_legs_are_spans(project: Path, collector: Collector) -> None:
    agents = {"coder": {"runner": {"command": says(project, "coder", handoff(WORDS))}}}
    relay = relay_file(project, [{"leg": "one", "agent": "coder"}], agents)
    assert run(project, "run", relay, "--task", "T-1", "--detach").returncode == 0
    process = subprocess.Popen(
        [*PROGRAM, "worker"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        (leg,) = collector.named("invoke_agent coder")
        until(lambda: collector.children(leg), "what it wrote")
    finally:
        process.terminate()
        process.communicate(timeout=240)
    assert {"passdown.task": "T-1", "passdown.agent": "coder"}.items() <= leg.attributes.items()
    assert leg.attributes["passdown.run"] == "R-1"
    assert leg.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert leg.attributes["gen_ai.agent.name"] == "coder"
    assert leg.attributes["gen_ai.conversation.id"].startswith("T-1/coder/")
    assert leg.attributes["passdown.outcome"] == "completed"
    assert not leg.is_error
    assert {"store write", "handoff"} <= {child.name for child in collector.children(leg)}
    assert WORDS.encode() not in b"".join(collector.raw)


@pytest.mark.promise("O-1")
def test_a_run_in_the_foreground_has_spans_too(project: Path, collector: Collector) -> None:
    """What `passdown run` executes itself is told about as what a worker does."""
    agents = {"coder": {"runner": {"command": says(project, "coder", handoff(WORDS))}}}
    relay = relay_file(project, [{"leg": "one", "agent": "coder"}], agents)
    assert run(project, "run", relay, "--task", "T-1").returncode == 0
    (leg,) = collector.named("invoke_agent coder")
    assert {"passdown.task": "T-1", "passdown.agent": "coder"}.items() <= leg.attributes.items()
    assert {"store write", "handoff"} <= {child.name for child in collector.children(leg)}
    assert WORDS.encode() not in b"".join(collector.raw)


@pytest.mark.promise("O-1")
def test_calls_on_standard_input_are_spans(project: Path, collector: Collector) -> None:
    """A tool's call goes on with the trace that its message names, else it begins one."""
    decided = {"task": "T-1", "summary": WORDS, "rationale": WORDS}
    calls = [
        {"name": "decide", "arguments": decided, "_meta": CALLER},
        {"name": "decide", "arguments": {**decided, "task": "T-9"}},
    ]
    hello: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello |= {"clientInfo": {"name": "kim", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        *({"id": 2 + n, "method": "tools/call", "params": call} for n, call in enumerate(calls)),
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = subprocess.run(
        [*PROGRAM, "mcp", "--agent", "kim"],
        cwd=project,
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == [1, 2, 3]
    told = sorted(collector.named("tools/call decide", 2), key=lambda span: span.is_error)
    did, failed = told
    assert (did.trace, did.parent, did.is_error) == (TRACE, SENDER, False)
    assert did.attributes["gen_ai.tool.name"] == "decide"
    assert {"passdown.task": "T-1", "passdown.agent": "kim"}.items() <= did.attributes.items()
    assert "create_memory" in {child.name for child in collector.children(did)}
    assert (failed.parent, failed.attributes["passdown.task"]) == ("", "T-9")
    assert failed.trace != TRACE
    assert WORDS.encode() not in b"".join(collector.raw)


LOADED = """
import sys
sys.argv = ["passdown", *sys.argv[1:]]
from passdown.cli.main import run
try:
    run()
finally:
    print("loaded", sorted(n for n in sys.modules if n.startswith("opentelemetry")))
"""


@pytest.mark.promise("O-1")
def test_nothing_is_loaded_for_spans_that_nobody_asked_for(project: Path) -> None:
    for verb in (["brief", "T-1", "--agent", "a"], ["worker", "--list"], ["log"]):
        command = [sys.executable, "-c", LOADED, *verb]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
        assert "loaded []" in done.stdout


def test_a_server_without_a_collector_loads_no_sdk(project: Path) -> None:
    source = (
        "import threading, sys, os, signal, time\n"
        "def leave():\n"
        "    time.sleep(4)\n"
        "    named = [n for n in sys.modules if n.startswith('opentelemetry.sdk')]\n"
        "    print('loaded', named, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=leave, daemon=True).start()\n"
        "sys.argv = ['passdown', 'serve', '--port', '0']\n"
        "from passdown.cli.main import run\n"
        "run()\n"
    )
    command = [sys.executable, "-c", source]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, timeout=240
    )
    assert "loaded []" in done.stdout, done


def test_a_missing_package_is_named_and_the_server_serves(
    project: Path, tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables may be meant for every program of a machine."""
    absent = tmp_path / "absent"
    absent.mkdir()
    hidden = "import sys\nsys.modules['opentelemetry.sdk.trace'] = None\n"
    (absent / "sitecustomize.py").write_text(hidden)
    monkeypatch.setenv("PYTHONPATH", f"{absent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with running(project) as server:
        assert ask(server.port, "GET", "/api/tasks", token=token_of(project)).status == 200
        server.process.send_signal(signal.SIGTERM)
        said = server.process.communicate(timeout=240)[1]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in said
    assert "passdown[otel]" in said
    assert collector.spans == []


def test_a_collector_that_is_away_stops_nobody(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers come as ever, every line of the log is JSON, and the server stops in time."""
    import time

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with running(project, "--log-all") as server:
        token = token_of(project)
        for _ in range(20):
            assert ask(server.port, "GET", "/api/tasks", token=token).status == 200
        time.sleep(1)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        logged = server.process.communicate(timeout=240)[1]
        assert time.monotonic() - began < 100
    lines = [json.loads(line) for line in logged.splitlines()]
    assert {line["event"] for line in lines} >= {"request", "spans"}
