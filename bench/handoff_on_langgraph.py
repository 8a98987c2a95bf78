"""The job on LangGraph: swarm, supervisor, and a swarm with Passdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import passdown
from bench.handoff_job import (
    BUDGET,
    REQUEST,
    RESULTS,
    Reached,
    message,
    named_call,
    payload,
    result_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def swarm(_: Path) -> Reached:
    import langgraph_swarm

    made: Any = langgraph_swarm

    return _done(
        lambda tools, models, agent_of: made.create_swarm(
            [
                agent_of(
                    "sender", models[0], [*tools, made.create_handoff_tool(agent_name="receiver")]
                ),
                agent_of("receiver", models[1], []),
            ],
            default_active_agent="sender",
        )
    )


def supervisor(_: Path) -> Reached:
    import langgraph_supervisor

    made: Any = langgraph_supervisor

    return _done(
        lambda tools, models, agent_of: made.create_supervisor(
            [agent_of("receiver", models[1], [])], model=models[0], tools=tools
        )
    )


def with_passdown(folder: Path) -> Reached:
    """A swarm with Passdown's tool and middleware.

    Within reach is what stands in the input, or is given by the commands or the call that it names.
    """
    import langgraph_swarm

    from passdown.adapters.langgraph import BriefMiddleware, handoff_tool

    made: Any = langgraph_swarm
    given = payload()
    fields = {"suggested_next_steps": given["next_steps"]}
    fields |= {name: given[name] for name in ("outcome", "summary", "decisions")}
    with passdown.init(str(folder)) as workspace:
        workspace.create_task("T-1", title=REQUEST, agent="sender")
        onward = handoff_tool("receiver", workspace=workspace, task="T-1", from_agent="sender")
        brief = BriefMiddleware(workspace, "T-1", "receiver", budget=BUDGET)
        return _done(
            lambda tools, models, agent_of: made.create_swarm(
                [
                    agent_of("sender", models[0], [*tools, onward]),
                    agent_of("receiver", models[1], [], middleware=[brief]),
                ],
                default_active_agent="sender",
            ),
            fields,
        )


def _done(
    graph_of: Callable[[list[Any], tuple[Any, Any], Callable[..., Any]], Any],
    arguments: dict[str, Any] | None = None,
) -> Reached:
    """A job on a graph of two agents that take turns from a script."""
    import langchain.agents
    from langchain.tools import tool
    from langchain_core.messages import AIMessage, convert_to_openai_messages

    made: Any = langchain.agents

    @tool
    def look(number: int) -> str:
        """Look something up."""
        return result_text(number)

    def call(name: str, arguments: dict[str, Any], call_id: str, text: str = "") -> AIMessage:
        return AIMessage(text, tool_calls=[{"name": name, "args": arguments, "id": call_id}])

    calls = [call("look", {"number": n}, f"call_{n}") for n in range(RESULTS)]
    last = call("transfer_to_receiver", arguments or {}, "call_handoff", message())

    def read_or_end(messages: list[Any]) -> AIMessage:
        """The one call that the input names, if it names one."""
        named = named_call(str(messages[0].content))
        return call("read_history", {"items": named}, "call_read") if named else AIMessage("done")

    done = AIMessage("done")  # a supervisor is asked once more when its agent has ended
    models = (_scripted([*calls, last, done]), _scripted([read_or_end, done]))

    def agent_of(name: str, model: Any, tools: list[Any], **options: Any) -> Any:
        return made.create_agent(model, tools, name=name, **options)

    graph = graph_of([look], models, agent_of).compile()
    graph.invoke({"messages": [{"role": "user", "content": REQUEST}]}, {"recursion_limit": 60})
    given, *later = models[1].seen
    fetched = str(later[0][-1].content) if later else ""
    return Reached(json.dumps(convert_to_openai_messages(given), ensure_ascii=False), fetched)


def _scripted(answers: list[Any]) -> Any:
    """A chat model that gives these answers in turn and keeps what it was given."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        waiting: list[Any]
        seen: list[Any]

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            del tools
            return self

        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            self.seen.append(list(messages))
            answer = self.waiting.pop(0)
            message: Any = answer(messages) if callable(answer) else answer
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted(waiting=list(answers), seen=[])
