"""Every error of the tree through a real server: one shape of document, and the same error again
at the other end.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from passdown import errors
from passdown.errors import PassdownError, Problem, ProblemsError, StoreError
from passdown.remote import connection
from passdown.web.responses import STATUSES, problem_document
from tests.interfaces.web.asking import ask

if TYPE_CHECKING:
    from passdown import Workspace
    from tests.serving import Served

PROBLEMS = [Problem("a[0].b", "odd", "is odd", "even", "add one"), Problem("c", "missing", "")]


def every_error() -> list[PassdownError]:
    """One of each class, and one of each code that says more than its class; all without a next
    step, which is what a document has to have anyway.
    """
    found: list[PassdownError] = []
    kinds: list[type[PassdownError]] = [PassdownError]
    while kinds:
        kind = kinds.pop()
        kinds += [each for each in kind.__subclasses__() if each.__module__ == errors.__name__]
        if kind is not ProblemsError:
            found.append(_one(kind))
    found += [errors.NotAllowed("no", code=code) for code in ("not_recipient", "no_token")]
    found += [errors.GitError("no", code=code) for code in errors.GIT_CODES]
    return found


def _one(kind: type[PassdownError]) -> PassdownError:
    if kind is errors.Conflict:
        return errors.Conflict("T-1", expected=1, actual=2)
    if kind is errors.IntegrityViolation:
        return errors.IntegrityViolation("differs", ["phase", "title"])
    return kind("it was so", PROBLEMS) if issubclass(kind, ProblemsError) else kind("it was so")


def test_there_is_a_step_for_every_status() -> None:
    """An error that says nothing itself gets the usual one, whatever its status."""
    for status in STATUSES:
        assert problem_document(PassdownError("no"), status)["next_step"]


@pytest.mark.promise("W-4")
@pytest.mark.parametrize("error", every_error(), ids=lambda e: f"{type(e).__name__}-{e.code}")
def test_every_error_is_a_whole_document_and_comes_back_as_itself(
    server: Served, ws: Workspace, monkeypatch: pytest.MonkeyPatch, error: PassdownError
) -> None:
    """`type`, `title`, `status`, `detail`, `code` and a next step, always; problems all of them."""

    waited: list[float] = []

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(ws, "task", fail)
    # What may pass is tried again, after a second: how long that is says nothing here.
    monkeypatch.setattr(
        connection, "time", SimpleNamespace(sleep=waited.append, monotonic=time.monotonic)
    )
    reply = ask(server.port, "GET", "/api/tasks/T-1", token=server.token("coder", "read"))
    document = reply.document
    assert reply.headers["content-type"] == "application/problem+json"
    assert document["status"] == reply.status >= 400
    assert document["type"] == f"urn:passdown:problem:{document['code']}"
    for name in ("title", "detail", "code", "next_step"):
        assert isinstance(document[name], str), name
        assert document[name].strip(), name
    if isinstance(error, ProblemsError):
        assert document["problems"] == [problem.to_dict() for problem in PROBLEMS]
    is_meant = not isinstance(error, errors.Damaged) and type(error) is not PassdownError
    assert (reply.status != 500) == is_meant
    with server.opened("tester", "read") as remote, pytest.raises(PassdownError) as caught:
        remote.task("T-1")
    again = caught.value
    assert (type(again), again.code) == (type(error), error.code)
    if not isinstance(error, StoreError):  # what a store says of itself stays in the log
        assert again.message == error.message
    for name in ("problems", "fields", "expected", "actual"):
        assert getattr(again, name, None) == getattr(error, name, None), name
