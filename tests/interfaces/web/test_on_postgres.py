"""A server whose records are kept in PostgreSQL: the same scenarios, the same events."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import passdown
from passdown.testing import full_handoff, write_files
from tests.folders import new_folder
from tests.interfaces.web import test_events
from tests.interfaces.web.asking import ask, heard
from tests.interfaces.web.conftest import QUICK
from tests.interfaces.web.scenarios import SOURCES, scenarios, told_over_http
from tests.postgres import name_store, new_database, new_workspace
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-13")

EVENTS = {
    name: test
    for name, test in vars(test_events).items()
    if name.startswith("test_") and "server" in inspect.signature(test).parameters
}

for _found in (*(scenarios(module) for module in SOURCES), EVENTS):
    for _name, _test in _found.items():
        assert _name not in globals(), _name
        globals()[_name] = _test


@pytest.fixture
def ws(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_database: str,
) -> Iterator[Workspace]:
    name_store(tmp_path, new_workspace(postgres_database))
    monkeypatch.chdir(tmp_path)
    with told_over_http(tmp_path) as remote:
        yield remote


@pytest.fixture
def server(tmp_path: Path, postgres_database: str) -> Iterator[Served]:
    root = tmp_path / "project"
    write_files(str(root))
    name_store(root, new_workspace(postgres_database))
    with passdown.open(str(root), settings=QUICK) as here:
        here.create_task("T-1", title="Login", agent="planner")
        with served(here) as found:
            yield found


def test_the_store_is_postgresql_and_is_copied_and_taken_along(
    server: Served, tmp_path: Path
) -> None:
    """A backup over HTTP is a file of SQLite with the same heads; a bundle goes both ways."""
    assert server.workspace.store_url.startswith("postgresql://")
    server.workspace.hand_off(full_handoff(gates=[]))
    target = tmp_path / "copy" / ".passdown" / "ledger.db"
    target.parent.mkdir(parents=True)
    with server.opened("kim", *EVERY_RIGHT, is_person=True) as remote:
        assert remote.maintenance.backup(str(target)).ok
        remote.maintenance.export(str(tmp_path / "b"))
        with passdown.open(new_folder(tmp_path / "copy"), settings=QUICK) as copy:
            assert copy.maintenance.heads().heads == remote.maintenance.heads().heads
            copy.decide(task="T-1", agent="coder", summary="On", rationale="r")
            copy.maintenance.export(str(tmp_path / "back"))
        assert remote.maintenance.import_bundle(str(tmp_path / "back")).added == {"task/T-1": 1}
        assert remote.switch("T-1", to_agent="coder").tokens > 0
        assert remote.knowledge.pack("T-1").graph.nodes
        assert remote.verify().ok


def test_a_store_that_is_away_is_told_without_its_address(
    tmp_path: Path, postgres_server: Any
) -> None:
    """Where it is and what it says of itself stands in the log alone."""
    address = new_database(postgres_server)
    database = urlsplit(address).path.strip("/")
    name_store(tmp_path, new_workspace(address))
    with passdown.open(str(tmp_path), settings=QUICK) as here, served(here) as found:
        token = found.token("coder", "read")
        assert ask(found.port, "GET", "/api/tasks", token=token).status == 200
        postgres_server.psql(f"DROP DATABASE {database} WITH (FORCE);")
        for path, given in (("/ready", ""), ("/api/tasks", token)):
            with heard() as lines:
                reply = ask(found.port, "GET", path, token=given)
            assert (reply.status, reply.codes) == (503, {"store_unavailable"})
            assert database.encode() not in reply.body
            assert json.loads(lines[0])["request"] in reply.document["next_step"]
            assert database in lines[0]
