"""How a person is asked during a call, and calls that run as tasks of the protocol.

A client of 2025 is sent a request of its own (`elicitation/create`); one of 2026 gets the question
as its answer (`input_required`) and calls again with what the person said. As a task, the call
waits as long as it takes, for a person who is asked here or answers elsewhere.
"""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.times import stamp, utc_now
from passdown.mcp.messages import INVALID_PARAMS, RpcError, as_object, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.types import JsonObject

if TYPE_CHECKING:
    Ask = Callable[[JsonObject, Callable[[], bool]], JsonObject | None]

RELATED_TASK = "io.modelcontextprotocol/related-task"
_LOOK_S = 0.5
_POLL_MS = 1_000
_MAX_TTL_MS = 7 * 24 * 3_600_000
_MAX_TASKS = 64
_QUESTION = "answer"
_ENDED = ("completed", "failed", "cancelled")


class InputRequired(Exception):
    """The call has to be repeated with what a person says to `form`."""

    def __init__(self, form: JsonObject) -> None:
        super().__init__("a person has to answer first")
        self.form = form

    def to_dict(self) -> JsonObject:
        """The result of the call."""
        return {"resultType": "input_required", "inputRequests": input_requests(self.form)}


def input_requests(form: JsonObject) -> JsonObject:
    """A question as clients of 2026 get it."""
    return {_QUESTION: {"method": "elicitation/create", "params": form}}


def reply_of(responses: JsonObject) -> JsonObject | None:
    """What a person said, in what a client of 2026 sends."""
    return as_object(responses.get(_QUESTION)) or None


class Reply:
    """What a person will have said; None if nobody says anything any more."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._value: JsonObject | None = None

    def give(self, value: JsonObject | None) -> None:
        """Note the reply; the first one counts."""
        if not self._came.is_set():
            self._value = value
            self._came.set()

    def wait(self, is_settled: Callable[[], bool]) -> JsonObject | None:
        """Wait for it, or until the question is settled otherwise."""
        while not self._came.wait(_LOOK_S):
            if is_settled():
                return None
        return self._value


class Person(NamedTuple):
    """The person behind a client, who answers as `name` unless they give another one."""

    ask: Ask
    """Give what the person says to a form; None where the question was settled otherwise. Raises
    InputRequired where the client has to call again."""
    name: str = ""


def repeated_call(params: JsonObject, name: str) -> Person:
    """The person behind a client of 2026: what they said is in the call that was repeated."""

    def ask(form: JsonObject, _: Callable[[], bool]) -> JsonObject | None:
        found = reply_of(as_object(params.get("inputResponses")))
        if found is None:
            raise InputRequired(form)
        return found

    return Person(ask, name)


class Task:
    """A call that goes on after it was answered."""

    def __init__(self, owner: str, ttl_ms: int) -> None:
        self.id = secrets.token_urlsafe(18)
        self.owner, self.ttl_ms = owner, ttl_ms
        self.made = self.updated = utc_now()
        self.status, self.message = "working", ""
        self.form: JsonObject = {}
        self.result: JsonObject = {}
        self.error: RpcError | None = None
        self.reply = Reply()
        self.ended = threading.Event()
        self.ends = time.monotonic() + ttl_ms / 1_000

    def move(self, status: str, message: str = "") -> None:
        """Note a new status; the first one that ends it stays."""
        if self.status not in _ENDED:
            self.status, self.message, self.updated = status, message, utc_now()
            if status in _ENDED:
                self.reply.give(None)
                self.ended.set()

    def person(self, wait: Ask | None, status: str, name: str) -> Person:
        """The person who is asked by this task: by `wait`, or by whoever updates it. Without
        either, the task waits until the question is settled otherwise.
        """

        def ask(form: JsonObject, is_settled: Callable[[], bool]) -> JsonObject | None:
            self.form = {**form, "_meta": {RELATED_TASK: {"taskId": self.id}}} if wait else form
            self.move(status, str(form["message"]))
            found = (wait or self._wait)(self.form, lambda: self.ended.is_set() or is_settled())
            self.move("working")
            return found

        return Person(ask, name)

    def _wait(self, _: JsonObject, is_settled: Callable[[], bool]) -> JsonObject | None:
        return self.reply.wait(is_settled)

    def to_dict(self, *, is_modern: bool) -> JsonObject:
        """The task as its client sees it; one of 2026 gets the outcome with it."""
        unit = "Ms" if is_modern else ""
        found: JsonObject = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": stamp(self.made),
            "lastUpdatedAt": stamp(self.updated),
            f"ttl{unit}": self.ttl_ms,
            f"pollInterval{unit}": _POLL_MS,
        }
        found |= {"statusMessage": self.message} if self.message else {}
        if not is_modern:
            return found
        if self.status == "completed":
            found["result"] = {"resultType": "complete", **self.result}
        elif self.error is not None:
            found["error"] = self.error.to_dict()
        elif self.status == "input_required":
            found["inputRequests"] = input_requests(self.form)
        return found


class Tasks:
    """The tasks of a server, each seen by its owner alone; they end with the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Task] = {}

    def start(self, owner: str, ttl_ms: object, run: Callable[[Task], JsonObject]) -> Task:
        """Begin a call in a thread of its own. Raises RpcError if too many are open."""
        wanted = ttl_ms if isinstance(ttl_ms, int) and ttl_ms > 0 else _MAX_TTL_MS
        task = Task(owner, min(wanted, _MAX_TTL_MS))
        with self._lock:
            now = time.monotonic()
            self._known = {id: each for id, each in self._known.items() if each.ends > now}
            is_open = [each for each in self._of(owner) if each.status not in _ENDED]
            if len(is_open) >= _MAX_TASKS:
                raise RpcError(INVALID_PARAMS, f"{len(is_open)} tasks are open; cancel some first")
            self._known[task.id] = task
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(_run, task, run), daemon=True).start()
        return task

    def of(self, owner: str) -> list[Task]:
        """The tasks of a client, the newest last."""
        with self._lock:
            return self._of(owner)

    def _of(self, owner: str) -> list[Task]:
        return [task for task in self._known.values() if task.owner == owner]

    def get(self, owner: str, identity: object) -> Task:
        """A task of a client. Raises RpcError if it has none with this id."""
        for task in self.of(owner):
            if task.id == identity and task.ends > time.monotonic():
                return task
        raise RpcError(INVALID_PARAMS, "there is no such task, or it is over and forgotten")


def _run(task: Task, run: Callable[[Task], JsonObject]) -> None:
    try:
        task.result = run(task)
    except Exception as error:  # noqa: BLE001
        task.error = error if isinstance(error, RpcError) else unexpected(error)
        task.move("failed", task.error.message)
    else:
        task.move("completed")
