"""The command line with `--store http://...`: each verb prints what it prints beside the store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.cli.main import main
from passdown.testing import full_handoff, write_files
from tests.interfaces.running import data_of
from tests.interfaces.web.conftest import QUICK
from tests.relay.repositories import make_repository
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.serving import Served

    Cli = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.promise("W-14")

READING = (
    "task list",
    "task show T-1",
    "state T-1",
    "state T-1 --at 1",
    "summary T-1",
    "log",
    "log T-1",
    "log T-1 --briefs",
    "show T-1#d1",
    "diff T-1 1 2",
    "history T-1 src/auth/jwt.py",
    "inbox coder",
    "gate list",
    "ready",
    "ready --agent planner",
    "status",
    "brief T-1 --agent coder --no-record",
    "why T-1#d1 --agent coder",
    "switch --task T-1 --to coder --no-record --budget 1200",
    "artifact list",
    "artifact list --task T-1",
    "context T-2",
    "context T-2 --for computed --complexity easy",
    "context T-1 --for compact",
    "recall cookie --words",
    "graph show",
    "graph near T-1#d1",
    "graph tagged auth",
    "graph about auth",
    "graph tags",
    "knowledge show Auth",
    "knowledge pack T-2",
    "journal",
    "journal T-1",
    "audit",
    "verify",
    "embed --status",
    "agents",
    "runs",
    "express list",
    "express show x1",
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    root = make_repository(tmp_path / "project")
    write_files(str(root))
    monkeypatch.chdir(root)
    for name in ("PASSDOWN_STORE", "PASSDOWN_TOKEN", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PASSDOWN_AGENT", "coder")
    monkeypatch.setenv("PASSDOWN_EMBEDDER", "none")
    with passdown.open(str(root), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.create_task("T-2", title="Login page", agent="planner", depends_on=["T-1"])
        ws.hand_off(full_handoff(gates=[]))
        node = {"id": "Auth", "type": "component", "summary": "Signs in", "tags": ["auth"]}
        ws.knowledge.add(
            [node], [{"source": "Auth", "relation": "uses", "target": "T-1#d1"}], agent="a"
        )
        with served(ws) as found:
            yield found


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(argv)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def there(here: Cli, server: Served, monkeypatch: pytest.MonkeyPatch) -> Cli:
    token = server.token("kim", *EVERY_RIGHT, is_person=True)

    def run(*argv: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            patch.setenv("PASSDOWN_TOKEN", token)
            return here(*argv, "--store", server.url)

    return run


def test_every_reading_verb_prints_the_same(server: Served, here: Cli, there: Cli) -> None:
    item = '{"id": "x1", "kind": "file_task", "path": "N.md", "content": "n", "reason": "r"}'
    with open("item.json", "w") as file:
        file.write(item)
    assert there("express", "send", "item.json")[0] == 0
    for verb in READING:
        argv = verb.split()
        ours, theirs = here(*argv), there(*argv)
        assert ours[0] == 0, (verb, ours)
        assert _steady(theirs[1]) == _steady(ours[1]), verb
        assert theirs[::2] == ours[::2], verb
        assert _steady(there(*argv, "--json")[1]) == _steady(here(*argv, "--json")[1]), verb


def _steady(text: str) -> str:
    """What was printed, without the times by which artifacts of a switch are named, without how
    long an open run has lasted, without the places where there is more, and without how many tokens
    it is with those.
    """
    import re

    text = re.sub(r'"seconds": [\d.]+|\d+\.\d s', "", text)
    text = re.sub(r"More: (\.passdown/handoffs/[^\s\\]*|passdown state T-1)", "", text)
    text = re.sub(r"State: passdown state T-1, or GET |State file: ", "", text)
    text = re.sub(r"/api/tasks/T-1/state|\.passdown/state/T-1\.json", "", text)
    text = re.sub(r'"(tokens|total|summaries|budget)": \d+', "", text)
    return re.sub(r"\d{8}T\d{6}\.\d{6}Z|\[\d{6} |20\d\d-\d\d-\d\dT\d\d:\d\dZ", "", text)


def test_who_names_nobody_writes_as_the_token(
    server: Served, here: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And claims nothing: the user of this machine is none of the server's business."""
    monkeypatch.delenv("PASSDOWN_AGENT")
    monkeypatch.setenv("LOGNAME", "somebody")
    monkeypatch.setenv("PASSDOWN_TOKEN", server.token("kim", "read", "write"))
    for verb in ("decide Blue --why calm --task T-1", "task new T-9 --title New"):
        code, out, err = here(*verb.split(), "--store", server.url)
        assert (code, "claimed" in out + err) == (0, False), err
    assert {line.author for line in server.workspace.log(limit=2)} == {"kim"}
    assert "# T-1 for kim" in here("brief", "T-1", "--store", server.url)[1]
    claimed = here("warn", "T-1", "Mind", "--agent", "ana", "--store", server.url)
    assert "'ana' was claimed" in claimed[1] + claimed[2]


