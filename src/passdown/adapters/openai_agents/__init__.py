"""OpenAI Agents SDK on a workspace: recorded handoffs, hooks, sessions.

Needs `pip install 'passdown[openai-agents]'`.
"""

from passdown.errors import MissingExtra

try:
    import agents as _sdk

    _sdk.Runner  # noqa: B018 - somebody's own package of that name has none
except (ImportError, AttributeError) as _error:
    raise MissingExtra.named("openai-agents", "the OpenAI Agents SDK is not installed") from _error

from passdown.adapters.openai_agents.handoffs import (
    HandoffHeld,
    opening_input,
    passdown_handoff,
    since_handoff,
)
from passdown.adapters.openai_agents.runs import (
    PassdownHooks,
    active_agent,
    check_run,
    run,
    run_records,
    run_streamed,
    run_sync,
)
from passdown.adapters.openai_agents.sessions import LedgerSession, TranscriptItem, history_tool

__all__ = [
    "HandoffHeld",
    "LedgerSession",
    "PassdownHooks",
    "TranscriptItem",
    "active_agent",
    "check_run",
    "history_tool",
    "opening_input",
    "passdown_handoff",
    "run",
    "run_records",
    "run_streamed",
    "run_sync",
    "since_handoff",
]
