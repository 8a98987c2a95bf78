"""Take one turn of an agent: brief, request, reply, handoff.

The agent is asked until its reply holds a valid handoff, a few times at most; an invalid one goes
back with all its problems. The handoff is recorded under the key of the turn, so a turn that is
taken twice is recorded once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from passdown.core.intake import check_handoff, read_handoff
from passdown.core.kinds import stream_of
from passdown.core.task_files import handoff_section
from passdown.core.text import excerpt, storable, storable_values
from passdown.errors import (
    MAX_PROBLEMS,
    GateRefused,
    InvalidInput,
    PassdownError,
    Problem,
    count_problems,
    limited_problems,
)
from passdown.relay.agents import RunAgents, instance_at, instance_name
from passdown.relay.conversations import Conversations
from passdown.relay.messages import Message
from passdown.relay.relay_file import runner_of
from passdown.relay.run import ERROR, HELD, REVIEW, VERDICTS, next_agent
from passdown.relay.runners import AgentRequest
from passdown.workspace.briefs import brief_for
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from passdown.relay.conversations import Conversation
    from passdown.relay.run import LegRun, Run
    from passdown.relay.runners import AgentReply, Runner
    from passdown.workspace import Workspace


Value = TypeVar("Value")

MAX_RETRIES = 2
MAX_RETURNED_TEXT = 20_000
"""How much of a faulty reply its author is shown again: the end, where the handoff stands."""


class ExchangeEvent(NamedTuple):
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


class Attempt(NamedTuple):
    """One attempt: the reply, and what was wrong with the handoff in it."""

    attempt: int
    reply: AgentReply
    problems: tuple[Problem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The attempt as a plain JSON object, long texts shortened to their two ends."""
        problems = [problem.to_dict() for problem in limited_problems(self.problems)]
        return {"attempt": self.attempt, "problems": problems, "reply": self.reply.to_dict()}


@dataclass(frozen=True, kw_only=True)
class ExchangeResult(Generic[Value]):
    """What came of an exchange: the value that was read, or why there is none.

    `failure` is empty, or one word: what the runner's reply says, `invalid` (the last handoff was
    faulty too) or `stopped`. `why` is the sentence for it, `tries` all the evidence. `warnings` are
    sentences on what went wrong beside a value that holds.
    """

    value: Value | None = None
    tries: tuple[Attempt, ...] = ()
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

    def to_dict(self) -> dict[str, Any]:
        """Everything but the value, as a plain JSON object."""
        return {
            "failure": self.failure,
            "why": self.why,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "tries": [each.to_dict() for each in self.tries],
        }


def ask_until_valid(
    runner: Runner,
    asked: AgentRequest,
    *,
    read: Callable[[str], Value],
    most_returns: int = MAX_RETRIES,
    say: Callable[[ExchangeEvent], None] | None = None,
    returned: Callable[[Sequence[Problem], AgentRequest], str] | None = None,
) -> ExchangeResult[Value]:
    """Ask an agent until `read` takes the text of its reply; `returned` words what goes back.

    `read` raises InvalidInput with all problems; they go back to the agent, at most `most_returns`
    times. The time limit is one for all attempts. A program that hands off validly and then ends
    with an exit code has handed off: the code becomes a warning. One that was ended by us or by a
    signal has not, since what it wrote may be cut.
    """
    if isinstance(most_returns, bool) or not 0 <= most_returns <= 100:
        problem = Problem("most_returns", "out_of_range", f"{most_returns} given", "0 to 100")
        raise InvalidInput("nobody was asked", [problem])
    exchange = _Exchange(runner, asked, say, returned or rejection_text)
    for _ in range(1 + most_returns):
        if asked.is_stopped():
            return exchange.failed(
                "stopped", "The exchange was stopped before the agent was asked."
            )
        if exchange.is_late():
            return exchange.failed("timeout", "No time was left to ask the agent again.")
        reply = exchange.ask()
        if reply.is_failure and not _exited_by_itself(reply):
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


def _exited_by_itself(reply: AgentReply) -> bool:
    """Whether a failed program ended by itself, so that what it wrote is all it had to say."""
    return reply.failure == "exit" and (reply.exit_code or 0) > 0


