"""Gates: what has to be true before a task may be handed off. Every reason is listed at once."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from passdown.core.documents import gate_results
from passdown.core.fold import fold_record, status_after
from passdown.core.items import grade_of
from passdown.core.kinds import KINDS, LIVE, parse_address, stream_of
from passdown.core.record import Record
from passdown.core.types import NEWEST
from passdown.core.values import NamedTuple
from passdown.errors import GateRefused, Problem, raise_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from passdown.core.fold import Changes, TaskBefore
    from passdown.core.rows import ItemRow
    from passdown.core.settings import Settings
    from passdown.ledger.writer import Guard
    from passdown.store.statements import Reader


_PAGE = 50


class GateCheck(NamedTuple):
    """What gates are checked by: the settings, and whether a file isn't on disk any more."""

    settings: Settings
    is_gone: Callable[[str], bool]


def handoff_guard(
    task: str, check: GateCheck, disk: Sequence[Problem], notices: list[Problem]
) -> Guard:
    """The guard of a handoff; `disk` is what the files themselves gave reason for.

    What is odd but no reason to refuse is added to `notices`.
    """

    def guard(reader: Reader, before: TaskBefore, body: dict[str, Any]) -> None:
        notices.extend(handoff_notices(reader, task, before, body))
        reasons = handoff_reasons(reader, task, before, body, check)
        if disk or reasons:
            raise GateRefused(
                f"the handoff of {task} is refused; nothing was changed",
                [*disk, *reasons],
                next_step="Settle each of these, then hand off again.",
            )

    return guard


def handoff_reasons(
    reader: Reader, task: str, before: TaskBefore, body: dict[str, Any], check: GateCheck
) -> list[Problem]:
    """Why a handoff may not pass: people to ask, artifacts that are missing, items unknown."""
    reasons = _human(before.open_items)
    phase = body.get("phase")
    if phase and phase != before.header["phase"]:
        reasons += _phase(reader, before, task, body, check)
    reasons += _resolves(reader, task, body)
    reasons += [] if body.get("despite") else open_at_completion(reader, task, before, body)
    reasons += supersede_problems(reader, body)
    return reasons


def handoff_notices(
    reader: Reader, task: str, before: TaskBefore, body: dict[str, Any]
) -> list[Problem]:
    """What the sender may have overlooked: who blocks the task, what it needs, its status."""
    texts: list[tuple[str, str, str]] = []
    status = before.header["base_status"]
    after = status_after(body, before.header)
    if status in ("cancelled", "completed") and after != status:
        texts.append(("task", "reopened", f"{task} was {status}"))
    is_blocked = before.status == "blocked"
    blockers = [link.source for link in reader.open_links_to(task)] if is_blocked else []
    if blockers:
        texts.append(("task", "blocked", f"{task} is blocked by {', '.join(blockers[:5])}"))
    named = [n for blocker in body.get("blockers", ()) for n in blocker.get("blocking_tasks", ())]
    texts += [
        ("blockers", "unknown_task", f"{name} does not exist yet")
        for name in named
        if reader.head(stream_of(name)) is None
    ]
    return [Problem(path, code, text, level="warning") for path, code, text in texts]


def _human(open_items: Iterable[ItemRow]) -> list[Problem]:
    return [
        Problem(
            row.address,
            "human_gate",
            f"waits for a person: {row.title}",
            "an answer from a person",
            f"passdown gate approve {row.address} --by NAME",
        )
        for row in open_items
        if row.letter == "k" and row.status == "pending"
    ]


def _phase(
    reader: Reader, before: TaskBefore, task: str, body: dict[str, Any], check: GateCheck
) -> list[Problem]:
    """The artifacts that a phase needs and that aren't recorded, or aren't on disk any more."""
    counts: dict[str, int] = dict(before.header["types"])
    named: dict[str, str] = {}
    for artifact in body.get("artifacts", ()):
        grade, path = grade_of("a", artifact), artifact["path"]
        for name, change in ((named.get(path, before.known_paths.get(path)), -1), (grade, 1)):
            if name:
                counts[name] = counts.get(name, 0) + change
        named[path] = grade
    found: list[Problem] = []
    for kind, count in check.settings.phase_gates.get(body["phase"], {}).items():
        own = list(named.values()).count(kind)
        has = counts.get(kind, 0)
        if has >= count > own:
            wanted = count - own
            has = own + _on_disk(reader, task, kind, wanted=wanted, named=set(named), check=check)
        if has < count:
            message = f"{body['phase']} needs {count} {kind} artifact(s), {has} recorded and there"
            expected = f"at least {count} of type {kind}"
            fix = "name them in files_created or files_modified, or change [gates] in the settings"
            found.append(Problem("phase", "phase_gate", message, expected, fix))
    return found


