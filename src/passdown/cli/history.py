"""`state`, `summary`, `inbox`, `log`, `show`, `diff` and `history`: a task now and before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from passdown.cli.output import (
    heading,
    line,
    pairs,
    print_freshness,
    print_item,
    print_items,
    print_json,
    row_printer,
    short_digest,
    short_time,
    shown,
    table,
    title_of,
    verbatim,
)
from passdown.cli.parsing import command, operation
from passdown.cli.session import UsageError, read_input
from passdown.core.kinds import CONVERSATION_STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.core.views import InboxEntry
    from passdown.workspace import Workspace

_STATE_LISTS = (
    "blockers",
    "preconditions",
    "questions",
    "next_steps",
    "reading",
    "facts",
    "decisions",
    "gotchas",
    "patterns",
    "warnings",
    "artifacts",
    "gates",
    "handoffs",
)


@command(
    "state",
    "T-1",
    "T-1 --at 3 --json",
    "T-1 --files",
    flags={"shape": "--as"},
    finds_task=True,
    exclusive=("shape", "budget", "files"),
    help={
        "at": "VERSION: a past version",
        "shape": "another JSON shape",
        "budget": "which artifacts fit inline",
        "files": "artifacts: same, changed or missing on disk; exit code 1 unless all are the same",
    },
)
def state(
    session: Session,
    task: str,
    *,
    at: int | None = None,
    shape: Literal["state-file", "switch-artifact"] | None = None,
    budget: int | None = None,
    files: bool = False,
) -> int:
    """Show a task's whole state, now or at a version."""
    if at is not None and (files or budget is not None):
        raise UsageError("--at shows a past version; --files and --budget are about the present")
    with session.open() as workspace:
        if files:
            found = workspace.artifacts(task)
            session.show(found, _print_file_states)
            return int(any(entry.now != "same" for entry in found))
        if budget is not None:
            session.show(workspace.files.inline_plan(task, budget), _print_inline_plan)
            return 0
        document = workspace.files.state_document(task, at)
        if shape:
            print_json(_shaped(workspace, document, shape))
        else:
            session.show(document, _print_state)
    return 0


def _shaped(workspace: Workspace, document: JsonObject, shape: str) -> JsonObject:
    from passdown.core.handoff_formats import state_file, switch_artifact

    if shape == "state-file":
        return state_file(document)
    return switch_artifact(document, workspace.files.state_file(document["task_id"]))


def _print_state(state: JsonObject) -> None:
    from passdown.core.kinds import phase_before

    heading(f"{state['task_id']}  {state['title']}")
    before = phase_before(state["phase"], state["previous_phase"])
    came = f" (from {before})" if before else ""
    held = " to ".join(name for name in (state["source_agent"], state["target_agent"]) if name)
    pairs(
        [
            ("phase", f"{state['phase']}{came}, since {state['phase_started_at']}"),
            ("status", state["status"]),
            ("outcome", state["outcome"]),
            ("handed", f"{held}, {state['handoff_at']}" if state["handoff_at"] else ""),
            ("summary", state["context_summary"]),
            ("needs", state.get("depends_on")),
            ("blocked by", state["blocked_by"]),
            ("gates passed", state["gates_passed"]),
            ("gates failed", state["gates_failed"]),
            ("version", f"{state['version']} ({short_digest(state['digest'])})"),
        ],
        2,
    )
    for name in _STATE_LISTS:
        print_items(name.replace("_", " "), state.get(name, ()))


_print_file_states = row_printer(
    "now, path, type, bytes=size_bytes, version", "no artifacts", whole=""
)


def _print_inline_plan(plan: JsonObject) -> None:
    line(f"{plan['used_tokens']} of {plan['budget_tokens']} tokens (four bytes each)")
    rows = [("inline", path) for path in plan["inline"]]
    rows += [("reference", path) for path in plan["references"]]
    table(("as", "path"), rows, "no artifacts")


@command(
    "summary",
    "T-1",
    "T-1 --check prompt.txt",
    alone={"check": ()},
    finds_task=True,
    help={
        "budget": "TOKENS: at most; default: 500",
        "check": "FILE: whether this summary is still current",
    },
)
def summary(
    session: Session,
    task: str,
    *,
    check: str | None = None,
    budget: int = 500,
    counter: str | None = None,
) -> int:
    """Print a task in a few lines, or check whether a summary is still current."""
    with session.open() as workspace:
        if check:
            text = _unwrapped(read_input(check).decode(errors="replace"))
            return print_freshness(session, workspace.context.check(task, text), task)
        text = workspace.context.summary(task, budget, counter=counter)
    session.show({"task": task, "summary": text}, lambda found: verbatim(found["summary"]))
    return 0


