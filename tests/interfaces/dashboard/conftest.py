"""A browser, and a server over a workspace with something of everything."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.web.asking import ask
from tests.interfaces.web.conftest import QUICK, server, ws
from tests.serving import EVERY_RIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from tests.serving import Served

__all__ = ["QUICK", "server", "ws"]
WAIT_MS = 30_000


@pytest.fixture(scope="module")
def browser(need_program: Callable[[str], str]) -> Iterator[Any]:
    """Debian's Chromium; without it, or without Playwright, the test is skipped.

    Playwright has an event loop in this thread meanwhile, so other modules' tests come after it.
    """
    program = need_program("chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        # The sandbox needs rights that containers don't give.
        found = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


def sign_in_link(server: Served, *rights: str, name: str = "kim", is_person: bool = True) -> str:
    """A link as `passdown ui` prints it."""
    token = server.token(name, *(rights or EVERY_RIGHT), is_person=is_person)
    reply = ask(server.port, "POST", "/sign-in-links", token=token, body={})
    assert reply.status == 201
    return server.url + reply.document["path"]


@contextmanager
def opened_page(browser: Any, server: Served, *rights: str, **options: Any) -> Generator[Any]:
    """A page of a browser that is signed in; nothing may be logged to its console."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, **options)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    said: list[str] = []
    page.said = said

    def note(what: Any) -> None:
        said.append(getattr(what, "text", "") or getattr(what, "message", "") or str(what))

    for event in ("console", "pageerror", "dialog"):
        page.on(event, note)
    page.goto(sign_in_link(server, *rights))
    page.wait_for_url(re.compile(r"/$"))
    page.wait_for_selector("#live[data-state=live]")
    try:
        yield page
        assert said == []
    finally:
        context.close()


def visit(page: Any, url: str) -> None:
    """Show a page and wait until its scripts run: a key that is pressed before that is lost."""
    page.goto(url)
    page.wait_for_selector("#live[data-state=live]")


@pytest.fixture
def page(browser: Any, server: Served) -> Iterator[Any]:
    """A page of a person with every right."""
    with opened_page(browser, server) as found:
        yield found


_DAMAGE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
query = "SELECT sql FROM sqlite_master WHERE name = 'records_stay_as_written'"
(made,) = database.execute(query).fetchone()
database.execute("DROP TRIGGER records_stay_as_written")
database.execute("UPDATE records SET author = 'mallory' WHERE kind = 'task_created'")
database.execute(made)
database.commit()
"""


def damage_first_record(root: Path) -> None:
    """Another author for the record that made the task, behind Passdown's back. In a process of its
    own: two SQLite libraries in one would undo each other's locks.
    """
    path = root / ".passdown" / "ledger.db"
    subprocess.run([sys.executable, "-c", _DAMAGE, str(path)], check=True)
