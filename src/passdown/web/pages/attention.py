"""Attention: where a person must act, and by which key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.text import counted
from passdown.operations import OPERATION
from passdown.relay.run import VERDICTS
from passdown.web.pages.layout import Field, action, task_link
from passdown.web.pages.markup import Html, address, ago, link, loaded_later, tag
from passdown.web.pages.page import Page, whole_number

if TYPE_CHECKING:
    from passdown.core.access import AccessToken
    from passdown.web.requests import ApiRequest

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
_FEW, _MOST = 50, 1_000
"""How many entries of a kind are shown at first, and if more are asked for."""
_REASON = Field("reason", "Why", is_needed=False)


def attention_page(call: ApiRequest) -> Page:
    """The first page: what can be read quickly; findings of checks are loaded after it."""
    limit = min(whole_number(call.arguments.get("limit")) or _FEW, _MOST)
    found = call.workspace.maintenance.attention(limit=limit)
    count = len(found.entries)
    rows = [entry_row(call.caller, entry) for entry in found.entries]
    kinds = ", ".join(NAMES[kind] for kind in found.more)
    more = kinds and tag(
        "p",
        f"There are more than {limit:,} of: {kinds}. ",
        limit < _MOST and link(f"/?limit={_MOST}", f"Show up to {_MOST:,} of each"),
        class_="more",
    )
    return Page(
        f"({count}) Attention" if count else "Attention",
        tag(
            "h1",
            "Attention",
            tag("span", counted(count, "entry", "entries"), class_="note", id="count"),
        ),
        tag("div", id="damage", data_keep=True),
        tag("div", *rows, class_="rows", id="entries"),
        None if rows else tag("p", "Nothing waits for you.", class_="empty", id="nothing"),
        more,
        loaded_later("findings", "/findings", "Checking records and files…"),
        api="/api/attention",
    )


def findings_page(call: ApiRequest) -> Page:
    """What only a look at all records and files finds."""
    thorough = call.workspace.maintenance.attention(thorough=True).entries
    found = [each for each in thorough if each["kind"] in ("damage", "fork", "changed_files")]
    if call.caller.may(OPERATION["maintenance.doctor"].right):
        found += [
            {"kind": "warning", "title": each["message"], "detail": each.get("fix", "")}
            for each in call.workspace.maintenance.doctor().findings
        ]
    worst = [entry_row(call.caller, entry) for entry in found if entry["kind"] == "damage"]
    rows = [entry_row(call.caller, entry) for entry in found if entry["kind"] != "damage"]
    said = None if found else tag("p", "Records and files checked: no findings.", class_="note")
    return Page(
        "Findings",
        tag("h1", "Findings"),
        tag("div", tag("div", *worst, class_="rows"), id="damage", data_part=True),
        tag("div", tag("div", *rows, class_="rows"), said, id="findings", data_part=True),
        api="/api/attention?thorough=true",
    )


def entry_row(caller: AccessToken, entry: dict[str, Any]) -> Html:
    """An entry with what settles it."""
    entry = {"task": "", "address": "", "agent": "", "at": "", "next": (), **entry}
    kind, task, where = entry["kind"], entry["task"], entry["address"]
    target = task and address("tasks", task)
    target = {"run": address("runs", where), "damage": "/integrity"}.get(kind, target)
    item = link(address("items", where), where, class_="item") if "#" in where else None
    title = tag("strong", entry["title"] or where)
    return tag(
        "article",
        tag("span", NAMES[kind], class_="kind"),
        tag(
            "div",
            tag("p", link(target, title) if target else title, class_="title"),
            entry["detail"] and tag("p", entry["detail"], class_="detail"),
            tag(
                "p",
                item or (task and task_link(task)),
                entry["agent"] and tag("span", entry["agent"], class_="agent"),
                entry["at"] and ago(entry["at"]),
                class_="facts",
            ),
        ),
        tag("p", *_actions(caller, entry), class_="acts"),
        id=f"row-{kind}-{where}-{task}",
        class_=f"row {kind}",
        data_row=True,
        tabindex="-1",
    )


def _actions(caller: AccessToken, entry: dict[str, Any]) -> list[Html]:
    """The operations that settle an entry, as far as the caller may call them."""
    kind, task, where = entry["kind"], entry["task"], entry["address"]
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
