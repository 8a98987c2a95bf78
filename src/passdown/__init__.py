"""Passdown hands work from one AI agent to the next without losing why.

Start with `passdown.open`; everything else is a method of the workspace it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown import errors

if TYPE_CHECKING:
    from passdown.core.documents import apply_delta
    from passdown.core.graph import Edge, Graph, Node
    from passdown.core.handoff import (
        Artifact,
        Blocker,
        Decision,
        Fact,
        FileCreated,
        FileModified,
        GateResult,
        Gotcha,
        Handoff,
        HandoffContext,
        NextStep,
        Pattern,
        Precondition,
        Question,
        Reading,
        Story,
    )
    from passdown.core.integrity import (
        IntegrityReport,
        check_integrity,
        compare_states,
        state_checksum,
    )
    from passdown.core.results import Check, HandoffCommand, Recalled, Receipt
    from passdown.core.settings import Settings
    from passdown.core.state_files import read_state_file
    from passdown.core.task_state import AgentHandoffProtocol, TaskState
    from passdown.knowledge.graph_files import read_graph, write_graph
    from passdown.workspace import Workspace, init, open


__version__ = "0.1.0"

# Names are loaded when they are first used: a command that needs none shouldn't pay for them.
_LAZY = {
    "AgentHandoffProtocol": "core.task_state",
    "IntegrityReport": "core.integrity",
    "check_integrity": "core.integrity",
    "compare_states": "core.integrity",
    "state_checksum": "core.integrity",
    "Check": "core.results",
    "HandoffCommand": "core.results",
    "Receipt": "core.results",
    "apply_delta": "core.documents",
    "Edge": "core.graph",
    "Graph": "core.graph",
    "Node": "core.graph",
    "read_graph": "knowledge.graph_files",
    "write_graph": "knowledge.graph_files",
    "read_state_file": "core.state_files",
    "Artifact": "core.handoff",
    "Blocker": "core.handoff",
    "Decision": "core.handoff",
    "FileCreated": "core.handoff",
    "FileModified": "core.handoff",
    "GateResult": "core.handoff",
    "Fact": "core.handoff",
    "Gotcha": "core.handoff",
    "Handoff": "core.handoff",
    "HandoffContext": "core.handoff",
    "NextStep": "core.handoff",
    "Pattern": "core.handoff",
    "Precondition": "core.handoff",
    "Question": "core.handoff",
    "Reading": "core.handoff",
    "Story": "core.handoff",
    "Recalled": "core.results",
    "Settings": "core.settings",
    "TaskState": "core.task_state",
    "Workspace": "workspace",
    "init": "workspace",
    "open": "workspace",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'passdown' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"passdown.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AgentHandoffProtocol",
    "Artifact",
    "Blocker",
    "Check",
    "Decision",
    "Edge",
    "Fact",
    "FileCreated",
    "FileModified",
    "GateResult",
    "Gotcha",
    "Graph",
    "Handoff",
    "HandoffCommand",
    "HandoffContext",
    "IntegrityReport",
    "NextStep",
    "Node",
    "Pattern",
    "Precondition",
    "Question",
    "Reading",
    "Recalled",
    "Receipt",
    "Settings",
    "Story",
    "TaskState",
    "Workspace",
    "__version__",
    "apply_delta",
    "check_integrity",
    "compare_states",
    "errors",
    "init",
    "open",
    "read_graph",
    "read_state_file",
    "state_checksum",
    "write_graph",
]
