"""Runs, growth and knowledge: views with pictures."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from passdown.core.graph import NODE_TYPES
from passdown.core.text import counted
from passdown.errors import PassdownError
from passdown.operations import OPERATION
from passdown.web.pages.attention import entry_actions
from passdown.web.pages.layout import action, task_link
from passdown.web.pages.lists import choices, live_workers
from passdown.web.pages.markup import (
    Html,
    address,
    ago,
    field,
    left_out,
    link,
    loaded_later,
    section,
    table,
    tag,
    text,
)
from passdown.web.pages.page import Page, check_part
from passdown.web.pages.task import chip, item_link
from passdown.workspace.growth import recorded_growth
from passdown.workspace.streams import may_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.web.requests import ApiRequest

_WIDTH, _BAR, _GAP, _LABEL = 720, 18, 8, 150
_LETTERS = 22
_NODES = 1_000
_RUNS = 200
_BRIEFS = 40
_TAGS = 500
_JOURNAL = 50


def bars(rows: Sequence[tuple[str, Sequence[tuple[int, str]]]], title: str) -> Html:
    """Horizontal bars: each row has a label and numbers, each with the class of its colour."""
    most = max((number for _, parts in rows for number, _ in parts), default=1) or 1
    drawn: list[Html] = []
    y = 0
    for label, parts in rows:
        short = label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}…"
        drawn.append(tag("text", tag("title", label), short, x=0, y=y + 13))
        for number, name in parts:
            width = round((_WIDTH - _LABEL - 70) * number / most, 1)
            drawn.append(
                tag("rect", x=_LABEL, y=y + 2, width=width, height=_BAR - 4, rx=3, class_=name)
            )
            drawn.append(tag("text", f"{number:,}", x=_LABEL + width + 6, y=y + 13))
            y += _BAR
        y += _GAP
    shape = {"viewBox": f"0 0 {_WIDTH} {max(y, 1)}", "class": "chart"}
    picture = tag("svg", tag("title", title), *drawn, role="img", aria_label=title, **shape)
    return tag("div", picture, class_="scroll", tabindex="0", role="group", aria_label=title)


def runs_page(call: ApiRequest) -> Page:
    """Runs of relays, the newest first."""
    found = call.workspace.relay.runs()
    rows = [
        (
            link(address("runs", each["run"]), each["run"], class_="item"),
            chip(each["status"]),
            each["relay"],
            task_link(each["task"]) if each["task"] else "",
            each["leg"],
            text(each["why"], 200),
            f"{each['seconds']:.0f} s",
            ago(each["started_at"]),
        )
        for each in found.items[:_RUNS]
    ]
    damaged = [
        tag("p", str(each.get("message", "")), class_="bad finding") for each in found.damaged
    ]
    head = ("run", "status", "relay", "task", "leg", "why", "took", "started")
    none = "No relay has run here. passdown run RELAY --task TASK starts one."
    listed = table(head, rows) or tag("p", none, class_="empty")
    more = left_out(len(found.items) - len(rows))
    return Page("Runs", tag("h1", "Runs"), *damaged, listed, more, api="/api/runs")


def run_page(call: ApiRequest) -> Page:
    """One run: its turns, what they had in context, and what to do."""
    name = call.arguments["run"]
    run = call.workspace.relay.run(name)
    turns = run["turns"]
    sizes = [
        (
            f"{turn['number']} {turn['agent']}",
            [(int(turn["measured"].get("context_tokens", 0)), "with")],
        )
        for turn in turns
    ]
    following = [
        *(["relay.answer"] if run["asked"] else []),
        *([] if run["ended_at"] else ["relay.stop"]),
    ]
    entry = {"kind": "run", "address": name, "next": following}
    acts = [*entry_actions(call.caller, entry), *_resume(call, run)]
    return Page(
        f"{name} {run['relay']}",
        tag("h1", run["relay"], tag("span", name, class_="note")),
        tag(
            "p",
            chip(run["status"]),
            task_link(run["task"]) if run["task"] else None,
            tag("span", f"by {run['by']}"),
            tag("span", f"{run['seconds']:.0f} s"),
            ago(run["started_at"]),
            class_="facts",
        ),
        run["why"] and tag("p", run["why"], class_="lead"),
        tag("p", *acts, class_="acts left"),
        _by_command(run["next"], "commands"),
        section("Tokens in context", bars(sizes, "Tokens in the context of each turn")),
        section("Turns", tag("ol", *(_turn(run, turn) for turn in turns), class_="timeline")),
        _replays(call, name),
        api=address("api", "runs", name),
    )  # fmt: skip


def _resume(call: ApiRequest, run: dict[str, Any]) -> list[Html | None]:
    """The button that lets a run continue with workers, and what is missing for that: one that has
    stopped or waits, and one in the foreground whose process has ended.
    """
    is_here = run["lane"] == "here"
    if run["lane"] == "express" or run["status"] == "completed":
        return []
    working = {each["worker"] for each in live_workers(call.workspace)}
    if run["status"] == "running" and not (
        is_here and working.isdisjoint(turn["worker"] for turn in run["turns"])
    ):
        return []
    label = "Resume with workers" if is_here else "Resume"
    button = action(
        *(call.caller, "relay.resume", label, "u", {"run": run["run"]}),
        asks=is_here,
        detach=is_here,
    )
    how = ["No worker runs now; ", tag("code", "passdown worker"), " starts one."]
    return [button, tag("span", *how, class_="note") if button and not working else None]


def _by_command(commands: Sequence[str], id: str) -> Html:
    """The same from a terminal."""
    if not commands:
        return Html()
    lines = [tag("p", tag("code", each)) for each in commands]
    return tag("details", tag("summary", "From a terminal"), *lines, id=id)


def _replays(call: ApiRequest, run: str) -> Html:
    """The legs of a run that were taken again, and the commands that show their own ledgers."""
    if not call.caller.may(OPERATION["relay.replays"].right):
        return Html()
    try:
        found = call.workspace.relay.replays(run)
    except PassdownError as error:
        return section("Replays", tag("p", str(error), class_="bad finding"), id="replays")
    rows = [
        (
            tag("code", each["replay"]),
            f"{each['leg']}, turn {each['turn']}",
            *([side["agent"], " ", chip(side["outcome"] or "open")] for side in (first, again)),
            ", ".join(each["diff"]).replace("_", " ") or "nothing",
        )
        for each in found
        for first, again in ((each["first"], each["again"]),)
    ]
    head = ("replay", "leg", "first", "again", "differs in")
    shown = [f"passdown runs {run} --store {shlex.quote(each['store'])}" for each in found]
    listed = [table(head, rows), _by_command(shown, "replay-commands")]
    return section("Replays", *listed, id="replays") if rows else Html()


def _turn(run: dict[str, Any], turn: dict[str, Any]) -> Html:
    measured, version = turn["measured"], turn["version"]
    facts = [
        f"{measured[name]:,} {words}"
        for name, words in (("brief_tokens", "tokens in the brief"), ("attempts", "attempts"))
        if measured.get(name, 0) > 1
    ]
    record = address("tasks", run["task"]) + f"#v{version}"
    said = turn["summary"] or turn["why"]
    return tag(
        "li",
        tag(
            "p",
            tag("strong", turn["agent"]),
            f" {turn['name']} ",
            chip(turn["outcome"] or "running"),
            " ",
            version and link(record, f"v{version}"),
            tag("span", ", ".join(facts), class_="when"),
            tag("span", ago(turn["begun_at"] or turn["started_at"]), class_="when"),
        ),
        said and tag("p", said, class_="lead"),
        *(
            tag("pre", text(each.get("text") or each, 4_000), tabindex="0")
            for each in turn["evidence"]
        ),
        may_record(turn["agent"])
        and tag(
            "p", link(address("agents", turn["agent"], task=run["task"]), "Prompts and replies")
        ),
        id=f"turn-{turn['number']}",
        class_="handoff" if turn["outcome"] else "",
    )


def growth_page(call: ApiRequest) -> Page:
    """Tokens over switches, with and without Passdown, of one task."""
    ws = call.workspace
    task = str(call.arguments.get("task", ""))
    given = ws.context.deliveries(limit=200)
    names = tuple(dict.fromkeys(each.task for each in given))
    task = (
        task
        or next((each.task for each in given if each.kind == "switched"), "")
        or (names[0] if names else "")
    )
    form = tag(
        "form",
        choices("task", "task", names, task, "latest"),
        tag("button", "Show"),
        class_="inline",
        data_auto=True,
    )
    parts: list[Html] = []
    if task:
        try:
            parts.append(_switches(recorded_growth(ws, task)))
        except PassdownError:
            how = " records how large a context is with and without Passdown."
            parts.append(
                tag("p", f"No switch of {task} was recorded. ", tag("code", "passdown switch"), how,
                    class_="note")
            )  # fmt: skip
        latest = ws.context.deliveries(task, limit=_BRIEFS)
        briefs = [each for each in latest if each.kind == "briefed"]
        rows = [
            (f"{each.number} {each.agent}", [(int(each.tokens), "with")]) for each in briefs[::-1]
        ]
        newest = f"among the last {_BRIEFS} deliveries" if len(latest) == _BRIEFS else None
        parts.append(section("Briefs", bars(rows, "Tokens of each brief"), note=newest))
    else:
        parts.append(
            tag(
                "p",
                "No agent was given anything yet: passdown brief TASK --agent AGENT gives a brief.",
                class_="empty",
            )
        )
    api = address("api", "tasks", task, "deliveries") if task else "/api/deliveries"
    return Page("Growth", tag("h1", "Growth"), form, *parts, api=api)


def _switches(growth: Any) -> Html:
    rows = [
        (f"{step.number} {step.agent}", [(step.context, "with"), (step.without, "without")])
        for step in growth.steps
    ]
    saved = f"{growth.last.saved:.0f} % less at the last switch" if growth.last.saved > 0 else ""
    key = tag(
        "p",
        tag("span", "with Passdown", class_="chip with"),
        " ",
        tag("span", "without", class_="chip without"),
        f" {saved}",
        class_="note",
    )
    return section("Switches", key, bars(rows, "Tokens in context at each switch"))


def knowledge_page(call: ApiRequest) -> Page:
    """The graph, by tag and type, which a script draws; the journal; the audit is loaded after the
    page.
    """
    given = {name: str(call.arguments.get(name, "")) for name in ("type", "tag", "around")}
    types, tags, around = ([value] if value else () for value in given.values())
    graph = call.workspace.knowledge.graph(types=types, tags=tags, around=around)
    rows = [
        (link(address("knowledge", around=node.id), text(node.id, 120), class_="item"),
         chip(node.type), node.summary, ", ".join(node.tags))
        for node in graph.nodes[:_NODES]
    ]  # fmt: skip
    source = address("api", "graph", types=given["type"], tags=given["tag"], around=given["around"])
    table_of = table(("node", "type", "summary", "tags"), rows)
    nodes = [
        *_drawn_graph(graph, source, given["around"]),
        tag("details", tag("summary", "All nodes as a table"), table_of,
            left_out(len(graph.nodes) - len(rows)), id="nodes"),
    ]  # fmt: skip
    none = "Nothing is known yet. Handoffs, decisions and passdown knowledge add bring nodes."
    if any(given.values()):
        none = "No node has this."
    journal = call.workspace.knowledge.journal(limit=_JOURNAL)
    return Page(
        "Knowledge",
        tag("h1", "Knowledge", tag("span", _counts(graph), class_="note")),
        _knowledge_form(graph, given),
        *(nodes if rows else [tag("p", none, class_="empty")]),
        section("Journal", *_journal(journal), note=f"at most {_JOURNAL} of each kind"),
        loaded_later("audit", "/knowledge/audit", "Auditing…"),
        api=source,
    )


def _counts(graph: Any) -> str:
    return f"{counted(len(graph.nodes), 'node')}, {counted(len(graph.edges), 'edge')}"


def _knowledge_form(graph: Any, given: dict[str, str]) -> Html:
    tags = Counter(each for node in graph.nodes for each in node.tags)
    listed = [tag("option", value=name) for name, _ in tags.most_common(_TAGS)]
    around = given["around"]
    return tag(
        "form",
        choices("type", "type", tuple(sorted(NODE_TYPES)), given["type"], "all"),
        tag("label", "tag ",
            tag("input", type="text", name="tag", list="tags", value=given["tag"])),
        tag("datalist", *listed, id="tags"),
        tag("button", "Show"),
        around and [tag("span", "around ", tag("strong", text(around, 60))),
                    tag("input", type="hidden", name="around", value=around)],
        any(given.values()) and link("/knowledge", "Show all"),
        class_="inline",
        data_auto=True,
    )  # fmt: skip


def _drawn_graph(graph: Any, source: str, around: str) -> list[Html]:
    """The canvas that a script draws on, with its legend and its keys."""
    label = f"Graph of {_counts(graph)}; the table below has it as text"
    kinds = Counter(node.type for node in graph.nodes)
    legend = [
        link(
            address("knowledge", type=kind), tag("span", class_=f"dot {kind}"), f"{kind} {count:,}"
        )
        for kind, count in kinds.most_common()
    ]
    keys = (("Larger", "+", "larger"), ("Smaller", "-", "smaller"), ("Fit", "0", "fit"),
            ("Previous node", "[", "back"), ("Next node", "]", "next"))  # fmt: skip
    buttons = [
        tag("button", name, tag("kbd", key, aria_hidden="true"), type="button", data_key=key,
            data_graph=does)
        for name, key, does in keys
    ]  # fmt: skip
    find = tag("input", type="search", id="graph-find", data_search=True, data_keep=True)
    return [
        tag("p", *legend, class_="legend"),
        tag(
            "div",
            tag("canvas", id="graph", tabindex="0", role="application", aria_label=label,
                data_source=source, data_around=around or None, data_keep=True),
            tag("aside", id="graph-about", hidden=True, data_keep=True, aria_live="polite"),
            class_="graph",
        ),
        tag("p", tag("label", "Find a node ", find), *buttons, class_="acts left"),
        tag("p", id="graph-count", class_="note", role="status", data_keep=True),
    ]  # fmt: skip


def _journal(journal: Any) -> list[Html]:
    where = [
        (tag("code", each["location"]), each["component"], each.get("notes", ""),
         task_link(each["task"]), each["agent"])
        for each in journal.context_map
    ]  # fmt: skip
    trouble = [
        tag("li", field(each.get("blocker") or each.get("issue") or each.get("items", ""), 300))
        for each in (*journal.active_blockers, *journal.gotchas)
    ]
    head = ("file", "component", "notes", "task", "agent")
    none = tag("p", "Nothing yet.", class_="note")
    return [table(head, where) or none, tag("ul", *trouble)]


def audit_page(call: ApiRequest) -> Page:
    """Duplicate, outdated and never-used entries, by the last check."""
    part = check_part(call, "audit", lambda ws: ws.knowledge.audit(), _audit_parts)
    return Page("Audit", part, api="/api/audit")


def _audit_parts(found: Any) -> list[Html]:
    rows: list[tuple[object, ...]] = []
    for name in ("duplicates", "stale", "forked", "orphaned", "never_recalled"):
        listed: list[Any] = getattr(found, name)
        rows += [(name.replace("_", " "), _addresses(each)) for each in listed]
        more = found.counts[name] - len(listed)
        rows += [(name.replace("_", " "), left_out(more))] if more > 0 else []
    none = tag("p", "No findings.", class_="note")
    return [section("Audit", table(("finding", "entries"), rows) or none)]


def _addresses(finding: Any) -> list[object]:
    """The addresses that a finding names, each as a link."""
    named: list[str] = [finding["item"]] if isinstance(finding, dict) else finding
    listed = [named] if isinstance(named, str) else named
    return [[item_link(each) if "#" in each else each, " "] for each in listed]
