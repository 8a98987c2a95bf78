"""A task: its handoffs as a timeline, two versions side by side, and the briefs that were given."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from passdown.core.kinds import KINDS, parse_address
from passdown.core.text import counted
from passdown.errors import NotFound
from passdown.web.pages.attention import cancel_or_reopen, entry_row, hand_over, release
from passdown.web.pages.layout import Field, action, task_link
from passdown.web.pages.markup import (
    Html,
    address,
    ago,
    field,
    left_out,
    link,
    most_of,
    section,
    short_digest,
    table,
    tag,
    text,
)
from passdown.web.pages.page import Page, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.core.results import Delivery, LogEntry
    from passdown.web.requests import ApiRequest

    Document = dict[str, Any]

LISTS = (
    *("decisions", "blockers", "questions", "next_steps", "gates", "patterns", "gotchas"),
    *("reading", "warnings", "facts", "preconditions", "artifacts", "handoffs"),
)
_LOG = 40
_DELIVERIES = 200
_ASKED_AGENTS = 20
_ITEMS = 200
_SHOWN_OF_KIND = 8
_LONG = 2_000


def chip(word: object) -> Html:
    """A status as a small label."""
    return tag("span", str(word).replace("_", " "), class_=f"chip {word}")


def item_text(item: Document) -> str:
    """What an item says first."""
    found = parse_address(item.get("address", ""))
    name = KINDS[found.letter].text if found else ""
    said = item.get(name) or item.get("summary") or item.get("path") or item.get("name")
    if not said and "from_agent" in item:
        said = f"{item['from_agent']} → {item.get('to_agent') or 'nobody'}"
    return (
        "; ".join(map(str, cast("list[object]", said)))
        if isinstance(said, list)
        else str(said or "")
    )


def item_link(where: str, *children: object) -> Html:
    """A link to an item's page."""
    return link(address("items", where), *(children or (where,)), class_="item")


def _items_of(state: Document) -> list[Document]:
    return [item for name in LISTS for item in state.get(name) or ()]


def task_page(call: ApiRequest) -> Page:
    """One task as a whole."""
    name = call.arguments["task"]
    title = call.workspace.task(name).title
    api = address("api", "tasks", name, "state")
    return Page(f"{name} {title[:80]}", *task_parts(call), api=api)


def task_parts(call: ApiRequest, *, is_file: bool = False) -> list[Html]:
    """The parts of a task's page; in a file, without what needs a server."""
    ws, name = call.workspace, call.arguments["task"]
    details, state = ws.task(name), ws.files.state_document(name)
    most = most_of(_LOG)
    before, old, new = (whole_number(call.arguments.get(n)) for n in ("before", "old", "new"))
    log = ws.log(name, limit=most, **({"before": before} if before else {}))
    older = address("tasks", name, before=log[-1].version) if len(log) == most else ""
    since = log[-1].at if log and older else ""
    until = [each.at for each in ws.log(name, limit=1, before=before + 1)] if before else []
    timeline = section(
        "Timeline",
        *_timeline(call, log, _items_of(state), since, *until),
        older and link(older, "Older records"),
        id="timeline",
    )
    brief = [] if is_file else _brief_form(state, details.holder)
    compare = [] if is_file else _compare(call, name, details.version, old, new)
    return [
        tag("h1", details.title or name, tag("span", name, class_="note")),
        *_head(call, details, state),
        *([] if is_file else _waiting(call, name, state)),
        tag("div", timeline, brief and section("Brief", *brief, id="brief"), class_="pair")
        if brief
        else timeline,
        section("Compare", *compare, id="compare") if compare else Html(),
        section("Files", _files(call, name), id="files"),
        section("Items", *_item_tables(state), id="items"),
    ]


def _head(call: ApiRequest, details: Any, state: Document) -> list[Html]:
    facts = tag(
        "p",
        chip(details.status),
        details.phase != details.status and chip(details.phase),
        tag("span", f"held by {details.holder or 'nobody'}", class_="agent"),
        tag("span", "version ", details.version, " ", short_digest(details.digest)),
        ago(details.updated_at),
        class_="facts",
    )
    links = [
        (word, names)
        for word, names in (
            ("needs", details.needs),
            ("needed by", details.needed_by),
            ("blocked by", details.blocked_by),
        )
        if names
    ]
    related = [
        tag("p", f"{word} ", [[task_link(n.partition("#")[0], n), " "] for n in names])
        for word, names in links
    ]
    caller, path = call.caller, {"task": details.task}
    acts = [
        details.status not in ("completed", "cancelled") and hand_over(caller, details.task),
        details.claimed_by and release(caller, details.task),
        action(caller, "update_task", "Rename", "e", path, Field("title", "Title")),
        cancel_or_reopen(caller, details.task, details.status),
    ]
    summary = state.get("context_summary", "")
    return [
        facts,
        *related,
        summary and tag("p", summary, class_="lead"),
        details.description and tag("p", details.description, class_="lead"),
        tag("p", *acts, class_="acts left"),
    ]


