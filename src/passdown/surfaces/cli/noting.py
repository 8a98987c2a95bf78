"""`decide`, `note`, `warn` and `mark`: writes smaller than a handoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.kinds import DECISION_STATUSES, LEVELS
from passdown.surfaces.cli.parsing import (
    ITEM,
    TAG,
    TASK,
    listed,
    whole_number,
    with_agent,
    with_store,
)
from passdown.surfaces.cli.receipts import print_receipt
from passdown.surfaces.cli.session import author, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def decide(parser: Parser) -> None:
    """The arguments of `decide`."""
    parser.show(
        "passdown decide 'JWT in an httpOnly cookie' --why 'scripts cannot read it' --task T-1",
        "passdown decide 'Sessions in Redis' --why 'logout at once' --task T-1 --supersedes T-1#d1",
        "passdown decide --tag auth,web --alternative JWT --alternative cookies 'Sessions' "
        "--why 'logout at once'",
    )
    parser.add_argument("summary", metavar="SUMMARY", help="what was decided")
    parser.add_argument("--why", metavar="TEXT", required=True, help="the reason")
    parser.add_argument("--task", metavar=TASK, help="default: it concerns all work")
    listed(parser, "--alternative", "TEXT", "what else was considered", "alternatives")
    listed(parser, "--path", "FILE", "a file that it governs", "paths")
    listed(parser, "--artifact", "TEXT", "what it is about", "artifacts")
    listed(parser, "--tag", TAG, "lowercase, hyphenated", "tags")
    listed(parser, "--supersedes", ITEM, "a decision that it replaces")
    parser.add_argument("--status", choices=DECISION_STATUSES, default="accepted")
    parser.add_argument("--expect-version", metavar="N", type=whole_number, help="worked from")
    _common(parser)
    parser.set_defaults(run=_decide)


def _common(parser: Parser) -> None:
    parser.add_argument("--key", help="makes a retry safe: the same key gives the same record")
    with_agent(parser)
    with_store(parser)


def _decide(args: Namespace) -> int:
    names = ("alternatives", "paths", "artifacts", "tags", "status", "supersedes")
    with opened(args) as workspace:
        receipt = workspace.decide(
            agent=author(args),
            summary=args.summary,
            rationale=args.why,
            task=args.task,
            key=args.key,
            expect_version=args.expect_version,
            **{name: getattr(args, name) for name in names},
        )
    return print_receipt(receipt, as_json=args.json)


def note(parser: Parser) -> None:
    """The arguments of `note` and the verbs below it."""
    pattern = parser.subverb(
        "pattern",
        "record a way of doing things to keep to",
        "passdown note pattern 'errors carry a code' --location src/errors.py --tag errors",
        run=_pattern,
    )
    pattern.add_argument("pattern", metavar="TEXT")
    pattern.add_argument("--location", required=True, help="where it is used or defined")
    listed(pattern, "--tag", TAG, "what it applies to", "applies_to")
    gotcha = parser.subverb(
        "gotcha",
        "record something to watch out for",
        "passdown note gotcha 'the clock is UTC' --mitigation 'convert late' --severity high",
        run=_gotcha,
    )
    gotcha.add_argument("issue", metavar="TEXT")
    gotcha.add_argument("--mitigation", metavar="TEXT", required=True, help="how to avoid it")
    gotcha.add_argument("--severity", choices=LEVELS, required=True)
    gotcha.add_argument("--found-in", dest="discovered_in", metavar="TEXT", default="")
    for each in (pattern, gotcha):
        each.add_argument("--task", metavar=TASK, help="default: it concerns all work")
        _common(each)


def _pattern(args: Namespace) -> int:
    fields = {"pattern": args.pattern, "location": args.location, "applies_to": args.applies_to}
    return _note(args, "pattern", fields)


def _gotcha(args: Namespace) -> int:
    names = ("issue", "mitigation", "severity", "discovered_in")
    return _note(args, "gotcha", {name: getattr(args, name) for name in names})


def _note(args: Namespace, kind: str, fields: dict[str, Any]) -> int:
    with opened(args) as workspace:
        receipt = workspace.note(kind, agent=author(args), task=args.task, key=args.key, **fields)
    return print_receipt(receipt, as_json=args.json)


def warn(parser: Parser) -> None:
    """The arguments of `warn`."""
    parser.show("passdown warn T-1 'the staging key expires on Friday'")
    parser.add_argument("task", metavar=TASK)
    parser.add_argument("text", metavar="TEXT")
    with_agent(parser)
    with_store(parser)
    parser.set_defaults(run=_warn)


def _warn(args: Namespace) -> int:
    with opened(args) as workspace:
        receipt = workspace.warn(args.task, agent=author(args), text=args.text)
    return print_receipt(receipt, as_json=args.json)


def mark(parser: Parser) -> None:
    """The arguments of `mark`."""
    parser.show(
        "passdown mark T-1#b2 resolved --reason 'the key has come'",
        "passdown mark T-1#q1 answered --reason 'yes, both'",
        "passdown mark T-1#n3 done",
    )
    parser.add_argument("item", metavar="ITEM", help="an address such as T-1#b2")
    parser.add_argument(
        "status",
        metavar="STATUS",
        help="blocker: resolved; question: answered, dropped; step, reading: done, dropped; "
        "decision: accepted, reverted; pattern, gotcha, warning: retracted",
    )
    parser.add_argument("--reason", metavar="TEXT", default="")
    with_agent(parser)
    with_store(parser)
    parser.set_defaults(run=_mark)


def _mark(args: Namespace) -> int:
    with opened(args) as workspace:
        receipt = workspace.mark(args.item, args.status, agent=author(args), reason=args.reason)
    return print_receipt(receipt, as_json=args.json)
