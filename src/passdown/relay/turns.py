"""Take one turn of an agent: brief, request, reply, handoff.

The agent is asked until its reply holds a valid handoff, a few times at most; an invalid one goes
back with all its problems. The handoff is recorded under the key of the turn, so a turn that is
taken twice is recorded once.
"""

from __future__ import annotations

import logging
import os
import re
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from passdown.core.arguments import raise_problems
from passdown.core.handoff import Handoff
from passdown.core.handoff_templates import PROMPT_FIELDS, yaml_example
from passdown.core.intake import check_handoff, read_handoff
from passdown.core.kinds import CONVERSATION_STREAM, PHASES, stream_of
from passdown.core.schema import EMPTY, as_meant, check_json, fields_of, json_expected
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
from passdown.relay.agents import SETUP, Lease, RunAgents, instance_at, instance_name
from passdown.relay.conversations import Approval, Conversations, approve, ask, verdict_of
from passdown.relay.messages import EVERYONE, Message, shortened
from passdown.relay.prompts import fenced
from passdown.relay.relay_file import agent_runner
from passdown.relay.run import (
    APPROVALS,
    ERROR,
    HELD,
    REVIEW,
    VERDICTS,
    WORK,
    next_agent,
    peer_of,
)
from passdown.relay.runners import AgentRequest
from passdown.relay.runners.scripted import ScriptedRunner, as_runner
from passdown.workspace.briefs import brief_for
from passdown.workspace.context import context_of
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.relay.agents import AgentStates
    from passdown.relay.conversations import Conversation
    from passdown.relay.run import Leg, LegRun, Run
    from passdown.relay.runners import AgentReply, Runner
    from passdown.relay.runners.scripted import Function
    from passdown.workspace import Workspace

    Document = dict[str, Any]
    Messages = tuple[Mapping[str, str], ...]
    OnEvent = Callable[[Run, LegRun, "ExchangeEvent"], None]
    Rejection = Callable[[Sequence[Problem], AgentRequest], str]

Value = TypeVar("Value")

MAX_RETRIES = 2
MAX_RETURNED_TEXT = 20_000
"""How much of an invalid reply is sent back: its end, where the handoff is."""


class ExchangeEvent(NamedTuple):
    """An event while an agent works: `kind` is asked, working, returned, accepted or failed;
    `said` is a sentence for the last three.
    """

    kind: str
    agent: str
    task: str
    attempt: int
    seconds: float = 0.0
    bytes: int = 0
    said: str = ""


class Attempt(NamedTuple):
    """One attempt: the reply, the problems of its handoff, or what it was asked for besides."""

    attempt: int
    reply: AgentReply
    problems: tuple[Problem, ...] = ()
    follow_up: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The attempt as a plain JSON object; of long texts, both ends."""
        problems = [problem.to_dict() for problem in limited_problems(self.problems)]
        return {"attempt": self.attempt, "problems": problems, "reply": self.reply.to_dict()}


@dataclass(frozen=True, kw_only=True)
class ExchangeResult(Generic[Value]):
    """The result of an exchange: the value that was read, or why there is none.

    `failure` is empty, or one word: that of the runner's reply, `invalid` (the last handoff was
    invalid too) or `stopped`. `why` is the sentence for it, `attempts` are all of them. `warnings`
    are faults that didn't prevent a valid value.
    """

    value: Value | None = None
    attempts: tuple[Attempt, ...] = ()
    failure: str = ""
    why: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the agent worked in all attempts."""
        return sum(each.reply.seconds for each in self.attempts)


