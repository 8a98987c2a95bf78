"""A chat model that says what it is told to, and remembers what it was shown."""

from __future__ import annotations

from typing import Any, cast

import langchain.agents
import langgraph_supervisor
import langgraph_swarm
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

# Their generic types say little here.
create_agent = cast("Any", langchain.agents).create_agent
create_supervisor = cast("Any", langgraph_supervisor).create_supervisor
create_swarm = cast("Any", langgraph_swarm).create_swarm


class ScriptedChat(BaseChatModel):
    """Gives its answers one after the other; one answer more than it has is an error."""

    answers: list[AIMessage]
    _shown: list[list[BaseMessage]] = PrivateAttr(default_factory=list[list[BaseMessage]])
    _tools: list[Any] = PrivateAttr(default_factory=list[Any])

    @property
    def shown(self) -> list[list[BaseMessage]]:
        """What the model was asked, call by call."""
        return self._shown

    @property
    def bound(self) -> list[Any]:
        """The tools it was given last."""
        return self._tools

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self._tools = list(tools)
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._shown.append(list(messages))
        answer = self.answers[len(self._shown) - 1].model_copy()
        return ChatResult(generations=[ChatGeneration(message=answer)])


def says(text: str) -> AIMessage:
    """An answer in words."""
    return AIMessage(content=text)


def calls(*tools: tuple[str, dict[str, Any]], text: str = "") -> AIMessage:
    """An answer that calls tools; their ids are call-1, call-2..."""
    made: list[Any] = [
        {"name": name, "args": args, "id": f"{name}-{index}"}
        for index, (name, args) in enumerate(tools, 1)
    ]
    return AIMessage(content=text, tool_calls=made)


def look(path: str) -> str:
    """Look at a file."""
    return f"saw {path}"
