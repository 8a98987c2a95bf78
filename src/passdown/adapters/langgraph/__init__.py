"""LangGraph adapter: graphs that hand off, tools and middleware for agents, persistence.

Names are loaded when they are first used: each part works without the others, and importing this
package needs no framework. Needs `pip install 'passdown[langgraph]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import MissingExtra

if TYPE_CHECKING:
    from passdown.adapters.langgraph.checkpoints import LedgerSaver
    from passdown.adapters.langgraph.graph import (
        HandoffGraph,
        Transition,
        replay,
        runs,
        transitions,
    )
    from passdown.adapters.langgraph.middleware import BriefMiddleware
    from passdown.adapters.langgraph.nodes import aask_people, ask_people, handoff_node
    from passdown.adapters.langgraph.store import RecallStore
    from passdown.adapters.langgraph.tools import handoff_tool


_LAZY = {
    "BriefMiddleware": "middleware",
    "HandoffGraph": "graph",
    "LedgerSaver": "checkpoints",
    "RecallStore": "store",
    "Transition": "graph",
    "aask_people": "nodes",
    "ask_people": "nodes",
    "handoff_node": "nodes",
    "handoff_tool": "tools",
    "replay": "graph",
    "runs": "graph",
    "transitions": "graph",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ImportError as error:
        raise MissingExtra(
            "LangGraph and LangChain are needed for this, and one of them is not installed",
            next_step="Install them: pip install 'passdown[langgraph]'",
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BriefMiddleware",
    "HandoffGraph",
    "LedgerSaver",
    "RecallStore",
    "Transition",
    "aask_people",
    "ask_people",
    "handoff_node",
    "handoff_tool",
    "replay",
    "runs",
    "transitions",
]
