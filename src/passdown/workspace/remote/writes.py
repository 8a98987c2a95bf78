"""What is recorded through a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from passdown.model.handoff import Handoff, as_plain
from passdown.workspace.remote.asking import Asking
from passdown.workspace.remote.connection import part
from passdown.workspace.remote.values import check_of, command_of, receipt_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.command import Check, HandoffCommand, Receipt
    from passdown.model.graph import Edge, Node
    from passdown.model.handoff import Decision
    from passdown.workspace.aliases import HandoffLike, Key

Document = dict[str, Any]


class RemoteWrites(Asking):
    """The methods that record something; see `Workspace` for what each one does."""

    def create_task(
        self, task: str, *, title: str, agent: str, key: Key = None, **fields: Any
    ) -> Receipt:
        """Make a task."""
        body = {**fields, "task": task, "title": title, "agent": agent}
        return receipt_of(self._post("/api/tasks", body, key))

    def change_task(
        self,
        task: str,
        *,
        agent: str,
        expect_version: int | None = None,
        key: Key = None,
        **fields: Any,
    ) -> Receipt:
        """Change a task."""
        rest: Document = {"method": "PATCH", "expect_version": expect_version}
        body = {**fields, "agent": agent}
        return receipt_of(self._post(f"/api/tasks/{part(task)}", body, key, **rest))

    def hand_off(
        self,
        handoff: HandoffLike,
        *,
        key: Key = None,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> HandoffCommand:
        """Record a handoff."""
        body = _enveloped(handoff, rebase, changed_files, defaults)
        return command_of(self._post("/api/handoffs", body, key))

    def check(
        self,
        handoff: HandoffLike,
        *,
        rebase: bool = False,
        changed_files: Sequence[str] | None = None,
        **defaults: Any,
    ) -> Check:
        """Everything that `hand_off` would check."""
        body = _enveloped(handoff, rebase, changed_files, defaults)
        return check_of(self._post("/api/handoffs/check", body))

    def decide(
        self,
        *,
        agent: str,
        summary: str,
        rationale: str,
        task: str | None = None,
        key: Key = None,
        expect_version: int | None = None,
        **fields: Any,
    ) -> Receipt:
        """Record one decision."""
        from passdown.workspace.remote.looking import seen

        body = {**fields, "task": task, "agent": agent, "summary": summary, "rationale": rationale}
        body |= seen({"decisions": [fields]})
        rest: Document = {"expect_version": expect_version}
        return receipt_of(self._post("/api/decisions", body, key, **rest))

    def note(
        self, kind: str, *, agent: str, task: str | None = None, key: Key = None, **fields: Any
    ) -> Receipt:
        """Record a pattern or a gotcha."""
        from passdown.workspace.remote.looking import seen

        body = {**fields, "kind": kind, "agent": agent, "task": task}
        body |= seen({"patterns": [fields]}) if kind == "pattern" else {}
        return receipt_of(self._post("/api/notes", body, key))

    def warn(self, task: str, *, agent: str, text: str, key: Key = None) -> Receipt:
        """Record a warning."""
        body = {"task": task, "agent": agent, "text": text}
        return receipt_of(self._post("/api/warnings", body, key))

    def mark(
        self, item: str, status: str, *, agent: str, reason: str = "", key: Key = None
    ) -> Receipt:
        """Give an item another status."""
        body = {"status": status, "agent": agent, "reason": reason}
        return receipt_of(self._post(f"/api/items/{part(item)}/marks", body, key))

    def record_gate(
        self,
        task: str,
        *,
        agent: str,
        name: str,
        passed: bool,
        detail: str = "",
        key: Key = None,
    ) -> Receipt:
        """Record the result of a quality gate."""
        body = {"task": task, "agent": agent, "name": name, "passed": passed, "detail": detail}
        return receipt_of(self._post("/api/gates", body, key))

    def approve(self, gate: str, *, by: str, reason: str = "", key: Key = None) -> Receipt:
        """A person lets a held task go on."""
        body = {"by": by, "reason": reason}
        return receipt_of(self._post(f"/api/gates/{part(gate)}/approve", body, key))

    def reject(self, gate: str, *, by: str, reason: str, key: Key = None) -> Receipt:
        """A person says no, and why."""
        body = {"by": by, "reason": reason}
        return receipt_of(self._post(f"/api/gates/{part(gate)}/reject", body, key))

    def store_decision(self, decision: Decision, task: str | None = None) -> str:
        """Record a decision value and give the key, of agent and time, that finds it again."""
        from passdown.workspace.decisions import plain_decision
        from passdown.workspace.remote.looking import seen

        body = {**plain_decision(decision), "task": task}
        body |= seen({"decisions": [body]})
        return self._post("/api/stored-decisions", body, repeats=True)["key"]

    def learn(
        self,
        nodes: Iterable[Node | Document] = (),
        edges: Iterable[Edge | Document] = (),
        *,
        agent: str,
        task: str | None = None,
        key: Key = None,
        forget_nodes: Sequence[str] = (),
        forget_edges: Sequence[tuple[str, str, str]] = (),
    ) -> Receipt:
        """Write knowledge down."""
        from passdown.model.knowledge import edge_document, node_document
        from passdown.workspace.knowing import given_knowledge

        given = given_knowledge(nodes, edges, forget_nodes, forget_edges)
        body: Document = {
            "nodes": [node_document(node) for node in given.nodes],
            "edges": [edge_document(edge) for edge in given.edges],
            "agent": agent,
            "task": task,
            "forget_nodes": given.forget_nodes,
            "forget_edges": given.forget_edges,
        }
        return receipt_of(self._post("/api/knowledge", body, key))


def _enveloped(
    handoff: HandoffLike,
    rebase: bool,
    changed_files: Sequence[str] | None,
    defaults: Document,
) -> Document:
    """A handoff in any form, as a body, and what the files that it names are like here."""
    from passdown.workspace.remote.looking import seen_of_handoff

    sent: object = handoff
    if isinstance(handoff, Handoff):
        sent = as_plain(handoff)
    elif isinstance(handoff, Mapping):
        sent = dict(handoff)
    elif isinstance(handoff, bytes):
        sent = handoff.decode("utf-8", "surrogateescape")
    named = {name: value for name, value in defaults.items() if value is not None}
    files = None if changed_files is None else list(changed_files)
    body = {"handoff": sent, "defaults": named, "rebase": rebase, "changed_files": files}
    return body | seen_of_handoff(handoff, named)
