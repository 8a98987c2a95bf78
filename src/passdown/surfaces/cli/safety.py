"""`verify`, `heads`, `backup`, `reindex` and `doctor`: keeping the data safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import FILE, with_store
from passdown.surfaces.cli.printing import (
    counted,
    labelled,
    line,
    pairs,
    print_findings,
    print_json,
    print_problems,
)
from passdown.surfaces.cli.progress import progress_bar
from passdown.surfaces.cli.session import is_server, opened, store_of
from passdown.surfaces.cli.terminal import styled

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from passdown.errors import Problem
    from passdown.surfaces.cli.parsing import Parser


def verify(parser: Parser) -> None:
    """The arguments of `verify`."""
    parser.show(
        "passdown verify",
        "passdown verify --against ../safe/heads.json",
        "passdown verify --chain-only --json",
    )
    parser.add_argument("--against", metavar=FILE, help="heads that were exported earlier")
    parser.add_argument("--chain-only", action="store_true", help="only the chains of digests")
    with_store(parser)
    parser.set_defaults(run=_verify)


def _verify(args: Namespace) -> int:
    against = _saved_heads(args.against) if args.against else None
    with opened(args) as workspace:
        found = workspace.verify(
            against, chain_only=args.chain_only, progress=progress_bar("verifying")
        )
    return _print_verified(found.findings, found.streams, found.records, as_json=args.json)


def _saved_heads(path: str) -> str:
    """A saved list of heads; it may be larger than what agents hand in."""
    from passdown.errors import InvalidInput, Problem

    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        problem = Problem(path, "unreadable", str(error), "heads from passdown heads export")
        raise InvalidInput("nothing was verified", [problem]) from error


def _print_verified(
    findings: Sequence[Problem], streams: int, records: int, *, as_json: bool
) -> int:
    ok = not findings
    if as_json:
        shown = [finding.as_document() for finding in findings]
        print_json({"ok": ok, "streams": streams, "records": records, "findings": shown})
        return 0 if ok else 1
    label, style = ("ok", "green") if ok else (counted(len(findings), "finding"), "red")
    labelled(label, style, f"{counted(records, 'record')} in {counted(streams, 'stream')}")
    print_problems(findings)
    return 0 if ok else 1


def heads(parser: Parser) -> None:
    """The arguments of `heads` and the verb below it."""
    export = parser.subverb(
        "export",
        "write the heads of all streams, to be kept somewhere else",
        "passdown heads export ../safe/heads.json",
        "passdown heads export",
        run=_heads,
    )
    export.add_argument(
        "file", metavar=FILE, nargs="?", help="a new file; default: standard output"
    )
    with_store(export)


def _heads(args: Namespace) -> int:
    if args.file:
        _refuse_existing(args.file)
    with opened(args) as workspace:
        document = workspace.heads()
    if not args.file:
        print_json(document)
        return 0
    import json

    with open(args.file, "x", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    if args.json:
        print_json({"file": args.file, "heads": len(document["heads"])})
    else:
        number = len(document["heads"])
        are = "is" if number == 1 else "are"
        line(f"{counted(number, 'head')} {are} in {args.file}; keep it on another machine")
    return 0


def _refuse_existing(path: str) -> None:
    """Older heads are what shows a rollback, so nothing is put in their place."""
    import os.path

    from passdown.errors import InvalidInput, Problem

    if os.path.lexists(path):
        problem = Problem("file", "exists", f"{path} exists already", "a new file name")
        raise InvalidInput("the target is taken; nothing was written", [problem])


def backup(parser: Parser) -> None:
    """The arguments of `backup`."""
    parser.show("passdown backup ../safe/ledger-2026-01-09.db")
    parser.add_argument("file", metavar=FILE, help="a new file")
    with_store(parser)
    parser.set_defaults(run=_backup)


def _backup(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.backup(args.file, progress_bar("copying"))
    if not args.json:
        line(f"copied to {args.file}, and verified:")
    return _print_verified(found.findings, found.streams, found.records, as_json=args.json)


def reindex(parser: Parser) -> None:
    """The arguments of `reindex`."""
    parser.show("passdown reindex")
    with_store(parser)
    parser.set_defaults(run=_reindex)


def _reindex(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.reindex(progress_bar("reindexing"))
    if args.json:
        print_json({"records": found.records, "differing": list(found.differing)})
        return 0
    line(f"made every derived row again from {counted(found.records, 'record')}")
    differing = ", ".join(found.differing)
    line(f"these tables had been different: {differing}" if differing else "nothing was different")
    return 0


def doctor(parser: Parser) -> None:
    """The arguments of `doctor`."""
    parser.show("passdown doctor", "passdown doctor --json", "passdown doctor --no-start")
    parser.add_argument(
        "--no-start", action="store_true", help="don't start the MCP server to time it"
    )
    with_store(parser)
    parser.set_defaults(run=_doctor)


def _doctor(args: Namespace) -> int:
    with opened(args) as workspace:
        found = workspace.doctor()
    if not is_server(store_of(args)):
        _examine_hosts(found, args)
    if args.json:
        print_json(found)
    else:
        _print_doctor(found)
    return 0 if found["ok"] else 1


def _examine_hosts(found: dict[str, Any], args: Namespace) -> None:
    """Add what is known of the coding agents on this machine."""
    from passdown.surfaces.hosts.examining import examine
    from passdown.workspace.locating import place_of

    place = place_of(store_of(args), create=False)
    facts, findings = examine(place.root, place.folder, start=not args.no_start)
    found["facts"].update(facts)
    found["findings"] += [finding.as_document() for finding in findings]


def _print_doctor(found: dict[str, Any]) -> None:
    hooks = found["facts"].pop("hooks", {})
    pairs([(name.replace("_", " "), value) for name, value in found["facts"].items()])
    if hooks:
        line("hooks, when they last ran and what they told:")
        pairs([(hook, _shown_hook(last)) for hook, last in hooks.items()], 2)
    line()
    print_findings(found["findings"])
    number = sum(finding["level"] == "warning" for finding in found["findings"])
    told = f", {counted(number, 'warning')}" if number else ""
    print((styled("ok", "green") if found["ok"] else styled("not ok", "red")) + told)


def _shown_hook(last: dict[str, Any]) -> str:
    told = f"{last['about']}, {last['told']} characters" if last["told"] else "told nothing"
    return f"{last['at']}: {last['fault'] or told} ({last['ms']} ms)"
