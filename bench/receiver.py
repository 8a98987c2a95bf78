"""How far a receiver gets with what it was given: calls and tokens until it has every claim.

The tasks of HandoffBench (`PASSDOWN_DATA/handoffbench`), claims learnt along the way with other
cases between them. The receiver starts with a text (a brief, a plain summary of the same length,
the whole history, or nothing), knows the conditions of its own tools, and may call `recall` and
`show`. It never sees the claims that are looked for; the harness counts what it has read until all
of them are in it.

By default the receiver is a script with a fixed policy. `PASSDOWN_RECEIVER` names a command
instead, such as a small program that asks a model: for each action it is started, reads the prompt
on standard input and writes one line, `recall WORDS`, `show ADDRESS` or `done`. It is never needed,
and nothing is called unless it is set.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import statistics
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import passdown
from bench.figures import Measured, Row, Target
from bench.handoffbench import Adapted, loaded_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.run import Run

COMMAND = "PASSDOWN_RECEIVER"
BUDGETS = (150, 250, 500)
QUICK_TASKS = 2
CALLS = 12
RESULTS = 5
SECONDS = 120
CATEGORIES = ("goal", "constraint", "verified fact", "policy check", "consent", "unresolved slot")
_KINDS = {
    "decisions": "decision",
    "patterns": "pattern",
    "gotchas": "gotcha",
    "questions": "question",
    "blockers": "blocker",
    "warnings": "warning",
    "next steps": "next_step",
}
_LEFT_OUT = re.compile(r"(\d+) ([a-z ]+?)(?:,| left out)")
_STEP = re.compile(r"^## Next steps\n(?:\w+:\n)?- \w+ (.+)$", re.MULTILINE)
_CUT = re.compile(r"^(\S+#\w+) .*…$", re.MULTILINE)

PROMPT = """\
You take over the task {task} as {agent}. Collect everything you need before you act: its goal, \
constraints, verified facts, policy checks, consents and open unknowns.
Your tools' conditions: {conditions}
Write one line and nothing else:
recall WORDS    search the task's records; KIND=decision (or pattern, warning, question, \
next_step) may come first
show ADDRESS    print one record whole
done            you have everything
{left} calls are left.

What you were given and have read so far:
{text}
"""


class Receiver(Protocol):
    """Decides what to do next from what it was given and has read; empty when it is done."""

    def next_action(self, read: Sequence[str], left: int) -> str: ...


class Case(NamedTuple):
    """One task, as its receiver knows it."""

    task: str
    agent: str
    title: str
    conditions: tuple[str, ...]


class Scripted:
    """Searches for its tools' conditions, for the kinds that the text says were left out, then for
    each category; opens what a search shows cut off.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._asked: set[str] = set()

    def next_action(self, read: Sequence[str], left: int) -> str:
        for action in self._wishes(read):
            if action not in self._asked:
                self._asked.add(action)
                return action
        return ""

    def _wishes(self, read: Sequence[str]) -> Iterator[str]:
        text = "\n".join(read)
        yield from (f"show {found}" for found in _CUT.findall(text))
        for key in self._case.conditions:
            if key not in text:
                yield f"recall {key.replace('_', ' ')}"
        step = _STEP.search(read[0])
        goal = step[1] if step else self._case.title
        for _, kind in _LEFT_OUT.findall(read[0].rstrip().rpartition("\n")[2]):
            if kind in _KINDS:
                yield f"recall KIND={_KINDS[kind]} {goal}"
        yield from (f"recall {category}" for category in CATEGORIES)