def _on_disk(
    reader: Reader, task: str, kind: str, *, wanted: int, named: set[str], check: GateCheck
) -> int:
    """How many files of a type the task had before and has on disk; no more than are wanted."""
    found, last, seen = 0, NEWEST, set(named)
    while found < wanted and last > 1:
        page = reader.items_before(task, "a", last, _PAGE)
        for row in page:
            is_there = row.path not in seen and row.grade == kind and not check.is_gone(row.path)
            found += is_there and found < wanted
            seen.add(row.path)
        last = page[-1].ordinal if len(page) == _PAGE else 1
    return found


def open_at_completion(
    reader: Reader, task: str, before: TaskBefore, body: dict[str, Any]
) -> list[Problem]:
    """Why a handoff can't complete its task: what would still be open. Nobody works on a completed
    task, so what is open in it would be forgotten.
    """
    if status_after(body, before.header) != "completed":
        return []
    unsealed = Record(stream_of(task), 0, "", body["from_agent"], "handoff", "", "", "", b"")
    after = fold_record(before, unsealed, body, sized=False)
    # What waits for a person already is a reason of its own.
    gated = {row.address for row in before.open_items if row.letter == "b" and after.gate_of(row)}
    texts = [
        (f"gate {name} failed", f"passdown gate record {task} --name {shlex.quote(name)} --passed")
        for name in gate_results(after.header)["gates_failed"]
    ]
    texts += [
        (f"{row.address} is open: {row.title}", "settle it (name it in resolves)")
        for row in after.open.values()
        if (row.letter == "b" and row.address not in gated)
        or (row.letter == "q" and row.grade == "blocking")
    ]
    texts += [(text, "ask again, or a person approves it") for text in rejected_texts(after)]
    texts += [
        (f"{task} needs {need}, which is not completed", f"complete {need} first")
        for need in open_needs(reader, task)
    ]
    anyway = "or say in despite why the task is completed anyway"
    return [
        Problem("despite", "open_at_completion", text, "", f"{fix}, {anyway}")
        for text, fix in texts
    ]


def rejected_texts(after: Changes) -> list[str]:
    """The gates of a task that are still rejected after a handoff, each with who and why."""
    return [
        f"{gate.address} was rejected {gate.note}"
        for gate in after.open_of("k")
        if gate.status == "rejected"
    ]


def open_needs(reader: Reader, task: str) -> list[str]:
    """The tasks that a task needs and that aren't completed: it has to wait for them."""
    rows = {need: reader.task(need) for need in reader.needs(task)}
    return [need for need, row in rows.items() if row is None or row.status != "completed"]


def claim_problems(
    reader: Reader, task: str, holder: str, agent: str, *, take: bool
) -> list[Problem]:
    """Why an agent can't begin to work on a task, or, with no holder, release it: somebody else
    works on it, or it has to wait. What speaks against it but doesn't forbid it is a warning.
    """
    row = reader.existing_task(task)
    found: list[Problem] = []
    claimed, target = row.header.get("claimed_by"), row.header["target_agent"]
    if claimed and claimed != (holder or agent) and not take:
        message, fix = f"{claimed} works on {task}", "take (on the command line --take) takes it"
        found.append(Problem("holder", "claimed", message, "a task that nobody works on", fix))
    if not holder:
        return found
    if row.status in ("completed", "cancelled"):
        found.append(Problem("task", "not_open", f"{task} is {row.status}", "an open task"))
    for need in open_needs(reader, task):
        message, fix = f"{task} needs {need}, which is not completed", f"passdown start {need}"
        if reader.task(need) is None:
            message = f"{task} needs {need}, and there is no task {need}"
            fix = f"passdown task new 'TITLE' --id {need}"
        found.append(Problem("depends_on", "waits", message, "", fix))
    # A rejection gives it back to its sender.
    if target and not claimed and holder not in (target, row.holder):
        message = f"{task} was handed to {target}"
        found.append(Problem("holder", "handed_to_another", message, level="warning"))
    gates = _human(reader.open_items(task, ("k",)))
    return [*found, *(gate._replace(level="warning") for gate in gates)]


