"""`verify`, `heads`, `backup`, `copy`, `export`, `import`, `reindex`, `doctor`: data safety."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.cli.output import (
    counted,
    labelled,
    line,
    pairs,
    print_findings,
    print_json,
    print_problems,
    progress_bar,
    styled,
    table,
)
from passdown.cli.parsing import FILE, TASK, whole_number, with_agent, with_store
from passdown.cli.session import UsageError, author, is_server_url, store_of, workspace_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from passdown.cli.parsing import Parser
    from passdown.errors import Problem
    from passdown.imports.job import ImportResult


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
    with workspace_of(args) as workspace:
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
        shown = [finding.to_dict() for finding in findings]
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
        run=_heads_export,
    )
    export.add_argument(
        "file", metavar=FILE, nargs="?", help="a new file; default: standard output"
    )
    with_store(export)


def _heads_export(args: Namespace) -> int:
    if args.file:
        _refuse_existing(args.file)
    with workspace_of(args) as workspace:
        document = workspace.maintenance.heads()
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
    with workspace_of(args) as workspace:
        found = workspace.maintenance.backup(args.file, progress_bar("copying"))
    if not args.json:
        line(f"copied to {args.file}, and verified:")
    return _print_verified(found.findings, found.streams, found.records, as_json=args.json)


def reindex(parser: Parser) -> None:
    """The arguments of `reindex`."""
    parser.show("passdown reindex")
    with_store(parser)
    parser.set_defaults(run=_reindex)


def _reindex(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        found = workspace.maintenance.reindex(progress_bar("reindexing"))
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
    with workspace_of(args) as workspace:
        found = workspace.maintenance.doctor()
    if not is_server_url(store_of(args)):
        _examine_hosts(found, args)
    if args.json:
        print_json(found)
    else:
        _print_doctor(found)
    return 0 if found["ok"] else 1


def _examine_hosts(found: dict[str, Any], args: Namespace) -> None:
    """Add what is known of the coding agents on this machine."""
    from passdown.hosts.doctor import examine_hosts
    from passdown.workspace.location import locate

    place = locate(store_of(args), create=False)
    facts, findings = examine_hosts(place.root, place.folder, start=not args.no_start)
    found["facts"].update(facts)
    found["findings"] += [finding.to_dict() for finding in findings]


def _print_doctor(found: dict[str, Any]) -> None:
    hooks = found["facts"].pop("hooks", {})
    pairs([(name.replace("_", " "), value) for name, value in found["facts"].items()])
    if hooks:
        line("hooks, when they last ran and what they told:")
        pairs([(hook, _hook_text(last)) for hook, last in hooks.items()], 2)
    line()
    print_findings(found["findings"])
    number = sum(finding["level"] == "warning" for finding in found["findings"])
    told = f", {counted(number, 'warning')}" if number else ""
    print((styled("ok", "green") if found["ok"] else styled("not ok", "red")) + told)


def _hook_text(last: dict[str, Any]) -> str:
    told = f"{last['about']}, {last['told']} characters" if last["told"] else "told nothing"
    return f"{last['at']}: {last['fault'] or told} ({last['ms']} ms)"


def copy(parser: Parser) -> None:
    """The arguments of `copy`."""
    parser.show(
        "passdown copy . 'postgresql://db.example/work?workspace=shop'",
        "passdown copy 'postgresql://db.example/work?workspace=shop' ../here.db",
    )
    parser.add_argument("source", metavar="FROM", help="a store's address, file or folder")
    parser.add_argument("target", metavar="TO", help="another; made where there is none")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_copy)


def _copy(args: Namespace) -> int:
    from passdown.workspace.maintenance import copy_workspace

    done = copy_workspace(args.source, args.target, progress_bar)
    found = done.verified.findings
    if args.json:
        shown = {**done._asdict(), "ok": not found}
        shown["verified"] = {
            "streams": done.verified.streams,
            "records": done.verified.records,
            "findings": [finding.to_dict() for finding in found],
        }
        print_json(shown)
        return 0 if not found else 1
    earlier = f", {done.before} had come before" if done.before else ""
    line(f"copied {counted(done.records, 'record')} to {done.target}{earlier}")
    label, style = ("ok", "green") if not found else (counted(len(found), "finding"), "red")
    streams = counted(done.verified.streams, "stream")
    labelled(label, style, f"{counted(done.verified.records, 'record')} in {streams}, verified")
    print_problems(found)
    return 0 if not found else 1


_IMPORT_FORMATS = ("bundle", "adr", "beads", "memory", "notes")
_IMPORT_RESULTS = ("added", "changed", "unchanged", "skipped", "refused")
_LABELS = (
    ("refused", "red", ("refused",)),
    ("skipped", "dim", ("skipped",)),
    ("note", "yellow", ("added", "changed")),
)
_MAX_LISTED = 20


def export(parser: Parser) -> None:
    """The arguments of `export`."""
    parser.show(
        "passdown export --task T-1",
        "passdown export t1.passdown --task T-1 --diff",
        "passdown export all.passdown",
    )
    parser.add_argument(
        "file", metavar=FILE, nargs="?", help="a new file; default: the task's id and .passdown"
    )
    parser.add_argument("--task", metavar=TASK, help="default: everything")
    parser.add_argument(
        "--diff", action="store_true", help="take uncommitted changes along, new files too"
    )
    with_store(parser)
    parser.set_defaults(run=_export)


def _export(args: Namespace) -> int:
    target = args.file or f"{args.task or 'all'}.passdown"
    with workspace_of(args) as workspace:
        # Asked before there is a new file in the repository.
        stood = workspace.files.checkout()
        streams = workspace.maintenance.export(target, args.task, diff=args.diff)
    if args.json:
        git = stood.document() if stood else None
        print_json({"file": target, "streams": streams, "git": git, "diff": args.diff})
        return 0
    are = "is" if streams == 1 else "are"
    line(f"{counted(streams, 'stream')} {are} in {target}")
    if stood is not None:
        from passdown.core.checkout import describe_checkout

        line(f"git: {describe_checkout(stood)}")
        if stood.uncommitted and not args.diff:
            line("the uncommitted changes stay here; --diff takes them along")
    return 0


def import_(parser: Parser) -> None:
    """The arguments of `import`."""
    parser.show(
        "passdown import t1.passdown",
        "passdown import t1.passdown --fork from-kim",
        "passdown import t1.passdown --patch changes.patch",
        "passdown import docs/adr --dry-run",
        "passdown import .beads/issues.jsonl --from beads --agent kim",
        "passdown import memory.jsonl",
        "passdown import HANDOFF.md --task T-1",
    )
    parser.add_argument("source", metavar=FILE, help="a file or folder: see --from")
    parser.add_argument(
        "--from",
        dest="form",
        choices=("auto", *_IMPORT_FORMATS),
        default="auto",
        help="a bundle of passdown export, ADRs, issues of beads (.beads/issues.jsonl), the memory "
        "file of MCP's memory server, or notes such as HANDOFF.md; default: by its content",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be written")
    parser.add_argument("--task", metavar=TASK, help="where ADRs, memories and notes go")
    parser.add_argument(
        "--fork",
        metavar="SUFFIX",
        default="",
        help="where histories differ, keep both: the incoming task gets this suffix",
    )
    parser.add_argument(
        "--patch", metavar=FILE, default="", help="a new file for a bundle's uncommitted changes"
    )
    parser.add_argument(
        "--max-unpacked",
        metavar="BYTES",
        type=whole_number,
        help="how many bytes a bundle may unpack to; usually 100 times its own size, 1 GiB at most",
    )
    with_agent(parser)
    with_store(parser)
    parser.set_defaults(run=_import)


def _import(args: Namespace) -> int:
    if args.form in ("auto", "bundle") and not args.dry_run and _may_be_bundle(args):
        return _import_bundle(args)
    given = {
        "--fork": args.fork,
        "--patch": args.patch,
        "--max-unpacked": args.max_unpacked is not None,
    }
    if option := next((name for name, value in given.items() if value), ""):
        raise UsageError(f"{option} is for bundles, and not for a dry run", "passdown import")
    with workspace_of(args) as workspace:
        found = workspace.imports.run(
            args.source,
            format=args.form,
            agent=author(args),
            task=args.task or "",
            dry_run=args.dry_run,
            progress=progress_bar("importing"),
        )
    if args.json:
        print_json(found.to_dict())
    else:
        _print_import(found)
    return 1 if found.total("refused") else 0


def _may_be_bundle(args: Namespace) -> bool:
    """Whether to read a source as a bundle: it is named one, begins like one, or isn't there."""
    from passdown.workspace.files import NotRegular, regular_file

    if args.form == "bundle":
        return True
    try:
        with regular_file(args.source) as file:
            return file.read(2) == b"PK"
    except NotRegular:
        return False
    except (OSError, ValueError):
        return True


