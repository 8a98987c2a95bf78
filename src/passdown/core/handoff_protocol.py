"""What a program can rely on to hand tasks over, without knowing what records them."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from passdown.core.handoff import TaskState
from passdown.core.results import HandoffCommand


@runtime_checkable
class AgentHandoffProtocol(Protocol):
    """Prepares the handoff of a task, and gives the receiver its state. A workspace does both."""

    def prepare_handoff(
        self, task: str, to_agent: str, phase: str, **fields: Any
    ) -> HandoffCommand:
        """The command of a handoff by the task's holder, with what it would change; nothing is
        recorded until it is handed off.
        """
        ...

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        ...