class _Exchange:
    """One exchange that goes on: what has been tried, and what is asked next."""

    def __init__(
        self,
        runner: Runner,
        asked: AgentRequest,
        say: Callable[[ExchangeEvent], None] | None,
        returned: Callable[[Sequence[Problem], AgentRequest], str],
    ) -> None:
        self._returned = returned
        self.tries: list[Attempt] = []
        self._runner = runner
        self._asked = asked
        self._say = say
        limit = asked.timeout_s
        self._ends = None if limit is None else time.monotonic() + limit

    def is_late(self) -> bool:
        """Whether the time for all attempts is up."""
        return self._ends is not None and time.monotonic() >= self._ends

    def ask(self) -> AgentReply:
        """Let the agent take its next turn."""
        left = None if self._ends is None else max(0.0, self._ends - time.monotonic())
        self._asked = replace(self._asked, timeout_s=left, progress=self._progress())
        self._tell("asked")
        reply = self._runner(self._asked)
        self.tries.append(Attempt(self._asked.attempt, reply))
        return reply

    def send_back(self, problems: Sequence[Problem]) -> None:
        """Make what is wrong with a reply the next thing that the agent is told."""
        last = self.tries[-1]
        self.tries[-1] = last._replace(problems=tuple(problems))
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        self._tell("returned", f"{count} in the handoff")
        own = last.reply.text[-MAX_RETURNED_TEXT:]
        messages = [*self._asked.messages]
        if own.strip():
            messages.append({"role": "assistant", "content": own})
        messages.append({"role": "user", "content": self._returned(problems, self._asked)})
        number = self._asked.attempt + 1
        self._asked = replace(self._asked, messages=tuple(messages), attempt=number)

    def accepted(self, value: Value, reply: AgentReply) -> ExchangeResult[Value]:
        """The end of an exchange that has its value."""
        warnings = [f"It handed off, but: {reply.why}"] if reply.is_failure else []
        if reply.is_replaced:
            warnings.append("Its output had bytes that are no UTF-8; they were replaced.")
        if notes := reply.evidence.get("notes"):
            warnings.append(notes)
        self._tell("accepted", " ".join(warnings))
        return ExchangeResult(value=value, tries=tuple(self.tries), warnings=tuple(warnings))

    def failed(self, failure: str, why: str) -> ExchangeResult[Any]:
        """The end of an exchange that has none."""
        self._tell("failed", why)
        return ExchangeResult(tries=tuple(self.tries), failure=failure, why=why)

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
        self._say(ExchangeEvent(kind, asked.agent, asked.task, asked.attempt, seconds, size, said))


