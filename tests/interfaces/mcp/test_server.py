"""The real server in a process of its own, spoken to by the real client in both eras."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptResult, Implementation, TextContent, TextResourceContents

import passdown
from passdown.mcp.texts import INSTRUCTIONS
from tests.interfaces.mcp.talking import ERAS, Pipes, client, talk, told

if TYPE_CHECKING:
    from pathlib import Path

    from mcp import Client

STORY: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("task_new", {"task": "T-1", "title": "Login"}, "Recorded: T-1 version 1."),
    ("decide", {"summary": "JWT", "rationale": "y", "task": "T-1"}, "Recorded: T-1 version 2"),
    ("note", {"kind": "gotcha", "text": "UTC", "mitigation": "convert"}, "Recorded: T-1 version 3"),
    (
        "handoff",
        {"task": "T-1", "outcome": "completed", "to": "tester", "next_steps": ["test it"]},
        "Recorded: T-1 version 4, completed to tester",
    ),
    ("brief", {"task": "T-1", "agent": "tester"}, "# T-1 for tester, version 4 ["),
    ("recall", {"query": "JWT"}, "T-1#d1 (decision, sdk-test,"),
    ("show", {"id": "T-1#d1"}, "T-1#d1: decision, accepted; sdk-test"),
    ("tasks", {}, "- T-1 (open, planning, tester, v4) Login"),
    ("gates", {}, "No gates wait for an answer."),
)


@pytest.mark.promise("M-1")
@pytest.mark.parametrize("era", ERAS)
def test_every_tool_works_in_both_eras(project: Path, era: str) -> None:
    """The client's name signs what is written, in the handshake and in single requests alike."""

    async def do(one: Client) -> None:
        for name, arguments, expected in STORY:
            answer = told(await one.call_tool(name, arguments))
            assert not answer.is_error
            assert expected in answer.text
        refused = told(await one.call_tool("handoff", {"task": "T-9", "outcome": "x"}))
        assert refused.is_error
        assert refused.text.count("\n- ") == 2
        with pytest.raises(MCPError, match="there is no tool 'delete'"):
            await one.call_tool("delete", {})

    connected = client(project, era)
    connected.client_info = Implementation(name="sdk-test", version="1")
    talk(connected, do)


@pytest.mark.promise("M-1")
@pytest.mark.parametrize("era", [*ERAS, "auto"])
def test_resources_and_prompts_work_in_both_eras(filled: Path, era: str) -> None:
    async def do(one: Client) -> None:
        if era != "2026-07-28":  # a client that adopts a version without asking has read nothing
            assert one.instructions == INSTRUCTIONS
        listed = [str(resource.uri) for resource in (await one.list_resources()).resources]
        assert listed == [
            "passdown://schema/handoff",
            "passdown://task/T-1",
            "passdown://brief/T-1/reviewer",
        ]
        templates = (await one.list_resource_templates()).resource_templates
        assert [t.uri_template for t in templates] == [
            "passdown://task/{task}",
            "passdown://brief/{task}/{agent}",
        ]
        for uri, expected in zip(listed, ("outcome", "T-1#d1", "# T-1 for reviewer"), strict=True):
            content = (await one.read_resource(uri)).contents[0]
            assert isinstance(content, TextResourceContents)
            assert expected in content.text
        for uri in ("passdown://task/T-9", "passdown://brief", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="there is no") as raised:
                await one.read_resource(uri)
            assert raised.value.code == -32602
        assert [p.name for p in (await one.list_prompts()).prompts] == ["hand_off_now", "resume"]
        resumed = words(await one.get_prompt("resume", {"task": "T-1", "agent": "reviewer"}))
        assert "# T-1 for reviewer" in resumed
        assert "# T-1 for" in words(await one.get_prompt("resume", {}))
        now = words(await one.get_prompt("hand_off_now", {"task": "T-1", "to": "tester"}))
        assert "The task is T-1. It goes to tester." in now
        for name, given in (("other", {}), ("resume", {"x": "y"}), ("resume", {"task": "T-9"})):
            with pytest.raises(MCPError) as raised:
                await one.get_prompt(name, given)
            assert raised.value.code == -32602

    talk(client(filled, era), do)


def words(result: GetPromptResult) -> str:
    content = result.messages[0].content
    assert isinstance(content, TextContent)
    return content.text


def test_many_calls_at_once_are_all_answered(project: Path) -> None:
    async def do(one: Client) -> None:
        await one.call_tool("task_new", {"task": "T-1", "title": "Login"})

        async def decide(number: int) -> None:
            given = {"summary": f"choice {number}", "rationale": "y", "task": "T-1"}
            assert not told(await one.call_tool("decide", given)).is_error

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(decide, number)

    talk(client(project), do)
    with passdown.open(str(project)) as ws:
        assert len(ws.state("T-1").decisions) == 20


def test_two_servers_on_one_store_see_each_others_writes(project: Path) -> None:
    async def run() -> None:
        agent = {"PASSDOWN_AGENT": "tester"}
        async with client(project, "legacy") as one, client(project, "auto", agent) as two:
            await one.call_tool("task_new", {"task": "T-1", "title": "Login", "agent": "coder"})

            async def write(through: Client, who: str) -> None:
                for number in range(10):
                    given = {"summary": f"{who} {number}", "rationale": "y", "task": "T-1"}
                    assert not told(await through.call_tool("decide", given)).is_error

            async with anyio.create_task_group() as group:
                group.start_soon(write, one, "one")
                group.start_soon(write, two, "two")
            for each in (one, two):
                shown = told(await each.call_tool("show", {"id": "T-1"})).text
                assert "version 21," in shown
                assert shown.count("(tester, v") == 10

    anyio.run(run)
    with passdown.open(str(project)) as ws:
        assert ws.verify().ok


