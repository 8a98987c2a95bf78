"""CrewAI on a workspace: agents that hand off with briefs, in a flow that pauses for people.

Needs `pip install 'passdown[crewai]'`, in an environment of its own.
"""

from __future__ import annotations

import uuid
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.participant import Participant
from passdown.adapters.shared import requires_extra
from passdown.tools import waiting_gates
from passdown.tools.briefs import recording_workspace, workspace_of
from passdown.tools.history import ItemLog

with requires_extra("crewai", "CrewAI is not installed"):
    # By name: CrewAI isn't installed where types are checked.
    _crewai: Any = import_module("crewai")
    _flow: Any = import_module("crewai.flow")
    _persistence: Any = import_module("crewai.flow.persistence")
    _tools: Any = import_module("crewai.tools")
    _pydantic: Any = import_module("pydantic")

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.types import JsonObject
    from passdown.tools import Tool
    from passdown.tools.briefs import AnyWorkspace

ORIGIN = "crewai"
_EXPECTED = "The answer; or call a transfer tool when another agent has to go on."


class _CrewTool(_tools.BaseTool):
    """A tool of `passdown.tools` in CrewAI's form; `answer` gets what a model gave."""

    answer: Any

    def _run(self, **given: Any) -> Any:
        return self.answer(given)


def _tool(tool: Tool, answer: Callable[[JsonObject], Any], *, ends_turn: bool = False) -> Any:
    schema = tool.input_schema

    class Arguments(_pydantic.BaseModel):
        """Any arguments: they are checked when the handoff is."""

        model_config = _pydantic.ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> JsonObject:
            return schema

    return _CrewTool(
        name=tool.name,
        description=tool.description,
        args_schema=Arguments,
        answer=answer,
        result_as_answer=ends_turn,
    )


class _Member:
    """An agent of a flow: its tools, and one turn of it."""

    def __init__(self, flow: HandoffFlow, agent: Any) -> None:
        others = [each.role for each in flow.agents if each is not agent]
        to = flow.to.get(agent.role, others) if flow.to else others
        more = to, flow.budget, flow.counter, flow.phase
        self._participant = Participant(ORIGIN, flow.workspace, flow.task, agent.role, *more)
        self.agent, self._task, self._history = agent, flow.task, self._participant.history()
        self.id, self.handed_to, self.gates = self._participant.id, "", list[str]()
        self._opening = ""

    def take_turn(self, words: str, *, is_first: bool = False) -> str:
        """Work until the agent answers or hands off; what it said last."""
        self.handed_to, self.gates = "", []
        self._opening = words if is_first else self._brief(words)
        task = _crewai.Task(
            description=self._opening,
            expected_output=_EXPECTED,
            agent=self.agent,
            tools=self._tools(),
        )
        return str(task.execute_sync().raw)

    def _brief(self, words: str) -> str:
        said = [words] if words else self._participant.kept_words(self._task)
        brief, said = self._participant.make_brief(self._task, said, str)
        return "\n".join([brief, *said])

    def _tools(self) -> list[Any]:
        transfers = [
            _tool(tool, self._transfer(name), ends_turn=True)
            for name, tool in self._participant.transfers.items()
        ]
        read = _tool(self._history, lambda given: self._history.run(given, task=self._task).text)
        return [*(self.agent.tools or []), *transfers, read]

    def _transfer(self, name: str) -> Callable[[JsonObject], Any]:
        def transfer(given: JsonObject) -> Any:
            # CrewAI puts the task's description into words of its own.
            _, *later = [m for m in self.agent.agent_executor.messages if m["role"] != "system"]
            kept = [{"role": "user", "content": self._opening}, *map(_plain, later)]
            call = uuid.uuid4().hex  # a call isn't made again after a pause
            result, self.gates = self._participant.record(
                name, self._task, given, call=call, messages=kept
            )
            if result.command is None:
                return _tools.ToolFailure(message=result.text, retryable=True)
            self.handed_to = result.command.to_agent
            return result.text

        return transfer


def _plain(message: Any) -> JsonObject:
    """A message as Chat Completions has it, without what only CrewAI knows of it."""
    names = ("role", "content", "name", "tool_call_id", "tool_calls")
    return {name: message[name] for name in names if message.get(name) is not None}


