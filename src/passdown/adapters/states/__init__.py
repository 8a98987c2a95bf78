"""The state that agents share and hand on, in plain Python; no framework is needed.

`AgentState` is its shape, the reducers say how updates join it, `step` runs one agent and hands
the work on, `replay` makes a run's state again from its record.
"""

from passdown.adapters.states.handing import ahandoff_update, context_of, handoff_update
from passdown.adapters.states.hops import astep, step
from passdown.adapters.states.integrity import verify_handoff
from passdown.adapters.states.plain_values import plain
from passdown.adapters.states.reducers import add_decisions, add_messages, add_warnings, message
from passdown.adapters.states.shape import AgentState, apply_update
from passdown.adapters.states.shared import SharedState
from passdown.adapters.states.transitions import Transition, replay, runs, transitions

__all__ = [
    "AgentState",
    "SharedState",
    "Transition",
    "add_decisions",
    "add_messages",
    "add_warnings",
    "ahandoff_update",
    "apply_update",
    "astep",
    "context_of",
    "handoff_update",
    "message",
    "plain",
    "replay",
    "runs",
    "step",
    "transitions",
    "verify_handoff",
]
