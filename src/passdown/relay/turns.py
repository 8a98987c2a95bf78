"""One turn of an agent in a run: brief, request, reply, handoff.

The agent gets its conversation about the task: the system message was made once, the request is a
message with the brief and what is asked. Its reply has to end with a handoff, which is recorded
under the turn's own key: a turn that is taken twice, by a worker that came back from the dead, is
recorded once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import GateRefused, InvalidInput, PassdownError, Problem
from passdown.model.advancing import receiver
from passdown.model.conversation import Message
from passdown.model.kinds import stream_of
from passdown.model.relay import ERROR
from passdown.model.run import HELD, REVIEW, VERDICTS
from passdown.model.storable import storable, storable_values
from passdown.model.text import excerpt
from passdown.relay.conversations import Conversations
from passdown.relay.exchange import find_handoff, hold, problem_lines, returned_text
from passdown.relay.runners.asking import Asked
from passdown.relay.runners.declared import runner_of
from passdown.relay.seats import Seats, seat_at, seat_of
from passdown.workspace.beside import Beside
from passdown.workspace.briefings import brief_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from passdown.model.run import LegRun, Run
    from passdown.relay.conversation import Conversation
    from passdown.relay.exchange import Event, Exchanged
    from passdown.relay.runners.asking import Runner
    from passdown.workspace import Workspace

    Document = dict[str, Any]
    Say = Callable[[Run, LegRun, Event], None]

MOST_EVIDENCE = 6


class Told(NamedTuple):
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
        self._beside = Beside(workspace)
        self._is_fresh = is_fresh
        self._say = say
        self._runners = dict(runners or {})
        self._agents: dict[str, str] = {}
        self.seats = Seats(workspace, on_setup=self._entered_setup)

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
        self._agents[seat_at(run, turn)] = turn.agent
        self.seats.take(run, turn)
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
            leases=self.seats.states,
            profile=declared.profile if declared else "",
            window=declared.limits.context_tokens if declared else 0,
        )

    def _told(self, run: Run, turn: LegRun) -> Told:
        """Put the request into the agent's conversation, once."""
        agent, leg = run.relay.agents[turn.agent], run.relay.legs[turn.leg]
        brief = brief_for(
            self._beside.opened, run.task, turn.agent, run.relay.budget, needs=agent.needs
        )
        conversations = self._conversations(turn.agent, run)
        seat = seat_at(run, turn)
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
                "before": _before(run, turn),
            },
        )
        request = Message("user", text, seat)
        return self._said(conversation, request, _key(run, turn), brief.tokens)

    def _said(
        self, conversation: Conversation, request: Message, key: str, brief_tokens: int = 0
    ) -> Told:
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
        return Told(conversation, plain, brief_tokens, tokens)

    def _exchange(
        self, run: Run, turn: LegRun, told: Told, read: Callable[[str], Any]
    ) -> Exchanged[Any]:
        agent = run.relay.agents[turn.agent]
        returned = _no_verdict if turn.kind == REVIEW else returned_text
        say = self._say
        asked = Asked(
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
        exchanged = hold(
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
        errors += _strangers(run, data)
        if errors:
            raise InvalidInput("the handoff is refused", errors)
        return data

    def _completed(self, run: Run, turn: LegRun, data: Document) -> Document:
        """A handoff with what the relay knows: who comes next, the phase, the gate, the run."""
        leg = run.relay.legs[turn.leg]
        origin = {"run": run.run, "leg": leg.name, "to": data.get("to_agent") or ""}
        found = {**data, "metadata": {**data.get("metadata", {}), **origin}}
        if not found.get("to_agent"):
            found["to_agent"] = receiver(run, turn, str(data.get("outcome", "")))
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
        seat = seat_of(leg.agent, run.run)
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


def _no_verdict(problems: Sequence[Problem], asked: Asked) -> str:
    words = ", ".join(verdict.upper() for verdict in VERDICTS)
    return (
        f"Your reply was not taken:\n{problem_lines(problems)}\n"
        f"Begin it with one of {words}, then say in a few sentences what is to be done next."
    )


def _key(run: Run, turn: LegRun) -> str:
    return f"{run.run}.{turn.number}-{run.mark}"


def _strangers(run: Run, data: Document) -> list[Problem]:
    """What is wrong with a receiver that no leg of the relay would ever ask."""
    given, known = str(data.get("to_agent") or ""), list(run.relay.agents)
    if not given or given in known:
        return []
    said = f"{excerpt(given)!r} is no agent of this relay"
    return [Problem("to_agent", "unknown_agent", said, " | ".join(known))]


def _before(run: Run, turn: LegRun) -> str:
    """What the legs left that led to this one, where there were several."""
    causes = [run.legs[number] for number in turn.causes]
    if len(causes) < 2:
        return ""
    lines = [f"- {c.leg} ({c.agent}, {c.outcome}): {c.summary}" for c in causes]
    return "These were done side by side before:\n" + "\n".join(lines)


def _measured(told: Told, exchanged: Exchanged[Any]) -> Document:
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


def _failed(exchanged: Exchanged[Any], measured: Document) -> Document:
    evidence = [attempt.as_document() for attempt in exchanged.tries[-MOST_EVIDENCE:]]
    found = {"why": exchanged.why, "measured": measured, "evidence": evidence}
    return {"outcome": ERROR, **storable_values(found)}