def ask_until_valid(
    runner: Runner,
    asked: AgentRequest,
    *,
    read: Callable[..., Value],
    most_returns: int = MAX_RETRIES,
    on_event: Callable[[ExchangeEvent], None] | None = None,
    returned: Rejection | None = None,
    follow_up: Callable[[Value], str] | None = None,
    meanwhile: Callable[[], Sequence[Mapping[str, str]]] | None = None,
) -> ExchangeResult[Value]:
    """Ask an agent until `read` accepts the text of its reply.

    `read` raises InvalidInput with all problems; they go back to the agent, in the words of
    `returned`, at most `most_returns` times. The time limit covers all attempts. A program that
    hands off validly and then exits with a code has handed off: the code becomes a warning. One
    that was ended by us or by a signal has not, since its output may be cut. `follow_up` may ask
    once for more than a valid reply has: `read` gets the first value too, to add what comes to it.
    If nothing valid comes of that, the first reply counts, and a warning says why. `meanwhile`
    gives what was added to its conversation while it worked, for the next attempt.
    """
    if isinstance(most_returns, bool) or not 0 <= most_returns <= 100:
        problem = Problem("most_returns", "out_of_range", f"{most_returns} given", "0 to 100")
        raise InvalidInput("nobody was asked", [problem])
    exchange = _Exchange(runner, asked, on_event, returned or rejection_text, meanwhile)
    for _ in range(1 + most_returns):
        if asked.is_stopped():
            return exchange.failed("stopped", "The turn was stopped before the agent was asked.")
        if exchange.is_late():
            return exchange.failed("timeout", "No time was left to ask the agent again.")
        reply = exchange.ask()
        # What a program has said that exited by itself is complete.
        is_complete = reply.failure == "exit" and (reply.exit_code or 0) > 0
        if reply.is_failure and not is_complete:
            return exchange.failed(reply.failure or "error", reply.why)
        try:
            value = read(reply.text)
        except InvalidInput as error:
            if reply.is_failure:
                return exchange.failed(reply.failure or "error", reply.why)
            exchange.send_back(error.problems)
        else:
            more = follow_up(value) if follow_up and not reply.is_failure else ""
            better = exchange.ask_for_more(more, read, value) if more else None
            return exchange.accepted(*(better or (value, reply)))
    count, problems = len(exchange.attempts), list(exchange.attempts[-1].problems)
    times = "once" if count == 1 else f"{count} times"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    why = f"{asked.agent} was asked {times}; no reply was valid. The last: "
    return exchange.failed("invalid", why + excerpt(problems[0].line(), 300) + more)


class _Exchange:
    """An exchange in progress: the attempts so far, and the next request."""

    def __init__(
        self,
        runner: Runner,
        asked: AgentRequest,
        on_event: Callable[[ExchangeEvent], None] | None,
        returned: Rejection,
        meanwhile: Callable[[], Sequence[Mapping[str, str]]] | None,
    ) -> None:
        self._returned = returned
        self._meanwhile = meanwhile or (lambda: ())
        self.attempts: list[Attempt] = []
        self._warnings: list[str] = []
        self._runner = runner
        self._asked = asked
        self._on_event = on_event
        limit = asked.timeout_s
        self._ends = None if limit is None else time.monotonic() + limit

    def is_late(self) -> bool:
        """Whether the time for all attempts is used up."""
        return self._ends is not None and time.monotonic() >= self._ends

    def ask(self) -> AgentReply:
        """Ask the agent once."""
        left = None if self._ends is None else max(0.0, self._ends - time.monotonic())
        progress = self._asked.progress
        if self._on_event is not None:
            progress = partial(self._emit, "working", "")
        self._asked = replace(self._asked, timeout_s=left, progress=progress)
        self._emit("asked")
        reply = self._runner(self._asked)
        self.attempts.append(Attempt(self._asked.attempt, reply))
        return reply

    def send_back(self, problems: Sequence[Problem]) -> None:
        """Make the problems of a reply the next request."""
        self.attempts[-1] = self.attempts[-1]._replace(problems=tuple(problems))
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        self._emit("returned", f"{count} in the handoff")
        self._continue_with(self._returned(problems, self._asked))

    def ask_for_more(
        self, text: str, read: Callable[..., Value], first: Value
    ) -> tuple[Value, AgentReply] | None:
        """Ask once for what a valid reply leaves out; None if nothing valid comes of it."""
        if self._asked.is_stopped() or self.is_late():
            return None
        self.attempts[-1] = self.attempts[-1]._replace(follow_up=text)
        self._emit("returned", "recommended fields are missing")
        self._continue_with(text)
        try:
            reply = self.ask()
            if not reply.is_failure:
                return read(reply.text, first), reply
            why = reply.why
        except PassdownError as error:  # a script without another answer, or an invalid handoff
            why = excerpt(str(error), 300)
        self._warnings.append(f"Its second reply isn't used: {why}")
        return None

    def _continue_with(self, text: str) -> None:
        """Add the last reply and a text to the messages of the next request."""
        own = self.attempts[-1].reply.text[-MAX_RETURNED_TEXT:]
        messages = [*self._asked.messages, *self._meanwhile()]
        if own.strip():
            messages.append({"role": "assistant", "content": own})
        messages.append({"role": "user", "content": text})
        number = self._asked.attempt + 1
        self._asked = replace(self._asked, messages=tuple(messages), attempt=number)

    def accepted(self, value: Value, reply: AgentReply) -> ExchangeResult[Value]:
        """The result with a value."""
        warnings = [*self._warnings]
        warnings += [f"It handed off, but: {reply.why}"] if reply.is_failure else []
        if reply.is_replaced:
            warnings.append("Its output had invalid UTF-8, which was replaced.")
        if notes := reply.evidence.get("notes"):
            warnings.append(notes)
        self._emit("accepted", " ".join(warnings))
        return ExchangeResult(value=value, attempts=tuple(self.attempts), warnings=tuple(warnings))

    def failed(self, failure: str, why: str) -> ExchangeResult[Any]:
        """The result without a value."""
        self._emit("failed", why)
        return ExchangeResult(attempts=tuple(self.attempts), failure=failure, why=why)

    def _emit(self, kind: str, said: str = "", seconds: float = 0.0, size: int = 0) -> None:
        if self._on_event is None:
            return
        asked = self._asked
        if kind in ("returned", "accepted", "failed") and self.attempts:
            seconds, size = self.attempts[-1].reply.seconds, self.attempts[-1].reply.bytes_out
        self._on_event(
            ExchangeEvent(kind, asked.agent, asked.task, asked.attempt, seconds, size, said)
        )


