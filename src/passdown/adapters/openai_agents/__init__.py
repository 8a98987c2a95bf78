"""The OpenAI Agents SDK on a workspace: handoffs with a record, hooks, sessions.

Needs `pip install 'passdown[openai-agents]'`.
"""

from passdown.errors import MissingExtra

try:
    import agents as _sdk

    _sdk.Runner  # noqa: B018 - somebody's own package of that name has none
except (ImportError, AttributeError) as _error:
    raise MissingExtra(
        "the OpenAI Agents SDK is not installed",
        next_step="Install it with: pip install 'passdown[openai-agents]'",
    ) from _error

from passdown.adapters.openai_agents.filters import HandoffHeld
from passdown.adapters.openai_agents.follow_ups import since_handoff
from passdown.adapters.openai_agents.handoffs import opening, passdown_handoff
from passdown.adapters.openai_agents.hooks import PassdownHooks, active_agent, run_records
from passdown.adapters.openai_agents.payload import HandoffPayload
from passdown.adapters.openai_agents.running import check_run, run, run_streamed, run_sync
from passdown.adapters.openai_agents.session import LedgerSession, Said
from passdown.adapters.openai_agents.transcripts import history_tool

__all__ = [
    "HandoffHeld",
    "HandoffPayload",
    "LedgerSession",
    "PassdownHooks",
    "Said",
    "active_agent",
    "check_run",
    "history_tool",
    "opening",
    "passdown_handoff",
    "run",
    "run_records",
    "run_streamed",
    "run_sync",
    "since_handoff",
]
