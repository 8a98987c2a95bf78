"""What stands in the place of a conversation: the brief, how the rest is reached, and the words
that a person said last.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.brief_texts import brief_text, spent_on
from passdown.adapters.histories import TOOL
from passdown.adapters.openai_agents.names import ledger_name
from passdown.adapters.openai_agents.payload import as_handoff
from passdown.adapters.openai_agents.transcripts import MODULE, handed_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agents import Agent, RunContextWrapper, TResponseInputItem

    from passdown.adapters.brief_texts import Reader
    from passdown.workspace import Workspace

    TaskOf = Callable[[RunContextWrapper[Any] | None], str]


_BRIEF = re.compile(r"# \S+ for \S+, version [0-9]+ \([0-9a-f]{12}\)\n")


class Terms(NamedTuple):
    """What a handoff was set up with."""

    reader: Reader
    task_of: TaskOf
    from_agent: str
    phase: str

    def sender(self, agent: Agent[Any]) -> str:
        """The sender's name in the ledger."""
        return self.from_agent or ledger_name(agent.name, "from_agent")

    def handoff(self, arguments: dict[str, Any], task: str, sender: str) -> dict[str, Any]:
        """A handoff as the workspace takes it."""
        fixed = {"task": task, "from_agent": sender, "to_agent": self.reader.agent}
        phase = {"phase": self.phase} if self.phase else {}
        return {**as_handoff(arguments), **fixed, **phase}


def instead_of(
    conversation: Sequence[TResponseInputItem],
    reader: Reader,
    task: str,
    receiver: Agent[Any],
    *,
    own: str = "",
) -> list[TResponseInputItem]:
    """What a receiver is given instead of a conversation, within the budget.

    The last words of a person stay as they are if they take no more than half of it.
    """
    asked = said_last(conversation)
    spent = spent_on(reader, [_text(item) for item in asked])
    if spent is None:
        asked, spent = [], 0
    line = kept_line(reader.workspace, task, receiver, own=own)
    text = brief_text(reader._replace(budget=reader.budget - spent), task, line)
    return [user_message(text), *asked]


def said_last(conversation: Sequence[TResponseInputItem]) -> list[TResponseInputItem]:
    """The last messages of a person in a row; no briefs, which come in that role too."""
    last = len(conversation)
    while last and _role(conversation[last - 1]) != "user":
        last -= 1
    first = last
    while first and _role(conversation[first - 1]) == "user":
        first -= 1
    return [item for item in conversation[first:last] if not _BRIEF.match(_text(item))]


def _role(item: TResponseInputItem) -> object:
    return cast("dict[str, Any]", item).get("role")


def _text(item: TResponseInputItem) -> str:
    content: object = cast("dict[str, Any]", item).get("content")
    return content if isinstance(content, str) else json.dumps(content)


def kept_line(workspace: Workspace, task: str, receiver: Agent[Any], *, own: str = "") -> str:
    """How a receiver gets at what it isn't shown: by its tool, if it has it, or a command.

    `own` are the numbers of what the sender had before it.
    """
    log = handed_log(workspace, task)
    last = log.last_number()
    if not last:
        return ""
    whole = f"1-{last}"
    newest = f" ({own} the last agent's)" if own and own != whole else ""
    has_tool = any(tool.name == TOOL for tool in receiver.tools)
    way = f'{TOOL}("{whole}")' if has_tool else f"python -m {MODULE} {log.session_id} {whole}"
    return f"Word for word, with every tool result: items {whole}{newest}. All: {way}"


def user_message(text: str) -> TResponseInputItem:
    """A text as an input item."""
    return {"role": "user", "content": text}