@pytest.mark.promise("P-1")
def test_what_was_answered_survives_kill_9(project: Path) -> None:
    """In the middle of many writes; what was not answered is there whole or not at all."""
    with Pipes(project) as server:
        server.shake_hands()
        server.ask(1, "task_new", task="T-1", title="Login")
        server.line()
        for number in range(2, 42):
            server.ask(number, "decide", summary=f"choice {number}", rationale="y", task="T-1")
        answered = [json.loads(server.line()) for _ in range(15)]
        server.process.kill()
        server.process.wait()
    assert not any(answer["result"]["isError"] for answer in answered)
    numbers = {answer["id"] for answer in answered}
    with passdown.open(str(project)) as ws:
        kept = {int(d.summary.split()[1]) for d in ws.state("T-1").decisions}
        assert numbers <= kept
        assert ws.verify().ok
        again = ws.decide(agent="pipes", summary="choice 2", rationale="y", task="T-1")
        assert again.is_replay or 2 not in kept


def noisy(folder: Path, source: str) -> dict[str, str]:
    """An environment in which a piece of code runs at the start of Python."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source, "utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return {"PYTHONPATH": path}


NOISE = """
import sys, warnings
class Noise:
    def find_spec(self, name, path=None, target=None):
        if name in ("passdown.workspace", "apsw", "numpy"):
            print("noise of", name, flush=True)
            warnings.warn("noise", stacklevel=1)
sys.meta_path.insert(0, Noise())
"""


@pytest.mark.promise("M-4")
def test_standard_output_is_the_protocol_from_the_first_byte_to_the_last(
    project: Path, tmp_path: Path
) -> None:
    """Whatever packages print while they load, at the start or in a call."""
    with Pipes(project, noisy(tmp_path / "noise", NOISE)) as server:
        server.send({"id": 5, "method": "nonsense"})
        assert json.loads(server.line())["error"]["code"] == -32601
        server.shake_hands()
        server.write(b"this is no JSON\n\xff\xfe\n")
        server.ask(1, "task_new", task="T-1", title="Login")
        server.ask(2, "recall", query="login")
        seen: set[int] = set()
        while len(seen) < 2:
            message = json.loads(server.line())
            seen |= {message["id"]} if message.get("id") else set()
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(240) == 0
        assert server.line(1) == b""
        assert server.process.stderr is not None
        assert b"noise of passdown.workspace" in server.process.stderr.read()


def test_the_larger_table_of_broken_lines_behaves_as_it_says(
    project: Path, tmp_path: Path, data_folder: Path
) -> None:
    """Bytes that are no message are answered; what is printed doesn't reach the client."""
    table = (data_folder / "bad_inputs.jsonl").read_text("utf-8")
    entries = [entry for entry in map(json.loads, table.splitlines()) if "id" in entry]
    given = [entry["input"] for entry in entries if entry["surface"] == "mcp_stdio"]
    assert {key for each in given for key in each} == {"bytes_hex", "print_to_stdout"}
    (printed,) = [each["print_to_stdout"] for each in given if "print_to_stdout" in each]
    source = NOISE.replace('"noise of", name', repr(printed))
    with Pipes(project, noisy(tmp_path / "noise", source)) as server:
        for each in given:
            if "bytes_hex" in each:
                server.write(bytes.fromhex(each["bytes_hex"]) + b"\n")
                assert json.loads(server.line())["error"]["code"] == -32700
        assert server.shake_hands()["serverInfo"]["name"] == "passdown"


@pytest.mark.promise("M-4")
def test_the_first_answers_come_without_a_look_at_the_store(project: Path) -> None:
    """A store that nobody could open changes nothing about them."""
    shutil.rmtree(project / ".passdown")
    (project / ".passdown").mkdir()
    os.mkfifo(project / ".passdown" / "ledger.db")  # opening it would wait for ever
    with Pipes(project) as server:
        assert server.shake_hands()["serverInfo"]["name"] == "passdown"
        for number, method in enumerate(("tools/list", "prompts/list", "resources/templates/list")):
            server.send({"id": 10 + number, "method": method})
            assert "result" in json.loads(server.line())


def test_a_damaged_store_is_an_answer_and_the_server_goes_on(project: Path) -> None:
    (project / ".passdown" / "ledger.db").write_bytes(b"not a database" * 1_000)

    async def do(one: Client) -> None:
        for _ in range(2):
            answer = told(await one.call_tool("tasks", {}))
            assert answer.is_error
            assert "Traceback" not in answer.text
        assert (await one.list_tools()).tools

    talk(client(project), do)


@pytest.mark.promise("M-6")
def test_the_server_leaves_when_its_client_is_gone(project: Path) -> None:
    """Also when nobody reads its last answers any more."""
    with Pipes(project) as server:
        server.shake_hands()
        server.ask(1, "tasks")
        assert server.process.stdout is not None
        assert server.process.stdin is not None
        server.process.stdout.close()
        server.process.stdin.close()
        server.process.wait(240)


def test_no_package_of_the_protocol_is_needed(project: Path, tmp_path: Path) -> None:
    absent = "import sys\nsys.modules |= dict.fromkeys(['mcp', 'mcp_types', 'anyio', 'pydantic'])\n"
    with Pipes(project, noisy(tmp_path / "absent", absent)) as server:
        assert server.shake_hands()["serverInfo"]["name"] == "passdown"
        server.ask(1, "tasks")
        assert json.loads(server.line())["result"]["isError"] is False
