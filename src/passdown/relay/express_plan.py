"""What an express item would change, found out before anything is: the setting up of its work.

Files are read from the commit that the item is for, never from the user's folder. A plan holds only
what differs, so a worktree is prepared for that alone, and none where nothing differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import GitError, InvalidInput, Problem
from passdown.model.graph import Graph, graph_of
from passdown.model.graph_files import read_graph, write_graph
from passdown.model.knowledge_update import updated
from passdown.model.patches import read_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.model.express import Change, ExpressItem
    from passdown.model.graph import Edge, Node
    from passdown.relay.repository import Repository


class Plan(NamedTuple):
    """What an item would change: files with their new content (None: taken out), patches, and what
    the ledger takes over. `reports` and `lost` are what the one who sent it should know.
    """

    files: Mapping[str, bytes | None]
    patches: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    reports: tuple[Problem, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The files that have to be at hand for it."""
        patched = (path for patch in self.patches for path in read_patch(patch).paths)
        return tuple(sorted({*self.files, *patched}))


class _Desk:
    """What is at hand while a plan is made: the files of a commit, and what the ledger knows."""

    def __init__(self, repository: Repository, base: str, ledger: Graph) -> None:
        self.ledger = ledger
        self._repository = repository
        self._base = base
        self.plan = Plan({})

    def before(self, path: str) -> bytes | None:
        """The content of a file in the commit."""
        return self._repository.read(self._base, path)

    def now(self, path: str) -> bytes | None:
        """The content of a file after the changes so far."""
        return self.plan.files[path] if path in self.plan.files else self.before(path)

    def put(self, path: str, data: bytes | None) -> None:
        """Give a file its new content; one that has it already needs no change."""
        files = {name: kept for name, kept in self.plan.files.items() if name != path}
        if data != self.before(path):
            files[path] = data
        self.plan = self.plan._replace(files=files)


def plan_of(item: ExpressItem, repository: Repository, base: str, ledger: Graph) -> Plan:
    """The plan for an item at a commit. Raises GitError or InvalidInput where there is none."""
    desk = _Desk(repository, base, ledger)
    for change in item.changes():
        _STEPS[change.action](desk, change)
    return desk.plan


def _write(desk: _Desk, change: Change) -> None:
    desk.put(change.path, change.text.encode())


def _append(desk: _Desk, change: Change) -> None:
    """Add text at the end, on a line of its own."""
    before = desk.now(change.path) or b""
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    desk.put(change.path, before + gap + change.text.encode())


def _delete(desk: _Desk, change: Change) -> None:
    if desk.now(change.path) is None:
        message = f"there is no file {change.path!r} to delete"
        raise GitError(message, next_step="Look at its name.", code="unsafe_path")
    desk.put(change.path, None)


def _patch(desk: _Desk, change: Change) -> None:
    desk.plan = desk.plan._replace(patches=(*desk.plan.patches, change.text))


def _learn(desk: _Desk, change: Change) -> None:
    """Bring entries to a knowledge file, and to the ledger."""
    file = _graph_in(desk, change.path)
    entries = graph_of(change.nodes, change.edges)
    made = updated(file, entries, desk.ledger, is_only=change.action == "learn_only")
    form = "json" if change.path.endswith(".json") else "dot"
    desk.put(change.path, write_graph(made.file, form).encode())
    desk.plan = desk.plan._replace(
        nodes=(*desk.plan.nodes, *made.nodes),
        edges=(*desk.plan.edges, *made.edges),
        reports=(*desk.plan.reports, *made.reports),
        lost=(*desk.plan.lost, *made.lost),
    )


def _graph_in(desk: _Desk, path: str) -> Graph:
    data = desk.now(path) or b""
    if not data.strip():
        return graph_of((), ())
    known = [node.id for node in desk.ledger.nodes]
    try:
        return read_graph(data.decode().replace("\r\n", "\n"), known=known)
    except UnicodeDecodeError as error:
        problem = Problem(path, "not_text", str(error), "a knowledge file")
        raise InvalidInput("the knowledge file can't be read", [problem]) from error


_STEPS: Mapping[str, Callable[[_Desk, Change], None]] = {
    "write": _write,
    "append": _append,
    "delete": _delete,
    "patch": _patch,
    "learn": _learn,
    "learn_only": _learn,
}
