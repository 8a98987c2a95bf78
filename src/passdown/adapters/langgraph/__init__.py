"""LangGraph adapter: graphs that hand off, tools and middleware for agents, persistence.

Names are loaded when they are first used: each part works without the others, and importing this
package needs no framework. Needs `pip install 'passdown[langgraph]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import MissingExtra

if TYPE_CHECKING:
    from passdown.adapters.langgraph.agents import BriefMiddleware, handoff_tool
    from passdown.adapters.langgraph.checkpoints import LedgerSaver
    from passdown.adapters.langgraph.graph import (
        HandoffGraph,
        aask_people,
        ask_people,
        handoff_node,
    )
    from passdown.adapters.langgraph.store import RecallStore
    from passdown.adapters.states import Transition, replay, runs, transitions

_MODULES = {
    "langgraph.agents": ("BriefMiddleware", "handoff_tool"),
    "langgraph.checkpoints": ("LedgerSaver",),
    "langgraph.graph": ("HandoffGraph", "aask_people", "ask_people", "handoff_node"),
    "langgraph.store": ("RecallStore",),
    "states": ("Transition", "replay", "runs", "transitions"),
}


def __getattr__(name: str) -> object:
    module = next((each for each, names in _MODULES.items() if name in names), "")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        import_module("langgraph.graph")
        return getattr(import_module(f"passdown.adapters.{module}"), name)
    except ImportError as error:
        raise MissingExtra.named(
            "langgraph",
            "LangGraph and LangChain are needed for this, and one of them is not installed",
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
