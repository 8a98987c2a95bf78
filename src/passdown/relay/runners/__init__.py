"""Runners execute agents: the request they get, the reply they give, the prompt as one text.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from passdown.core.arguments import raise_problems
from passdown.core.text import excerpt
from passdown.errors import Problem

if TYPE_CHECKING:
    from threading import Event


if TYPE_CHECKING:
    Stop = Event | Callable[[], bool]
    Progress = Callable[[float, int], None]

MAX_SHOWN = 4_000
"""Characters of each end of an output that a document keeps."""

_ROLE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_SHORT_MARKERS = 8


@dataclass(frozen=True, kw_only=True)
class AgentRequest:
    """One turn of an agent: its messages, and where and how long it may work.

    `messages` are dicts with a `role` and a `content`. `visit` counts how often the run has come to
    this leg, `attempt` how often the agent was asked in it; both begin with 1. `timeout_s` is what
    is left of the leg's time; a runner may have its own limit as well. `stop`, an Event or a
    function, says when the agent must end at once. `progress` is called with seconds and bytes
    while the agent works.
    """

    messages: tuple[Mapping[str, str], ...]
    agent: str
    task: str
    run: str = ""
    leg: str = ""
    visit: int = 1
    attempt: int = 1
    workdir: str = ""
    store: str = ""
    timeout_s: float | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stop: Stop | None = field(default=None, compare=False)
    progress: Progress | None = field(default=None, compare=False)

    @property
    def prompt(self) -> str:
        """All messages as one text."""
        return as_prompt(self.messages)

    def is_stopped(self) -> bool:
        """Whether the agent must end now."""
        if self.stop is None:
            return False
        return self.stop() if callable(self.stop) else self.stop.is_set()


@dataclass(frozen=True, kw_only=True)
class AgentReply:
    """The reply of an agent. Faults of the agent are in it and never raised.

    `failure` is empty, or one word: timeout, flood, stopped, exit, not_started, lost, raised,
    wrong_type or scripted; `error` is the sentence for it. `text` is the output, up to the limit;
    with `is_replaced` it had invalid UTF-8. `evidence` helps to find the cause: `stderr`,
    `stdout_head`, `stdout_tail`, `traceback`, `notes`. `usage` and `tool_calls` are costs, if the
    runner knows them.
    """

    text: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    tool_calls: int | None = None
    failure: str = ""
    error: str = ""
    is_truncated: bool = False
    is_stderr_truncated: bool = False
    is_replaced: bool = False
    evidence: Mapping[str, str] = field(default_factory=dict[str, str])
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_failure(self) -> bool:
        """Whether the agent failed."""
        return bool(self.failure or self.error)

    @property
    def why(self) -> str:
        """Why it failed, with the last line of its stderr or traceback; "" if it didn't."""
        if not self.is_failure:
            return ""
        said = self.evidence.get("stderr") or self.evidence.get("traceback") or ""
        last = said.strip().rpartition("\n")[2]
        return (self.error or self.failure) + (f" Last said: {excerpt(last, 300)}" if last else "")

    def to_dict(self) -> dict[str, Any]:
        """The reply as a plain JSON object; of long texts, both ends."""
        document = {name: getattr(self, name) for name in self.__dataclass_fields__}
        document["text"] = ends_of(self.text)
        document["evidence"] = {name: ends_of(text) for name, text in self.evidence.items()}
        document["usage"] = dict(self.usage)
        document["seconds"] = round(self.seconds, 3)
        return document


class Runner(Protocol):
    """Executes an agent: takes a request, returns its reply.

    Faults of the agent are in the reply; InvalidInput for an invalid setup is raised before
    anything runs.
    """

    def __call__(self, asked: AgentRequest) -> AgentReply:
        """Let the agent take one turn."""
        ...


def ends_of(text: str) -> str:
    """A text, or its first and last characters with the number of those left out."""
    most, left = MAX_SHOWN, len(text) - 2 * MAX_SHOWN
    return text if left <= 0 else f"{text[:most]}\n[{left:,} characters left out]\n{text[-most:]}"


def as_prompt(messages: Sequence[Mapping[str, str]]) -> str:
    """All messages as one text, each after a line with its role and a number of this prompt.

    The number occurs in none of the messages, so no author can forge a message of another role.
    Raises InvalidInput for an invalid message.
    """
    missing = Problem("messages", "required", "is empty", "at least one message")
    problems = [] if messages else [missing]
    for index, message in enumerate(messages):
        problems += _message_problems(message, f"messages[{index}]")
    raise_problems("the messages are invalid", problems)
    marker = _marker(messages)
    head = f"Messages begin with [{marker} ROLE].\n"
    parts = [f"[{marker} {m['role']}]\n{m['content']}\n" for m in messages]
    return head + "".join(parts)


def _message_problems(message: object, path: str) -> list[Problem]:
    given = cast("Mapping[str, object]", message if isinstance(message, Mapping) else {})
    role, content = str(given.get("role")), given.get("content")
    found: list[Problem] = []
    if not _ROLE.fullmatch(role):
        message = f"{excerpt(role)!r} is not a role"
        found.append(Problem(f"{path}.role", "invalid_role", message, "system, user or such"))
    if not isinstance(content, str):
        given = f"{type(content).__name__} given"
        found.append(Problem(f"{path}.content", "wrong_type", given, "text"))
    return found


def _marker(messages: Sequence[Mapping[str, str]]) -> str:
    """A number that occurs in no message; the same for the same messages."""
    contents = "\n".join(message["content"] for message in messages)
    seed = hashlib.sha256(contents.encode("utf-8", "surrogatepass")).hexdigest()
    attempt = 0
    while True:
        # A text with many numbers can't contain all of them: they get longer.
        digits = 6 if attempt < _SHORT_MARKERS else 24
        number = int(hashlib.sha256(f"{seed}{attempt}".encode()).hexdigest(), 16)
        marker = str(10 ** (digits - 1) + number % (9 * 10 ** (digits - 1)))
        if marker not in contents:
            return marker
        attempt += 1
