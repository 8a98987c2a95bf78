"""`draft`: what was seen of the work on a task, as a handoff that is still to be completed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.surfaces.cli.parsing import TASK, with_agent, with_store
from passdown.surfaces.cli.printing import line, print_json, verbatim
from passdown.surfaces.cli.session import opened, store_of

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

_GIT_S = 10.0


def draft(parser: Parser) -> None:
    """The arguments of `draft`."""
    parser.show("passdown draft", "passdown draft T-1 --agent coder", "passdown draft T-1 --print")
    parser.add_argument("task", metavar=TASK, nargs="?", help="default: the only open task")
    with_agent(parser, help="who hands off")
    parser.add_argument("--print", action="store_true", help="show it; write nothing")
    with_store(parser)
    parser.set_defaults(run=_draft)


def _draft(args: Namespace) -> int:
    from passdown.surfaces.hooks.capturing import changes
    from passdown.surfaces.hooks.drafting import draft_path, draft_text, write_draft
    from passdown.surfaces.hooks.sessions import Sessions
    from passdown.workspace.locating import place_of

    place = place_of(store_of(args), create=False)
    with opened(args) as workspace:
        name = args.task or _only_one(workspace)
        holder = str(workspace.task(name)["holder"])
    session = Sessions(place.folder).newest_of(name)
    agent = args.agent or os.environ.get("PASSDOWN_AGENT") or session.agent or holder
    text = draft_text(name, agent, session, changes(session, place.root, _GIT_S))
    is_kept = not args.print and write_draft(place.folder, name, text)
    path = draft_path(place.folder, name, os.getcwd())
    if args.json:
        print_json({"task": name, "file": path, "written": is_kept, "text": text})
    elif args.print:
        verbatim(text.rstrip("\n"))
    elif is_kept:
        line(f"kept {path}; complete it, then: passdown handoff {path}")
    else:
        line(f"{path} was worked on already and stays as it is")
    return 0


def _only_one(workspace: Workspace) -> str:
    """The task that is meant where none is named."""
    from passdown.surfaces.cli.session import Misuse
    from passdown.surfaces.hooks.choosing import choose
    from passdown.surfaces.hooks.sessions import Session
    from passdown.workspace.locating import branch_and_commit

    choice = choose(workspace, Session(), branch_and_commit(os.getcwd())[0])
    if not choice.task:
        raise Misuse(f"{len(choice.tasks)} tasks are open; name the one that is meant")
    return choice.task