def _import_bundle(args: Namespace) -> int:
    from passdown.errors import InvalidInput
    from passdown.workspace.files import irregular_file_problems
    from passdown.workspace.maintenance import import_document

    if problems := irregular_file_problems(args.source):
        raise InvalidInput("nothing was imported", problems)
    with workspace_of(args) as workspace:
        found = workspace.maintenance.import_bundle(
            args.source,
            fork=args.fork,
            patch=args.patch,
            agent=author(args),
            max_unpacked=args.max_unpacked,
        )
    if args.json:
        print_json(import_document(found))
        return 0
    rows = [(stream, f"{counted(count, 'record')} added") for stream, count in found.added.items()]
    rows += [(stream, f"kept beside as {name}") for stream, name in found.forked.items()]
    rows += [(stream, "was there already") for stream in found.unchanged]
    table(("stream", "result"), rows, "the bundle is empty")
    if args.patch:
        line(f"the uncommitted changes are in {args.patch}; git apply takes them in")
    for warning in found.warnings:
        labelled("warning", "yellow", warning.line())
    return 0


def _print_import(found: ImportResult) -> None:
    """The numbers by kind, then what was not taken and why, and what to know of the rest."""
    if found.is_dry_run:
        line("dry run: nothing was written")
    rows = [
        (kind, *(numbers[r] for r in _IMPORT_RESULTS)) for kind, numbers in found.counts.items()
    ]
    table((found.form, *_IMPORT_RESULTS), rows, "nothing was there")
    told = [entry for entry in found.entries if entry.reason]
    for word, style, results in _LABELS:
        entries = [entry for entry in told if entry.result in results]
        for entry in entries[:_MAX_LISTED]:
            labelled(word, style, f"{entry.source}: {entry.reason}")
        if len(entries) > _MAX_LISTED:
            line(f"and {len(entries) - _MAX_LISTED} more: {word}; --json lists all")