class HandoffFlow(_flow.Flow):
    """A flow: its agents hand a task off to each other, and take it over with a brief.

    The state's `request` goes to the first agent; without one, the agent that holds the task
    begins. Each gets a tool for every other one, or for those that `to` names by role. A handoff
    with problems goes back to the model; a valid one is recorded and ends the agent's turn. While
    a person has to approve, the flow is pending, as for CrewAI's human feedback.
    """

    workspace: Any
    task: str
    agents: list[Any]
    to: dict[str, list[str]] = {}  # noqa: RUF012 - Pydantic copies it
    budget: int = 500
    counter: Any = None
    phase: str = ""

    @_flow.start()
    def work(self) -> Any:
        """Begin with the request, or where the task is."""
        return self._work(str(self.state.get("request", "")))

    @_flow.listen(work)
    def go_on(self, said: Any) -> Any:
        """The answer; after a pause, the work of the agent that holds the task."""
        return said if isinstance(said, str) else self._work("")

    def _work(self, request: str) -> str:
        members = [_Member(self, each) for each in self.agents]
        by_id = {each.id: each for each in members}
        gates = [gate.address for gate in waiting_gates(self.workspace, self.task)]
        member = (
            members[0] if request else by_id[workspace_of(self.workspace).task(self.task).holder]
        )
        is_first = bool(request)
        while not gates:
            answer = member.take_turn(request, is_first=is_first)
            gates, is_first = member.gates, False
            if not gates and member.handed_to not in by_id:
                return answer
            member = by_id.get(member.handed_to, member)
        raise self._pending(gates)

    def _pending(self, gates: list[str]) -> Exception:
        context = _flow.PendingFeedbackContext(
            flow_id=self.flow_id,
            flow_class=f"{type(self).__module__}.{type(self).__qualname__}",
            method_name="work",  # whose listener goes on
            method_output=None,
            message=f"{', '.join(gates)} waits for a person.",
            metadata={"task": self.task, "gates": gates},
        )
        return _flow.HumanFeedbackPending(context=context, callback_info=context.metadata)


class LedgerPersistence(_persistence.FlowPersistence):
    """CrewAI's `FlowPersistence` in a workspace: the states of flows, and what they wait for.

    Secrets of known shapes are redacted.
    """

    workspace: Any
    persistence_type: str = "passdown"

    def model_post_init(self, context: Any, /) -> None:
        """Raises PassdownError behind a server whose token may not write for others."""
        recording_workspace(self.workspace, "LedgerPersistence")

    def init_db(self) -> None:
        """Nothing: the workspace is open."""

    def _log(self, flow_uuid: str) -> ItemLog:
        return ItemLog(cast("AnyWorkspace", self.workspace), f"{ORIGIN}/{flow_uuid}")

    def _save(self, flow_uuid: str, method: str, state: Any, pending: JsonObject | None) -> None:
        data: Any = state.model_dump(mode="json") if hasattr(state, "model_dump") else state
        self._log(flow_uuid).add([{"method": method, "state": data, "pending": pending}])

    def save_state(self, flow_uuid: str, method_name: str, state_data: Any) -> None:
        """Keep the state after a method."""
        self._save(flow_uuid, method_name, state_data, None)

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """The newest state of a flow; None without one."""
        kept = self._log(flow_uuid).items()
        return kept[-1]["state"] if kept else None

    def save_pending_feedback(self, flow_uuid: str, context: Any, state_data: Any) -> None:
        """Keep the state of a flow that waits for a person."""
        self._save(flow_uuid, context.method_name, state_data, context.to_dict())

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], Any] | None:
        """The state of a flow that waits, and what for; None if it doesn't."""
        kept = self._log(flow_uuid).items()
        if not kept or not kept[-1]["pending"]:
            return None
        return kept[-1]["state"], _flow.PendingFeedbackContext.from_dict(kept[-1]["pending"])

    def clear_pending_feedback(self, flow_uuid: str) -> None:
        """Note that a flow goes on."""
        self._save(flow_uuid, "resume", self.load_state(flow_uuid) or {}, None)
