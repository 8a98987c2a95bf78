"""Everything this package imports from LangGraph and LangChain, untyped."""

from __future__ import annotations

from typing import Any, cast

import langgraph.config
import langgraph.errors
import langgraph.graph  # pyright: ignore[reportMissingTypeStubs]
import langgraph.types
from langchain_core import messages, runnables, tools
from langgraph.types import interrupt as _interrupt

StateGraph: Any = langgraph.graph.StateGraph
START: str = langgraph.graph.START
END: str = langgraph.graph.END
Command: Any = langgraph.types.Command
Send: Any = langgraph.types.Send
Overwrite: Any = langgraph.types.Overwrite
ParentCommand: type[Exception] = langgraph.errors.ParentCommand
Runnable: Any = runnables.Runnable
RunnableLambda: Any = runnables.RunnableLambda
AIMessage: Any = messages.AIMessage
HumanMessage: Any = messages.HumanMessage
ToolMessage: Any = messages.ToolMessage
convert_to_messages: Any = messages.convert_to_messages
StructuredTool: Any = tools.StructuredTool
interrupt: Any = _interrupt


def running_config() -> dict[str, Any]:
    """The configuration of the node that is running; empty outside of one."""
    try:
        return cast("dict[str, Any]", langgraph.config.get_config())
    except RuntimeError:
        return {}