def _resolves(reader: Reader, task: str, body: dict[str, Any]) -> list[Problem]:
    found: list[Problem] = []
    for index, text in enumerate(body.get("resolves", ())):
        address = parse_address(text)
        row = reader.item(*address) if address and address.task == task else None
        waits = row is not None and row.letter == "b" and is_gated(reader, row)
        if row is None or not row.is_open or row.letter == "k" or waits:
            state = f"is {row.status}" if row else f"is not an item of {task}"
            state = "can only be settled by a person, who approves its gate" if waits else state
            where = f"resolves[{index}]"
            found.append(Problem(where, "not_open", f"{text} {state}", "an open item of the task"))
    return found


def supersede_problems(reader: Reader, body: dict[str, Any]) -> list[Problem]:
    """Decisions can only take the place of decisions that are there."""
    found: list[Problem] = []
    for index, decision in enumerate(body.get("decisions", ())):
        for text in decision.get("supersedes", ()):
            address = parse_address(text)
            row = reader.item(*address) if address and address.letter == "d" else None
            if row is None:
                where = f"decisions[{index}].supersedes"
                problem = Problem(where, "unknown_item", f"{text} is no decision", "a decision")
                found.append(problem)
    return found


def entry_guard(problems_of: Callable[[Reader, dict[str, Any]], list[Problem]]) -> Guard:
    """A guard that refuses an entry for problems which only the store can show."""

    def guard(reader: Reader, before: TaskBefore, body: dict[str, Any]) -> None:
        problems = problems_of(reader, body)
        raise_problems("nothing was changed", problems)

    return guard


def cycle_problems(reader: Reader, task: str, depends_on: Sequence[str]) -> list[Problem]:
    """Dependencies have to be free of cycles; the problem shows the way round."""
    for need in depends_on:
        way = _way(reader, need, task)
        if way:
            shown = " -> ".join([task, *way])
            return [
                Problem("depends_on", "cycle", f"{shown} is a cycle", "no way back to the task")
            ]
    return []


def _way(reader: Reader, start: str, goal: str) -> list[str]:
    """A way along dependencies from `start` to `goal`, or nothing."""
    before: dict[str, str] = {start: ""}
    waiting = [start]
    while waiting:
        task = waiting.pop()
        if task == goal:
            way = [task]
            while before[way[0]]:
                way.insert(0, before[way[0]])
            return way
        for need in reader.needs(task):
            if need not in before:
                before[need] = task
                waiting.append(need)
    return []


def is_gated(reader: Reader, blocker: ItemRow) -> bool:
    """Whether a blocker waits for a person: marking it would let the task go on unseen."""
    place = (blocker.position, blocker.index)
    gates = reader.open_items(blocker.task, ("k",))
    return any((gate.position, gate.index) == place for gate in gates)


def _replaced_fact(reader: Reader, row: ItemRow) -> tuple[str, str, str]:
    """Why a fact that doesn't hold any more can't be marked, and what can be done instead."""
    record = reader.record(stream_of(row.task), row.position)
    key = record.document()[row.field][row.index]["key"] if record else ""
    current = reader.current_facts(row.task, [key]).get(key, row)
    message, expected = f"{row.address} is {row.status}", "a fact that holds"
    if current.status in LIVE:
        return f"{message}: {current.address} holds ({current.title})", expected, current.address
    return message, expected, f"record it again: passdown note fact {shlex.quote(key)} VALUE"


def mark_problems(reader: Reader, body: dict[str, Any]) -> list[Problem]:
    """An item can only be marked with a status of its kind, and only while that changes
    something.
    """
    found: list[Problem] = []
    for index, mark in enumerate(body["marks"]):
        address = parse_address(mark["item"])
        row = reader.item(*address) if address else None
        where = f"marks[{index}]"
        if address is None or row is None:
            found.append(Problem(where, "unknown_item", f"{mark['item']} is no item", "an item"))
            continue
        allowed = KINDS[address.letter].closings if address.letter != "k" else ()
        if mark["status"] not in allowed:
            expected = " | ".join(allowed) or "nothing: answer gates with passdown gate"
            message = f"a {KINDS[address.letter].word} can't be {mark['status']}"
            found.append(Problem(f"{where}.status", "invalid_choice", message, expected))
        elif address.letter == "b" and is_gated(reader, row):
            message = f"a person has to answer the gate that {row.address} opened"
            fix = "passdown gate list shows it"
            found.append(Problem(where, "human_gate", message, "an answer from a person", fix))
        elif address.letter == "f" and row.status not in LIVE:
            found.append(Problem(where, "not_current", *_replaced_fact(reader, row)))
        elif row.status == mark["status"]:
            message = f"{row.address} is {row.status} already"
            found.append(Problem(where, "no_change", message, "another status"))
    return found
