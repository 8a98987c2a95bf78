"""The knowledge file of the machine that asks, brought together with a graph behind a server."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from passdown.errors import Problem
from passdown.model.graph_files import read_graph
from passdown.workspace.remote.asking import Asking
from passdown.workspace.syncing import Places, Written

if TYPE_CHECKING:
    from passdown.model.graph_merging import Merge
    from passdown.workspace import Workspace
    from passdown.workspace.remote.connection import Wire


_LARGEST = 2**62


class RemoteLedger(Asking):
    """What was written down, through a server."""

    def __init__(self, wire: Wire, workspace: Workspace) -> None:
        self._wire = wire
        self._workspace = workspace

    def written(self, since: int) -> Written:
        """What was written down, and what several agents wrote differently since a record."""
        # What is remembered stands in a file, which may say anything.
        place = min(max(since, 0), _LARGEST)
        found = self._get("/api/knowledge", is_heavy=True, since=place)
        reports = tuple(Problem(**report) for report in found["reports"])
        return Written(read_graph(json.dumps(found["graph"]), "json"), found["seq"], reports)

    def learn(self, merge: Merge, agent: str) -> None:
        """Write down what a file says."""
        self._workspace.learn(merge.nodes, merge.edges, agent=agent)


def places_here(url: str) -> Places:
    """The project of the current folder. What its file said last time is remembered in the cache of
    the user: a folder `.passdown` here would be taken for a workspace.
    """
    root = os.getcwd()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    whose = f"{url}\0{os.path.realpath(root)}".encode()
    name = hashlib.blake2b(whose, digest_size=8).hexdigest()
    memory = os.path.join(cache, "passdown", "knowledge", name)
    return Places(root, os.path.join(root, ".passdown"), memory)
