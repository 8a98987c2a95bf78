"""`schema` and `template`: what a handoff, a task, a state and a task file look like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def schema(parser: Parser) -> None:
    """The arguments of `schema`."""
    parser.show("passdown schema", "passdown schema state")
    parser.add_argument(
        "of", choices=("handoff", "task", "state"), nargs="?", default="handoff", help="of what"
    )
    parser.add_argument("--json", action="store_true", help="always so")
    parser.set_defaults(run=_schema)


def _schema(args: Namespace) -> int:
    from passdown.model import intake
    from passdown.surfaces.cli.printing import print_json

    print_json(getattr(intake, f"{args.of}_schema")())
    return 0


def template(parser: Parser) -> None:
    """The arguments of `template`."""
    parser.show(
        "passdown template --task T-1 --title 'Login form' > tasks/T-1.md",
        "passdown template",
    )
    parser.add_argument("--task", metavar="ID", default="TASK-ID", help="the task's id")
    parser.add_argument("--title", metavar="TEXT", default="Name", help="the task's title")
    parser.set_defaults(run=_template)


def _template(args: Namespace) -> int:
    from passdown.model.template import task_template

    print(task_template(args.task, args.title), end="")
    return 0