def _waiting(call: ApiRequest, task: str, state: Document) -> list[Html]:
    """Gates and questions of the task that wait for a person, with what settles them."""
    found: list[Document] = [
        {"kind": "gate", "title": gate.blocker or gate.name, "detail": gate.impact,
         "next": ("approve", "reject"), "address": gate.address, "agent": gate.agent, "at": gate.at}
        for gate in call.workspace.gates(task) if gate.kind == "human"
    ]  # fmt: skip
    found += [
        {**each, "kind": "question", "title": each["question"], "detail": "",
         "next": ("set_status",)}
        for each in state.get("questions") or () if each.get("status") == "open"
    ]  # fmt: skip
    rows = [entry_row(call.caller, {**entry, "task": task}) for entry in found]
    return [tag("div", *rows, class_="rows", id="waiting")]


def _brief_form(state: Document, holder: str) -> list[Html]:
    """The budget and the agent; a script shows what a brief of that size says."""
    names = [holder, *(each.get("to_agent", "") for each in state.get("handoffs", ()))]
    names += [each.get("agent", "") for each in state.get("handoffs", ())]
    agents = [name for name in dict.fromkeys(names) if name] or ["anybody"]
    return [
        tag(
            "form",
            tag("label", "for ", tag("select", *(tag("option", n) for n in agents), name="agent")),
            tag(
                "label",
                "budget ",
                tag("input", type="range", name="budget", min=50, max=3000, step=25, value=500),
                tag("output", "500"),
                tag("kbd", "b", aria_hidden="true"),
                data_key="b",
            ),
            id="brief-form",
            data_brief=address("api", "tasks", state["task_id"]),
            data_keep=True,
        ),
        tag("p", "", id="brief-count", class_="note", role="status", data_keep=True),
        tag("pre", "", id="brief-text", data_keep=True, tabindex="0"),
        tag("div", id="brief-rest", data_keep=True),
    ]


def _timeline(
    call: ApiRequest, log: list[LogEntry], items: list[Document], since: str, until: str = "~"
) -> list[Html]:
    """Records and what agents were given in that time, newest first."""
    task, most = call.arguments["task"], most_of(_DELIVERIES)
    found = call.workspace.context.deliveries(task, limit=most)
    given = [each for each in found if since <= each.at < until]
    entries = [(each.at, _record(each, items)) for each in log]
    entries += [(each.at, _delivery(task, each)) for each in given]
    entries.sort(key=lambda entry: entry[0], reverse=True)
    is_cut = len(found) == most and found[-1].at > since
    cut = f"Of what agents were given, the last {most:,} are here; the API has all."
    return [
        tag("ol", *(entry for _, entry in entries), class_="timeline"),
        tag("p", cut, class_="note") if is_cut else Html(),
    ]


def _record(entry: LogEntry, items: list[Document]) -> Html:
    own = [item for item in items if item["version"] == entry.version]
    handoff = next((item for item in own if item.get("from_agent")), None)
    if handoff:
        to = handoff.get("to_agent", "")
        said = [
            tag("strong", handoff["from_agent"], to and f" → {to}"),
            chip(handoff["outcome"]),
            handoff.get("phase") not in (None, "", handoff["outcome"]) and chip(handoff["phase"]),
        ]
        summary = handoff.get("summary", "")
    else:
        said, summary = [tag("strong", entry.author), entry.kind.replace("_", " ")], entry.summary
    rest = [item for item in own if item is not handoff]
    kinds = groupby(rest, key=lambda item: (parse_address(item["address"]) or ("", "k"))[1])
    return tag(
        "li",
        tag(
            "p",
            *([each, " "] for each in said if each),
            tag("span", f"v{entry.version} ", short_digest(entry.digest), " ", ago(entry.at),
                class_="when"),
        ),
        summary and tag("p", text(summary, _LONG), class_="lead"),
        *(_few(letter, list(found)) for letter, found in kinds),
        id=f"v{entry.version}",
        class_="handoff" if handoff else "",
    )  # fmt: skip


