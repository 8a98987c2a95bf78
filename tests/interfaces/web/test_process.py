"""`passdown serve` and `passdown token` as people run them: a process of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import passdown
from tests.interfaces.running import data_of
from tests.interfaces.web.asking import ask
from tests.interfaces.web.test_events import Listening
from tests.processes import Process, run_python

if TYPE_CHECKING:
    from collections.abc import Generator

PROGRAM = [sys.executable, "-m", "passdown"]


class Running(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    said: str


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PASSDOWN_AGENT": "kim"}
    return run_python(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@contextmanager
def running(folder: Path, *arguments: str) -> Generator[Running]:
    """A server on a free port, stopped by a signal at the end."""
    # A test that hides a package needs a Python that looks for it.
    start: type[subprocess.Popen[str]] = subprocess.Popen if "PYTHONPATH" in os.environ else Process
    process = start(
        [*PROGRAM, "serve", "--port", "0", *arguments],
        cwd=folder,
        env={**os.environ, "PASSDOWN_AGENT": "kim"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        while "  token  " not in said:
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        found = re.search(r":(\d+)/mcp", said)
        assert found
        port = int(found[1])
        _wait_for(port)
        yield Running(process, port, said)
    finally:
        process.terminate()
        process.communicate(timeout=240)


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            assert ask(port, "GET", "/health").status in (200, 421)
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server doesn't answer")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with passdown.open(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
    return tmp_path


def test_the_address_that_serve_prints_can_be_opened(project: Path) -> None:
    with running(project) as server:
        address = re.search(r"store +(http://\S+)", server.said)
        assert address
        token = (project / ".passdown" / "serve.token").read_text("ascii").strip()
        with passdown.open(address[1], token=token) as workspace:
            assert [each.task for each in workspace.tasks()] == ["T-1"]


@pytest.mark.promise("W-6", "W-9")
def test_a_server_says_where_it_is_and_stops_in_order(project: Path) -> None:
    """Its token is in a file of its owner alone; a signal ends it, streams and all, with code 0."""
    with running(project, "--log-all") as server:
        path = project / ".passdown" / "serve.token"
        assert str(path) in server.said
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        token = path.read_text("ascii").strip()
        assert token not in server.said
        assert ask(server.port, "GET", "/api/tasks", token=token).document["items"]
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
        secret = {"Authorization": f"Bearer {token}"}
        connection.request("GET", f"/api/events?after=0&odd={token}", headers=secret)
        assert connection.getresponse().read()
        connection.request("GET", "/api/events?after=0", headers=secret)
        stream = Listening(connection.getresponse())
        assert len(stream.events(1)) == 1
        ask(server.port, "GET", f"/api/items/{token}", token=token)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert stream.events(1) == []
        logged = server.process.communicate(timeout=240)[1]
        assert time.monotonic() - began < 100
        assert server.process.returncode in (0, -signal.SIGTERM)
        connection.close()
    lines = [json.loads(line) for line in logged.splitlines()]
    assert {line["status"] for line in lines} >= {200, 404, 422}
    assert {line["name"] for line in lines} >= {"kim"}
    assert token not in logged
    assert token[5:] not in logged
    with running(project):
        assert path.read_text("ascii").strip() == token


@pytest.mark.promise("W-1")
def test_other_machines_are_served_only_with_names_and_tokens(project: Path) -> None:
    """What is missing is told at once, and how TLS comes in front."""
    refused = run(project, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 1
    assert "--allowed-host" in refused.stderr
    assert "token new" in refused.stderr
    assert "proxy" in refused.stderr
    assert run(project, "serve", "--host", "0.0.0.0", "--allowed-host", "*").returncode == 1
    made = run(project, "token", "new", "--agent", "coder", "--rights", "read", "--json")
    token = data_of(made.stdout)["token"]
    with running(project, "--host", "0.0.0.0", "--allowed-host", "passdown.example") as server:
        assert not (project / ".passdown" / "serve.token").exists()
        named = {"Host": "passdown.example"}
        assert ask(server.port, "GET", "/api/tasks", token=token).status == 421
        assert ask(server.port, "GET", "/api/tasks", headers=named).status == 401
        assert ask(server.port, "GET", "/api/tasks", token=token, headers=named).status == 200


@pytest.mark.promise("W-9")
def test_a_token_is_made_listed_and_taken_back(project: Path) -> None:
    made = run(project, "token", "new", "--person", "ana", "--rights", "approve", "--expires", "4w")
    assert made.returncode == 0, made.stderr
    token = made.stdout.removesuffix("\n")
    assert re.fullmatch(r"pdt_[a-z2-7]{10}_[\w-]{43}", token)
    assert "it is not shown again" in made.stderr
    (listed,) = data_of(run(project, "token", "list", "--json").stdout)
    assert (listed["name"], listed["is_person"], listed["rights"]) == (
        "ana",
        True,
        ["read", "approve"],
    )
    assert "digest" not in listed
    assert token[15:] not in run(project, "token", "list").stdout
    assert run(project, "token", "revoke", listed["id"]).returncode == 0
    assert data_of(run(project, "token", "list", "--json").stdout) == []
    (kept,) = data_of(run(project, "token", "list", "--all", "--json").stdout)
    assert kept["state"] == "revoked"
    assert run(project, "token", "revoke", "nobodyhere").returncode == 1
    agent = run(project, "token", "new", "--agent", "coder", "--rights", "read,approve")
    assert agent.returncode == 1
    assert "people" in agent.stderr
    for bad in (["--rights", "root"], ["--expires", "soon"], []):
        assert run(project, "token", "new", *(["--agent", "system"] if not bad else
                   ["--agent", "coder"]), *bad).returncode in (1, 2)  # fmt: skip


def test_an_agent_and_a_person_have_no_name_in_common(project: Path) -> None:
    """What one writes would look like the other's."""
    assert run(project, "token", "new", "--person", "kim", "--rights", "approve").returncode == 0
    refused = run(project, "token", "new", "--agent", "kim")
    assert refused.returncode == 1
    assert "'kim' is a person's name, by token" in refused.stderr
    (known,) = data_of(run(project, "token", "list", "--json").stdout)
    assert run(project, "token", "revoke", known["id"]).returncode == 0
    assert run(project, "token", "new", "--agent", "kim").returncode == 0


