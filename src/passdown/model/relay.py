"""A relay: which agents take a task, in which legs, and what decides where it goes next.

A leg is one agent's turn. When it ends, the rules of the leg are read from the top; the first that
fits says where to go. After those of the file come the usual ones: on when completed, once more
when partial (three times at most), stop when failed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

END, STOP, AGAIN, WAIT = "end", "stop", "again", "wait"
DIRECTIONS = (END, STOP, AGAIN, WAIT)
"""Where a rule may lead besides a leg: done, failed, the same leg once more, wait for a person."""

ERROR = "error"
"""The outcome of a leg that gave no valid handoff."""

PERSON = "person"
MOST_PARTIAL = 3
MOST_REJECTED = 3
LOOPS = 8


class Limits(NamedTuple):
    """What an agent may use up: legs in one run, tokens in its context, seconds for a leg."""

    loops: int = LOOPS
    context_tokens: int = 100_000
    seconds: float = 600.0


class RelayAgent(NamedTuple):
    """An agent of a relay: its profile, what runs it, what it needs, its limits.

    `runner` is a plain document with one of `command`, `script` or `python`, and its options.
    `review_by` answers when its loops are used up: an agent's name, or `person`.
    """

    name: str
    profile: str
    runner: dict[str, Any]
    needs: dict[str, list[str]]
    limits: Limits
    review_by: str


class Rule(NamedTuple):
    """Where to go from a leg: `go` when everything that is named fits, at most so often.

    `outcomes`, `to` (the agent that the handoff names) and `gate` fit anything where they are
    empty; `at_most` 0 is no limit; when it is used up, `otherwise` counts.
    """

    outcomes: tuple[str, ...]
    to: str
    gate: str
    go: tuple[str, ...]
    at_most: int
    otherwise: tuple[str, ...]

    def fits(self, outcome: str, to: str, gate: str) -> bool:
        """Whether it is for a leg that ended so. A rejected gate needs a rule that names it."""
        if (gate == "rejected") != (self.gate == "rejected"):
            return False
        is_outcome = not self.outcomes or outcome in self.outcomes
        return is_outcome and self.to in ("", to) and self.gate in ("", gate)


class Leg(NamedTuple):
    """One turn: who takes it, what is asked, the task's phase, and the rules for what follows.

    `gate` is a question that a person answers before anything follows. With `joins`, the leg
    starts when all of those legs have led to it.
    """

    name: str
    agent: str
    request: str
    phase: str
    gate: str
    joins: tuple[str, ...]
    rules: tuple[Rule, ...]


class Relay(NamedTuple):
    """A relay as its file describes it; `document` is the file's content, as it is recorded."""

    name: str
    description: str
    budget: int
    agents: dict[str, RelayAgent]
    legs: dict[str, Leg]
    parallel: int
    document: dict[str, Any]

    def first(self) -> Leg:
        """The leg that a run starts with."""
        return next(iter(self.legs.values()))

    def planning(self) -> Leg:
        """Where a change of direction starts: the first leg that plans, else the first."""
        return next((leg for leg in self.legs.values() if leg.phase == "planning"), self.first())


def relay_of(document: dict[str, Any]) -> Relay:
    """The value of a checked document."""
    agents = {name: _agent(name, given) for name, given in document["agents"].items()}
    names = [given["leg"] for given in document["legs"]]
    legs = {
        name: _leg(given, [*names[place + 1 :], END][0])
        for place, (name, given) in enumerate(zip(names, document["legs"], strict=True))
    }
    return Relay(
        name=document["relay"],
        description=document["description"],
        budget=document["budget"],
        agents=agents,
        legs=legs,
        parallel=document["parallel"],
        document=document,
    )


def _agent(name: str, given: dict[str, Any]) -> RelayAgent:
    return RelayAgent(
        name=name,
        profile=given["profile"] or name,
        runner=given["runner"],
        needs=given["needs"],
        limits=Limits(*(given["limits"][name] for name in Limits._fields)),
        review_by=given["review_by"],
    )


def _leg(given: dict[str, Any], following: str) -> Leg:
    rules = tuple(_rule(rule) for rule in given["then"])
    return Leg(
        name=given["leg"],
        agent=given["agent"],
        request=given["request"],
        phase=given["phase"],
        gate=given["gate"],
        joins=tuple(given["joins"]),
        rules=(*rules, *_usual(following)),
    )


def _rule(given: dict[str, Any]) -> Rule:
    when = given["when"]
    return Rule(
        outcomes=tuple(when["outcome"]),
        to=when["to"],
        gate=when["gate"],
        go=tuple(given["go"]),
        at_most=given["at_most"],
        otherwise=tuple(given["otherwise"]),
    )


def _usual(following: str) -> tuple[Rule, ...]:
    return (
        Rule((), "", "rejected", (AGAIN,), MOST_REJECTED, (STOP,)),
        Rule(("completed",), "", "", (following,), 0, ()),
        Rule(("partial",), "", "", (AGAIN,), MOST_PARTIAL, (STOP,)),
        Rule(("blocked",), "", "approved", (AGAIN,), MOST_PARTIAL, (STOP,)),
        Rule(("blocked",), "", "", (WAIT,), 0, ()),
        Rule((), "", "", (STOP,), 0, ()),
    )
