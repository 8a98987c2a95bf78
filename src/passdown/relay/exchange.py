"""The exchange: an agent is asked until its reply holds a valid handoff, or it has failed.

A faulty handoff goes back with every problem at once, a few times at most. What an agent's program
does wrong (it never ends, it floods, it fails) isn't sent back: asking again wouldn't mend it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from passdown.errors import MOST_PROBLEMS, InvalidInput, Problem, counted, listed
from passdown.model.intake import check_handoff
from passdown.model.intake.reading import handoff_section
from passdown.model.text import excerpt
from passdown.workspace.handing import plain_handoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from passdown.relay.runners.asking import Asked, Reply, Runner

Value = TypeVar("Value")

MOST_RETURNS = 2
MOST_RETURNED_TEXT = 20_000
"""How much of a faulty reply its author is shown again: the end, where the handoff stands."""


class Event(NamedTuple):
    """Something to show while an agent works.

    `kind` is asked, working, returned, accepted or failed; `said` is a sentence for the last three.
    """

    kind: str
    agent: str
    task: str
    attempt: int
    seconds: float = 0.0
    bytes: int = 0
    said: str = ""


class Try(NamedTuple):
    """One attempt: the reply, and what was wrong with the handoff in it."""

    attempt: int
    reply: Reply
    problems: tuple[Problem, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """The attempt as a plain JSON object, long texts shortened to their two ends."""
        problems = [problem.as_document() for problem in listed(self.problems)]
        return {"attempt": self.attempt, "problems": problems, "reply": self.reply.as_document()}


@dataclass(frozen=True, kw_only=True)
class Exchanged(Generic[Value]):
    """What came of an exchange: the value that was read, or why there is none.

    `failure` is empty, or one word: what the runner's reply says, `invalid` (the last handoff was
    faulty too) or `stopped`. `why` is the sentence for it, `tries` all the evidence. `warnings` are
    sentences on what went wrong beside a value that holds.
    """

    value: Value | None = None
    tries: tuple[Try, ...] = ()
    failure: str = ""
    why: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether no valid handoff came back."""
        return bool(self.failure)

    @property
    def seconds(self) -> float:
        """How long the agent worked in all attempts together."""
        return sum(each.reply.seconds for each in self.tries)

    def as_document(self) -> dict[str, Any]:
        """Everything but the value, as a plain JSON object."""
        return {
            "failure": self.failure,
            "why": self.why,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "tries": [each.as_document() for each in self.tries],
        }


def hold(
    runner: Runner,
    asked: Asked,
    *,
    read: Callable[[str], Value],
    most_returns: int = MOST_RETURNS,
    say: Callable[[Event], None] | None = None,
    returned: Callable[[Sequence[Problem], Asked], str] | None = None,
) -> Exchanged[Value]:
    """Ask an agent until `read` takes the text of its reply; `returned` words what goes back.

    `read` raises InvalidInput with all problems; they go back to the agent, at most `most_returns`
    times. The time limit is one for all attempts. A program that hands off validly and then ends
    with an exit code has handed off: the code becomes a warning. One that was ended by us or by a
    signal has not, since what it wrote may be cut.
    """
    if isinstance(most_returns, bool) or not 0 <= most_returns <= 100:
        problem = Problem("most_returns", "out_of_range", f"{most_returns} given", "0 to 100")
        raise InvalidInput("nobody was asked", [problem])
    exchange = _Exchange(runner, asked, say, returned or returned_text)
    for _ in range(1 + most_returns):
        if asked.is_stopped():
            return exchange.failed(
                "stopped", "The exchange was stopped before the agent was asked."
            )
        if exchange.is_late():
            return exchange.failed("timeout", "No time was left to ask the agent again.")
        reply = exchange.ask()
        if reply.is_failure and not _has_spoken(reply):
            return exchange.failed(reply.failure or "error", reply.why)
        try:
            value = read(reply.text)
        except InvalidInput as error:
            if reply.is_failure:
                return exchange.failed(reply.failure or "error", reply.why)
            exchange.send_back(error.problems)
        else:
            return exchange.accepted(value, reply)
    count = len(exchange.tries)
    times = "once" if count == 1 else f"{count} times"
    last = _in_short(exchange.tries[-1].problems)
    why = f"{asked.agent} was asked {times}; no reply was valid. The last: {last}"
    return exchange.failed("invalid", why)


