"""`brief`, `why` and `context`: what an agent is told about a task, and why not more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from passdown.cli.output import (
    counted,
    heading,
    line,
    pairs,
    print_freshness,
    print_json,
    short_time,
    table,
    verbatim,
)
from passdown.cli.parsing import FILE, ITEM, TAG, TASK, listed, token_budget, with_agent, with_store
from passdown.cli.session import UsageError, author, workspace_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from passdown.cli.parsing import Parser
    from passdown.core.types import JsonObject
    from passdown.errors import Problem
    from passdown.workspace import Workspace
    from passdown.workspace.briefs import Freshness


_FORMATS = ("markdown", "plain", "yaml", "json", "summary", "injection")
_COUNTERS = ("o200k_base", "cl100k_base", "chars4")
_MAX_DISPLACED = 12


def with_counter(parser: Parser) -> None:
    """The options that say how long a text may be, and by whose count."""
    parser.add_argument(
        "--budget", metavar="TOKENS", type=token_budget, help="at most; default: the settings'"
    )
    parser.add_argument("--counter", choices=_COUNTERS, help="what counts; default: the settings'")


def brief(parser: Parser) -> None:
    """The arguments of `brief`."""
    parser.show(
        "passdown brief T-1 --agent coder",
        "passdown brief T-1 --agent coder --budget 300 --counter chars4 --tag money",
        "passdown brief T-1 --agent coder --format yaml --no-record",
        "passdown brief T-1 --check prompt.txt",
    )
    parser.add_argument("task", metavar=TASK)
    with_agent(parser, help="who it is for")
    with_counter(parser)
    parser.add_argument("--format", choices=_FORMATS, default="markdown", help="of the text")
    listed(parser, "--tag", TAG, "look for this as well", "tags")
    parser.add_argument(
        "--no-record", action="store_true", help="don't write down that it was delivered"
    )
    parser.add_argument(
        "--check", metavar=FILE, help="whether this brief still holds; exit code 1 when it doesn't"
    )
    with_store(parser)
    parser.set_defaults(run=_brief)


def _brief(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        if args.check:
            return _check_brief(workspace, args)
        found = workspace.brief(
            args.task,
            agent=author(args),
            budget=args.budget,
            counter=args.counter,
            format=args.format,
            tags=args.tags,
            record=not args.no_record,
        )
    if args.json:
        print_json(found.to_dict())
        return 0
    verbatim(found.text.removesuffix("\n"))
    print_warnings(found.warnings)
    return 0


def print_warnings(warnings: Iterable[Problem]) -> None:
    """What the one who asked should know besides the text; kept apart from it."""
    from passdown.core.text import visible

    for problem in warnings:
        print(visible(f"{problem.level}: {problem.line()}"), file=sys.stderr)


def _check_brief(workspace: Workspace, args: Namespace) -> int:
    """1 when the brief has been overtaken."""
    from passdown.cli.session import read_input

    if args.agent or args.tags or args.budget is not None:
        raise UsageError("--check reads a brief; --agent, --tag and --budget are for making one")
    text = read_input(args.check).decode(errors="replace")
    found = _text_freshness(workspace, args.task, text)
    return print_freshness(found, args.task, as_json=args.json)


def _text_freshness(workspace: Workspace, task: str, text: str) -> Freshness:
    """Of a brief, or of the short summary that is one of its formats."""
    from passdown.errors import InvalidInput

    try:
        return workspace.context.check(task, text)
    except InvalidInput as error:
        try:
            return workspace.context.check(task, text)
        except InvalidInput:
            raise error from None


def why(parser: Parser) -> None:
    """The arguments of `why`."""
    parser.show("passdown why T-1#d3 --agent coder", "passdown why T-1#d3 --agent coder --json")
    parser.add_argument("item", metavar=ITEM, help="an address such as T-1#d3")
    with_agent(parser, help="who was told, or wasn't")
    with_store(parser)
    parser.set_defaults(run=_why)


def _why(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.context.why(args.item, agent=author(args))
    if args.json:
        print_json(found)
    else:
        print_why(found)
    return 0


def print_why(found: JsonObject) -> None:
    """Print whether an agent was told an item, when, and what came first otherwise."""
    heading(f"{found['item']}  {found['title']}")
    pairs(
        [
            ("kind", found["kind"].replace("_", " ")),
            ("status", found["status"]),
            ("recorded in", f"version {found['recorded_in_version']}"),
            ("agent", f"{found['agent']}, {counted(found['briefs'], 'brief')} so far"),
            ("told", found["told"]),
            ("why", found["reason"]),
            ("came first", _first_addresses(found.get("displaced_by", []))),
        ],
        2,
    )
    if found["times"]:
        line()
        names = ("at (UTC)", "length", "as", "version", "budget", "asked")
        rows = [
            [
                short_time(time["at"]),
                time["length"],
                time["kind"],
                time["version"],
                f"{time['budget']} {time['counter']}" if time["budget"] else "",
                time.get("query"),
            ]
            for time in found["times"]
        ]
        table(names, rows, short=("asked",))


def _first_addresses(addresses: list[str]) -> str:
    more = len(addresses) - _MAX_DISPLACED
    return ", ".join(addresses[:_MAX_DISPLACED]) + (f" and {more} more" if more > 0 else "")


_COMPLEXITIES = ("easy", "normal", "complex")


def context(parser: Parser) -> None:
    """The arguments of `context`."""
    parser.show(
        "passdown context T-2",
        "passdown context T-2 --for computed --complexity easy --explain",
        "passdown context T-2 --for compact",
    )
    parser.add_argument("task", metavar=TASK)
    parser.add_argument(
        "--for",
        dest="purpose",
        choices=tuple(_CONTEXT_PRINTERS),
        default="next",
        help="next: what its dependencies pass on, and its steps (default); "
        "computed: what bears on it; compact: itself in 2,000 characters",
    )
    parser.add_argument(
        "--complexity", choices=_COMPLEXITIES, help="how much is computed; default: normal"
    )
    parser.add_argument("--explain", action="store_true", help="why each computed entry is in")
    with_store(parser)
    parser.set_defaults(run=_context)


def _context(args: Namespace) -> int:
    if args.purpose != "computed" and (args.explain or args.complexity):
        raise UsageError("--explain and --complexity belong to --for computed")
    with workspace_of(args) as workspace:
        _CONTEXT_PRINTERS[args.purpose](workspace, args)
    return 0


def _print_next(workspace: Workspace, args: Namespace) -> None:
    text, steps = workspace.context.injection(args.task), workspace.context.next_steps(args.task)
    if args.json:
        print_json({"task": args.task, "text": text, "next_steps": steps})
        return
    if text:
        verbatim(text.rstrip("\n"))
    else:
        line(f"{args.task} depends on no task")
    if steps:
        line()
        line(f"next steps of {args.task}")
        for step in steps:
            line(f"{step['address']}  {step['priority']}  {step['step']}", 2)


def _print_computed(workspace: Workspace, args: Namespace) -> None:
    found = workspace.context.computed(args.task, complexity=args.complexity or "normal")
    if args.json:
        explained = {"explanation": found.explained()} if args.explain else {}
        print_json({**found.to_dict(), **explained})
    else:
        verbatim(found.explained() if args.explain else found.text().rstrip("\n"))


def _print_compact(workspace: Workspace, args: Namespace) -> None:
    text = workspace.context.compact(args.task)
    if args.json:
        print_json({"task": args.task, "text": text})
    else:
        verbatim(text)


_CONTEXT_PRINTERS = {"next": _print_next, "computed": _print_computed, "compact": _print_compact}
