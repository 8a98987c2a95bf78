"""Bare lines on the server's pipes: broken ones, huge ones, and clients that leave."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown.mcp.stdio import MAX_LINE
from passdown.mcp.tools import MAX_CHARACTERS, MAX_PROBLEMS
from tests.interfaces.mcp.talking import COMMAND, Pipes, environment
from tests.processes import run_python

if TYPE_CHECKING:
    from pathlib import Path

PARSE_ERROR, INVALID_REQUEST = -32700, -32600

HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "pipes", "version": "1"},
}


def answered(server: Pipes) -> dict[str, Any]:
    return json.loads(server.line())


def text_of(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


@pytest.mark.promise("M-5")
@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (bytes.fromhex("fffe007b"), None, PARSE_ERROR),
        (b"this is no JSON", None, PARSE_ERROR),
        (b"[" * 100_000, None, PARSE_ERROR),
        (b"[]", None, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 9}', 9, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 5}', "a", INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 3, "method": "ping"}', 3, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "x": "\\ud800"}', 4, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', None, INVALID_REQUEST),
    ],
    ids="bytes words deep batch no-method method version surrogate surrogate-id".split(),
)
def test_a_line_that_is_no_message_is_answered_and_the_server_goes_on(
    project: Path, line: bytes, number: object, code: int
) -> None:
    """The first line of all, so that nothing was agreed on yet."""
    with Pipes(project) as server:
        server.write(line + b"\n  \n")  # the empty line says nothing and gets no answer
        answer = answered(server)
        assert (answer["id"], answer["error"]["code"]) == (number, code)
        server.shake_hands()
        server.ask(1, "tasks")
        assert text_of(answered(server)).startswith("No tasks yet")


@pytest.mark.promise("M-5")
def test_a_notification_gets_no_answer_whatever_is_in_it(project: Path) -> None:
    with Pipes(project) as server:
        server.write(
            b'{"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "\\ud800"}}\n'
        )
        server.shake_hands()  # its answer is the first


@pytest.mark.promise("M-5")
def test_huge_arguments_are_refused_in_a_few_words(project: Path) -> None:
    numbers = [f"gone-{number}.py" for number in range(20_000)]
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("decide", {"summary": "x" * 5_000_000, "rationale": "y"}, "5,000,000 characters"),
        ("decide", {"summary": "x", "rationale": "y", "tags": numbers}, "tags: 20,000"),
        ("handoff", {"task": "T-1", "outcome": "completed", "files": numbers}, "files: 20,000"),
        ("tasks", {"q" * 1_000_000: 1}, "is unknown"),
        ("show", {"id": "z" * 1_000_000}, "there is no task"),
        ("show", {"id": "T-1", "version": 10**400}, "version: "),
        ("recall", {"query": "y" * 1_000_000}, "query: "),
    ]
    with Pipes(project) as server:
        server.shake_hands()
        for number, (name, arguments, expected) in enumerate(calls, 1):
            server.ask(number, name, **arguments)
            answer = answered(server)
            assert answer["result"]["isError"]
            assert expected in text_of(answer)
            assert text_of(answer).count("\n") <= MAX_PROBLEMS + 2
            assert len(text_of(answer)) < MAX_CHARACTERS
    with passdown.open(str(project)) as ws:
        assert ws.tasks() == []


def said(messages: list[dict[str, Any]]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


@pytest.mark.promise("M-6")
def test_calls_that_were_written_are_answered_though_the_client_closed_its_end(
    project: Path,
) -> None:
    calls: list[tuple[str, dict[str, str]]] = [
        ("task_new", {"task": "T-1", "title": "Login"}),
        ("tasks", {}),
        ("gates", {}),
    ]
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": HANDSHAKE},
        {"method": "notifications/initialized"},
    ]
    messages += [
        {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    done = run_python(
        [sys.executable, *COMMAND],
        cwd=project,
        env=environment(),
        input=said(messages),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert sorted(answers) == [0, 1, 2, 3]
    assert text_of(answers[1]) == "Recorded: T-1 version 1."
    assert done.stderr == ""


@pytest.mark.promise("M-6")
@pytest.mark.parametrize("half", ["", '{"jsonrpc": "2.0", "id": 0, "met'])
def test_a_client_that_leaves_at_once_leaves_no_process_behind(project: Path, half: str) -> None:
    done = run_python(
        [sys.executable, *COMMAND],
        cwd=project,
        env=environment(),
        input=half,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == bool(half)


@pytest.mark.promise("M-6")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_ends_it_while_it_waits_for_its_client(project: Path, number: int) -> None:
    with Pipes(project) as server:
        server.shake_hands()
        server.process.send_signal(number)
        assert server.process.wait(240) == -number


def _run(connection: Any, statement: str) -> None:
    connection.execute(statement)


@pytest.mark.promise("M-6")
def test_a_call_that_is_called_off_holds_nobody_up_and_is_whole_or_not_at_all(
    project: Path,
) -> None:
    with Pipes(project) as server:
        server.shake_hands()
        server.ask(1, "task_new", task="T-1", title="Login")
        assert text_of(answered(server)).startswith("Recorded")
        frozen = apsw.Connection(str(project / ".passdown" / "ledger.db"))
        _run(frozen, "BEGIN IMMEDIATE")
        server.ask(2, "decide", summary="late", rationale="y", task="T-1")
        server.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
        server.ask(3, "tasks")
        assert answered(server)["id"] == 3
        _run(frozen, "ROLLBACK")
        frozen.close()
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(240) == 0
    with passdown.open(str(project)) as ws:
        assert ws.verify().ok
        again = ws.decide(agent="pipes", summary="late", rationale="y", task="T-1")
        assert again.version == 2


@pytest.mark.promise("M-6")
def test_a_server_whose_client_left_does_not_wait_for_a_frozen_writer_for_long(
    project: Path,
) -> None:
    config = project / ".passdown" / "config.toml"
    config.write_text("[store]\nlock_timeout_s = 2\n", "utf-8")
    with Pipes(project) as server:
        server.shake_hands()
        server.ask(1, "tasks")
        answered(server)
        frozen = apsw.Connection(str(project / ".passdown" / "ledger.db"))
        _run(frozen, "BEGIN IMMEDIATE")
        server.ask(2, "decide", summary="late", rationale="y")
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert "locked by another writer" in text_of(answered(server))
        assert server.process.wait(240) == 0
        _run(frozen, "ROLLBACK")
        frozen.close()


@pytest.mark.promise("M-5")
def test_a_message_that_is_far_too_long_is_refused_and_the_next_one_is_read(project: Path) -> None:
    with Pipes(project) as server:
        server.shake_hands()
        head = b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"'
        server.write(head + b"x" * MAX_LINE + b'"}\n')
        refused = answered(server)
        assert (refused["id"], refused["error"]["code"]) == (None, INVALID_REQUEST)
        assert "67,108,864 bytes" in refused["error"]["message"]
        server.send({"id": 2, "method": "ping"})
        assert answered(server) == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.promise("M-6")
def test_a_client_that_writes_much_before_it_reads_gets_all_answers(project: Path) -> None:
    """More than pipes hold, both ways: nobody may wait for the other for ever."""
    count = 600
    with Pipes(project) as server:
        server.shake_hands()
        for number in range(count):
            server.send({"id": number, "method": "tools/list", "params": {"pad": "x" * 1_000}})
        found = [answered(server) for _ in range(count)]
        assert sorted(answer["id"] for answer in found) == list(range(count))
        assert len({len(answer["result"]["tools"]) for answer in found}) == 1


@pytest.mark.promise("M-5")
def test_strange_messages_leave_the_server_working(project: Path) -> None:
    """Responses that nobody waits for, cancelled calls that there are none of, odd parameters."""
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    unanswered: list[dict[str, Any]] = [
        {"id": 77, "result": {}},
        {"id": "passdown-0", "error": {"code": 1, "message": "no"}},
        {"method": "notifications/cancelled"},
        {"method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"method": "tools/call", "params": {"name": "task_new", "arguments": {"title": "Sly"}}},
    ]
    refused: list[tuple[str, Any, int]] = [
        ("tools/call", {"name": "tasks", "arguments": []}, -32602),
        ("tools/call", {"name": None}, -32602),
        ("tools/call", {}, -32602),
        ("resources/read", {"uri": 5}, -32602),
        ("resources/list", {"cursor": {}}, -32602),
        ("prompts/get", {"name": "resume", "arguments": {"task": 5}}, -32602),
        ("tasks/get", {"taskId": deep}, -32602),
        ("logging/setLevel", {"level": "debug"}, -32601),
        ("tools/list\u0000", {}, -32601),
        ("x" * 100_000, {}, -32601),
    ]
    with Pipes(project) as server:
        server.shake_hands()
        server.send(*unanswered)
        for number, (method, params, code) in enumerate(refused):
            server.send({"id": number, "method": method, "params": params})
            answer = answered(server)
            assert (answer["id"], answer["error"]["code"]) == (number, code), method
            assert len(json.dumps(answer)) < 1_000
        server.ask(50, "tasks", status=deep, **{"x": deep})
        assert answered(server)["result"]["isError"]
        for _ in range(2):  # the same id twice at once: both are answered
            server.send({"id": 51, "method": "ping"})
        assert [answered(server)["id"] for _ in range(2)] == [51, 51]
        server.ask(52, "tasks")
        assert text_of(answered(server)).startswith("No tasks yet")