@pytest.mark.promise("W-7")
def test_the_command_line_works_on_a_server(project: Path) -> None:
    """`--store` and PASSDOWN_STORE take its address; the token comes from the environment."""
    with running(project) as server:
        token = (project / ".passdown" / "serve.token").read_text("ascii").strip()
        url = f"http://127.0.0.1:{server.port}"
        environment = {**os.environ, "PASSDOWN_TOKEN": token, "PASSDOWN_AGENT": "coder"}

        def there(*arguments: str) -> subprocess.CompletedProcess[str]:
            return run_python(
                [*PROGRAM, *arguments, "--store", url],
                cwd=project.parent,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=240,
            )

        assert there("decide", "JWT", "--why", "scripts", "--task", "T-1").returncode == 0
        assert "JWT" in there("brief", "T-1", "--agent", "tester").stdout
        assert "decided" in there("log", "T-1").stdout
        assert "verified" in there("backup", "x.db").stdout
        refused = there("worker")
        assert (refused.returncode, "doesn't offer" in refused.stderr) == (1, True)
    with passdown.open(str(project)) as workspace:
        (line,) = workspace.log("T-1", limit=1)
        assert line.author == "coder"


def token_path(server: Running) -> Path:
    """The file that a server says its token is in."""
    found = re.search(r"  token  (\S+)", server.said)
    assert found
    return Path(found[1])


@pytest.mark.promise("W-6")
@pytest.mark.usefixtures("in_own_folder")
@pytest.mark.parametrize("kind", ["file", "own_folder", "postgres"])
def test_each_store_has_a_token_file_of_its_own(
    project: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Serving another store from a folder leaves the token of the folder's own server alone."""
    if kind == "postgres":
        other = str(request.getfixturevalue("postgres_store"))
    else:
        other = str(project / (".passdown" if kind == "own_folder" else "") / "other.db")
    passdown.open(other).close()
    with running(project) as first:
        own = project / ".passdown" / "serve.token"
        token = own.read_text("ascii").strip()
        with running(project, "--store", other) as second:
            path = token_path(second)
            assert path != own
            assert path.is_relative_to(project / ".passdown" / "stores")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            theirs = path.read_text("ascii").strip()
            assert ask(second.port, "GET", "/api/tasks", token=theirs).document["items"] == []
            assert ask(second.port, "GET", "/api/tasks", token=token).status == 401
        assert own.read_text("ascii").strip() == token
        assert ask(first.port, "GET", "/api/tasks", token=token).document["items"]
    with running(project, "--store", other) as again:
        assert token_path(again).read_text("ascii").strip() == theirs


def test_a_store_without_a_folder_gets_one_that_git_leaves_out(tmp_path: Path) -> None:
    passdown.open(str(tmp_path / "alone.db")).close()
    with running(tmp_path, "--store", "alone.db") as server:
        assert token_path(server).exists()
    assert (tmp_path / ".passdown" / ".gitignore").read_text().startswith("*\n")
    assert stat.S_IMODE((tmp_path / ".passdown").stat().st_mode) == 0o700


@pytest.mark.promise("W-6")
def test_a_server_that_cannot_listen_makes_no_token(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run(project, "serve", "--port", port)
    assert refused.returncode == 1
    assert "can't be listened at" in refused.stderr
    assert not (project / ".passdown" / "serve.token").exists()
    assert data_of(run(project, "token", "list", "--json").stdout) == []


def test_a_token_file_that_others_can_read_is_refused(project: Path) -> None:
    path = project / "shared.token"
    path.write_text("x")
    path.chmod(0o644)
    refused = run(project, "serve", "--port", "0", "--token-file", str(path))
    assert refused.returncode == 1
    assert "owner" in refused.stderr


def test_missing_packages_are_named(project: Path) -> None:
    """Without Starlette the verb says which extra brings it."""
    blocked = project / "blocked"
    blocked.mkdir()
    (blocked / "starlette.py").write_text("raise ModuleNotFoundError(name='starlette')\n")
    environment = {**os.environ, "PYTHONPATH": str(blocked)}
    found = subprocess.run(
        [*PROGRAM, "serve"], cwd=project, env=environment, capture_output=True, text=True,
        check=False, timeout=240,
    )  # fmt: skip
    assert found.returncode == 1
    assert "passdown[web]" in found.stderr
