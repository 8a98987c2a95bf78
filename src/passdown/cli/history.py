"""`state`, `summary`, `inbox`, `log`, `show`, `diff` and `history`: a task now and before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.cli.output import (
    heading,
    line,
    pairs,
    print_freshness,
    print_json,
    short_digest,
    short_time,
    shown,
    table,
    verbatim,
)
from passdown.cli.parsing import AGENT, TASK, whole_number, with_store
from passdown.cli.session import UsageError, workspace_of

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace


_STATE_SHAPES = ("state-file", "switch-artifact")
_STATE_LISTS = (
    "blockers",
    "questions",
    "next_steps",
    "reading",
    "decisions",
    "gotchas",
    "patterns",
    "warnings",
    "artifacts",
    "gates",
    "handoffs",
)


def state(parser: Parser) -> None:
    """The arguments of `state`."""
    parser.show(
        "passdown state T-1",
        "passdown state T-1 --at 3 --json",
        "passdown state T-1 --files",
    )
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("--at", metavar="VERSION", type=whole_number, help="a past version")
    other = parser.add_mutually_exclusive_group()
    for action in (
        other.add_argument("--as", dest="shape", choices=_STATE_SHAPES, help="another JSON shape"),
        other.add_argument(
            "--budget", metavar="TOKENS", type=whole_number, help="which artifacts fit inline"
        ),
        other.add_argument(
            "--files",
            action="store_true",
            help="artifacts: same, changed or missing on disk; exit code 1 unless all are the same",
        ),
    ):
        parser.offers.append(action)
    with_store(parser)
    parser.set_defaults(run=_state)


def _state(args: Namespace) -> int:
    if args.at is not None and (args.files or args.budget is not None):
        raise UsageError(
            "--at shows a past version; --files and --budget are about the present one"
        )
    with workspace_of(args) as workspace:
        if args.files:
            return _print_file_states(workspace, args)
        if args.budget is not None:
            return _print_inline_plan(workspace, args)
        document = workspace.files.state_document(args.task, args.at)
        if args.shape:
            print_json(_shaped(workspace, document, args.shape))
        elif args.json:
            print_json(document)
        else:
            _print_state(document)
    return 0


def _shaped(workspace: Workspace, document: JsonObject, shape: str) -> JsonObject:
    """The state in one of the neighbouring shapes."""
    from passdown.core.handoff_formats import state_file, switch_artifact

    if shape == "state-file":
        return state_file(document)
    return switch_artifact(document, workspace.files.state_file(document["task_id"]))


def _print_state(state: JsonObject) -> None:
    from passdown.cli.output import print_items
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
        print_items(name.replace("_", " "), state[name])


def _print_file_states(workspace: Workspace, args: Namespace) -> int:
    """1 when an artifact isn't what was handed over."""
    found = workspace.artifacts(args.task)
    if args.json:
        print_json(found)
    else:
        names = ("now", "path", "type", "size_bytes", "version")
        rows = [[entry.get(name) for name in names] for entry in found]
        table(("now", "path", "type", "bytes", "version"), rows, "no artifacts")
    return 0 if all(entry["now"] == "same" for entry in found) else 1


def _print_inline_plan(workspace: Workspace, args: Namespace) -> int:
    plan = workspace.files.inline_plan(args.task, args.budget)
    if args.json:
        print_json(plan)
        return 0
    line(f"{plan['used_tokens']} of {plan['budget_tokens']} tokens (four bytes each)")
    rows = [("inline", path) for path in plan["inline"]]
    rows += [("reference", path) for path in plan["references"]]
    table(("as", "path"), rows, "no artifacts")
    return 0


def summary(parser: Parser) -> None:
    """The arguments of `summary`."""
    parser.show("passdown summary T-1", "passdown summary T-1 --check prompt.txt")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("--check", metavar="FILE", help="whether this summary is still current")
    parser.add_argument("--tokens", metavar="N", type=whole_number, default=500, help="at most")
    with_store(parser)
    parser.set_defaults(run=_summary)


