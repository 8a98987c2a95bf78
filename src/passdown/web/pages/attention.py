"""Attention: where a person must act, and by which key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.text import counted
from passdown.operations import OPERATION
from passdown.relay.run import VERDICTS
from passdown.web.pages.layout import Field, action, task_link
from passdown.web.pages.markup import Html, address, ago, link, loaded_later, tag, text
from passdown.web.pages.page import Page, check_part, whole_number

if TYPE_CHECKING:
    from passdown.core.access import AccessToken
    from passdown.web.requests import ApiRequest
    from passdown.workspace import Workspace

NAMES = {
    "damage": "Damaged record",
    "gate": "Waits for you",
    "question": "Question",
    "failed_gate": "Failed gate",
    "run": "Run",
    "failed": "Failed",
    "blocked": "Blocked",
    "fork": "Fork",
    "changed_files": "Files changed",
    "silent": "Silent",
    "untaken": "Not taken",
    "warning": "Check",
}
_FEW, _OF_KIND = 50, 200
"""How many entries of a kind are on the first page, and on a page of that kind."""
_FOUND = 200
_CHECKED = ("damage", "fork", "changed_files")
"""Kinds that only checks find."""
_TITLE, _DETAIL = 300, 600
_REASON = Field("reason", "Why", is_needed=False)


def attention_page(call: ApiRequest) -> Page:
    """The first page: what can be read quickly; findings of checks are loaded after it. With a
    kind, all entries of that kind, a page at a time.
    """
    kind = str(call.arguments.get("kind", ""))
    kind = kind if kind in NAMES and kind not in (*_CHECKED, "warning") else ""
    after = (whole_number(call.arguments.get("after")) or 0) if kind else 0
    limit = _OF_KIND if kind else _FEW
    found = call.workspace.maintenance.attention(limit=limit, kind=kind, after=after)
    count = len(found.entries)
    rows = [entry_row(call.caller, entry) for entry in found.entries]
    if kind:
        said = f"{NAMES[kind]}, {after + 1:,} to {after + count:,}" if rows else NAMES[kind]
        following = address(kind=kind, after=after + limit) if found.more else ""
        more = [link("/", "All of Attention"), following and link(following, "More of these")]
    else:
        said = counted(count, "entry", "entries")
        more = [
            [link(address(kind=name), f"More than {limit} of {NAMES[name]}"), " "]
            for name in found.more
        ]
    nothing: list[object] = ["No more of these." if kind else "Nothing waits for you."]
    if not (rows or kind or call.workspace.tasks(limit=1)):
        nothing += [
            " There are no tasks yet: ",
            tag("code", "passdown start 'Title'"),
            " makes one.",
        ]
    return Page(
        f"({count}) Attention" if count and not kind else "Attention",
        tag("h1", "Attention", tag("span", said, class_="note", id=None if kind else "count")),
        tag("div", id="damage", data_keep=True),
        tag("div", *rows, class_="rows", id="entries"),
        None if rows else tag("p", *nothing, class_="empty", id="nothing"),
        more and tag("p", *more, class_="more"),
        None if kind else loaded_later("findings", "/findings", "Checking records and files…"),
        api=address("api", "attention", kind=kind, after=after or ""),
    )


def findings_page(call: ApiRequest) -> Page:
    """What only a look at all records and files finds, by the last check."""

    def rows_of(found: list[dict[str, Any]], *, is_damage: bool) -> Html:
        of_kind = [each for each in found if (each["kind"] == "damage") is is_damage]
        return tag("div", *(entry_row(call.caller, each) for each in of_kind), class_="rows")

    def shown(found: tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]) -> list[Html]:
        entries, warnings, more = found
        listed = [*entries, *(warnings if sees_all else ())]
        worst.append(rows_of(listed, is_damage=True))
        kinds = ", ".join(NAMES[kind] for kind in more)
        return [
            rows_of(listed, is_damage=False),
            tag("p", f"Only the first {_FOUND} of: {kinds}", class_="note") if more else Html(),
            Html() if listed else tag("p", "Records and files: no findings.", class_="note"),
        ]

    worst: list[Html] = []
    sees_all = call.caller.may(OPERATION["maintenance.doctor"].right)
    part = check_part(call, "findings", _findings, shown)
    return Page(
        "Findings",
        tag("h1", "Findings"),
        tag("div", *worst, id="damage", data_part=True),
        part,
        api="/api/attention?thorough=true",
    )


def _findings(workspace: Workspace) -> tuple[list[Any], list[Any], list[str]]:
    """What verify and audit find, what doctor finds, and the kinds of which there is more."""
    found = workspace.maintenance.attention(thorough=True, limit=_FOUND)
    warnings = [
        {"kind": "warning", "title": each["message"], "detail": each.get("fix", "")}
        for each in workspace.maintenance.doctor().findings
    ]
    entries = [each for each in found.entries if each["kind"] in _CHECKED]
    return entries, warnings, [kind for kind in found.more if kind in _CHECKED]


def entry_row(caller: AccessToken, entry: dict[str, Any]) -> Html:
    """An entry with what settles it."""
    entry = {"task": "", "address": "", "agent": "", "at": "", "next": (), **entry}
    kind, task, where = entry["kind"], entry["task"], entry["address"]
    target = task and address("tasks", task)
    target = {"run": address("runs", where), "damage": "/integrity"}.get(kind, target)
    item = link(address("items", where), where, class_="item") if "#" in where else None
    title = tag("strong", text(entry["title"] or where, _TITLE))
    return tag(
        "article",
        tag("span", NAMES[kind], class_="kind"),
        tag(
            "div",
            tag("p", link(target, title) if target else title, class_="title"),
            entry["detail"] and tag("p", text(entry["detail"], _DETAIL), class_="detail"),
            tag(
                "p",
                item or (task and task_link(task)),
                entry["agent"] and tag("span", entry["agent"], class_="agent"),
                entry["at"] and ago(entry["at"]),
                class_="facts",
            ),
        ),
        tag("p", *entry_actions(caller, entry), class_="acts"),
        id=f"row-{kind}-{where}-{task}" if where or task else None,
        class_=f"row {kind}",
        data_row=True,
        tabindex="-1",
    )


def entry_actions(caller: AccessToken, entry: dict[str, Any]) -> list[Html]:
    """The operations that settle an entry, as far as the caller may call them."""
    kind, task, where = entry["kind"], entry.get("task", ""), entry["address"]
    made = {
        "approve": lambda: action(caller, "approve", "Approve", "a", {"gate": where}, _REASON),
        "reject": lambda: action(
            caller, "reject", "Reject", "r", {"gate": where}, Field("reason", "Why")
        ),
        "set_status": lambda: (
            action(
                *(caller, "set_status", "Answer", "w", {"item": where}),
                Field("reason", "The answer"),
                status="answered",
            )
            if kind == "question"
            else action(
                *(caller, "set_status", "Resolve", "s", {"item": where}),
                Field("reason", "How it was resolved", is_needed=False),
                status="resolved",
            )
        ),
        "update_task": lambda: release(caller, task),
        "hand_off": lambda: hand_over(caller, task),
        "relay.answer": lambda: action(
            *(caller, "relay.answer", "Answer", "w", {"run": where}),
            Field("verdict", "Verdict", choices=VERDICTS),
            Field("guidance", "What the agent is told", is_needed=False),
        ),
        "relay.stop": lambda: action(caller, "relay.stop", "Stop", "t", {"run": where}, _REASON),
    }
    return [made[name]() for name in entry["next"] if name in made]


def release(caller: AccessToken, task: str) -> Html:
    """The button that takes a task from its holder."""
    path = {"task": task}
    return action(caller, "update_task", "Release", "x", path, asks=True, holder="", take=True)


def cancel_or_reopen(caller: AccessToken, task: str, status: str) -> Html | None:
    """The button that ends a task that is under way, or takes up a cancelled one."""
    path = {"task": task}
    if status == "cancelled":
        return action(caller, "update_task", "Reopen", "c", path, status="open")
    if status == "completed":
        return None
    return action(caller, "update_task", "Cancel", "c", path, asks=True, status="cancelled")


def hand_over(caller: AccessToken, task: str) -> Html:
    """The button that hands a task to another agent."""
    return action(
        caller,
        "hand_off",
        "Hand over",
        "h",
        {},
        Field("to_agent", "To which agent"),
        Field("summary", "What it should know"),
        task=task,
        outcome="completed",
    )
