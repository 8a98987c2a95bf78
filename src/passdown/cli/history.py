"""`state`, `summary`, `inbox`, `log`, `show`, `diff` and `history`: a task now and before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from passdown.cli import output as out
from passdown.cli.parsing import Author, command, operation
from passdown.cli.session import UsageError, read_input
from passdown.core.kinds import CONVERSATION_STREAM, TASK_TEXTS
from passdown.core.rows import NODE_PREFIX
from passdown.core.text import excerpt
from passdown.errors import NotFound, PassdownError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.cli.session import Session
    from passdown.core.results import InboxEntry
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace

_STATE_LISTS = (
    "blockers preconditions questions next_steps reading facts decisions gotchas patterns "
    "warnings artifacts gates handoffs"
).split()


@command(
    "state",
    "T-1",
    "T-1 --at 3 --json",
    "T-1 --files",
    flags={"shape": "--as"},
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
        if not shape:
            session.show(document, _print_state)
            return 0
        from passdown.core.intake import state_file, switch_artifact

        if shape == "state-file":
            document = state_file(document)
        else:
            document = switch_artifact(document, workspace.files.state_file(document["task_id"]))
    session.show(document, out.print_document)
    return 0


def _print_state(state: JsonObject) -> None:
    from passdown.core.kinds import phase_before

    out.heading(f"{state['task_id']}  {state['title']}")
    before = phase_before(state["phase"], state["previous_phase"])
    came = f" (from {before})" if before else ""
    held = " to ".join(name for name in (state["source_agent"], state["target_agent"]) if name)
    out.pairs(
        [
            ("phase", f"{state['phase']}{came}, since {out.moment(state['phase_started_at'])}"),
            ("status", state["status"]),
            ("outcome", state["outcome"]),
            ("handed", f"{held}, {out.moment(state['handoff_at'])}" if state["handoff_at"] else ""),
            ("summary", state["context_summary"]),
            ("needs", state.get("depends_on")),
            ("blocked by", state["blocked_by"]),
            ("gates passed", state["gates_passed"]),
            ("gates failed", state["gates_failed"]),
            ("version", f"{state['version']} ({out.short_digest(state['digest'])})"),
        ],
        2,
    )
    for name in _STATE_LISTS:
        out.print_items(name.replace("_", " "), state.get(name, ()))


_print_file_states = out.row_printer(
    "now, path, type, bytes=size_bytes, version", "no artifacts", whole=""
)


def _print_inline_plan(plan: JsonObject) -> None:
    out.line(f"{plan['used_tokens']} of {plan['budget_tokens']} tokens (four bytes each)")
    rows = [("inline", path) for path in plan["inline"]]
    rows += [("reference", path) for path in plan["references"]]
    out.table(("as", "path"), rows, "no artifacts")


@command(
    "summary",
    "T-1",
    "T-1 --check prompt.txt",
    alone={"check": ()},
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
            return out.print_freshness(session, workspace.context.check(task, text), task)
        text = workspace.context.summary(task, budget, counter=counter)
    session.show({"task": task, "summary": text}, lambda found: out.verbatim(found["summary"]))
    return 0


def _unwrapped(text: str) -> str:
    """A summary whose Version line is one line again, wherever an editor or a mail broke it."""
    import re

    def joined(found: re.Match[str]) -> str:
        return f"Version: {found[1]} (sha256:{''.join(found[2].split())})\n"

    pattern = r"(?m)^[ \t>]*Version:\s*(\d+)\s*\(\s*sha256:((?:\s*[0-9a-f]){64})\s*\)"
    return re.sub(pattern, joined, text)


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


_print_inbox = out.row_printer(
    "task, version=position, from=from_agent, outcome, state, summary",
    "nothing is waiting",
    whole="task,version,from,outcome",
    state=_inbox_state,
)


@command("inbox", "", "coder", "coder --json", help={"agent": "AGENT: for whom"})
def inbox(session: Session, agent: Author = "") -> None:
    """List the handoffs that wait for an agent."""
    with session.open() as workspace:
        session.show(_with_handoffs(workspace, workspace.inbox(agent)), _print_inbox)


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
            out.line(f"older: --before {found[-1][first]}")

    session.show(found, print_text)


def _record_author(entry: JsonObject) -> str:
    """Who wrote a record, and, where it came in a bundle, who imported it."""
    imported = entry.get("imported")
    return f"{entry['author']}, by {imported['by']}'s bundle" if imported else entry["author"]


def _record_summary(entry: JsonObject) -> str:
    """What a record says, who went on from it after a later version was lost, and its trace."""
    found = entry.get("recovered")
    lost = f"; {found['by']} went on without version {found['lost_version']}" if found else ""
    trace = f"; trace {entry['trace_id']}" if entry.get("trace_id") else ""
    return f"{entry['kind'].replace('_', ' ')}: {entry['summary']}{lost}{trace}"


_print_log = out.row_printer(
    "version, at (UTC)=at, author, what=summary",
    "nothing recorded",
    short="what",
    author=_record_author,
    summary=_record_summary,
)
_print_whole_log = out.row_printer(
    "seq, task, at (UTC)=at, author, what=summary",
    "nothing recorded",
    short="what",
    task=lambda entry: f"{entry['task']} v{entry['version']}",
    author=_record_author,
    summary=_record_summary,
)


def _delivery_printer(first: str) -> Callable[[Sequence[JsonObject]], None]:
    """Prints deliveries: to whom, from which version, how long, what was left out or asked."""
    return out.row_printer(
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
    "T-1",
    "session-store --json",
    "conversation/T-1/architect/coder",
    help={
        "item": "ADDRESS: an item (T-1#d3), a task, a text of it (T-1:criteria), a node "
        "(its id, file:PATH, agent:NAME), a run, "
        "an express item, or conversation/TASK/AGENT/PEER",
        "at": "VERSION: a task at a past version",
    },
)
def show(session: Session, item: str, *, at: int | None = None) -> int:
    """Show anything that has an address: an item, a task, a node, a run, a conversation."""
    from passdown.cli.main import parser_of

    if at is not None and ("#" in item or "/" in item):
        raise UsageError("--at is for a task")
    with session.open() as workspace:
        if item.startswith(CONVERSATION_STREAM):
            session.show(_conversation(workspace, item), _print_conversation)
            return 0
        if "#" in item or item.rpartition(":")[2] in TASK_TEXTS:
            session.show(workspace.show(item), _print_found_item)
            return 0
        verb = "state" if at is not None else _verb_for(workspace, item)
    words = [*verb.split(), item, *(["--json"] if session.as_json else [])]
    words += ["--at", str(at)] if at is not None else []
    parser, given = parser_of(words[0]).parse(words[1:])
    return parser.run(given, session.named_store)


def _verb_for(workspace: Workspace, name: str) -> str:
    """The verb that shows what is neither an item nor a conversation."""
    known: dict[str, Callable[[], object]] = {
        "task show": lambda: workspace.task(name),
        "knowledge show": lambda: workspace.knowledge.graph(
            around=[name.removeprefix(NODE_PREFIX)], depth=0
        ),
        "runs": lambda: workspace.relay.run(name),
        "express show": lambda: workspace.relay.express_item(name),
    }
    for verb, look in known.items():
        try:
            look()
        except PassdownError:
            continue
        return verb
    raise NotFound(
        f"nothing has the address {excerpt(name)!r}",
        next_step="passdown task list shows tasks, passdown state TASK the items of one; "
        "passdown recall finds items by their words.",
    )


def _conversation(workspace: Workspace, name: str) -> list[JsonObject]:
    """The records of a conversation."""
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
        body, at = entry["body"], out.short_time(entry["at"])
        if entry["kind"] == "message":
            message = body["message"]
            out.heading(f"{at} {message['by'] or message['role']}:")
            out.verbatim(message["content"])
        elif entry["kind"] == "reset":
            out.heading(f"{at} a new chapter begins ({body['why']}):")
            out.verbatim(body["system"])


def _print_found_item(found: JsonObject) -> None:
    source = found.pop("source")
    out.print_item(found)
    out.line()
    out.heading("source")
    names = ("task", "version", "author", "kind")
    digests = [(name, out.short_digest(source[name])) for name in ("digest", "previous")]
    at = ("at", out.moment(source["at"]))
    out.pairs([*((name, source[name]) for name in names), at, *digests, *_origin(source)], 2)


def _origin(source: JsonObject) -> list[tuple[str, str]]:
    """The channel that wrote a record, or who imported it in which bundle."""
    imported = source.get("imported")
    if not imported:
        return [("via", source["via"])] if "via" in source else []
    through = f" via {imported['via']}" if "via" in imported else ""
    found = [("imported by", f"{imported['by']}{through}, {out.short_time(imported['at'])}")]
    if "bundle" in imported:
        found.append(("bundle", out.short_digest(imported["bundle"])))
    if "claimed_via" in imported:
        found.append(("claims via", imported["claimed_via"]))
    return found


def print_diff(found: JsonObject) -> None:
    """Print what differs: fields, then items added, changed and gone."""
    out.heading(f"{found['task']}  version {found['old']} to {found['new']}")
    fields = found["fields"].items()
    out.pairs(
        [(name.replace("_", " "), _old_and_new(was["old"], was["new"])) for name, was in fields], 2
    )
    count = 0
    for mark, part in (("+", "added"), ("~", "changed"), ("-", "removed")):
        for entry in (entry for entries in found[part].values() for entry in entries):
            count += 1
            old, new = (entry["old"], entry["new"]) if part == "changed" else (entry, entry)
            names = [name for name in new if old.get(name) != new[name] and name != "address"]
            changes = [f"; {name}: {_old_and_new(old.get(name), new[name])}" for name in names]
            out.line(f"{mark} {new['address']}  {out.title_of(new)}{''.join(changes)}", 2)
    if not count and not fields:
        out.line("nothing differs", 2)


def _old_and_new(old: object, new: object) -> str:
    return f"{out.shown(old) or '-'} -> {out.shown(new) or '-'}"


operation(
    "diff",
    print_diff,
    "T-1 3 7",
    "T-1 3 7 --json",
    help={"old": "V1: the older version", "new": "V2: the newer version"},
)


operation(
    "history",
    out.row_printer(
        "version, at (UTC)=at, agent, change, bytes=size_bytes, sha256, note",
        "the task has no entry for this path",
        sha256=lambda entry: str(entry.get("sha256") or "").removeprefix("sha256:")[:12],
    ),
    "T-1 src/login.py",
    help={"path": "PATH: relative to the project"},
)