def _few(letter: str, items: list[Document]) -> Html:
    word = KINDS[letter].word.replace("_", " ")
    shown = [
        tag("li", item_link(item["address"]), " ", text(item_text(item), 400),
            letter == "k" and [" ", chip(item.get("status", ""))],
            item.get("rationale") and tag("span", text(item["rationale"], 300), class_="note"))
        for item in items[: most_of(_SHOWN_OF_KIND)]
    ]  # fmt: skip
    more = len(items) - len(shown)
    return tag(
        "div",
        tag("h3", word if len(items) == 1 else f"{word}s" if word[-1] != "s" else word),
        tag("ul", *shown, more > 0 and tag("li", f"and {more} more", class_="note")),
    )


def _delivery(task: str, entry: Delivery) -> Html:
    given = entry.to_dict()
    tokens, budget = given.get("tokens"), given.get("budget")
    size = f"{tokens} of {budget} tokens" if tokens and budget else f"{tokens or '?'} tokens"
    left: dict[str, int] = given.get("left_out") or {}
    waiting = sum(left.values()) or len(given.get("waiting") or ())
    what = {"briefed": "was given a brief", "switched": "took over"}.get(given["kind"], "")
    return tag(
        "li",
        tag(
            "p",
            tag("strong", given["agent"]),
            f" {what or given['kind'].replace('_', ' ')}: ",
            link(
                address("tasks", task, "given", given["number"]),
                f"{size}, {counted(len(given.get('shown') or ()), 'item')}, {waiting} left out",
            ),
            " ",
            tag("span", ago(given["at"]), class_="when"),
        ),
        id=f"given-{given['number']}",
        class_="given",
    )


def _compare(
    call: ApiRequest, task: str, last: int, old: int | None, new: int | None
) -> list[Html]:
    """Two versions side by side."""
    left, right = min(old or max(1, last - 1), last), min(new or last, last)
    fields = [
        tag("label", word, tag("input", type="number", name=name, value=value, min=1, max=last))
        for word, name, value in (("old ", "old", left), ("new ", "new", right))
    ]
    form = tag("form", *fields, tag("button", "Compare"), action="#compare", class_="inline")
    if not (old and new):
        return [form]
    found = call.workspace.diff(task, left, right)
    rows: list[tuple[object, ...]] = [
        (name.replace("_", " "), _side(each["old"]), _side(each["new"]))
        for name, each in found.fields.items()
    ]
    for was, mark in ((found.removed, "old"), (found.added, "new")):
        for item in (item for items in was.values() for item in items):
            shown = _item_side(item)
            rows.append(
                (item_link(item["address"]), *((shown, "") if mark == "old" else ("", shown)))
            )
    for item in (item for items in found.changed.values() for item in items):
        names = [n for n in item["new"] if item["old"].get(n) != item["new"][n]]
        sides = [[[f"{n}: ", _side(item[s].get(n))] for n in names] for s in ("old", "new")]
        rows.append((item_link(item["address"]), *sides))
    head = ("", f"version {left}", f"version {right}")
    same = tag("p", "Nothing differs.", class_="note")
    return [form, table(head, rows, class_="sides") or same]


def _side(value: object) -> Html:
    return tag("div", field(value, _LONG))


def _item_side(item: Document) -> list[Html | str]:
    reason = item.get("rationale") or item.get("note") or ""
    return [
        tag("p", text(item_text(item), _LONG)),
        reason and tag("p", text(reason, _LONG), class_="note"),
    ]


def _files(call: ApiRequest, task: str) -> Html:
    rows = [
        (tag("code", each.path), chip(each.now or "not checked"), each.change, each.note,
         item_link(each.address), f"v{each.version}")
        for each in call.workspace.artifacts(task)
    ]  # fmt: skip
    none = tag("p", "No files.", class_="note")
    return table(("file", "now", "was", "note", "item", "version"), rows) or none


def _item_tables(state: Document) -> list[Html]:
    found: list[Html] = []
    for name in LISTS:
        items: list[Document] = state.get(name) or []
        if not items:
            continue
        rows = [
            (item_link(each["address"]), chip(each.get("status", "")), text(item_text(each), _LONG),
             each.get("agent", ""), link(f"#v{each['version']}", f"v{each['version']}"))
            for each in reversed(items[-most_of(_ITEMS) :])
        ]  # fmt: skip
        listed = table(("item", "status", "text", "author", "record"), rows)
        newest = f", the newest {len(rows)}" if len(rows) < len(items) else ""
        title = tag("summary", f"{name.replace('_', ' ')} ({len(items)}{newest})")
        found.append(tag("details", title, listed, id=f"all-{name}"))
    return found