def _summary(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        if args.check:
            return _check_summary(workspace, args)
        text = workspace.context.summary(args.task, args.tokens)
    if args.json:
        print_json({"task": args.task, "summary": text})
    else:
        verbatim(text)
    return 0


def _check_summary(workspace: Workspace, args: Namespace) -> int:
    """1 when the summary has been overtaken."""
    from passdown.cli.session import read_input

    text = read_input(args.check).decode(errors="replace")
    found = workspace.context.check(args.task, _unwrapped(text))
    return print_freshness(found, args.task, as_json=args.json)


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


def inbox(parser: Parser) -> None:
    """The arguments of `inbox`."""
    parser.show("passdown inbox coder", "passdown inbox coder --json")
    parser.add_argument("agent", metavar=AGENT)
    with_store(parser)
    parser.set_defaults(run=_inbox)


def _inbox(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = [_with_handoff(workspace, entry) for entry in workspace.inbox(args.agent)]
    if args.json:
        print_json(found)
        return 0
    rows = [
        [
            entry["task"],
            entry["position"],
            entry["from_agent"],
            entry["outcome"],
            _inbox_state(entry),
            entry["summary"],
        ]
        for entry in found
    ]
    names = ("task", "version", "from", "outcome", "state", "summary")
    table(names, rows, f"nothing waits for {args.agent}", whole=names[:4])
    return 0


def _with_handoff(workspace: Workspace, entry: JsonObject) -> JsonObject:
    """An entry of an inbox with what its handoff says."""
    number = workspace.task(entry["task"])["counts"].get("h", 0)
    handoff = workspace.show(f"{entry['task']}#h{number}") if number else {}
    return {**entry, **{k: handoff.get(k, "") for k in ("from_agent", "outcome", "summary")}}


def _inbox_state(entry: JsonObject) -> str:
    if entry["held"]:
        return "held by a gate"
    return "came back" if entry["from_agent"] == entry["agent"] else "waits"


def log(parser: Parser) -> None:
    """The arguments of `log`."""
    parser.show(
        "passdown log",
        "passdown log T-1 --limit 5",
        "passdown log T-1 --before 12 --json",
        "passdown log T-1 --briefs",
    )
    parser.add_argument("task", metavar=TASK, nargs="?")
    parser.add_argument(
        "--briefs", action="store_true", help="what was told to whom, instead of records"
    )
    parser.add_argument("--limit", metavar="N", type=whole_number, default=50, help="at most")
    parser.add_argument(
        "--before",
        metavar="N",
        type=whole_number,
        help="older than this version; without a task, than this sequence number",
    )
    with_store(parser)
    parser.set_defaults(run=_log)


def _log(args: Namespace) -> int:
    before = {} if args.before is None else {"before": args.before}
    with workspace_of(args) as workspace:
        ask = workspace.context.deliveries if args.briefs else workspace.log
        found = ask(args.task, limit=args.limit, **before)
    if args.json:
        print_json(found)
    elif args.briefs:
        _print_briefs(found, args)
    else:
        _print_log(found, args)
    return 0


def _print_log(found: list[JsonObject], args: Namespace) -> None:
    first = "version" if args.task else "seq"
    rows = [
        [
            entry[first],
            "" if args.task else f"{entry['task']} v{entry['version']}",
            short_time(entry["at"]),
            _record_author(entry),
            entry["kind"],
            entry["summary"],
        ]
        for entry in found
    ]
    names = (first, "task", "at (UTC)", "author", "kind", "what")
    table(names, rows, "nothing recorded", whole=names[:-1], short=("what",))
    _print_older(rows, args.limit)


def _record_author(entry: JsonObject) -> str:
    """Who wrote a record, and, where it came in a bundle, who brought it."""
    brought = entry.get("imported")
    return f"{entry['author']}, by {brought['by']}'s bundle" if brought else entry["author"]


def _print_older(rows: list[list[Any]], limit: int) -> None:
    if len(rows) == limit and rows:
        line(f"older: --before {rows[-1][0]}")


def _print_briefs(found: list[JsonObject], args: Namespace) -> None:
    """Print deliveries: when, to whom, from which version, how long, what was left out or asked."""
    first = "number" if args.task else "seq"
    rows = [
        [
            entry[first],
            "" if args.task else entry["task"],
            short_time(entry["at"]),
            entry["kind"].replace("_", " "),
            entry["agent"],
            entry.get("version"),
            f"{entry['tokens']}/{entry['budget']}" if "tokens" in entry else "",
            len(entry["shown"]) if "shown" in entry else "",
            sum(entry["left_out"].values()) if "left_out" in entry else "",
            entry.get("query"),
        ]
        for entry in found
    ]
    counts = ("version", "tokens", "shown", "left out")
    names = (first, "task", "at (UTC)", "kind", "to", *counts, "asked")
    table(names, rows, "nobody was told anything yet", whole=names[:-1], short=("asked",))
    _print_older(rows, args.limit)


def show(parser: Parser) -> None:
    """The arguments of `show`."""
    parser.show("passdown show T-1#d3", "passdown show T-1#b1 --json")
    parser.add_argument("item", metavar="ITEM", help="an address such as T-1#d3, or node:ID")
    with_store(parser)
    parser.set_defaults(run=_show)


def _show(args: Namespace) -> int:
    from passdown.cli.knowledge import written_node
    from passdown.cli.output import print_item
    from passdown.errors import NotFound

    with workspace_of(args) as workspace:
        if args.item.startswith("node:"):
            from passdown.cli.knowledge import print_node

            return print_node(workspace, args.item, as_json=args.json)
        try:
            found = workspace.show(args.item)
        except NotFound as error:
            if written_node(workspace, args.item) is None:
                raise
            raise NotFound(error.message, next_step=f"Did you mean node:{args.item}?") from error
    if args.json:
        print_json(found)
        return 0
    source = found.pop("source")
    print_item(found)
    line()
    heading("source")
    names = ("task", "version", "author", "at", "kind")
    digests = [(name, short_digest(source[name])) for name in ("digest", "previous")]
    pairs([*((name, source[name]) for name in names), *digests, *_origin(source)], 2)
    return 0


def _origin(source: JsonObject) -> list[tuple[str, str]]:
    """Through which door a record came, or who brought it in which bundle."""
    brought = source.get("imported")
    if not brought:
        return [("via", source["via"])] if "via" in source else []
    through = f" via {brought['via']}" if "via" in brought else ""
    found = [("brought by", f"{brought['by']}{through}, {short_time(brought['at'])}")]
    if "bundle" in brought:
        found.append(("bundle", short_digest(brought["bundle"])))
    if "claimed_via" in brought:
        found.append(("claims via", brought["claimed_via"]))
    return found


def diff(parser: Parser) -> None:
    """The arguments of `diff`."""
    parser.show("passdown diff T-1 3 7", "passdown diff T-1 3 7 --json")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("old", metavar="V1", type=whole_number)
    parser.add_argument("new", metavar="V2", type=whole_number)
    with_store(parser)
    parser.set_defaults(run=_diff)


def _diff(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.diff(args.task, args.old, args.new)
    if args.json:
        print_json(found)
    else:
        print_diff(found)
    return 0


def print_diff(found: JsonObject) -> None:
    """Print what differs: fields, then items added, changed and gone."""
    from passdown.cli.output import title_of

    heading(f"{found['task']}  version {found['old']} to {found['new']}")
    before = len(found["fields"])
    pairs(
        [
            (name.replace("_", " "), f"{shown(was['old']) or '-'} -> {shown(was['new']) or '-'}")
            for name, was in found["fields"].items()
        ],
        2,
    )
    count = 0
    for mark, part in (("+", "added"), ("~", "changed"), ("-", "removed")):
        for entries in found[part].values():
            for entry in entries:
                count += 1
                item = entry if part != "changed" else entry["new"]
                line(f"{mark} {item['address']}  {title_of(item)}{_changed_fields(entry, part)}", 2)
    if not count and not before:
        line("nothing differs", 2)


def _changed_fields(entry: JsonObject, part: str) -> str:
    """The fields of an item that changed."""
    if part != "changed":
        return ""
    old, new = entry["old"], entry["new"]
    names = [name for name in new if old.get(name) != new[name] and name != "address"]
    return "".join(f"; {n}: {shown(old.get(n)) or '-'} -> {shown(new[n])}" for n in names)


def history(parser: Parser) -> None:
    """The arguments of `history`."""
    parser.show("passdown history T-1 src/login.py")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("path", metavar="PATH", help="relative to the project")
    with_store(parser)
    parser.set_defaults(run=_history)


def _history(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.files.history(args.task, args.path)
    if args.json:
        print_json(found)
        return 0
    rows = [
        [
            entry["version"],
            short_time(entry["at"]),
            *(entry.get(name) for name in ("agent", "change", "size_bytes")),
            str(entry.get("sha256") or "").removeprefix("sha256:")[:12],
            entry.get("note"),
        ]
        for entry in found
    ]
    headers = ("version", "at (UTC)", "agent", "change", "bytes", "sha256", "note")
    empty = f"{args.task} has no entry for {args.path}"
    table(headers, rows, empty, whole=headers[:-1])
    return 0