def test_an_agent_takes_and_releases_tasks_for_itself(
    server: Served, here: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it claims; only a token that speaks for others does that for another agent."""
    ws, store = server.workspace, ("--store", server.url)
    ws.create_task("T-7", title="Roll-out", agent="planner")
    monkeypatch.delenv("PASSDOWN_AGENT")
    monkeypatch.setenv("LOGNAME", "somebody")
    monkeypatch.setenv("PASSDOWN_TOKEN", server.token("ana", "read", "write"))
    code, out, err = here("start", *store)
    assert (code, err, ws.task("T-7").claimed_by) == (0, "", "ana")
    assert out.startswith("working on T-7 as ana\n")
    version = ws.task("T-7").version
    said = here("start", "T-7", "--agent", "bob", *store)
    assert "'bob' was claimed; the token is ana's" in said[1] + said[2]
    assert "working on T-7 as ana" in said[1]
    assert ws.task("T-7").version == version
    assert here("task", "set", "T-7", "--holder", "bob", *store)[0] == 0
    assert ws.task("T-7").claimed_by == "ana"
    monkeypatch.setenv("PASSDOWN_TOKEN", server.token("bob", "read", "write"))
    refused = here("task", "set", "T-7", "--holder", "", *store)
    assert (refused[0], "ana works on T-7" in refused[2]) == (1, True)
    monkeypatch.setenv("PASSDOWN_TOKEN", server.token("kim", "read", "write", "others"))
    assert here("start", "T-7", "--agent", "cat", "--take", *store)[0] == 0
    assert ws.task("T-7").claimed_by == "cat"
    assert here("task", "set", "T-7", "--holder", "", "--agent", "cat", *store)[0] == 0
    assert not ws.task("T-7").to_dict().get("claimed_by")


def test_a_long_list_of_what_is_ready_comes_whole(server: Served, there: Cli, here: Cli) -> None:
    """Page by page, and in the same order: the best first."""
    for number in range(10, 130):
        server.workspace.create_task(f"T-{number}", title="One", agent="planner")
    server.workspace.create_task("T-130", title="One", agent="planner", depends_on=["T-129"])
    argv = ("ready", "--limit", "200", "--json")
    assert there(*argv)[1] == here(*argv)[1]


def test_writing_verbs_write_through_the_server(
    server: Served, there: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = server.workspace
    assert there("task", "new", "T-7", "--title", "Roll-out")[0] == 0
    assert there("decide", "Blue", "--why", "a way back", "--task", "T-7")[0] == 0
    assert there("knowledge", "add", "Redis", "--type", "component", "--summary", "keeps")[0] == 0
    assert there("artifact", "save", "--task", "T-1", "--to", "tester")[0] == 0
    assert there("switch", "--task", "T-1", "--to", "tester")[0] == 0
    assert [entry["consumed"] for entry in ws.context.saved_switches(task="T-1")] == [True]
    assert ws.state("T-7").decisions[0].agent == "coder"
    assert ws.knowledge.edges(source="Redis") == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert there("knowledge", "sync")[0] == 0
    with open("knowledge.dot") as file:
        assert "Redis" in file.read()
    assert there("heads", "export", str(tmp_path / "heads.json"))[0] == 0
    assert there("verify", "--against", str(tmp_path / "heads.json"))[0] == 0
    assert there("reindex")[0] == 0
    assert there("embed")[0] == 0
    code, out, _ = there("doctor", "--json")
    assert (code, data_of(out)["facts"]["root"]) == (0, ws.root)


def test_files_of_this_machine(server: Served, there: Cli, tmp_path: Path) -> None:
    bundle, copy = str(tmp_path / "b.passdown"), str(tmp_path / "copy.db")
    assert there("export", bundle, "--task", "T-1")[0] == 0
    assert "was there already" in there("import", bundle)[1]
    assert "and verified" in there("backup", copy)[1]
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("@coder go on")
    with open("agents.md", "w") as file:
        file.write("not a profile")
    code, out, _ = there("switch", "--task", "T-1", "--prompt", str(prompt))
    assert (code, out) == (0, "@coder go on")


@pytest.mark.parametrize(
    "verb",
    [
        "run relay.yaml --task T-1",
        "worker",
        "token list",
        "rules list",
        "import docs --from adr",
        "migrate item.json",
    ],
)
def test_what_needs_the_machine_of_the_store_says_so(there: Cli, verb: str) -> None:
    relay: Any = {"relay": "r", "agents": {}, "legs": []}
    relay["agents"]["coder"] = {"runner": {"command": ["true"]}}
    relay["legs"].append({"leg": "code", "agent": "coder"})
    for name, text in (("relay.yaml", json.dumps(relay)), ("item.json", "x")):
        with open(name, "w") as file:
            file.write(text)
    code, out, err = there(*verb.split())
    assert (code, "doesn't offer" in out + err) == (1, True), out + err


def test_an_express_item_is_waited_for_and_nothing_is_carried_out_here(
    server: Served, there: Cli
) -> None:
    import threading

    from passdown.relay.express import carry_out, express_record

    ws = server.workspace
    with open("notes.md", "w") as file:
        file.write("hello\n")
    send = ("express", "file", "NOTES.md", "--content", "notes.md", "--reason", "r", "--id", "x9")
    assert there(*send, "--here")[0] == 2
    assert there(*send)[0] == 0
    item = express_record(ws, "x9").item
    timer = threading.Timer(0.3, lambda: carry_out(ws, item))
    timer.start()
    code, out, _ = there("express", "queue", "x9", "--wait")
    timer.join()
    assert (code, "x9 (file_task): done" in out) == (0, True)