def _unwrapped(text: str) -> str:
    """A summary whose Version line is one line again, wherever an editor or a mail broke it."""
    import re

    line = r"^[ \t>]*Version:\s*(\d+)\s*\(\s*sha256:((?:\s*[0-9a-f]){64})\s*\)"
    return re.sub(
        line,
        lambda found: f"Version: {found[1]} (sha256:{''.join(found[2].split())})\n",
        text,
        flags=re.MULTILINE,
    )


def _with_handoffs(workspace: Workspace, found: list[InboxEntry]) -> list[JsonObject]:
    """The entries of an inbox with what their handoffs say."""
    entries = [entry.to_dict() for entry in found]
    for entry in entries:
        number = workspace.task(entry["task"]).counts.get("h", 0)
        said = workspace.show(f"{entry['task']}#h{number}").to_dict() if number else {}
        entry.update({name: said.get(name, "") for name in ("from_agent", "outcome", "summary")})
    return entries


def _inbox_state(entry: JsonObject) -> str:
    if entry["held"]:
        return "held by a gate"
    return "returned" if entry["from_agent"] == entry["agent"] else "waiting"


operation(
    "inbox",
    row_printer(
        "task, version=position, from=from_agent, outcome, state, summary",
        "nothing is waiting",
        whole="task,version,from,outcome",
        state=_inbox_state,
    ),
    "coder",
    "coder --json",
    finish=_with_handoffs,
)


@command(
    "log",
    "",
    "T-1 --limit 5",
    "T-1 --before 12 --json",
    "T-1 --briefs",
    help={
        "briefs": "what was delivered to whom, instead of records",
        "before": "older than this version; without a task, than this sequence number",
    },
)
def log(
    session: Session,
    task: str | None = None,
    *,
    briefs: bool = False,
    limit: int = 50,
    before: int | None = None,
) -> None:
    """List records, newest first."""
    older = {} if before is None else {"before": before}
    with session.open() as workspace:
        ask = workspace.context.deliveries if briefs else workspace.log
        found = ask(task, limit=limit, **older)
    first = ("number" if briefs else "version") if task else "seq"

    def print_text(found: list[JsonObject]) -> None:
        print_rows = _print_log if task else _print_whole_log
        if briefs:
            print_rows = _delivery_printer("number" if task else "seq, task")
        print_rows(found)
        if found and len(found) == limit:
            line(f"older: --before {found[-1][first]}")

    session.show(found, print_text)


def _record_author(entry: JsonObject) -> str:
    """Who wrote a record, and, where it came in a bundle, who imported it."""
    imported = entry.get("imported")
    return f"{entry['author']}, by {imported['by']}'s bundle" if imported else entry["author"]


def _record_summary(entry: JsonObject) -> str:
    """What a record says, and who went on from it after a later version was lost."""
    found = entry.get("recovered")
    lost = f"; {found['by']} went on without version {found['lost_version']}" if found else ""
    return f"{entry['summary']}{lost}"


_print_log = row_printer(
    "version, at (UTC)=at, author, kind, what=summary",
    "nothing recorded",
    short="what",
    author=_record_author,
    summary=_record_summary,
)
_print_whole_log = row_printer(
    "seq, task, at (UTC)=at, author, kind, what=summary",
    "nothing recorded",
    short="what",
    task=lambda entry: f"{entry['task']} v{entry['version']}",
    author=_record_author,
)


def _delivery_printer(first: str) -> Callable[[Sequence[JsonObject]], None]:
    """Prints deliveries: to whom, from which version, how long, what was left out or asked."""
    return row_printer(
        f"{first}, at (UTC)=at, kind, to=agent, version, tokens, shown, left out=left_out, "
        "asked=query",
        "nothing was delivered yet",
        short="asked",
        kind=lambda entry: entry["kind"].replace("_", " "),
        tokens=lambda e: f"{e['tokens']}/{e['budget']}" if "tokens" in e else "",
        shown=lambda e: len(e["shown"]) if "shown" in e else "",
        left_out=lambda e: sum(e["left_out"].values()) if "left_out" in e else "",
    )