def _in_short(problems: Sequence[Problem]) -> str:
    """The first of some problems in a line, and how many more there are."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return excerpt(problems[0].line(), 300) + more


def _has_spoken(reply: Reply) -> bool:
    """Whether a failed program ended by itself, so that what it wrote is all it had to say."""
    return reply.failure == "exit" and (reply.exit_code or 0) > 0


class _Exchange:
    """One exchange that goes on: what has been tried, and what is asked next."""

    def __init__(
        self,
        runner: Runner,
        asked: Asked,
        say: Callable[[Event], None] | None,
        returned: Callable[[Sequence[Problem], Asked], str],
    ) -> None:
        self._returned = returned
        self.tries: list[Try] = []
        self._runner = runner
        self._asked = asked
        self._say = say
        limit = asked.timeout_s
        self._ends = None if limit is None else time.monotonic() + limit

    def is_late(self) -> bool:
        """Whether the time for all attempts is up."""
        return self._ends is not None and time.monotonic() >= self._ends

    def ask(self) -> Reply:
        """Let the agent take its next turn."""
        left = None if self._ends is None else max(0.0, self._ends - time.monotonic())
        self._asked = replace(self._asked, timeout_s=left, progress=self._progress())
        self._tell("asked")
        reply = self._runner(self._asked)
        self.tries.append(Try(self._asked.attempt, reply))
        return reply

    def send_back(self, problems: Sequence[Problem]) -> None:
        """Make what is wrong with a reply the next thing that the agent is told."""
        last = self.tries[-1]
        self.tries[-1] = last._replace(problems=tuple(problems))
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        self._tell("returned", f"{count} in the handoff")
        own = last.reply.text[-MOST_RETURNED_TEXT:]
        messages = [*self._asked.messages]
        if own.strip():
            messages.append({"role": "assistant", "content": own})
        messages.append({"role": "user", "content": self._returned(problems, self._asked)})
        number = self._asked.attempt + 1
        self._asked = replace(self._asked, messages=tuple(messages), attempt=number)

    def accepted(self, value: Value, reply: Reply) -> Exchanged[Value]:
        """The end of an exchange that has its value."""
        warnings = [f"It handed off, but: {reply.why}"] if reply.is_failure else []
        if reply.is_replaced:
            warnings.append("Its output had bytes that are no UTF-8; they were replaced.")
        if notes := reply.evidence.get("notes"):
            warnings.append(notes)
        self._tell("accepted", " ".join(warnings))
        return Exchanged(value=value, tries=tuple(self.tries), warnings=tuple(warnings))

    def failed(self, failure: str, why: str) -> Exchanged[Any]:
        """The end of an exchange that has none."""
        self._tell("failed", why)
        return Exchanged(tries=tuple(self.tries), failure=failure, why=why)

    def _progress(self) -> Callable[[float, int], None] | None:
        if self._say is None:
            return self._asked.progress

        def tell(seconds: float, size: int) -> None:
            self._tell("working", seconds=seconds, size=size)

        return tell

    def _tell(self, kind: str, said: str = "", *, seconds: float = 0.0, size: int = 0) -> None:
        if self._say is None:
            return
        asked = self._asked
        if kind in ("returned", "accepted", "failed") and self.tries:
            seconds, size = self.tries[-1].reply.seconds, self.tries[-1].reply.bytes_out
        self._say(Event(kind, asked.agent, asked.task, asked.attempt, seconds, size, said))


def returned_text(problems: Sequence[Problem], asked: Asked) -> str:
    """What an agent is told of its faulty handoff: every problem, and what to send."""
    lines = problem_lines(problems)
    return (
        f"Your handoff was not taken; nothing was recorded. All that is wrong with it:\n{lines}\n"
        "Mend every line. Reply with the whole handoff once more: a line '## Handoff', below it "
        "one fenced yaml block, and nothing after that. "
        f"Its task is {asked.task}, its from_agent is {asked.agent}."
    )


def problem_lines(problems: Sequence[Problem]) -> str:
    """Problems as a list; of very many, the first ones and how many more there are."""
    lines = [f"- {problem.line()}" for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"- and {counted(problems) - MOST_PROBLEMS:,} more of this kind")
    return "\n".join(lines)


def find_handoff(
    text: str, *, task: str, agent: str, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The handoff in an agent's reply: what stands under its last heading named Handoff.

    A task and a sender that it leaves out are filled in, as are `defaults`; others than these two
    are problems and never replaced. Raises InvalidInput with every problem at once.
    """
    section = handoff_section(text)
    if section is None:
        expected = "a line '## Handoff', outside of any fence, with a fenced yaml block below it"
        problem = Problem("", "no_handoff", "the reply has no '## Handoff' heading", expected)
        raise InvalidInput("no handoff found", [problem])
    # The section alone: what the agent wrote above it is talk, not the head of a task file.
    data = plain_handoff(
        f"## Handoff\n{section}", {**(defaults or {}), "task": task, "from_agent": agent}
    )
    problems = [
        *_foreign(data, "task", task, "another task", "wrong_task"),
        *_foreign(data, "from_agent", agent, "another agent", "wrong_agent"),
    ]
    checked = check_handoff(data)
    if checked.handoff is None:
        slips = [problem for problem in checked.warnings if problem.code == "unknown_field"]
        problems += [*checked.errors, *slips]
    if problems:
        raise InvalidInput("the handoff is refused", problems)
    return data


def _foreign(
    data: Mapping[str, Any], name: str, wanted: str, what: str, code: str
) -> list[Problem]:
    given = data[name]
    if given == wanted:
        return []
    return [Problem(name, code, f"{excerpt(str(given))!r} is {what}", wanted, wanted)]
