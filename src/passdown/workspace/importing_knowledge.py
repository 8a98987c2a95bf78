"""Knowledge of a source, written down once, and never over what somebody wrote down here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.model.graph import graph_of
from passdown.workspace.importing_results import Done, Earlier, redactions
from passdown.workspace.knowing import learn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.graph import Edge, Node
    from passdown.workspace.opened import Opened


class Learner(NamedTuple):
    """Writes knowledge down in a task, on behalf of an agent."""

    opened: Opened
    task: str
    agent: str
    earlier: Earlier

    def take(
        self,
        what: str,
        state: str,
        address: str,
        *,
        nodes: Sequence[Node] = (),
        edges: Sequence[Edge] = (),
    ) -> Done:
        """Record nodes and edges unless the source said the same of `what` the last time.

        Raises InvalidInput where no import knows a node that says something else here.
        """

        def write() -> Done:
            was = self.earlier.state(what)
            if was == state:
                return Done("unchanged", address)
            if not was:
                self._refuse_others(nodes)
            key = self.earlier.key(what, state)
            done = learn(self.opened, nodes, edges, agent=self.agent, task=self.task, key=key)
            result = "unchanged" if done.is_replay else "changed" if was else "added"
            return Done(result, address, redactions(done.warnings))

        return self.earlier.settle(write)

    def _refuse_others(self, nodes: Sequence[Node]) -> None:
        """An import never takes the place of knowledge that somebody wrote down here."""
        with self.opened.store.reading() as reader:
            for node in nodes:
                known = reader.known_node(node.id)
                if known and graph_of([known.node], ()) != graph_of([node], ()):
                    message = f"{known.task} has written down something else under this name"
                    problem = Problem("name", "exists", message, "a name that is free")
                    raise InvalidInput("nothing was changed", [problem])
