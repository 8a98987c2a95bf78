"""Lists over all tasks: the board, search, agents, and the integrity of the records."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from passdown.core.index_entries import FINDABLE_KINDS
from passdown.core.kinds import TASK_STATUSES
from passdown.core.text import counted
from passdown.errors import PassdownError
from passdown.operations import OPERATION
from passdown.relay.agents import START
from passdown.web.pages.attention import cancel_or_reopen, entry_actions, hand_over, release
from passdown.web.pages.layout import Field, action, task_link
from passdown.web.pages.markup import (
    Html,
    address,
    ago,
    left_out,
    link,
    loaded_later,
    section,
    short_digest,
    table,
    tag,
    text,
)
from passdown.web.pages.page import Page, check_part, whole_number
from passdown.web.pages.task import chip, item_link
from passdown.workspace.streams import WorkspaceStreams, may_record

if TYPE_CHECKING:
    from passdown.core.results import TaskOverview
    from passdown.web.requests import ApiRequest
    from passdown.workspace import Workspace

_PAGE = 200
_COLUMN = 50
_MOST_SEARCHED = 10_000
_TASKS_FOUND = 20
_RESULTS = 30


def choices(
    name: str,
    label: str,
    values: tuple[str, ...],
    chosen: str,
    empty: str,
    *,
    is_kind: bool = False,
) -> Html:
    """A field to choose from some values, or from none of them; kinds are written as words."""
    options = [tag("option", empty, value="", selected=not chosen)]
    options += [
        tag("option", each.replace("_", " ") if is_kind else each, value=each,
            selected=each == chosen)
        for each in values
    ]  # fmt: skip
    return tag("label", f"{label} ", tag("select", *options, name=name))


_FILTERS = ("status", "phase", "agent", "words")


def board_page(call: ApiRequest) -> Page:
    """Tasks in columns by status or phase, the last changed first. Each status shows the tasks that
    were made last; what is filtered or in phases is shown a page at a time.
    """
    given = {name: str(call.arguments.get(name, "")) for name in _FILTERS}
    by = "phase" if call.arguments.get("by") == "phase" else "status"
    after = whole_number(call.arguments.get("after")) or 0
    is_paged = by == "phase" or after or given["status"] or given["words"].strip()
    if is_paged:
        found = _tasks(call.workspace, given, _PAGE, after)
    else:  # one more of each where there are more
        each = ({**given, "status": status} for status in TASK_STATUSES)
        found = [task for one in each for task in _tasks(call.workspace, one, _COLUMN + 1)]
    is_more = is_paged and len(found) == _PAGE
    following = address("board", by=by, **given, after=found[-1].seq) if is_more else ""
    found.sort(key=lambda each: each.updated_at, reverse=True)
    # A task may be in a phase of earlier settings, or of the workspace that it came from.
    own = WorkspaceStreams(call.workspace).settings
    phases = tuple(dict.fromkeys([*own.phases, *(each.phase for each in found)]))
    card = _CardMaker(call, found, own.phases, own.completes)
    columns = [
        _column(name, by, given, [card(each) for each in found if getattr(each, by) == name])
        for name in (TASK_STATUSES if by == "status" else phases)
    ]
    form = tag(
        "form",
        tag("label", "find ", tag("input", type="search", name="words", value=given["words"],
                                  data_search=True, placeholder="id or title")),
        choices("by", "columns", ("status", "phase"), by, "status"),
        choices("status", "status", TASK_STATUSES, given["status"], "all"),
        choices("phase", "phase", phases, given["phase"], "all"),
        tag("label", "holder ", tag("input", type="text", name="agent", value=given["agent"])),
        class_="inline",
        data_typed="tasks",
    )  # fmt: skip
    none = "No task fits." if any(given.values()) else "No tasks yet: passdown task new makes one."
    return Page(
        "Board",
        tag("h1", "Board"),
        form,
        tag(
            "div",
            tag("div", *columns, class_="board", id="columns"),
            None if found else tag("p", none, class_="empty"),
            following and tag("p", link(following, "Older tasks"), class_="more"),
            id="tasks",
        ),
        api=address("api", "tasks", **{k: v for k, v in given.items() if v}),
    )


def _tasks(
    workspace: Workspace, given: dict[str, str], limit: int, after: int = 0
) -> list[TaskOverview]:
    return workspace.tasks(
        status=given["status"],
        phase=given["phase"],
        agent=given["agent"],
        words=given["words"],
        newest=True,
        limit=limit,
        after=after,
    )


def _column(name: str, by: str, given: dict[str, str], cards: list[Html]) -> Html:
    is_more = by == "status" and not given["status"] and len(cards) > _COLUMN
    shown = cards[:_COLUMN] if is_more else cards
    heading = tag("h2", name, tag("span", f"{len(shown)}{'+' * is_more}", class_="note"))
    rest = is_more and link(address("board", **{**given, "status": name}), f"All {name} tasks")
    return tag("section", heading, *shown, rest, id=f"column-{name}", data_column=name, data_by=by)


class _CardMaker:
    """Makes cards of tasks, with the gates and blockers of those that are shown."""

    def __init__(
        self, call: ApiRequest, found: list[TaskOverview], phases: tuple[str, ...], completes: str
    ) -> None:
        self._caller, self._phases, self._completes = call.caller, phases, completes
        shown = {each.task: each.status for each in found}
        self._blockers = {
            task: call.workspace.task(task).blocked_by
            for task, status in shown.items()
            if status == "blocked"
        }
        self._gates: dict[str, list[Any]] = {}
        for gate in call.workspace.gates():
            if gate.task in shown:
                self._gates.setdefault(gate.task, []).append(gate)

    def __call__(self, task: TaskOverview) -> Html:
        """The card of a task."""
        gates = self._gates.get(task.task, [])
        waiting = [gate for gate in gates if gate.kind == "human"]
        blockers = self._blockers.get(task.task, [])
        answers = [
            {"kind": "gate", "address": gate.address, "next": ("approve", "reject")}
            for gate in waiting[:1]
        ]
        acts = [*(entry_actions(self._caller, each) for each in answers), *self._changes(task)]
        return tag(
            "article",
            tag("p", task_link(task.task), tag("span", f"v{task.version}"), ago(task.updated_at),
                class_="facts"),
            tag("p", link(address("tasks", task.task), text(task.title or task.task, 200)),
                class_="title"),
            tag("p", task.holder and tag("span", task.holder, class_="agent"),
                task.phase != task.status and chip(task.phase), class_="facts"),
            *(self._gate(gate) for gate in gates),
            blockers and tag("p", "blocked by ", [[item_link(each), " "] for each in blockers]),
            tag("p", *acts, class_="acts left"),
            id=f"card-{task.task}",
            class_="card",
            data_row=True,
            tabindex="-1",
            draggable="true" if self._caller.may(OPERATION["update_task"].right) else None,
        )  # fmt: skip

    def _gate(self, gate: Any) -> Html:
        is_human = gate.kind == "human"
        mark = chip("waiting" if is_human else "failed")
        said = text(gate.blocker if is_human else gate.name, 200)
        return tag("p", mark, " ", item_link(gate.address, said), class_="gate")

    def _changes(self, task: TaskOverview) -> list[Html | str | None]:
        caller, path, phases = self._caller, dict[str, str](), self._phases
        if task.status in ("completed", "cancelled"):
            return [cancel_or_reopen(caller, task.task, task.status)]
        at = phases.index(task.phase) if task.phase in phases else len(phases)
        others = (*phases[at + 1 :], *phases[:at])  # the next one first
        return [
            hand_over(caller, task.task),
            task.claimed_by and release(caller, task.task),
            action(
                *(caller, "hand_off", "Complete", "d", path),
                Field("summary", "What was done"),
                Field("despite", "Why, if something is still open", is_needed=False),
                task=task.task,
                outcome="completed",
                phase=self._completes,
            ),
            action(
                *(caller, "hand_off", "Move", "m", path),
                Field("phase", "To phase", choices=others),
                Field("summary", "Why"),
                task=task.task,
                outcome="completed",
            )
            if others
            else None,
            cancel_or_reopen(caller, task.task, task.status),
        ]


def search_page(call: ApiRequest) -> Page:
    """Search as one types."""
    given = {n: str(call.arguments.get(n, "")) for n in ("query", "kind", "agent", "task", "live")}
    results: object = tag("p", "Type words, names, paths or a task's id.", class_="empty")
    if given["query"].strip():
        found = call.workspace.recall(
            given["query"],
            kinds=[given["kind"]] if given["kind"] else (),
            agent=given["agent"],
            task=given["task"],
            live_only=bool(given["live"]),
            limit=_RESULTS,
            only_fitting=True,
        )
        rows = [*_found_tasks(call, given), *(_result(each) for each in found)]
        best = f"These are the {_RESULTS} best. More words, or a kind or a task, find others."
        rows += [tag("p", best, class_="note")] if len(found) == _RESULTS else []
        results = rows or tag("p", "Nothing fits.", class_="empty")
    form = tag(
        "form",
        tag(
            "label",
            "Search",
            tag("input", type="search", name="query", value=given["query"], data_search=True),
            class_="wide",
        ),
        choices("kind", "kind", FINDABLE_KINDS, given["kind"], "all", is_kind=True),
        tag("label", "by ", tag("input", type="text", name="agent", value=given["agent"])),
        tag("label", "in task ", tag("input", type="text", name="task", value=given["task"])),
        choices("live", "status", ("in force",), given["live"], "all"),
        tag("button", "Search"),
        class_="inline",
        data_typed="results",
    )
    return Page(
        "Search",
        tag("h1", "Search"),
        form,
        tag("div", results, class_="rows", id="results", aria_live="polite"),
        api=address("api", "recall", query=given["query"]),
    )


def _found_tasks(call: ApiRequest, given: dict[str, str]) -> list[Html]:
    """Tasks whose id or title has all words, the newest first and one with that very id before
    them; none where results of one kind or task are wanted.
    """
    if given["kind"] or given["task"]:
        return []
    query, ws = given["query"].strip(), call.workspace
    fit = ws.tasks(words=query, agent=given["agent"], newest=True, limit=_TASKS_FOUND + 1)
    is_more = len(fit) > _TASKS_FOUND
    with suppress(PassdownError):
        fit = [ws.task(query), *(each for each in fit if each.task != query)]
    fit = [t for t in fit if not given["live"] or t.status in ("open", "blocked")]
    rows = [
        tag(
            "article",
            tag("span", "task", class_="kind"),
            tag(
                "div",
                tag("p", link(address("tasks", t.task), tag("strong", text(t.title, 300)))),
                tag("p", task_link(t.task), chip(t.status), t.holder, ago(t.updated_at),
                    class_="facts"),
            ),
            id=f"row-task-{t.task}",
            class_="row",
            data_row=True,
            tabindex="-1",
        )
        for t in fit[:_TASKS_FOUND]
    ]  # fmt: skip
    board = link(address("board", words=query), "All tasks with these words")
    return [*rows, tag("p", board, class_="note")] if is_more else rows


def _result(found: Any) -> Html:
    is_item = "#" in found.address
    rest = found.passage.removeprefix(found.title)  # the title isn't said twice
    detail = rest.removeprefix(" | ") if rest.startswith(" | ") else rest and found.passage
    where = item_link(found.address) if is_item else tag("code", found.address)
    return tag(
        "article",
        tag("span", found.kind.replace("_", " "), class_="kind"),
        tag(
            "div",
            tag("p", tag("strong", text(found.title, 300)), class_="title"),
            detail and tag("p", text(detail, 600), class_="detail"),
            tag(
                "p",
                where,
                chip(found.status),
                found.agent,
                ago(found.at),
                found.became,
                found.stale and f"changed since: {', '.join(found.stale)}",
                class_="facts",
            ),
        ),
        tag("span", f"{found.score:.2f}", class_="note", title="how well it fits, at most 1"),
        id=f"row-{found.address}",
        class_="row",
        data_row=True,
        tabindex="-1",
    )


def agents_page(call: ApiRequest) -> Page:
    """Who is where: states, leases and when they end, and what each holds."""
    ws = call.workspace
    agents = ws.relay.agents()
    workers = {each["worker"]: each for each in live_workers(ws)} if agents else {}
    rows = [
        (
            link(address("agents", each["agent"], task=each["task"]), each["agent"])
            if may_record(each["agent"])
            else each["agent"],
            chip(
                "idle" if each["state"] == START and not each["leased"] else each["state"].lower()
            ),
            task_link(each["task"]) if each["task"] else "",
            link(address("runs", each["run"]), each["run"]) if each["run"] else "",
            _lease(workers.get(each["worker"])) if each["leased"] else each["note"],
            ago(each["since"]),
        )
        for each in agents
    ]
    processes = [
        (tag("code", each["host"]), each["pid"], chip(each["state"]), _lease(each))
        for each in workers.values()
    ]
    head = ("agent", "state", "task", "run", "lease", "since")
    is_quiet = agents and not any(each["leased"] for each in agents)
    none = "No relay has run here. passdown run RELAY --task TASK starts one."
    return Page(
        "Agents",
        tag("h1", "Agents"),
        section(
            "In relays",
            tag("p", "No agent has a turn now.", class_="note") if is_quiet else None,
            table(head, rows) or tag("p", none, class_="note"),
        ),
        section("Workers", table(("machine", "process", "state", "lease"), processes))
        if processes
        else None,
        _holders(ws),
        api="/api/agents",
    )


def _lease(worker: dict[str, Any] | None) -> str:
    """When a lease ends; its worker renews it several times before that."""
    if worker is None:
        return "held"
    left = worker["lease_s"] - worker["silent_s"]
    return f"ends in {left:.0f} s, unless renewed" if left > 0 else f"ended {-left:.0f} s ago"


def live_workers(workspace: Workspace) -> list[dict[str, Any]]:
    """The processes that take turns, but for those that have ended; none where that can't be
    known.
    """
    with suppress(PassdownError):
        return [each for each in workspace.relay.workers() if each["state"] != "gone"]
    return []


def _holders(workspace: Workspace) -> Html:
    """The open tasks by who holds them."""
    held: dict[str, list[str]] = {}
    listed = workspace.tasks(status="open", limit=_MOST_SEARCHED)
    for task in listed:
        held.setdefault(task.holder, []).append(task.task)
    rows = [
        (
            link(address("board", status="open", agent=name), name) if name else "nobody",
            len(tasks),
            [[task_link(each), " "] for each in tasks[:12]],
            f"and {len(tasks) - 12} more" if len(tasks) > 12 else "",
        )
        for name, tasks in sorted(held.items())
    ]
    first = f"of the first {len(listed):,}" if len(listed) == _MOST_SEARCHED else None
    none = tag("p", "No task is open.", class_="note")
    return section("Open tasks", table(("agent", "tasks", "", ""), rows) or none, note=first)


def agent_page(call: ApiRequest) -> Page:
    """What an agent said and was told in a task."""
    name, task = call.arguments["agent"], str(call.arguments.get("task", "")) or "workspace"
    said = call.workspace.relay.conversations(task, name)
    lines = [
        tag(
            "li",
            tag("p", tag("strong", each["kind"]), f" with {each['peer']} ", ago(each["at"])),
            tag("pre", _message(each["body"]), tabindex="0"),
        )
        for each in said
    ]
    none = tag("p", "No conversation.", class_="empty")
    return Page(
        f"{name} in {task}",
        tag("h1", f"{name} in {task}"),
        tag("ol", *lines, class_="timeline") if lines else none,
        api=address("api", "tasks", task, "conversations", name),
    )


def _message(body: dict[str, Any]) -> str:
    texts = [body.get(name) for name in ("system", "content", "text", "message")]
    return "\n".join(each for each in texts if isinstance(each, str)) or str(body)


def integrity_page(call: ApiRequest) -> Page:
    """The chain and its heads; the check itself is loaded after the page."""
    return Page(
        "Integrity",
        tag("h1", "Integrity"),
        loaded_later("verified", "/integrity/verified", "Verifying all records…"),
        section(
            "Export",
            tag("p", link("/api/bundle", "Download a bundle of everything", download="all.zip")),
            tag(
                "p",
                link("/api/heads", "Download the heads", download="heads.json"),
                ": kept elsewhere, they show later whether history was cut or replaced (",
                tag("code", "passdown verify --against heads.json"),
                ").",
            ),
        ),
        api="/api/verify",
    )


def verified_page(call: ApiRequest) -> Page:
    """What verify finds, by the last check, and the head of every stream."""
    part = check_part(call, "verified", _verified, _verified_parts)
    return Page("Verified", part, api="/api/verify")


def _verified(workspace: Workspace) -> tuple[Any, dict[str, Any]]:
    found = workspace.verify()
    try:
        return found, workspace.maintenance.heads().heads
    except PassdownError:
        return found, {}


def _verified_parts(checked: tuple[Any, dict[str, Any]]) -> list[Html]:
    found, heads = checked
    state = "good" if not found.findings else "bad"
    findings = [
        tag("p", tag("code", each.path), f" {each.message}", class_="bad finding")
        for each in found.findings[:_FINDINGS]
    ]
    said = counted(found.records, "record") + " in " + counted(found.streams, "stream")
    answer = f"{said} are as they were written." if not found.findings else ""
    wrong = f"{counted(len(found.findings), 'finding')} in {said}." if found.findings else ""
    rows = [(name, head[0], short_digest(head[1])) for name, head in list(heads.items())[:_HEADS]]
    return [
        tag("p", answer or wrong, class_=f"{state} finding"),
        *findings,
        section(
            "Heads",
            table(("stream", "records", "digest"), rows),
            left_out(len(heads) - len(rows)),
            note="the last record of each stream",
        ),
    ]


_FINDINGS = 200
_HEADS = 1_000
