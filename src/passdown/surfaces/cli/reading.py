"""`state`, `summary` and `inbox`: how things stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import AGENT, TASK, whole_number, with_store
from passdown.surfaces.cli.printing import (
    heading,
    line,
    pairs,
    print_freshness,
    print_json,
    short_digest,
    table,
    verbatim,
)
from passdown.surfaces.cli.session import Misuse, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

Document = dict[str, Any]

_SHAPES = ("state-file", "switch-artifact")
_LISTS = (
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
        other.add_argument("--as", dest="shape", choices=_SHAPES, help="another JSON shape"),
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
        raise Misuse("--at shows a past version; --files and --budget are about the present one")
    with opened(args) as workspace:
        if args.files:
            return _files(workspace, args)
        if args.budget is not None:
            return _plan(workspace, args)
        document = workspace.state_document(args.task, args.at)
        if args.shape:
            print_json(_shaped(workspace, document, args.shape))
        elif args.json:
            print_json(document)
        else:
            _print_state(document)
    return 0


def _shaped(workspace: Workspace, document: Document, shape: str) -> Document:
    """The state in one of the neighbouring shapes."""
    from passdown.model.intake.shapes import state_file, switch_artifact

    if shape == "state-file":
        return state_file(document)
    return switch_artifact(document, workspace.handle_file(document["task_id"]))


def _print_state(state: Document) -> None:
    from passdown.model.kinds import phase_before
    from passdown.surfaces.cli.items import print_items

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
    for name in _LISTS:
        print_items(name.replace("_", " "), state[name])


def _files(workspace: Workspace, args: Namespace) -> int:
    """1 when an artifact isn't what was handed over."""
    found = workspace.artifacts(args.task)
    if args.json:
        print_json(found)
    else:
        names = ("now", "path", "type", "size_bytes", "version")
        rows = [[entry.get(name) for name in names] for entry in found]
        table(("now", "path", "type", "bytes", "version"), rows, "no artifacts")
    return 0 if all(entry["now"] == "same" for entry in found) else 1


def _plan(workspace: Workspace, args: Namespace) -> int:
    plan = workspace.inline_plan(args.task, args.budget)
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
    with opened(args) as workspace:
        if args.check:
            return _check(workspace, args)
        text = workspace.summary(args.task, args.tokens)
    if args.json:
        print_json({"task": args.task, "summary": text})
    else:
        verbatim(text)
    return 0


def _check(workspace: Workspace, args: Namespace) -> int:
    """1 when the summary has been overtaken."""
    from passdown.surfaces.cli.session import read_input

    text = read_input(args.check).decode(errors="replace")
    found = workspace.check_summary(args.task, _unwrapped(text))
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
    with opened(args) as workspace:
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
            _stands(entry),
            entry["summary"],
        ]
        for entry in found
    ]
    names = ("task", "version", "from", "outcome", "state", "summary")
    table(names, rows, f"nothing waits for {args.agent}", whole=names[:4])
    return 0


def _with_handoff(workspace: Workspace, entry: Document) -> Document:
    """An entry of an inbox with what its handoff says."""
    number = workspace.task(entry["task"])["counts"].get("h", 0)
    handoff = workspace.show(f"{entry['task']}#h{number}") if number else {}
    return {**entry, **{k: handoff.get(k, "") for k in ("from_agent", "outcome", "summary")}}


def _stands(entry: Document) -> str:
    if entry["held"]:
        return "held by a gate"
    return "came back" if entry["from_agent"] == entry["agent"] else "waits"
