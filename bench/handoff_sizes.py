"""What a handoff costs the receiver: one scripted job on real frameworks, side by side.

Ten tool calls with results of 1,000 characters, a message with what was decided and what comes
next, a handoff. Counted is what the receiver's model is given first, as JSON; and how much of the
job it can still get at: in that input, or by the one call or command that the input names, which
is carried out here. No network: the models follow a script.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from bench.figures import Measured, Row, Target
from passdown.model.tokens import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.run import Run

RESULTS, LENGTH = 10, 1_000
BUDGET = 500
REQUEST = "Make the login survive a reload of the page."
DECISIONS = (
    ("Keep the token in an httpOnly cookie", "scripts can't read it"),
    ("Sign with one key per environment", "a leak on staging opens nothing else"),
    ("Refresh after ten minutes", "short enough to revoke, long enough not to be noticed"),
    ("Check the origin of each request", "a cookie is sent along from anywhere"),
    ("Leave the old session table in place", "two releases have to run side by side"),
)
STEPS = ("Write the middleware", "Add the refresh route", "Test with two tabs open")


class Reached(NamedTuple):
    """What the receiver's model was given, as JSON, and what the way named in it gave."""

    given: str
    fetched: str = ""

    def count(self, texts: tuple[str, ...]) -> int:
        """How many of some texts the receiver can get at."""
        held = _leaves(self.given) + self.fetched
        return sum(text in held for text in texts)


def result_text(number: int) -> str:
    """What a tool gives: a thousand characters that no summary could guess."""
    digits = "".join(hashlib.sha256(f"{number}.{n}".encode()).hexdigest() for n in range(16))
    return f"result {number}: {digits}"[:LENGTH]


def message() -> str:
    """What the sender says before it hands on."""
    decided = [f"Decided: {summary}, because {why}." for summary, why in DECISIONS]
    return "\n".join([*decided, *(f"Next: {step}." for step in STEPS)])


def payload() -> dict[str, Any]:
    """The same as fields."""
    return {
        "outcome": "completed",
        "summary": "The ground is surveyed; nothing is written yet.",
        "decisions": [{"summary": s, "rationale": w, "alternatives": []} for s, w in DECISIONS],
        "next_steps": [{"step": step, "priority": "high"} for step in STEPS],
        **{name: [] for name in ("blockers", "files", "questions", "resolves")},
    }


def measure(run: Run) -> Measured:
    found = Measured("handoff_sizes", "What a receiver's model is given after ten tool calls")
    folder = run.folder / "handoff_sizes"
    ways: dict[str, Callable[[Path], Reached | None]] = {
        "Agents SDK, default": openai_default,
        "Agents SDK, nest_handoff_history": openai_nested,
        "Agents SDK, remove_all_tools": openai_without_tools,
        "langgraph-swarm, default": swarm_default,
        "Passdown on the Agents SDK": ours_on_openai,
        "Passdown on LangGraph": ours_on_langgraph,
    }
    reached: dict[str, Reached] = {}
    for name, way in ways.items():
        place = folder / str(len(reached))
        place.mkdir(parents=True)
        answer = way(place)
        if answer is None:
            found.notes.append(f"Not measured: {name}.")
        else:
            reached[name] = answer
    for name, answer in reached.items():
        found.rows += _rows(name, answer)
        found.figures[name] = figures(answer)
    return found


def figures(answer: Reached) -> dict[str, int]:
    """Sizes, and how much is within reach."""
    return {
        "characters": len(answer.given),
        "tokens": vocabulary("o200k_base")(answer.given),
        "results": answer.count(tuple(map(result_text, range(RESULTS)))),
        "decisions": answer.count(tuple(part for pair in DECISIONS for part in pair)) // 2,
        "next_steps": answer.count(STEPS),
    }


def _rows(name: str, answer: Reached) -> list[Row]:
    counted = figures(answer)
    is_ours = name.startswith("Passdown")
    kept = counted["results"] + counted["decisions"] + counted["next_steps"]
    whole = RESULTS + len(DECISIONS) + len(STEPS)
    names = ("results", "decisions", "next_steps")
    of_each = ", ".join(f"{counted[n]} {n.replace('_', ' ')}" for n in names)
    return [
        Row(
            f"{name}: tokens given" + (f" (none over {BUDGET})" if is_ours else ""),
            f"{counted['tokens']:,}",
            f"{counted['characters']:,} characters",
            max(0, counted["tokens"] - BUDGET) if is_ours else None,
            Target("exactly", 0) if is_ours else None,
        ),
        Row(
            f"{name}: of {whole} within reach",
            str(kept),
            of_each,
            kept if is_ours else None,
            Target("exactly", whole) if is_ours else None,
        ),
    ]


