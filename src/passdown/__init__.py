"""Passdown hands work from one AI agent to the next without losing why.

Start with `passdown.open`; everything else is a method of the workspace it gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown import errors
from passdown.workspace import Workspace, init, open

if TYPE_CHECKING:
    from passdown.model.checksum import (
        IntegrityReport,
        check_integrity,
        compare_states,
        state_checksum,
    )
    from passdown.model.command import Check, HandoffCommand, Receipt
    from passdown.model.documents import apply_delta
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
    from passdown.model.settings import Settings
    from passdown.model.state import TaskState

__version__ = "0.1.0"

# Values are loaded when they are first named: a command that needs none shouldn't pay for them.
_LAZY = {
    "IntegrityReport": "checksum",
    "check_integrity": "checksum",
    "compare_states": "checksum",
    "state_checksum": "checksum",
    "Check": "command",
    "HandoffCommand": "command",
    "Receipt": "command",
    "apply_delta": "documents",
    "read_handle": "handle_text",
    "Artifact": "handoff",
    "Blocker": "handoff",
    "Decision": "handoff",
    "FileCreated": "handoff",
    "FileModified": "handoff",
    "GateResult": "handoff",
    "Gotcha": "handoff",
    "Handoff": "handoff",
    "HandoffContext": "handoff",
    "NextStep": "handoff",
    "Pattern": "handoff",
    "Question": "handoff",
    "Reading": "handoff",
    "Story": "handoff",
    "Settings": "settings",
    "TaskState": "state",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'passdown' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"passdown.model.{_LAZY[name]}"), name)


__all__ = [
    "Artifact",
    "Blocker",
    "Check",
    "Decision",
    "FileCreated",
    "FileModified",
    "GateResult",
    "Gotcha",
    "Handoff",
    "HandoffCommand",
    "HandoffContext",
    "IntegrityReport",
    "NextStep",
    "Pattern",
    "Question",
    "Reading",
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
    "read_handle",
    "state_checksum",
]