def rejection_text(problems: Sequence[Problem], asked: AgentRequest) -> str:
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
    lines = [f"- {problem.line()}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"- and {count_problems(problems) - MAX_PROBLEMS:,} more of this kind")
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
    fields = {**(defaults or {}), "task": task, "from_agent": agent}
    data = read_handoff(f"## Handoff\n{section}", fields).data
    problems = [
        *_mismatch(data, "task", task, "another task", "wrong_task"),
        *_mismatch(data, "from_agent", agent, "another agent", "wrong_agent"),
    ]
    checked = check_handoff(data)
    if checked.handoff is None:
        slips = [problem for problem in checked.warnings if problem.code == "unknown_field"]
        problems += [*checked.errors, *slips]
    if problems:
        raise InvalidInput("the handoff is refused", problems)
    return data


def _mismatch(
    data: Mapping[str, Any], name: str, wanted: str, what: str, code: str
) -> list[Problem]:
    given = data[name]
    if given == wanted:
        return []
    return [Problem(name, code, f"{excerpt(str(given))!r} is {what}", wanted, wanted)]


if TYPE_CHECKING:
    Document = dict[str, Any]
    Say = Callable[[Run, LegRun, ExchangeEvent], None]

MAX_EVIDENCE = 6


class SentRequest(NamedTuple):
    """What an agent was told: its conversation, and how long that is."""

    conversation: Conversation
    messages: tuple[Mapping[str, str], ...]
    brief_tokens: int
    context_tokens: int


class Turns:
    """Takes turns for one process. `is_fresh` says whether its lease still holds."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        is_fresh: Callable[[], bool] = lambda: True,
        say: Say | None = None,
        runners: Mapping[str, Runner] | None = None,
    ) -> None:
        """`runners` take the place of what a relay declares, by the agent's name."""
        self._workspace = workspace
        self._beside = WorkspaceStreams(workspace)
        self._is_fresh = is_fresh
        self._say = say
        self._runners = dict(runners or {})
        self._agents: dict[str, str] = {}
        self.run_agents = RunAgents(workspace, on_setup=self._entered_setup)

    def take(self, run: Run, turn: LegRun) -> Document | None:
        """How the turn ended, as it is to be recorded; None where the lease was lost meanwhile."""
        if turn.kind == REVIEW:
            return self._review(run, turn)
        known = self._handed_off(run, turn)
        if known is None and turn.kept_from:
            kept = run.legs[turn.kept_from].kept
            known = self._hand_off(run, turn, kept, {"is_kept": True})
        known = known or self._held(run)
        if known is not None:
            return known
        self._agents[instance_at(run, turn)] = turn.agent
        self.run_agents.begin(run, turn)
        told = self._told(run, turn)
        exchanged = self._exchange(run, turn, told, lambda text: self._read(run, turn, text))
        if not self._is_fresh():
            return None
        measured = _measured(told, exchanged)
        if exchanged.value is None:
            return _failed(exchanged, measured)
        return self._hand_off(run, turn, exchanged.value, measured)

    def _held(self, run: Run) -> Document | None:
        """The end of a turn that can't be taken while a person is asked about the task."""
        found = self._workspace.gates(run.task)
        gates = [gate["address"] for gate in found if gate["status"] == "pending"]
        if not gates:
            return None
        why = f"a person has to answer {', '.join(gates[:5])} first"
        return {"outcome": HELD, "gates": gates, "why": why, "measured": {}}

    def _entered_setup(self, seat: str) -> None:
        if seat in self._agents:
            self._conversations(self._agents[seat]).entered_setup(seat)

    def _conversations(self, agent: str, run: Run | None = None) -> Conversations:
        declared = run.relay.agents[agent] if run else None
        return Conversations(
            self._workspace,
            agent,
            leases=self.run_agents.states,
            profile=declared.profile if declared else "",
            window=declared.limits.context_tokens if declared else 0,
        )

    def _told(self, run: Run, turn: LegRun) -> SentRequest:
        """Put the request into the agent's conversation, once."""
        agent, leg = run.relay.agents[turn.agent], run.relay.legs[turn.leg]
        brief = brief_for(
            self._beside.opened, run.task, turn.agent, run.relay.budget, needs=agent.needs
        )
        conversations = self._conversations(turn.agent, run)
        seat = instance_at(run, turn)
        conversation = conversations.with_peer(seat)
        text = conversations.templates.render(
            "leg",
            {
                "agent": turn.agent,
                "task": run.task,
                "phase": leg.phase,
                "agents": ", ".join(run.relay.agents),
                "brief": brief.text,
                "request": leg.request or f"Take the leg {leg.name} of this task.",
                "guidance": f"Guidance: {turn.guidance}" if turn.guidance else "",
                "before": _parallel_results(run, turn),
            },
        )
        request = Message("user", text, seat)
        return self._said(conversation, request, _key(run, turn), brief.tokens)

    def _said(
        self, conversation: Conversation, request: Message, key: str, brief_tokens: int = 0
    ) -> SentRequest:
        """Ask once: a turn that is taken again goes on from what was asked the first time."""
        chapter = conversation.context().chapter
        known = conversation.keyed(key, chapter)
        if known is None:
            conversation.add(request, key=key)
        elif known[0] != chapter:
            conversation.add(request)
        messages = conversation.messages()
        tokens = conversation.tokens(messages)
        plain = tuple({"role": m.role, "content": m.content} for m in messages)
        return SentRequest(conversation, plain, brief_tokens, tokens)

    def _exchange(
        self, run: Run, turn: LegRun, told: SentRequest, read: Callable[[str], Any]
    ) -> ExchangeResult[Any]:
        agent = run.relay.agents[turn.agent]
        returned = _verdict_rejection if turn.kind == REVIEW else rejection_text
        say = self._say
        asked = AgentRequest(
            messages=told.messages,
            agent=turn.agent,
            task=run.task,
            run=run.run,
            leg=turn.leg,
            visit=turn.visit,
            workdir=self._workspace.root,
            store=self._workspace.store_url,
            timeout_s=agent.limits.seconds,
            stop=lambda: not self._is_fresh(),
        )
        exchanged = ask_until_valid(
            self._runner(run, turn.agent),
            asked,
            read=read,
            say=(lambda event: say(run, turn, event)) if say else None,
            returned=returned,
        )
        for attempt in exchanged.tries if self._is_fresh() else ():
            if attempt.reply.text.strip():
                text = storable(attempt.reply.text)
                told.conversation.add(Message("assistant", text, turn.agent))
            if attempt.problems:
                text = storable(returned(attempt.problems, asked))
                told.conversation.add(Message("user", text, told.conversation.peer))
        return exchanged

    def _runner(self, run: Run, agent: str) -> Runner:
        if agent in self._runners:
            return self._runners[agent]
        declared = run.relay.agents[agent].runner
        kind = next(kind for kind in ("command", "script", "python") if declared[kind])
        options = ("prompt", "env", "pass_env", "max_output") if kind == "command" else ()
        given = {name: declared[name] for name in (kind, *options) if declared[name] is not None}
        return runner_of(given, folder=self._workspace.root, path=f"agents.{agent}.runner")

    def _read(self, run: Run, turn: LegRun, text: str) -> Document:
        """The handoff in a reply, checked as far as it can be without recording it."""
        data = find_handoff(text, task=run.task, agent=turn.agent)
        check = self._workspace.check(self._completed(run, turn, data))
        # A gate that is open is for a person; the agent could do nothing about it.
        errors = [p for p in check.problems if p.level == "error" and p.code != "human_gate"]
        errors += _receiver_problems(run, data)
        if errors:
            raise InvalidInput("the handoff is refused", errors)
        return data

    def _completed(self, run: Run, turn: LegRun, data: Document) -> Document:
        """A handoff with what the relay knows: who comes next, the phase, the gate, the run."""
        leg = run.relay.legs[turn.leg]
        origin = {"run": run.run, "leg": leg.name, "to": data.get("to_agent") or ""}
        found = {**data, "metadata": {**data.get("metadata", {}), **origin}}
        if not found.get("to_agent"):
            found["to_agent"] = next_agent(run, turn, str(data.get("outcome", "")))
        if not found.get("phase") and leg.phase:
            found["phase"] = leg.phase
        if leg.gate and data.get("outcome") == "completed":
            gate = {"blocker": leg.gate, "severity": "high", "requires_human": True}
            found["blockers"] = [*(found.get("blockers") or []), gate]
        return found

    def _hand_off(self, run: Run, turn: LegRun, data: Document, measured: Document) -> Document:
        started = time.monotonic()
        try:
            command = self._workspace.hand_off(
                self._completed(run, turn, data), key=_key(run, turn)
            )
        except PassdownError as error:
            known = self._handed_off(run, turn)  # a worker that came back was first
            held = self._held(run) if isinstance(error, GateRefused) else None
            if known is None and held is not None:
                return {**held, "kept": data, "measured": measured}
            why = f"the handoff could not be recorded: {error}"
            return known or {"outcome": ERROR, "why": why, "measured": measured}
        measured["handoff_seconds"] = round(time.monotonic() - started, 4)
        return self._ended(run, command.version, data.get("to_agent") or "", measured)

    def _handed_off(self, run: Run, turn: LegRun) -> Document | None:
        """How the turn ended if its handoff was recorded already, by whomever."""
        with self._beside.opened.store.reading() as reader:
            record = reader.record_by_key(stream_of(run.task), _key(run, turn))
        if record is None or (record.kind, record.author) != ("handoff", turn.agent):
            return None
        to = record.document().get("metadata", {}).get("to", "")
        return self._ended(run, record.position, to, {"is_repeat": True})

    def _ended(self, run: Run, version: int, to: str, measured: Document) -> Document:
        with self._beside.opened.store.reading() as reader:
            record = reader.record(stream_of(run.task), version)
        body = record.document() if record else {}
        gates = [
            gate["address"]
            for gate in self._workspace.gates(run.task, open_only=False)
            if gate["version"] == version
        ]
        counts = {name: len(body[name]) for name in body if isinstance(body[name], list)}
        return {
            "outcome": body["handoff"]["outcome"] if "handoff" in body else body["outcome"],
            "to": to,
            "version": version,
            "gates": gates,
            "summary": (body.get("handoff") or body).get("summary", ""),
            "measured": {**measured, "record_bytes": len(record.body) if record else 0, **counts},
        }

    def _review(self, run: Run, turn: LegRun) -> Document | None:
        """An agent says whether another, whose loops are used up, may go on."""
        leg = run.relay.legs[turn.leg]
        seat = instance_name(leg.agent, run.run)
        conversations = self._conversations(turn.agent, run)
        turns = [t for t in run.legs.values() if t.agent == leg.agent and not t.is_open]
        lines = [f"- {t.leg}, visit {t.visit}: {t.outcome}. {t.summary or t.why}" for t in turns]
        content = f"{leg.agent} has had {len(turns)} turns:\n" + "\n".join(lines)
        values = {"content": content, "agent": turn.agent, "peer": leg.agent, "task": run.task}
        text = conversations.templates.render("budget_review", values)
        request = Message("user", text, seat)
        told = self._said(conversations.with_peer(seat), request, _key(run, turn))
        exchanged = self._exchange(run, turn, told, read_verdict)
        if not self._is_fresh():
            return None
        measured = _measured(told, exchanged)
        if exchanged.value is None:
            return _failed(exchanged, measured)
        verdict, guidance = exchanged.value
        found = {"outcome": "completed", "verdict": verdict, "summary": guidance}
        return {**found, "measured": measured}


def read_verdict(text: str) -> tuple[str, str]:
    """The verdict that a reply begins with, and the guidance after it."""
    word, _, rest = text.strip().lstrip("#*_ ").replace("\n", " \n", 1).partition(" ")
    verdict, _, more = word.partition("\t")
    verdict = verdict.strip("*_:.,! ").lower()
    if verdict not in VERDICTS:
        problem = Problem("", "no_verdict", "the reply begins with none", " | ".join(VERDICTS))
        raise InvalidInput("there is no verdict", [problem])
    return verdict, f"{more} {rest}".strip(" \n\t:*_.")


def _verdict_rejection(problems: Sequence[Problem], asked: AgentRequest) -> str:
    words = ", ".join(verdict.upper() for verdict in VERDICTS)
    return (
        f"Your reply was not taken:\n{problem_lines(problems)}\n"
        f"Begin it with one of {words}, then say in a few sentences what is to be done next."
    )


def _key(run: Run, turn: LegRun) -> str:
    return f"{run.run}.{turn.number}-{run.mark}"


def _receiver_problems(run: Run, data: Document) -> list[Problem]:
    """What is wrong with a receiver that no leg of the relay would ever ask."""
    given, known = str(data.get("to_agent") or ""), list(run.relay.agents)
    if not given or given in known:
        return []
    said = f"{excerpt(given)!r} is no agent of this relay"
    return [Problem("to_agent", "unknown_agent", said, " | ".join(known))]


def _parallel_results(run: Run, turn: LegRun) -> str:
    """What the legs left that led to this one, where there were several."""
    causes = [run.legs[number] for number in turn.causes]
    if len(causes) < 2:
        return ""
    lines = [f"- {c.leg} ({c.agent}, {c.outcome}): {c.summary}" for c in causes]
    return "These were done side by side before:\n" + "\n".join(lines)


def _measured(told: SentRequest, exchanged: ExchangeResult[Any]) -> Document:
    replies = [attempt.reply for attempt in exchanged.tries]
    return {
        "seconds": round(exchanged.seconds, 3),
        "attempts": len(replies),
        "bytes_in": sum(reply.bytes_in for reply in replies),
        "bytes_out": sum(reply.bytes_out for reply in replies),
        "brief_tokens": told.brief_tokens,
        "context_tokens": told.context_tokens,
        "messages": len(told.messages),
        "warnings": list(exchanged.warnings),
    }


def _failed(exchanged: ExchangeResult[Any], measured: Document) -> Document:
    evidence = [attempt.to_dict() for attempt in exchanged.tries[-MAX_EVIDENCE:]]
    found = {"why": exchanged.why, "measured": measured, "evidence": evidence}
    return {"outcome": ERROR, **storable_values(found)}