def _leaves(text: str) -> str:
    """The texts in a JSON text, as a model reads them."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        for part in value if isinstance(value, list) else ():
            walk(part)
        for part in value.values() if isinstance(value, dict) else ():
            walk(part)

    walk(json.loads(text))
    return "\n".join(found)


# The OpenAI Agents SDK.


def openai_default(_: Path) -> Reached:
    import agents

    return _openai(agents.handoff)


def openai_nested(_: Path) -> Reached:
    import agents

    return _openai(lambda receiver: agents.handoff(receiver, nest_handoff_history=True))


def openai_without_tools(_: Path) -> Reached:
    import agents
    from agents.extensions.handoff_filters import remove_all_tools

    return _openai(lambda receiver: agents.handoff(receiver, input_filter=remove_all_tools))


def ours_on_openai(folder: Path) -> Reached:
    """With the brief, and the command that it names carried out."""
    from passdown.adapters.openai_agents import LedgerSession, passdown_handoff

    with passdown.init(str(folder)) as workspace:
        workspace.create_task("T-1", title=REQUEST, agent="sender")
        reached = _openai(
            lambda receiver: passdown_handoff(
                receiver, workspace=workspace, task="T-1", budget=BUDGET
            ),
            payload(),
            session=LedgerSession("job", workspace),
        )
    return reached._replace(fetched=_carried_out(reached.given, folder))


def _openai(
    handoff_to: Callable[[Any], Any], arguments: dict[str, Any] | None = None, **options: Any
) -> Reached:
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    async def look(number: int) -> str:
        """Look something up."""
        return result_text(number)

    calls = [
        [function_call("look", {"number": number}, call_id=f"call_{number}")]
        for number in range(RESULTS)
    ]
    turn = [
        assistant_message(message()),
        function_call("transfer_to_receiver", arguments or {}, call_id="call_handoff"),
    ]
    model = ScriptedModel([[assistant_message("done")]])
    receiver = Agent(name="receiver", model=model)
    sender = Agent(
        name="sender",
        model=ScriptedModel([*calls, turn]),
        tools=[function_tool(look)],
        handoffs=[handoff_to(receiver)],
    )
    quiet = RunConfig(tracing_disabled=True)
    asyncio.run(Runner.run(sender, REQUEST, run_config=quiet, max_turns=20, **options))
    return Reached(json.dumps(model.calls[0].input, ensure_ascii=False))


def _carried_out(given: str, folder: Path) -> str:
    """What the commands that an input names give; nothing else is fetched."""
    lines = [line for line in _leaves(given).splitlines() if "All: " in line]
    outputs: list[str] = []
    for command in (shlex.split(line.partition("All: ")[2]) for line in lines):
        module = ["-m", "passdown"] if command[0] == "passdown" else []
        if command[0] in ("python", "passdown"):
            whole = [sys.executable, *module, *command[1:]]
            done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=True)
            outputs += done.stdout.splitlines()
    return "\n".join(_plain(line) for line in outputs)


def _plain(line: str) -> str:
    """A line of output; of an item in JSON, its texts."""
    item = line.partition(" ")[2]
    return _leaves(item) if item.startswith("{") else line


# LangGraph.


def swarm_default(_: Path) -> Reached:
    from langgraph_swarm import create_handoff_tool, create_swarm

    return _langgraph(
        lambda tools, models, agent_of: create_swarm(
            [
                agent_of("sender", models[0], [*tools, create_handoff_tool(agent_name="receiver")]),
                agent_of("receiver", models[1], []),
            ],
            default_active_agent="sender",
        )
    )


def ours_on_langgraph(folder: Path) -> Reached | None:
    """A swarm with Passdown's tool and middleware; None where those aren't there.

    Within reach is what stands in the input, or is given by the commands or the call that it names.
    """
    try:
        from langgraph_swarm import create_swarm

        from passdown.adapters.langgraph import BriefMiddleware, handoff_tool
    except ImportError:
        return None
    given = payload()
    fields = {"suggested_next_steps": given["next_steps"]}
    fields |= {name: given[name] for name in ("outcome", "summary", "decisions")}
    with passdown.init(str(folder)) as workspace:
        workspace.create_task("T-1", title=REQUEST, agent="sender")
        onward = handoff_tool("receiver", workspace=workspace, task="T-1", from_agent="sender")
        brief = BriefMiddleware(workspace, "T-1", "receiver", budget=BUDGET)
        reached = _langgraph(
            lambda tools, models, agent_of: create_swarm(
                [
                    agent_of("sender", models[0], [*tools, onward]),
                    agent_of("receiver", models[1], [], middleware=[brief]),
                ],
                default_active_agent="sender",
            ),
            fields,
        )
    return reached._replace(fetched=reached.fetched + _carried_out(reached.given, folder))


def _langgraph(
    graph_of: Callable[[list[Any], tuple[Any, Any], Callable[..., Any]], Any],
    arguments: dict[str, Any] | None = None,
) -> Reached:
    """A job on a graph of two agents that take turns from a script."""
    from langchain.agents import create_agent
    from langchain.tools import tool
    from langchain_core.messages import AIMessage, convert_to_openai_messages

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
        named = re.search(r'read_history\("([^"]*)"\)', str(messages[0].content))
        if named is None:
            return AIMessage("done")
        return call("read_history", {"items": named[1]}, "call_read")

    models = (_scripted([*calls, last]), _scripted([read_or_end, AIMessage("done")]))

    def agent_of(name: str, model: Any, tools: list[Any], **options: Any) -> Any:
        return create_agent(model, tools, name=name, **options)

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
            message = answer(messages) if callable(answer) else answer
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted(waiting=list(answers), seen=[])