@command(
    "show",
    "T-1#d3",
    "T-1#b1 --json",
    "conversation/T-1/architect/coder",
    help={"item": "an address such as T-1#d3, node:ID, or conversation/TASK/AGENT/PEER"},
)
def show(session: Session, item: str) -> None:
    """Show one item and the record it came from, or all that was said in a conversation."""
    from passdown.cli.knowledge import show_node, written_node
    from passdown.errors import NotFound

    with session.open() as workspace:
        if item.startswith("node:"):
            show_node(session, workspace, item)
            return
        if item.startswith(CONVERSATION_STREAM):
            session.show(_conversation(workspace, item), _print_conversation)
            return
        try:
            found = workspace.show(item)
        except NotFound as error:
            if "#" not in item and any(each.task == item for each in workspace.tasks()):
                hint = f"It is a task: passdown task show {item}"
                raise NotFound(error.message, next_step=hint) from error
            if written_node(workspace, item) is None:
                raise
            raise NotFound(error.message, next_step=f"Did you mean node:{item}?") from error
    session.show(found, _print_found_item)


def _conversation(workspace: Workspace, name: str) -> list[JsonObject]:
    """The records of a conversation."""
    from passdown.errors import NotFound

    task, _, rest = name.removeprefix(CONVERSATION_STREAM).partition("/")
    agent, _, peer = rest.partition("/")
    found = workspace.relay.conversations(task, agent, peer) if peer else []
    if not found:
        others = workspace.relay.conversations(task, agent) if agent else []
        names = dict.fromkeys(f"{CONVERSATION_STREAM}{task}/{agent}/{o['peer']}" for o in others)
        hint = f"There are: {', '.join(names)}." if names else "A relay's prompts name them."
        raise NotFound(f"there is no conversation {name[:140]!r}", next_step=hint)
    return found


def _print_conversation(entries: list[JsonObject]) -> None:
    for entry in entries:
        body, at = entry["body"], short_time(entry["at"])
        if entry["kind"] == "message":
            message = body["message"]
            heading(f"{at} {message['by'] or message['role']}:")
            verbatim(message["content"])
        elif entry["kind"] == "reset":
            heading(f"{at} a new chapter begins ({body['why']}):")
            verbatim(body["system"])


def _print_found_item(found: JsonObject) -> None:
    source = found.pop("source")
    print_item(found)
    line()
    heading("source")
    names = ("task", "version", "author", "at", "kind")
    digests = [(name, short_digest(source[name])) for name in ("digest", "previous")]
    pairs([*((name, source[name]) for name in names), *digests, *_origin(source)], 2)


def _origin(source: JsonObject) -> list[tuple[str, str]]:
    """The channel that wrote a record, or who imported it in which bundle."""
    imported = source.get("imported")
    if not imported:
        return [("via", source["via"])] if "via" in source else []
    through = f" via {imported['via']}" if "via" in imported else ""
    found = [("imported by", f"{imported['by']}{through}, {short_time(imported['at'])}")]
    if "bundle" in imported:
        found.append(("bundle", short_digest(imported["bundle"])))
    if "claimed_via" in imported:
        found.append(("claims via", imported["claimed_via"]))
    return found


def print_diff(found: JsonObject) -> None:
    """Print what differs: fields, then items added, changed and gone."""
    heading(f"{found['task']}  version {found['old']} to {found['new']}")
    fields = found["fields"].items()
    pairs(
        [(name.replace("_", " "), _old_and_new(was["old"], was["new"])) for name, was in fields], 2
    )
    count = 0
    for mark, part in (("+", "added"), ("~", "changed"), ("-", "removed")):
        for entry in (entry for entries in found[part].values() for entry in entries):
            count += 1
            item = entry if part != "changed" else entry["new"]
            line(f"{mark} {item['address']}  {title_of(item)}{_changed_fields(entry, part)}", 2)
    if not count and not fields:
        line("nothing differs", 2)


def _changed_fields(entry: JsonObject, part: str) -> str:
    if part != "changed":
        return ""
    old, new = entry["old"], entry["new"]
    names = [name for name in new if old.get(name) != new[name] and name != "address"]
    return "".join(f"; {name}: {_old_and_new(old.get(name), new[name])}" for name in names)


def _old_and_new(old: object, new: object) -> str:
    return f"{shown(old) or '-'} -> {shown(new) or '-'}"


operation(
    "diff",
    print_diff,
    "T-1 3 7",
    "T-1 3 7 --json",
    help={"old": "V1: the older version", "new": "V2: the newer version"},
)


operation(
    "history",
    row_printer(
        "version, at (UTC)=at, agent, change, bytes=size_bytes, sha256, note",
        "the task has no entry for this path",
        sha256=lambda entry: str(entry.get("sha256") or "").removeprefix("sha256:")[:12],
    ),
    "T-1 src/login.py",
    help={"path": "PATH: relative to the project"},
)
