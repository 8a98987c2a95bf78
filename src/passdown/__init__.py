"""Passdown hands work from one AI agent to the next without losing why.

Start with `passdown.open`; everything else is a method of the workspace it gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown import errors

if TYPE_CHECKING:
    from passdown.model.checksum import (
        IntegrityReport,
        check_integrity,
        compare_states,
        state_checksum,
    )
    from passdown.model.command import Check, HandoffCommand, Receipt
    from passdown.model.documents import apply_delta
    from passdown.model.graph import Edge, Graph, Node
    from passdown.model.graph_files import read_graph, write_graph
    from passdown.model.handle_text import read_handle
    from passdown.model.handoff import (
        Artifact,
        Blocker,
        Decision,
        FileCreated,
        FileModified,
        GateResult,
        Gotcha,
        Handoff,
        HandoffContext,
        NextStep,
        Pattern,
        Question,
        Reading,
        Story,
    )
    from passdown.model.recalled import Recalled
    from passdown.model.settings import Settings
    from passdown.model.state import TaskState
    from passdown.workspace import Workspace, init, open

__version__ = "0.1.0"

# Names are loaded when they are first used: a command that needs none shouldn't pay for them.
_LAZY = {
    "IntegrityReport": "model.checksum",
    "check_integrity": "model.checksum",
    "compare_states": "model.checksum",
    "state_checksum": "model.checksum",
    "Check": "model.command",
    "HandoffCommand": "model.command",
    "Receipt": "model.command",
    "apply_delta": "model.documents",
    "Edge": "model.graph",
    "Graph": "model.graph",
    "Node": "model.graph",
    "read_graph": "model.graph_files",
    "write_graph": "model.graph_files",
    "read_handle": "model.handle_text",
    "Artifact": "model.handoff",
    "Blocker": "model.handoff",
    "Decision": "model.handoff",
    "FileCreated": "model.handoff",
    "FileModified": "model.handoff",
    "GateResult": "model.handoff",
    "Gotcha": "model.handoff",
    "Handoff": "model.handoff",
    "HandoffContext": "model.handoff",
    "NextStep": "model.handoff",
    "Pattern": "model.handoff",
    "Question": "model.handoff",
    "Reading": "model.handoff",
    "Story": "model.handoff",
    "Recalled": "model.recalled",
    "Settings": "model.settings",
    "TaskState": "model.state",
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
    "Artifact",
    "Blocker",
    "Check",
    "Decision",
    "Edge",
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
    "read_handle",
    "state_checksum",
    "write_graph",
]