def item_page(call: ApiRequest) -> Page:
    """One item: all of its fields, the record it came from, and who was given it."""
    ws, where = call.workspace, call.arguments["item"]
    document = ws.show(where).to_dict()
    source = document.pop("source", {})
    task = where.partition("#")[0]
    fields = [
        (name.replace("_", " "), tag("div", field(value)))
        for name, value in document.items()
        if value not in ("", None, [], {})
    ]
    record = [(name, tag("code", str(value))) for name, value in source.items() if value]
    agents = {each.agent for each in ws.context.deliveries(task, limit=200)}
    told = [ws.context.why(where, agent=agent) for agent in sorted(agents)[:_ASKED_AGENTS]]
    rows = [(each.agent, chip("given" if each.told else "not given"), each.reason) for each in told]
    return Page(
        where,
        tag("h1", text(item_text(document) or where, 300), tag("span", where, class_="note")),
        tag("p", task_link(task)),
        section("Fields", table(("field", "value"), fields)),
        section("Record", table(("field", "value"), record)),
        section(
            "Who was given it", table(("agent", "", "why"), rows), left_out(len(agents) - len(rows))
        )
        if rows
        else tag("p", "No agent was given a brief of this task.", class_="note"),
        api=address("api", "items", where),
    )


def given_page(call: ApiRequest) -> Page:
    """What one agent was given: each item as it was then, what was left out, what came first."""
    ws, name = call.workspace, call.arguments["task"]
    number = whole_number(call.arguments["number"]) or 0
    found = ws.context.deliveries(name, limit=1, before=number + 1)
    if not found or found[0].number != number:
        raise NotFound(f"{name} has no delivery {call.arguments['number'][:20]}")
    given = found[0].to_dict()
    version = given.get("version")
    state = ws.files.state_document(name, version) if version else {}
    known = {item["address"]: item for item in _items_of(state)}
    known |= {f"{name}:{field}": {"summary": value} for field, value in state.items()}
    shown, waiting = dict(given.get("shown") or {}), list(given.get("waiting") or ())
    rows = [_given_row(call, known, where, length) for where, length in shown.items()]
    left: dict[str, int] = given.get("left_out") or {}
    counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in left.items() if count)
    first = f"{counted(len(shown), 'item')} came first and took {given.get('tokens')} tokens."
    brief = given.get("text", "")
    return Page(
        f"{name} as given to {given['agent']}",
        tag("h1", f"What {given['agent']} was given", tag("span", task_link(name), class_="note")),
        tag(
            "p",
            chip(given["kind"]),
            tag("span", f"version {version}"),
            tag("span", f"{given.get('tokens')} of {given.get('budget')} tokens"),
            tag("span", given.get("counter", "")),
            ago(given["at"]),
            class_="facts",
        ),
        section("Items, as they were then", table(("item", "length", "text", "author"), rows)),
        section(
            "Left out",
            counts and tag("p", f"{counts}. {first}"),
            tag("ol", *(tag("li", _known_item(call, known, each)) for each in waiting)),
            None if waiting or counts else tag("p", "Nothing was left out.", class_="note"),
        ),
        section("Text", tag("pre", brief, tabindex="0")) if brief else tag(
            "p",
            "The text was not kept: it is too long, or an earlier version of Passdown gave it.",
            class_="note",
        ),
        api=address("api", "tasks", name, "deliveries"),
    )  # fmt: skip


def _given_row(
    call: ApiRequest, known: Mapping[str, Document], where: str, length: str
) -> Iterable[object]:
    item = known.get(where)
    said = item_text(item) if item else ""
    reason = (item or {}).get("rationale", "") if length == "full" else ""
    where_link = item_link(where) if "#" in where else where
    return (
        where_link,
        length,
        [
            tag("p", text(said, _LONG)),
            reason and tag("p", text(reason, _LONG), class_="note"),
        ],
        (item or {}).get("agent", ""),
    )


def _known_item(call: ApiRequest, known: Mapping[str, Document], where: str) -> list[object]:
    item = known.get(where)
    return [
        item_link(where) if "#" in where else where,
        " ",
        text(item_text(item), 400) if item else "",
    ]