def rejection_text(problems: Sequence[Problem], asked: AgentRequest) -> str:
    """The prompt after an invalid handoff: every problem, and what to send."""
    return (
        f"Your handoff is invalid; nothing was recorded. Problems:\n{problem_lines(problems)}\n"
        "Fix all of them. Reply with the whole handoff again: a line '## Handoff', then one "
        "fenced yaml block, and nothing after it. "
        f"The task is {asked.task}, from_agent is {asked.agent}."
    )


def problem_lines(problems: Sequence[Problem]) -> str:
    """Problems as a list; of very many, the first and the number of others."""
    lines = [f"- {problem.line()}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"- and {count_problems(problems) - MAX_PROBLEMS:,} more of this kind")
    return "\n".join(lines)


def find_handoff(
    text: str,
    *,
    task: str,
    agent: str,
    defaults: Mapping[str, Any] | None = None,
    phases: Sequence[str] = PHASES,
) -> dict[str, Any]:
    """The handoff in an agent's reply: the section under its last heading named Handoff.

    A missing task or sender is filled in, as are `defaults`; a wrong one is a problem and never
    replaced. `phases` are the workspace's. Raises InvalidInput with every problem.
    """
    section = handoff_section(text)
    if section is None:
        expected = "a line '## Handoff', then a fenced yaml block"
        problem = Problem("", "no_handoff", "the reply has no '## Handoff' heading", expected)
        raise InvalidInput("no handoff found", [problem])
    # Only the section: what the agent wrote above it isn't the front matter of a task file.
    fields = {"task": task, "from_agent": agent}
    data = read_handoff(f"## Handoff\n{section}", fields).data
    data |= {name: value for name, value in (defaults or {}).items() if data.get(name) in EMPTY}
    fixed = (("task", task, "task"), ("from_agent", agent, "agent"))
    problems = [
        Problem(name, f"wrong_{what}", f"{excerpt(str(data[name]))!r} is another {what}", own, own)
        for name, own, what in fixed
        if data[name] != own
    ]
    checked = check_handoff(data, phases=phases)
    if checked.handoff is None:
        slips = [problem for problem in checked.warnings if problem.code == "unknown_field"]
        problems += [*checked.errors, *slips]
    raise_problems("the handoff is refused", problems)
    return data


MAX_EVIDENCE = 6
MAX_REPLY = 8_000
MAX_REVIEW = 20_000
MAX_RESULT = 2_000
_HANDOFF = re.compile(r"(?im)^#+ *handoff\b")
MAX_CHOICES = 16
MAX_SHOWN_ID = 16
_ASKED_FOR_MORE = "Your handoff is valid. The next agent would also use:"


class SentRequest(NamedTuple):
    """A request that was put into an agent's conversation, and its size."""

    conversation: Conversation
    peer: str
    messages: Messages
    brief_tokens: int
    context_tokens: int


class _RunLeases(NamedTuple):
    """The leases of an agent's conversations in a run; none where one of both has no tasks."""

    states: AgentStates
    run: Run
    agent: str

    def current_lease(self, peer: str) -> Lease | None:
        """The lease of the agent in the run, also after its end."""
        run, agents = self.run, self.run.relay.agents
        if any(agents[name].memory == "project" for name in (self.agent, peer) if name in agents):
            return None
        seat = instance_name(self.agent, run.run)
        return self.states.current_lease(seat) or Lease(seat, run.task, 0, run.run)


class Turns:
    """Takes turns for one process. `is_fresh` tells whether its lease is still valid."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        is_fresh: Callable[[], bool] = lambda: True,
        on_event: OnEvent | None = None,
        runners: Mapping[str, Runner | Function] | None = None,
    ) -> None:
        """`runners`, or plain functions, replace those that a relay declares, by agent name."""
        self._workspace = workspace
        self._streams = WorkspaceStreams(workspace)
        self._is_fresh = is_fresh
        self._on_event = on_event
        self._runners = {name: as_runner(runner) for name, runner in (runners or {}).items()}
        self._seats: dict[str, tuple[Run, str]] = {}
        self.run_agents = RunAgents(workspace, on_setup=self._entered_setup)

    def take(self, run: Run, turn: LegRun) -> Document | None:
        """Take a turn; returns how it ended, to be recorded, or None if the lease was lost."""
        if turn.kind == REVIEW:
            return self._review(run, turn)
        known = self._handed_off(run, turn)
        if known is None and turn.kept_from:
            kept = run.legs[turn.kept_from].kept
            known = self._hand_off(run, turn, kept, {"is_kept": True})
        known = known or self._held(run)
        if known is not None:
            return known
        self._seats[instance_at(run, turn)] = (run, turn.agent)
        self.run_agents.begin(run, turn)
        kind, runner = run.relay.legs[turn.leg].kind, self._runner(run, turn.agent)
        sent = self._send_leg(run, turn)
        options: Document = {"read": partial(self._read, run, turn, where=sent.conversation.where)}
        returned = rejection_text if kind == WORK else partial(_verdict_rejection, _verdicts(kind))
        if kind == WORK and not isinstance(runner, ScriptedRunner):
            # A script has said all that it has to say.
            options["follow_up"] = partial(_missing_fields, run, turn, sent.messages)
        result = self._exchange(run, turn, sent, returned, **options)
        if result.value is None or not self._is_fresh():
            return self._failed(sent, result)
        ended = self._hand_off(run, turn, result.value, _measured(sent, result))
        if (kind, ended.get("verdict")) == ("completion", "approved"):
            self.run_agents.write_knowledge(run)
        return ended

    def _failed(self, sent: SentRequest, result: ExchangeResult[Any]) -> Document | None:
        """How a turn without a valid reply ended; None if the lease was lost."""
        if not self._is_fresh():
            return None
        evidence = [attempt.to_dict() for attempt in result.attempts[-MAX_EVIDENCE:]]
        found = {"why": result.why, "measured": _measured(sent, result), "evidence": evidence}
        return {"outcome": ERROR, **storable_values(found)}

    def ask(
        self, run: Run, sender: str, to: str, kind: str, content: str, *, key: str = ""
    ) -> Approval:
        """Ask an agent of a run for an answer or a review at any time, in its conversation with
        the sender. Raises InvalidInput, and GateRefused if the agent gives no answer.
        """
        if to not in run.relay.agents or to == sender:
            known = " | ".join(name for name in run.relay.agents if name != sender)
            said = "can't ask itself" if to == sender else f"isn't in {run.run}"
            problem = Problem("to", "unknown_agent", f"{excerpt(to)!r} {said}", known)
            raise InvalidInput("the request is refused; nothing was recorded", [problem])
        conversations = self._conversations(run, to)

        def answer(messages: list[dict[str, Any]]) -> str:
            return self._answer(run, to, kind, messages)

        with self.run_agents.asking(run, sender, to, kind):
            if kind == "question":
                said = ask(conversations, sender, content, answer, rounds=1, key=key)
                found = Approval("", said.message, 1)
            else:
                found = approve(conversations, sender, kind, content, answer, rounds=1, key=key)
                found = found._replace(verdict=verdict_of(found.message.content))
        self._remember(run, sender, to, (content, found.message.content), key)
        if (kind, found.verdict) == ("completion", "approved"):
            self.run_agents.write_knowledge(run)
        return found

    def _remember(self, run: Run, sender: str, to: str, said: tuple[str, str], key: str) -> None:
        """Add what an agent asked and was told to its own conversations too: with whom it asked,
        and that of its open turn.
        """
        if sender not in run.relay.agents:
            return
        own = self._conversations(run, sender)
        turns = [turn for turn in run.open_legs if turn.agent == sender]
        peers = dict.fromkeys([to, *(peer_of(run, turn) for turn in turns)])
        where = self._conversations(run, to).with_peer(sender).where
        question, answer = (shortened(storable(text).strip(), MAX_REVIEW, where) for text in said)
        for conversation in {id(each): each for each in map(own.with_peer, peers)}.values():
            asked = Message("assistant", f"I asked {to}: {question}", sender)
            peer = to if conversation.peer in (EVERYONE, to) else conversation.peer
            told = Message("user", f"{to} answered: {answer}", peer)
            conversation.add(asked, key=key and f"{key}/asked")
            conversation.add(told, key=key and f"{key}/told")

    def _answer(self, run: Run, to: str, kind: str, messages: list[dict[str, Any]]) -> str:
        plain = tuple({"role": m["role"], "content": m["content"]} for m in messages)
        asked = self._request(run, to, plain)
        verdicts = _verdicts("budget_review" if kind == "budget" else kind)

        def read(text: str) -> str:
            if not text.strip():
                problem = Problem("", "empty", "the reply is empty", "an answer")
                raise InvalidInput("there is no answer", [problem])
            if verdicts:
                read_verdict(text, verdicts)
            return storable(text)

        result = ask_until_valid(
            self._runner(run, to), asked, read=read, returned=partial(_verdict_rejection, verdicts)
        )
        if result.value is None:
            problem = Problem("", result.failure, result.why, "an answer")
            step = "Ask again, with the same key if it had one: the request is in its conversation."
            raise GateRefused(f"{to} gave no answer", [problem], next_step=step)
        return result.value

    def _held(self, run: Run) -> Document | None:
        """The end of a turn that has to wait for a person's answer about the task."""
        found = self._workspace.gates(run.task)
        gates = [gate.address for gate in found if gate.status == "pending"]
        if not gates:
            return None
        why = f"a person has to answer {', '.join(gates[:5])} first"
        return {"outcome": HELD, "gates": gates, "why": why, "measured": {}}

    def _entered_setup(self, name: str) -> None:
        """Empty the conversations of an agent that starts again in a run, on both sides."""
        if name not in self._seats:
            return
        log = self.run_agents.states.log(name)
        leased = max((e["number"] for e in log if e["kind"] == "leased"), default=0)
        moves = [e for e in log if e["kind"] == "moved" and e["number"] > leased]
        if sum(SETUP in entry["path"] for entry in moves) < 2:
            return  # the first time under this lease: the run begins, or is resumed
        run, agent = self._seats[name]
        for head in self._streams.streams(f"{CONVERSATION_STREAM}{run.task}/"):
            owner, _, peer = head.stream.rpartition("/")
            owner = owner.rpartition("/")[2]
            if agent in (owner, peer) and owner in run.relay.agents:
                self._conversations(run, owner).entered_setup(peer)

    def _conversations(self, run: Run, agent: str) -> Conversations:
        """The conversations of an agent in a run, as the relay declares them."""
        states, seat = self.run_agents.states, instance_name(agent, run.run)
        if not run.ended_at:
            states.lease(seat, run.task, run.run)
        given, root = run.relay.agents[agent], self._workspace.root
        pairs = {(agent, peer) for peer in given.separate}
        return Conversations(
            self._workspace,
            agent,
            leases=_RunLeases(states, run, agent),
            profile=given.profile or agent,
            role=given.role,
            rules="\n".join(f"- {rule}" for rule in given.rules),
            spec=Path(root, given.spec) if given.spec else "",
            templates=os.path.join(root, given.templates) if given.templates else "",
            sharing=pairs if given.sharing == "pairs" else given.sharing,
            max_age_hours=given.max_age_hours or 0,
            window=given.limits.context_tokens,
            has_brief=True,
        )

    def _send_leg(self, run: Run, turn: LegRun) -> SentRequest:
        """Put the request of a leg into the agent's conversation, once."""
        agent, leg = run.relay.agents[turn.agent], run.relay.legs[turn.leg]
        needs = {name: list(each) for name, each in agent.needs.items()}
        context = context_of(self._workspace)
        brief = brief_for(context, run.task, turn.agent, run.relay.budget, needs=needs)
        lost = context.lost_history(run.task)
        lost_lines = [p._replace(level="warning").line() for p in lost.problems] if lost else []
        for line in lost_lines:  # state files show more of the task than the ledger
            logging.getLogger("passdown.relay").warning("%s", line)
        conversations, peer = self._conversations(run, turn.agent), peer_of(run, turn)
        if leg.fresh:
            conversations.reset(peer, key=f"{turn_key(run, turn)}/fresh")
        values = {
            "agent": turn.agent,
            "task": run.task,
            "phase": leg.phase,
            "agents": _choices((name for name in run.relay.agents if name != turn.agent), leg),
            "brief": "\n".join([brief.text, *lost_lines]),
            "request": _request_text(run, turn),
            "guidance": f"Guidance: {turn.guidance}" if turn.guidance else "",
            "before": _parallel_results(run, turn),
            "example": yaml_example(
                task=run.task if len(run.task) <= MAX_SHOWN_ID else "TASK"
            ).rstrip(),
        }
        if leg.kind != WORK:
            parts = [values[name] for name in ("brief", "guidance", "before")]
            parts[1:1] = [leg.request, *self._replies(run, turn)]
            content = "\n\n".join(part for part in parts if part)
            values = {"agent": turn.agent, "task": run.task, "peer": peer, "content": content}
        text = conversations.templates.render("leg" if leg.kind == WORK else leg.kind, values)
        return self._send(conversations, peer, text, turn_key(run, turn), brief.tokens)

    def repeat_request(self, run: Run, turn: LegRun, text: str) -> None:
        """Put the request that another agent had for a turn into the conversation of the one that
        takes it again.
        """
        conversations, peer = self._conversations(run, turn.agent), peer_of(run, turn)
        if run.relay.legs[turn.leg].fresh:
            conversations.reset(peer, key=f"{turn_key(run, turn)}/fresh")
        self._send(conversations, peer, text, turn_key(run, turn))

    def _replies(self, run: Run, turn: LegRun) -> list[str]:
        """What was said in the turns that led to a request: the plan, the change or the question
        that it is about; without their handoffs, which the brief has.
        """
        found: list[str] = []
        for cause in (run.legs[number] for number in turn.causes):
            own = self._conversations(run, cause.agent).with_peer(peer_of(run, cause))
            said = [m.content for m in own.context().messages() if m.role == "assistant"]
            replies = said[-cause.measured.get("attempts", 1) :]
            texts = filter(None, (_HANDOFF.split(each)[0].strip() for each in reversed(replies)))
            text = next(texts, "") if cause.agent != turn.agent else ""
            if text:
                shown = fenced(shortened(text, MAX_REPLY, own.where))
                found.append(f"{cause.agent} said:\n{shown}")
        return found

    def _send(
        self, conversations: Conversations, peer: str, text: str, key: str, brief_tokens: int = 0
    ) -> SentRequest:
        """Add a request once: a turn that is taken again continues with the first one."""
        conversation = conversations.with_peer(peer)
        request = Message("user", text, peer)
        chapter = conversation.context().chapter
        known = conversation.keyed(key, chapter)
        if known is None:
            conversation.add(request, key=key)
        elif known[0] != chapter:
            conversation.add(request)
        messages = conversation.messages()
        tokens = conversation.tokens(messages)
        return SentRequest(conversation, peer, tuple(_plain(messages)), brief_tokens, tokens)

    def _request(self, run: Run, agent: str, messages: Messages) -> AgentRequest:
        return AgentRequest(
            messages=messages,
            agent=agent,
            task=run.task,
            run=run.run,
            workdir=self._workspace.root,
            store=self._workspace.store_url,
            timeout_s=run.relay.agents[agent].limits.seconds,
            stop=lambda: not self._is_fresh(),
        )

    def _exchange(
        self,
        run: Run,
        turn: LegRun,
        sent: SentRequest,
        returned: Rejection,
        **options: Any,
    ) -> ExchangeResult[Any]:
        """Ask an agent until its reply is valid, as `ask_until_valid` takes `options`, and add what
        was said to its conversation.
        """
        on_event = self._on_event
        asked = self._request(run, turn.agent, sent.messages)
        asked = replace(asked, leg=turn.leg, visit=turn.visit)
        seen = list(sent.messages)

        def meanwhile() -> Messages:
            now = _plain(sent.conversation.messages())
            new = now[len(seen) :] if now[: len(seen)] == seen else []
            seen.extend(new)
            return tuple(new)

        result = ask_until_valid(
            self._runner(run, turn.agent),
            asked,
            meanwhile=meanwhile,
            on_event=(lambda event: on_event(run, turn, event)) if on_event else None,
            returned=returned,
            **options,
        )
        for attempt in result.attempts if self._is_fresh() else ():
            said = returned(attempt.problems, asked) if attempt.problems else attempt.follow_up
            if attempt.reply.text.strip():
                text = storable(attempt.reply.text)
                sent.conversation.add(Message("assistant", text, turn.agent))
            if said:
                sent.conversation.add(Message("user", storable(said), sent.peer))
        return result

    def _runner(self, run: Run, agent: str) -> Runner:
        if agent in self._runners:
            return self._runners[agent]
        return agent_runner(agent, run.relay.agents[agent], self._workspace.root)

    def _read(
        self, run: Run, turn: LegRun, text: str, first: Document | None = None, *, where: str = ""
    ) -> Document:
        """The handoff in a reply, checked without recording it; of a review, with its verdict.

        A review or an answer needs no handoff. Its text is between the two agents: briefs of the
        task, which others get too, say only that there was one. `where` says how to read all of it.
        What the handoff leaves out is that of `first`, the valid handoff before it.
        """
        kind, found = run.relay.legs[turn.leg].kind, {}
        if verdicts := _verdicts(kind):
            found = {"verdict": read_verdict(text, verdicts)[0]}
        if kind != WORK and handoff_section(text) is None:
            what = f"{kind.replace('_', ' ')} for {peer_of(run, turn)}"
            summary = ": ".join((what, *found.values()))
            found["reply"] = shortened(storable(text).strip(), MAX_REVIEW, where)
            data: Document = {"task": run.task, "from_agent": turn.agent, "outcome": "completed"}
            data |= {"summary": summary}
        else:
            phases = context_of(self._workspace).settings.phases
            names = {"task": run.task, "agent": turn.agent}
            data = find_handoff(text, **names, defaults=first, phases=phases)
        payload = run.relay.payload_schema(turn.leg)
        # A field of the payload may be given beside the others.
        found |= {name: data.pop(name) for name in payload["required"] if name in data}
        data = {**data, "metadata": {**data.get("metadata", {}), **found}} if found else data
        check = self._workspace.check_handoff(self._completed(run, turn, data))
        # An open gate is for a person; the agent can't do anything about it.
        errors = [p for p in check.problems if p.level == "error" and p.code != "human_gate"]
        if data["outcome"] != "completed":  # work that stopped may not know them yet
            payload["required"] = []
        metadata = check_json(data.get("metadata", {}), payload, "metadata", errors, as_meant)
        data = {**data, "metadata": metadata} if metadata else data
        to, known = str(data.get("to_agent") or ""), ["", *run.relay.agents]
        if to not in known:
            said = f"{excerpt(to)!r} isn't an agent of this relay"
            errors.append(Problem("to_agent", "unknown_agent", said, " | ".join(known[1:])))
        if errors:
            raise InvalidInput("the handoff is refused", errors)
        return data

    def _completed(self, run: Run, turn: LegRun, data: Document) -> Document:
        """Add what the relay knows to a handoff: the next agent, the phase, the gate, the run."""
        leg = run.relay.legs[turn.leg]
        given = data.get("metadata", {})
        origin = {"run": run.run, "leg": leg.leg, "to": data.get("to_agent") or ""}
        found = {**data, "metadata": {**given, **origin}}
        if not found.get("to_agent"):
            verdict = str(given.get("verdict", ""))
            found["to_agent"] = next_agent(run, turn, str(data.get("outcome", "")), verdict=verdict)
        if not found.get("phase") and leg.phase:
            found["phase"] = leg.phase
        if leg.gate and data.get("outcome") == "completed":
            gate = {"blocker": leg.gate, "severity": "high", "requires_human": True}
            found["blockers"] = [*(found.get("blockers") or []), gate]
        return found

    def _hand_off(self, run: Run, turn: LegRun, data: Document, measured: Document) -> Document:
        started = time.monotonic()
        completed = self._completed(run, turn, data)
        try:
            # A leg's gate is added to what is in the way; it isn't the list of it.
            is_added = "blockers" in completed and not data.get("blockers")
            given = read_handoff(completed)._replace(added_blockers=is_added)
            self._workspace.hand_off(given, key=turn_key(run, turn))
        except PassdownError as error:
            known = self._handed_off(run, turn)  # another worker was first
            held = self._held(run) if isinstance(error, GateRefused) else None
            if known is None and held is not None:
                return {**held, "kept": data, "measured": measured}
            why = f"the handoff could not be recorded: {error}"
            return known or {"outcome": ERROR, "why": why, "measured": measured}
        measured["handoff_seconds"] = round(time.monotonic() - started, 4)
        return self._handed_off(run, turn, measured) or {}

    def _handed_off(
        self, run: Run, turn: LegRun, measured: Document | None = None
    ) -> Document | None:
        """How the turn ended if its handoff is recorded, by any worker; None if it isn't."""
        with context_of(self._workspace).store.reading() as reader:
            record = reader.record_by_key(stream_of(run.task), turn_key(run, turn))
        if record is None or (record.kind, record.author) != ("handoff", turn.agent):
            return None
        body = record.document()
        origin, handoff = body.get("metadata", {}), body.get("handoff") or body
        found = self._workspace.gates(run.task, all=True)
        counts = {name: len(body[name]) for name in body if isinstance(body[name], list)}
        verdict, measured = origin.get("verdict", ""), measured or {"is_repeat": True}
        return {
            "outcome": handoff["outcome"],
            "to": origin.get("to", ""),
            "version": record.position,
            "gates": [gate.address for gate in found if gate.version == record.position],
            "summary": origin.get("reply") or handoff.get("summary", ""),
            **({"verdict": verdict} if verdict else {}),
            "measured": {**measured, "record_bytes": len(record.body), **counts},
        }

    def _review(self, run: Run, turn: LegRun) -> Document | None:
        """Ask an agent whether another, whose loops are used up, may continue."""
        reviewed = peer_of(run, turn)
        conversations = self._conversations(run, turn.agent)
        ended = [t for t in run.legs.values() if t.agent == reviewed and not t.is_open]
        count = sum(t.counts for t in ended)
        content = f"{reviewed} has had {'1 turn' if count == 1 else f'{count} turns'}:"
        for t in ended:
            if t.is_by_person:
                content += f"\n- {t.worker} decided: {t.verdict}. {t.summary}".rstrip()
            elif t.counts:
                content += f"\n- {t.leg}, visit {t.visit}: {t.outcome}. {t.summary or t.why}"
        values = {"content": content, "agent": turn.agent, "peer": reviewed, "task": run.task}
        text = conversations.templates.render("budget_review", values)
        sent = self._send(conversations, reviewed, text, turn_key(run, turn))
        returned = partial(_verdict_rejection, VERDICTS)
        result = self._exchange(run, turn, sent, returned, read=read_verdict)
        if result.value is None or not self._is_fresh():
            return self._failed(sent, result)
        verdict, guidance = result.value
        found = {"outcome": "completed", "verdict": verdict, "summary": guidance}
        return {**found, "measured": _measured(sent, result)}


def _plain(messages: Sequence[Message]) -> list[Mapping[str, str]]:
    """Messages as a runner takes them."""
    return [{"role": m.role, "content": m.content} for m in messages]


def _verdicts(kind: str) -> tuple[str, ...]:
    """The verdicts with which a reply to a request may begin; none for what needs none."""
    if kind == "budget_review":
        return VERDICTS
    return () if kind in (WORK, "question") else APPROVALS


def read_verdict(text: str, words: Sequence[str] = VERDICTS) -> tuple[str, str]:
    """The verdict at the start of a reply, and the guidance after it."""
    verdict = verdict_of(text)
    if verdict not in words:
        expected = " | ".join(words)
        problem = Problem("", "no_verdict", "the reply doesn't begin with one", expected)
        raise InvalidInput("there is no verdict", [problem])
    rest = text[text.lower().index(verdict) + len(verdict) :]
    return verdict, rest.strip(" \n\t:*_.,!")


def _verdict_rejection(
    words: Sequence[str], problems: Sequence[Problem], asked: AgentRequest
) -> str:
    said = f"Begin with one of {', '.join(word.upper() for word in words)}, then say why."
    return f"Your reply is invalid:\n{problem_lines(problems)}\n{said if words else ''}".strip()


def _missing_fields(
    run: Run, turn: LegRun, messages: Sequence[Mapping[str, str]], data: Document
) -> str:
    """Ask for recommended fields that a valid handoff leaves out: an agent once in a run, and in a
    conversation.
    """
    fields = fields_of(Handoff)
    wanted = (name for name in PROMPT_FIELDS if fields[name].level == "recommended")
    missing = [name for name in wanted if name not in data]
    own = (each for each in run.legs.values() if each.agent == turn.agent)
    was_asked = any(each.measured.get("asked_for_more") for each in own)
    if not missing or was_asked or any(m["content"].startswith(_ASKED_FOR_MORE) for m in messages):
        return ""
    return (
        f"{_ASKED_FOR_MORE} {', '.join(missing)}. If you have something for them, reply with a "
        "handoff that has these fields: the others are kept. If not, repeat it as it is."
    )


def _request_text(run: Run, turn: LegRun) -> str:
    """What a leg asks for, and what its handoff has to have in its metadata."""
    leg, payload = run.relay.legs[turn.leg], run.relay.payload_schema(turn.leg)
    text = leg.request or f"Do the leg {leg.leg} of this task."
    lines = [f"- {name}: {_field_text(field)}" for name, field in payload["properties"].items()]
    wanted = "Your handoff must also have, under `metadata`:\n" if lines else ""
    return "\n\n".join(part for part in (text, wanted + "\n".join(lines)) if part)


def _field_text(field: Document) -> str:
    about = field.get("description", "")
    return f"{json_expected(field)}{f' ({about})' if about else ''}"


def _choices(others: Iterable[str], leg: Leg) -> str:
    """Whom a handoff may name as `to_agent`: the agents that the rules of its leg name, or else
    all others. Of many, those that a prompt has room for; its request can name the others.
    """
    names = list(dict.fromkeys(rule.when.to for rule in leg.then if rule.when.to) or others)
    shown = [name for at, name in enumerate(names) if len(", ".join(names[:at])) < MAX_CHOICES]
    return ", ".join(shown) + (", ..." if len(shown) < len(names) else "")


def turn_key(run: Run, turn: LegRun) -> str:
    """The key of a turn's request and of its handoff."""
    return f"{run.run}.{turn.number}-{run.mark}"


def _parallel_results(run: Run, turn: LegRun) -> str:
    """The results of the legs that led to this one, where there were several."""
    causes = [run.legs[number] for number in turn.causes]
    if len(causes) < 2:
        return ""
    lines = [
        f"- {c.leg} ({c.agent}, {c.outcome}): "
        + shortened(c.summary, MAX_RESULT, f"passdown runs {run.run}")
        for c in causes
    ]
    return "These legs ran in parallel before:\n" + "\n".join(lines)


def _measured(sent: SentRequest, result: ExchangeResult[Any]) -> Document:
    replies = [attempt.reply for attempt in result.attempts]
    return {
        "seconds": round(result.seconds, 3),
        "attempts": len(replies),
        "bytes_in": sum(reply.bytes_in for reply in replies),
        "bytes_out": sum(reply.bytes_out for reply in replies),
        "brief_tokens": sent.brief_tokens,
        "context_tokens": sent.context_tokens,
        "messages": len(sent.messages),
        "warnings": list(result.warnings),
        **({"asked_for_more": True} if any(each.follow_up for each in result.attempts) else {}),
    }
