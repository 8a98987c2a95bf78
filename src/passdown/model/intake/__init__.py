"""The boundary: whatever comes in, one checked handoff comes out, or every problem at once.

Accepted are Python values, dicts, JSON, YAML, a task file whose `## Handoff` section holds the
YAML, and two neighbouring shapes (`shapes`). Only this package needs pydantic.
"""

from passdown.model.intake.checking import (
    Checked,
    check_entry,
    check_handoff,
    check_task,
    handoff_schema,
    refused,
    task_schema,
)
from passdown.model.state_schema import state_problems, state_schema

__all__ = [
    "Checked",
    "check_entry",
    "check_handoff",
    "check_task",
    "handoff_schema",
    "refused",
    "state_problems",
    "state_schema",
    "task_schema",
]
