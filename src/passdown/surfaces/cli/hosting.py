"""The part of `init` that serves coding agents: write, show, compare and restore hosts' files."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import several
from passdown.surfaces.cli.printing import counted, line, print_json, verbatim
from passdown.surfaces.cli.session import Misuse
from passdown.surfaces.hosts.table import HOSTS

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.surfaces.hosts.planning import Change, Plan

AUTO = "auto"


def add_host_arguments(parser: Parser) -> None:
    """The options of `init` that concern hosts."""
    parser.add_argument(
        "--host",
        metavar="HOST",
        action="extend",
        type=several,
        default=[],
        help=f"also set up {', '.join(HOSTS)}, or {AUTO}: those that are found here",
    )
    how = parser.add_mutually_exclusive_group()
    for option, help in (
        ("--check", "compare the hosts' files with what they should be; 1 if one differs"),
        ("--remove", "restore the hosts' files as they were; records stay"),
    ):
        parser.offers.append(how.add_argument(option, action="store_true", help=help))
    parser.add_argument(
        "--print", action="store_true", help="show what would change; write nothing"
    )


def concerns_hosts(args: Namespace) -> bool:
    """Whether a call of `init` is about hosts."""
    return bool(args.host or args.check or args.remove or args.print)


def serve_hosts(args: Namespace) -> int:
    """Carry out `init` for hosts; gives the exit code."""
    from passdown.surfaces.hosts.applying import apply, read_memory
    from passdown.surfaces.hosts.planning import plan

    root = os.path.abspath(args.folder)
    if not os.path.isdir(root):
        raise Misuse(f"{args.folder} is no folder")
    memory = read_memory(root)
    named = _named(args, root)
    chosen = {"add_hosts": (), "drop": named} if args.remove else {"add_hosts": named, "drop": ()}
    found = plan(root, memory.files, **chosen)
    if not (args.print or args.check):
        if not args.remove:
            from passdown.workspace import init as make

            make(root, args.store, repoint=args.repoint).close()
        if found.changes or memory.hosts != found.hosts or args.remove:
            apply(root, found, memory)
    _report(args, found, named)
    return int(args.check and bool(found.changes))


def _named(args: Namespace, root: str) -> list[str]:
    """The hosts that are meant, in the table's order."""
    from passdown.surfaces.hosts.choosing import detected, installed

    unknown = [name for name in args.host if name not in HOSTS and name != AUTO]
    if unknown:
        raise Misuse(f"there is no host {unknown[0]!r:.40} ({', '.join(HOSTS)}, {AUTO})")
    if not args.host and args.remove:
        return list(HOSTS)
    if not args.host:
        return installed(root) or detected(root)
    names = {*args.host, *(detected(root) if AUTO in args.host else ())}
    found = [name for name in HOSTS if name in names]
    if not found:
        raise Misuse(f"no host was found here; name one of {', '.join(HOSTS)}")
    return found


def _report(args: Namespace, found: Plan, named: list[str]) -> None:
    if args.json:
        print_json(_document(args, found, named))
        return
    if args.print:
        for change in found.changes:
            verbatim(diff_of(change).rstrip("\n"))
    else:
        for change in found.changes:
            line(f"{_word(change, would=args.check)} {change.path}", 2)
    if not found.changes:
        line("nothing of ours is here" if args.remove else "everything is as it should be")
    elif args.check:
        line(f"{counted(len(found.changes), 'file')} to bring up to date: passdown init --host ...")
    elif not args.print and not args.remove:
        for name in named:
            line(f"{HOSTS[name].title} {HOSTS[name].note}")


def _document(args: Namespace, found: Plan, named: list[str]) -> dict[str, Any]:
    return {
        "hosts": list(found.hosts),
        "named": named,
        "written": not (args.print or args.check),
        "same": not found.changes,
        "files": [
            {"path": change.path, "change": _kind(change), "diff": diff_of(change)}
            for change in found.changes
        ],
    }


def _kind(change: Change) -> str:
    if change.before is None:
        return "make"
    return "remove" if change.after is None else "edit"


def _word(change: Change, *, would: bool) -> str:
    words = {"make": ("missing", "made"), "edit": ("differs", "edited")}
    gone = ("to remove", "removed")
    return words.get(_kind(change), gone)[0 if would else 1]


def diff_of(change: Change) -> str:
    """A change as a unified diff; a line without an end is marked as diff does."""
    from difflib import unified_diff

    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
        for data in (change.before, change.after)
    )
    names = (
        "/dev/null" if change.before is None else f"a/{change.path}",
        "/dev/null" if change.after is None else f"b/{change.path}",
    )
    lines = [
        each if each.endswith("\n") else f"{each}\n\\ No newline at end of file\n"
        for each in unified_diff(old, new, *names)
    ]
    return "".join(lines).replace("\r\n", "\n")
