"""`agents`: where each agent stands, on which task, since when; and which states there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.model.agent_states import MACHINES, as_mermaid, standing_of
from passdown.model.kinds import AGENT_STREAM
from passdown.surfaces.cli.parsing import with_store
from passdown.surfaces.cli.session import opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.agent_states import Standing
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace


def agents(parser: Parser) -> None:
    """The arguments of `agents`."""
    parser.show(
        "passdown agents",
        "passdown agents --busy",
        "passdown agents --mermaid coder",
    )
    parser.add_argument("--busy", action="store_true", help="only those that are on a task")
    parser.add_argument(
        "--mermaid", choices=tuple(MACHINES), help="instead: the states as a Mermaid diagram"
    )
    with_store(parser)
    parser.set_defaults(run=_agents)


def _agents(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import print_json, short_time, table

    if args.mermaid:
        print(as_mermaid(MACHINES[args.mermaid]), end="")
        return 0
    with opened(args) as workspace:
        found = [each for each in _standings(workspace) if each.lease or not args.busy]
    documents = [_document(each) for each in found]
    if args.json:
        print_json(documents)
        return 0
    rows = [
        [d["agent"], d["run"], d["state"], d["task"], short_time(d["since"]), d["machine"]]
        for d in documents
    ]
    names = ("agent", "run", "state", "task", "since (UTC)", "machine")
    table(names, rows, "no agent has moved yet", whole=("agent", "state"))
    return 0


def _standings(workspace: Workspace) -> list[Standing]:
    """Where all agents stand, by name; read here so that nothing of the relay is loaded."""
    from passdown.workspace.beside import Beside

    beside = Beside(workspace)
    found: list[Standing] = []
    for head in beside.streams(AGENT_STREAM):
        record = beside.last(head.stream)
        if record is not None:
            agent = head.stream.removeprefix(AGENT_STREAM)
            found.append(standing_of(agent, record.document()["stands"], record.position))
    return found


def _document(standing: Standing) -> dict[str, object]:
    """A seat in a run is told apart from the agent that sits in it."""
    agent, mark, number = standing.agent.rpartition(".R-")
    is_seat = bool(mark) and number.isdigit()
    return {
        "agent": agent if is_seat else standing.agent,
        "run": f"R-{number}" if is_seat else "",
        "state": standing.state,
        "task": standing.task,
        "since": standing.since,
        "machine": standing.machine,
        "seat": standing.agent,
    }
