"""`context`: what the past has for a task, as text for a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import TASK, with_store
from passdown.surfaces.cli.printing import line, print_json, verbatim
from passdown.surfaces.cli.session import Misuse, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

Document = dict[str, Any]

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
        choices=tuple(_SHOWN),
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
        raise Misuse("--explain and --complexity belong to --for computed")
    with opened(args) as workspace:
        _SHOWN[args.purpose](workspace, args)
    return 0


def _next(workspace: Workspace, args: Namespace) -> None:
    text, steps = workspace.injection(args.task), workspace.next_steps(args.task)
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


def _computed(workspace: Workspace, args: Namespace) -> None:
    found = workspace.computed_context(args.task, complexity=args.complexity or "normal")
    if args.json:
        explained = {"explanation": found.explained()} if args.explain else {}
        print_json({**found.as_document(), **explained})
    else:
        verbatim(found.explained() if args.explain else found.text().rstrip("\n"))


def _compact(workspace: Workspace, args: Namespace) -> None:
    text = workspace.compact_context(args.task)
    if args.json:
        print_json({"task": args.task, "text": text})
    else:
        verbatim(text)


_SHOWN = {"next": _next, "computed": _computed, "compact": _compact}