class Commanded:
    """Asks a command for each action."""

    def __init__(self, case: Case, command: str) -> None:
        self._case = case
        self._command = shlex.split(command)

    def next_action(self, read: Sequence[str], left: int) -> str:
        prompt = PROMPT.format(
            task=self._case.task,
            agent=self._case.agent,
            conditions=", ".join(self._case.conditions) or "none",
            left=left,
            text="\n\n".join(read),
        )
        answer = subprocess.run(
            self._command,
            input=prompt,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        lines = answer.stdout.strip().splitlines()
        return "" if not lines or lines[-1].strip() == "done" else lines[-1].strip()


class Outcome(NamedTuple):
    """What one receiver had read when it had every claim, or when it stopped."""

    share_before: float
    share: float
    calls: int
    tokens: int

    @property
    def has_all(self) -> bool:
        return self.share == 1.0


def measure(run: Run) -> Measured:
    found = Measured("receiver", "What a receiver needs until it has every claim")
    scoring, tasks = loaded_tasks(found)
    if scoring is None:
        return found
    chosen = tasks[:: -(-len(tasks) // QUICK_TASKS)] if run.quick else tasks
    outcomes: dict[str, list[Outcome]] = {}
    place = run.folder / "receiver"
    place.mkdir(parents=True)
    with passdown.open(str(place), settings=passdown.Settings(durability="normal")) as ws:
        for number, task in enumerate(chosen, 1):
            if number % 20 == 1:
                run.say(f"receiver: task {number} of {len(chosen)}")
            for name, outcome in _played(ws, scoring, f"T-{number}", task, tasks):
                outcomes.setdefault(name, []).append(outcome)
    for name, each in outcomes.items():
        found.rows.append(_row(name, each, outcomes["nothing"]))
        found.figures[name] = _document(each)
    command = os.environ.get(COMMAND, "")
    found.notes.append(
        f"The receiver is {'the command in ' + COMMAND if command else 'a script'}: at most "
        f"{CALLS} calls of `recall` ({RESULTS} results) and `show`. {len(chosen)} tasks of "
        "HandoffBench v3.1 (CC BY 4.0), claims learnt along the way. Tokens (`o200k_base`) are "
        "those of the text that was given and of all results; where a claim was not found, all "
        "that was read counts."
    )
    return found


def _played(
    ws: passdown.Workspace, scoring: Any, name: str, task: dict[str, Any], tasks: list[Any]
) -> Iterator[tuple[str, Outcome]]:
    """One task, recorded once and taken over once with each text."""
    steps = scoring.steps_of(task, _others(task, tasks), "spread")
    scoring.record(Adapted(ws), name, task, steps, "items")
    at = task["episode"]["boundary"]
    actions = task["mock_tool_world"]["public_actions"]
    keys = (test.split("=")[0].lstrip("!") for a in actions for test in a.get("requires") or ())
    case = Case(name, scoring.slug(at["target_role"]), ws.task(name).title, (*dict.fromkeys(keys),))
    claims = [claim for step in steps for claim in step[1]]
    for budget in BUDGETS:
        brief = ws.brief(
            name, agent=case.agent, budget=budget, counter="o200k_base", record=False
        ).text
        length = len(scoring.ENCODE(brief))
        yield f"a brief of {budget}", _receive(ws, scoring, case, task, brief)
        summary = scoring.whole_lines(claims[::-1], length)
        yield (
            f"a plain summary as long as that, {budget}",
            _receive(ws, scoring, case, task, summary),
        )
    trace = "\n".join(json.dumps(event, sort_keys=True) for step in steps for event in step[2])
    yield "the whole history", _receive(ws, scoring, case, task, trace, is_transcript=True)
    yield "nothing", _receive(ws, scoring, case, task, "")


def _others(task: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The other cases, those of the same domain first, in an order of the task's own."""
    episode = task["episode"]

    def order(other: dict[str, Any]) -> tuple[bool, bytes]:
        name = episode["task_id"] + other["episode"]["task_id"]
        is_foreign = other["episode"]["domain"] != episode["domain"]
        return is_foreign, hashlib.sha256(name.encode()).digest()

    return sorted((other for other in tasks if other is not task), key=order)


def _receive(
    ws: passdown.Workspace,
    scoring: Any,
    case: Case,
    task: dict[str, Any],
    given: str,
    *,
    is_transcript: bool = False,
) -> Outcome:
    gold = task["episode"]["gold_state"]
    command = os.environ.get(COMMAND, "")
    receiver: Receiver = Commanded(case, command) if command else Scripted(case)
    read, calls = [given], 0
    known = {c["claim_id"] for c in gold if is_transcript and scoring.is_in(c, given, True)}

    def share() -> float:
        text = "\n".join(read)
        found = [c["claim_id"] in known or scoring.is_in(c, text) for c in gold]
        return sum(found) / len(gold)

    before = share()
    while share() < 1.0 and calls < CALLS:
        action = receiver.next_action(read, CALLS - calls)
        if not action:
            break
        read.append(_answer(ws, case, action))
        calls += 1
    return Outcome(before, share(), calls, sum(len(scoring.ENCODE(text)) for text in read))


def _answer(ws: passdown.Workspace, case: Case, action: str) -> str:
    """What a call prints; whatever else a command writes is answered, not run."""
    verb, _, rest = action.partition(" ")
    kinds: tuple[str, ...] = ()
    if rest.startswith("KIND="):
        kind, _, rest = rest.removeprefix("KIND=").partition(" ")
        kinds = (kind,)
    try:
        if verb == "recall":
            found = ws.recall(rest, task=case.task, kinds=kinds, limit=RESULTS)
            lines = [f"{hit.address} ({hit.kind}, {hit.status}) {hit.passage}" for hit in found]
            return "\n".join(lines) or "nothing found"
        if verb == "show":
            document = ws.show(rest.strip()).to_dict()
            return json.dumps({k: v for k, v in document.items() if k != "source"})
    except passdown.PassdownError as error:
        return str(error)
    return "unknown action: recall WORDS, show ADDRESS or done"


def _document(outcomes: Sequence[Outcome]) -> dict[str, float]:
    return {
        "tasks": len(outcomes),
        "claims_at_the_start": statistics.mean(each.share_before for each in outcomes),
        "claims_at_the_end": statistics.mean(each.share for each in outcomes),
        "tasks_with_all_at_the_start": statistics.mean(e.share_before == 1.0 for e in outcomes),
        "tasks_with_all": statistics.mean(each.has_all for each in outcomes),
        "mean_calls": statistics.mean(each.calls for each in outcomes),
        "mean_tokens": statistics.mean(each.tokens for each in outcomes),
    }


def _row(name: str, outcomes: Sequence[Outcome], nothing: Sequence[Outcome]) -> Row:
    told, without = _document(outcomes), _document(nothing)
    is_judged = name == f"a brief of {BUDGETS[-1]}"
    calls = told["mean_calls"] / without["mean_calls"] if without["mean_calls"] else 1.0
    return Row(
        f"with {name}: calls",
        f"{told['mean_calls']:.1f}",
        f"{told['mean_tokens']:,.0f} tokens; claims {told['claims_at_the_start']:.0%} at the "
        f"start, {told['claims_at_the_end']:.0%} at the end; all in {told['tasks_with_all']:.0%}",
        calls if is_judged else None,
        Target("at most", 0.5) if is_judged else None,
    )
