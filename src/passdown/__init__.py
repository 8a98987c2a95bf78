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
        AgentHandoffProtocol,
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
        TaskState,
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
    from passdown.knowledge.graph_files import read_graph, write_graph
    from passdown.workspace import Workspace, init, open


__version__ = "0.1.0"

# Names are loaded when they are first used: a command that needs none shouldn't pay for them.
_MODULES = {
    "core.documents": "apply_delta",
    "core.graph": "Edge Graph Node",
    "core.handoff": "AgentHandoffProtocol Artifact Blocker Decision Fact FileCreated FileModified "
    "GateResult Gotcha Handoff HandoffContext NextStep Pattern Precondition Question Reading Story "
    "TaskState",
    "core.integrity": "IntegrityReport check_integrity compare_states state_checksum",
    "core.results": "Check HandoffCommand Recalled Receipt",
    "core.settings": "Settings",
    "core.state_files": "read_state_file",
    "knowledge.graph_files": "read_graph write_graph",
    "workspace": "Workspace init open",
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names.split()}


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
