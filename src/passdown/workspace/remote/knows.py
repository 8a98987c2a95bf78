"""What is found through a server: search, the knowledge graph, packs, the journal, the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.model.arguments import number_problems, refuse_any, text_type_problems, texts_given
from passdown.workspace.remote.asking import Asking, named_counter
from passdown.workspace.remote.connection import part
from passdown.workspace.remote.values import recalled_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from passdown.errors import Problem
    from passdown.model.graph import Edge, Graph
    from passdown.model.recalled import Recalled
    from passdown.recall.graph import Reached, Tagged
    from passdown.workspace import Workspace
    from passdown.workspace.aliases import CounterLike, Progress
    from passdown.workspace.embedding import Embedded
    from passdown.workspace.packing import Pack
    from passdown.workspace.syncing import Synced

Document = dict[str, Any]

_REFUSED = "can't look around"
_ANY = 2**62


class RemoteKnows(Asking):
    """The methods that find things again; see `Workspace` for what each one does."""

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
        from passdown.workspace.recalling import asked_for

        filters: Document = {"kinds": kinds, "agent": agent, "task": task, "tags": tags}
        filters |= {"path": path, "statuses": statuses, "since": since, "until": until}
        asked = {**asked_for(query, filters)._asdict(), "told_to": told_to, "limit": limit}
        asked |= {"live_only": live_only or None, "by_words": by_words or None}
        kept = {name: value for name, value in asked.items() if value not in ("", None, (), [])}
        found = self._check("/api/recall", kept)
        return [recalled_of(entry) for entry in found["items"]]

    def embed(self, *, limit: int = 0, progress: Progress | None = None) -> Embedded:
        """Make the vectors that are missing, where the store is; says how far they are."""
        from passdown.workspace.embedding import Embedded

        found = self._post("/api/embedding", {"limit": limit}, repeats=True, is_heavy=True)
        return Embedded(**found)

    def embedding(self) -> Embedded:
        """How far vectors are."""
        from passdown.workspace.embedding import Embedded

        return Embedded(**self._get("/api/embedding"))

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
        asked = _checked({"form": form, "task": task}, {"depth": depth})
        asked |= _listed(around=around, tags=tags, types=types)
        kept = {name: value for name, value in asked.items() if value not in ("", (), [])}
        return self._wire.ask("GET", "/api/graph", query=kept).body.decode()

    def edges(self, *, source: str = "", relation: str = "", target: str = "") -> list[Edge]:
        """The edges by any mix of source, relation and target; all of them by none."""
        from passdown.model.findable import edge_of

        asked = _checked({"source": source, "relation": relation, "target": target}, {})
        found = self._get("/api/graph/edges", is_heavy=True, **asked)
        return [edge_of(edge) for edge in found["items"]]

    def neighbours(
        self,
        node: str,
        *,
        depth: int = 1,
        direction: str = "out",
        relations: Sequence[str] = (),
    ) -> list[Reached]:
        """The nodes that can be reached from one, nearest first."""
        from passdown.model.findable import edge_of
        from passdown.recall.graph import Reached

        asked = _checked({"node": node, "direction": direction}, {"depth": depth})
        asked |= {"node": _said(node), **_listed(relations=relations)}
        found = self._get("/api/graph/neighbours", is_heavy=True, **asked)
        return [
            Reached(place["node"], place["depth"], tuple(edge_of(edge) for edge in place["path"]))
            for place in found["items"]
        ]

    def tagged(
        self, tags: Sequence[str], *, types: Sequence[str] = (), limit: int = 10
    ) -> list[Tagged]:
        """Nodes under any of some tags, those that share most of them first."""
        from passdown.model.findable import node_of
        from passdown.recall.graph import Tagged

        asked = _checked({}, {"limit": limit}) | _listed(tags=tags, types=types)
        if not asked["tags"]:
            return []
        found = self._get("/api/graph/tagged", **asked)
        return [
            Tagged(node_of(each["node"]), each["score"], tuple(each["tags"]))
            for each in found["items"]
        ]

    def tasks_about(self, tag: str, *, types: Sequence[str] = ("pattern",)) -> Document:
        """The tasks that found something about a tag, each with what it found."""
        asked = _checked({"tag": tag}, {}) | _listed(types=types)
        asked["tag"] = _said(tag)
        return self._get("/api/graph/about", **asked)["tasks"]

    def pack(
        self,
        task: str,
        *,
        nodes: int = 20,
        budget: int = 1500,
        depth: int = 1,
        counter: CounterLike = None,
        form: str = "dot",
    ) -> Pack:
        """The part of the graph that has to do with a task, within nodes and tokens."""
        import json

        from passdown.model.graph_files import read_graph
        from passdown.workspace.packing import Pack

        asked: Document = {"nodes": nodes, "budget": budget, "depth": depth, "form": form}
        asked["counter"] = named_counter(counter, "no such pack")
        found = self._get(f"/api/tasks/{part(task)}/pack", is_heavy=True, **asked)
        found["graph"] = read_graph(json.dumps(found["graph"]), "json")
        found["terms"] = tuple(found["terms"])
        return Pack(**found)

    def sync_knowledge(self, path: str = "", *, agent: str) -> Synced:
        """Bring the knowledge file here and what was written down together."""
        from passdown.workspace.remote.syncing import RemoteLedger, places_here
        from passdown.workspace.syncing import brought_together

        side = RemoteLedger(self._wire, cast("Workspace", self))
        return brought_together(side, places_here(self._wire.server.url), path, agent=agent)

    def journal(self, task: str = "", *, limit: int = 200) -> Document:
        """Where things are, what is in the way and what was learned."""
        return self._get(
            "/api/journal", is_heavy=True, **_checked({"task": task}, {"limit": limit})
        )

    def audit(self, *, limit: int = 20, progress: Progress | None = None) -> Document:
        """What is remembered and might not deserve to be."""
        return self._get("/api/audit", is_heavy=True, **_checked({}, {"limit": limit}))


def _said(given: str) -> str:
    """A text that has to be there; of none, a blank, which nothing is known by either."""
    return given or " "


def _checked(texts: Document, numbers: Document) -> Document:
    """What is asked, if it is of the right types: an address would spell anything."""
    problems = text_type_problems(**texts)
    for name, number in numbers.items():
        problems += number_problems(number, name, -_ANY, _ANY)
    refuse_any(_REFUSED, problems)
    return {**texts, **numbers}


def _listed(**lists: Sequence[str]) -> Document:
    """Lists of texts; one text alone is meant as a list of itself."""
    problems: list[Problem] = []
    found = {name: texts_given(given, name, problems) for name, given in lists.items()}
    refuse_any(_REFUSED, problems)
    return found
