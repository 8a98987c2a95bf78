"""What is read through a server, in as many pages as it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.workspace.reads import NEWEST
from passdown.workspace.remote.connection import part
from passdown.workspace.remote.values import brief_of, recalled_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from passdown.briefing.brief import Brief
    from passdown.briefing.summary import Freshness
    from passdown.ledger.verifying import Verified
    from passdown.model.command import HandoffCommand
    from passdown.model.graph import Graph
    from passdown.model.recalled import Recalled
    from passdown.model.state import TaskState
    from passdown.workspace.aliases import CounterLike, Heads, Progress
    from passdown.workspace.remote.connection import Wire

Document = dict[str, Any]

_PAGE = 1_000


class RemoteReads:
    """The methods that only look; see `Workspace` for what each one does."""

    _wire: Wire

    def _get(self, address: str, /, **query: Any) -> Any:
        kept = {name: value for name, value in query.items() if value not in ("", None, (), [])}
        return json.loads(self._wire.ask("GET", address, query=kept).body)

    def _check(self, path: str, body: Document) -> Any:
        return json.loads(self._wire.ask("POST", path, body=body).body)

    def _pages(self, path: str, limit: int, cursor: object, **query: Any) -> list[Document]:
        """The entries of a list up to a limit, page by page."""
        found: list[Document] = []
        asked: object = limit
        while True:
            if type(limit) is int and limit > 0:
                asked = min(limit - len(found), _PAGE)
            page = self._get(path, limit=asked, cursor=cursor, **query)
            found += page["items"]
            cursor = page["next"]
            if cursor is None or len(found) >= limit:
                return found

    def tasks(
        self,
        *,
        status: str = "",
        phase: str = "",
        agent: str = "",
        limit: int = 1000,
        after: int = 0,
    ) -> list[Document]:
        """Tasks in the order of their making."""
        filters = {"status": status, "phase": phase, "agent": agent}
        return self._pages("/api/tasks", limit, after or None, **filters)

    def task(self, task: str) -> Document:
        """One task."""
        return self._get(f"/api/tasks/{part(task)}")

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        from passdown.model.state import TaskState

        path = f"/api/tasks/{part(command.task_id)}/receive"
        body = {"version": command.version, "digest": command.digest}
        return TaskState.from_document(self._check(path, body))

    def gates(self, task: str = "", *, open_only: bool = True) -> list[Document]:
        """Human gates and quality gate results."""
        return self._get("/api/gates", task=task, all=not open_only)["items"]

    def state_document(self, task: str, version: int | None = None) -> Document:
        """A task's state as plain JSON."""
        return self._get(f"/api/tasks/{part(task)}/state", version=version)

    def load(self, task: str) -> TaskState | None:
        """A task's state now, or None where there is no such task."""
        from passdown.model.state import TaskState

        try:
            return TaskState.from_document(self.state_document(task))
        except NotFound:
            return None

    def log(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """Records newest first."""
        path = "/api/log" if task is None else f"/api/tasks/{part(task)}/log"
        return self._pages(path, limit, None if before == NEWEST else before)

    def changes(self, after: int | None = 0, *, limit: int = 500) -> Document:
        """What was recorded of tasks after a `seq`."""
        return self._get("/api/changes", after=after, now=after is None or None, limit=limit)

    def show(self, item: str) -> Document:
        """One item by its address."""
        return self._get(f"/api/items/{part(item)}")

    def diff(self, task: str, old: int, new: int) -> Document:
        """What differs between two versions of a task."""
        return self._get(f"/api/tasks/{part(task)}/diff", old=old, new=new)

    def inbox(self, agent: str) -> list[Document]:
        """The handoffs that wait for an agent."""
        return self._get("/api/inbox", agent=agent)["items"]

    def artifacts(self, task: str) -> list[Document]:
        """A task's artifacts, as they are on the server's disk."""
        return self._get(f"/api/tasks/{part(task)}/artifacts")["items"]

    def path_history(self, task: str, path: str) -> list[Document]:
        """Every entry that a task has had for a path."""
        return self._get(f"/api/tasks/{part(task)}/paths", path=path)["items"]

    def inline_plan(self, task: str, budget_tokens: int) -> Document:
        """Which artifacts fit into a token budget."""
        return self._get(f"/api/tasks/{part(task)}/inline", budget=budget_tokens)

    def summary(self, task: str, max_tokens: int = 500) -> str:
        """The short summary of a task."""
        return self._get(f"/api/tasks/{part(task)}/summary", budget=max_tokens)["text"]

    def check_summary(self, task: str, text: str) -> Freshness:
        """Whether a summary was made from the version that is stored now."""
        return self._freshness(f"/api/tasks/{part(task)}/summary/check", text)

    def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        return self._freshness(f"/api/tasks/{part(task)}/brief/check", text)

    def _freshness(self, path: str, text: str) -> Freshness:
        from passdown.briefing.summary import Freshness

        return Freshness(**self._check(path, {"text": text}))

    def brief(
        self,
        task: str,
        *,
        agent: str,
        budget: int | None = None,
        counter: CounterLike = None,
        format: str = "markdown",
        tags: Sequence[str] = (),
        record: bool = True,
    ) -> Brief:
        """What `agent` needs to know of a task, within a budget of tokens."""
        _check_brief(agent, budget, format, counter)
        query: Document = {"agent": agent, "budget": budget, "counter": _named(counter)}
        query |= {"format": format, "tags": tags, "record": record}
        return brief_of(self._get(f"/api/tasks/{part(task)}/brief", **query))

    def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """What was told to whom, newest first."""
        path = "/api/deliveries" if task is None else f"/api/tasks/{part(task)}/deliveries"
        return self._pages(path, limit, None if before == NEWEST else before)

    def why(self, item: str, *, agent: str) -> Document:
        """Whether and when an agent was told an item."""
        return self._get(f"/api/items/{part(item)}/why", agent=agent)

    def recall(
        self,
        query: str,
        *,
        kinds: Sequence[str] = (),
        agent: str = "",
        task: str = "",
        tags: Sequence[str] = (),
        path: str = "",
        statuses: Sequence[str] = (),
        since: str | date = "",
        until: str | date = "",
        live_only: bool = False,
        by_words: bool = False,
        limit: int = 5,
        told_to: str = "",
    ) -> list[Recalled]:
        """What was recorded that has to do with a question, best first."""
        asked: Document = {"kinds": kinds, "agent": agent, "task": task, "tags": tags}
        asked |= {"path": path, "statuses": statuses, "told_to": told_to, "limit": limit}
        asked |= {"since": _time(since), "until": _time(until)}
        asked |= {"live_only": live_only or None, "by_words": by_words or None}
        kept = {name: value for name, value in asked.items() if value not in ("", None, (), [])}
        found = self._check("/api/recall", {"query": query, **kept})
        return [recalled_of(entry) for entry in found["items"]]

    def graph(
        self,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> Graph:
        """The knowledge graph, or a part of it."""
        from passdown.model.graph_files import read_graph

        part_of: Document = {"around": around, "depth": depth, "task": task, "tags": tags}
        return read_graph(self.graph_text("json", types=types, **part_of), "json")

    def graph_text(
        self,
        form: str,
        *,
        around: Sequence[str] = (),
        depth: int = 1,
        task: str = "",
        tags: Sequence[str] = (),
        types: Sequence[str] = (),
    ) -> str:
        """The same graph as text."""
        asked: Document = {"form": form, "around": around, "depth": depth, "task": task}
        asked |= {"tags": tags, "types": types}
        kept = {name: value for name, value in asked.items() if value not in ("", (), [])}
        return self._wire.ask("GET", "/api/graph", query=kept).body.decode()

    def journal(self, task: str = "", *, limit: int = 200) -> Document:
        """Where things are, what is in the way and what was learned."""
        return self._get("/api/journal", task=task, limit=limit)

    def heads(self) -> Document:
        """The heads of all streams."""
        return self._get("/api/heads")

    def verify(
        self, against: Heads = None, *, chain_only: bool = False, progress: Progress | None = None
    ) -> Verified:
        """Check that the store says what was written; heads are compared where the store is."""
        from passdown.ledger.verifying import Verified

        if against is not None:
            message = "heads are compared where the store is"
            problem = Problem("against", "not_offered", message, "nothing here")
            raise InvalidInput("nothing was verified", [problem])
        found = self._get("/api/verify", chain_only=chain_only)
        findings = tuple(Problem(**finding) for finding in found["findings"])
        return Verified(findings, found["streams"], found["records"])


def _named(counter: CounterLike) -> str | None:
    """A counter by its name: a function can't be sent."""
    if counter is None or isinstance(counter, str):
        return counter
    name: object = getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    problem = Problem("counter", "wrong_type", "a function can't be sent", "a counter's name")
    raise InvalidInput("no brief was made", [problem])


def _check_brief(agent: object, budget: object, format: object, counter: CounterLike) -> None:
    """What is wrong with a question before it is sent; the server asks the same."""
    from passdown.briefing.brief import ask_problems
    from passdown.model.names import agent_problems
    from passdown.model.tokens import counter_of

    asked = 1 if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *ask_problems(asked, format)]
    try:
        if counter is not None:
            counter_of(counter, "chars4")
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput("no brief was made", problems)


def _time(given: str | date) -> str:
    return given if isinstance(given, str) else given.isoformat()
