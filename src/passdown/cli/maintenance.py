"""Data safety: `verify`, `heads`, `backup`, `copy`, `export`, `import`, `reindex`, `doctor`,
`recover`.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any, Literal

from passdown.cli import output as out
from passdown.cli.parsing import Author, command, operation
from passdown.cli.session import UsageError, plain
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from passdown.cli.session import Session
    from passdown.imports.importer import ImportResult
    from passdown.workspace import Workspace
    from passdown.workspace.maintenance import Rebuild, Verification

_IMPORT_RESULTS = ("added", "changed", "unchanged", "skipped", "refused")
_LABELS = (
    ("refused", "red", ("refused",)),
    ("skipped", "dim", ("skipped",)),
    ("note", "yellow", ("added", "changed")),
)
_MAX_LISTED = 20


def _saved_heads(path: str) -> str:
    """A saved list of heads; it may be larger than other input."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        problem = Problem(path, "unreadable", why, "heads from passdown heads export")
        raise InvalidInput("nothing was verified", [problem]) from error


def _print_verified(found: Verification) -> None:
    number = len(found.findings)
    label, style = (out.counted(number, "finding"), "red") if number else ("ok", "green")
    records, streams = out.counted(found.records, "record"), out.counted(found.streams, "stream")
    out.labelled(label, style, f"{records} in {streams}")
    out.print_problems(found.findings, 2)


operation(
    "verify",
    _print_verified,
    "",
    "--against ../safe/heads.json",
    "--chain-only --json",
    progress="verifying",
    fails=lambda found: not found.ok,
    as_options=("against",),
    read={"against": _saved_heads},
    help={"against": "FILE: heads that were exported earlier"},
)
operation(
    "backup",
    _print_verified,
    "../safe/ledger-2026-01-09.db",
    progress="copying",
    hint=lambda _w, _r, given: out.line(f"copied to {given['target']}, and verified"),
    fails=lambda found: not found.ok,
    help={"target": "FILE: a new file"},
)


def _print_rebuilt(found: Rebuild) -> None:
    out.line(f"rebuilt every derived row from {out.counted(found.records, 'record')}")
    differing = ", ".join(found.differing)
    out.line(f"these tables were different: {differing}" if differing else "nothing was different")
    out.print_problems(found.warnings)


operation("reindex", _print_rebuilt, "", progress="reindexing")


def _print_recovered(found: dict[str, list[str]]) -> None:
    out.line("recorded; what the ledger lacks is kept in:")
    for names in found.values():
        for name in names:
            out.line(name, 2)


operation(
    "recover",
    _print_recovered,
    "T-1 --by ana --reason 'the disk failed; no newer copy'",
    help={"task": "only this task; default: all of which state files show more"},
)


@command(
    "heads export",
    "../safe/heads.json",
    "",
    help={"file": "a new file; default: standard output"},
)
def heads_export(session: Session, file: str | None = None) -> None:
    """Export the heads of all streams, to be kept somewhere else."""
    # Older heads are what shows a rollback, so nothing is put in their place.
    if file and os.path.lexists(file):
        problem = Problem("file", "exists", f"{file} exists already", "a new file name")
        raise InvalidInput("the target is taken; nothing was written", [problem])
    with session.open() as workspace:
        document = workspace.maintenance.heads().to_dict()
    if not file:
        session.show(document, out.print_document)
        return
    import json

    with open(file, "x", encoding="utf-8") as target:
        json.dump(document, target, indent=2)
        target.write("\n")
    number = len(document["heads"])
    said = f"{out.counted(number, 'head')} written to {file}; keep it on another machine"
    session.show({"file": file, "heads": number}, lambda _: out.line(said))


@command(
    "doctor", "", "--json", "--no-start", help={"start": "don't start the MCP server to time it"}
)
def doctor(session: Session, *, start: bool = True) -> int:
    """Check this workspace for problems."""
    with session.open() as workspace, out.busy("checking"):
        found = workspace.maintenance.doctor().to_dict()
    if not session.is_remote:
        # The coding agents on this machine.
        from passdown.hosts.doctor import examine_hosts
        from passdown.workspace.location import locate

        location = locate(session.store, create=False)
        facts, findings = examine_hosts(location.root, location.folder, start=start)
        found["facts"].update(facts)
        found["findings"] += plain(findings)
    session.show(found, _print_doctor)
    return 0 if found["ok"] else 1


def _print_doctor(found: dict[str, Any]) -> None:
    hooks = found["facts"].pop("hooks", {})
    out.pairs([(name.replace("_", " "), value) for name, value in found["facts"].items()])
    if hooks:
        out.line("hooks, when they last ran and what they sent:")
    rows: list[tuple[str, str]] = []
    for hook, last in hooks.items():
        told = f"{last['about']}, {last['told']} characters" if last["told"] else "sent nothing"
        when = out.moment(last["at"])
        rows.append((hook, f"{when}: {last['fault'] or told} ({last['ms']} ms)"))
    out.pairs(rows, 2)
    out.line()
    out.print_findings(found["findings"])
    number = sum(finding["level"] == "warning" for finding in found["findings"])
    told = f", {out.counted(number, 'warning')}" if number else ""
    print((out.styled("ok", "green") if found["ok"] else out.styled("not ok", "red")) + told)


@command(
    "copy",
    ". 'postgresql://db.example/work?workspace=shop'",
    "'postgresql://db.example/work?workspace=shop' ../here.db",
    has_store=False,
    help={
        "source": "FROM: a store's address, file or folder",
        "target": "TO: another; created where there is none",
    },
)
def copy(session: Session, source: str, target: str) -> int:
    """Copy one store into another, verified."""
    from passdown.workspace.maintenance import copy_workspace

    done = copy_workspace(source, target, out.progress_bar)
    verified = done.verified.to_dict()

    def print_text(_: object) -> None:
        earlier = f", {done.before} had been copied before" if done.before else ""
        out.line(f"copied {out.counted(done.records, 'record')} to {done.target}{earlier}")
        _print_verified(done.verified)

    session.show({**done._asdict(), "ok": verified.pop("ok"), "verified": verified}, print_text)
    return int(not done.verified.ok)


@command(
    "export",
    "--task T-1",
    "t1.passdown --task T-1 --diff",
    "all.passdown",
    "--html t1.html --task T-1",
    exclusive=("diff", "html"),
    help={
        "file": "a new file; default: the task's id and .passdown",
        "task": "default: everything",
        "diff": "include uncommitted changes, new files too",
        "html": "write a page to read instead, in one file",
    },
)
def export(
    session: Session,
    file: str | None = None,
    *,
    task: str | None = None,
    diff: bool = False,
    html: bool = False,
) -> None:
    """Write a bundle of one task or of everything, or a page to read."""
    from passdown.core.checkout import describe_checkout

    target = file or f"{task or 'all'}.{'html' if html else 'passdown'}"
    with session.open() as workspace:
        if file and not task and any(each.task == file for each in workspace.tasks()):
            raise UsageError(f"{file} is a task, not a file: passdown export --task {file}")
        if html:
            _export_page(session, workspace, target, task)
            return
        # Asked before there is a new file in the repository.
        checkout = workspace.files.checkout()
        with out.busy("exporting"):
            streams = workspace.maintenance.export(target, task, diff=diff)
    if session.as_json:
        git = checkout.document() if checkout else None
        out.print_json({"file": target, "streams": streams, "git": git, "diff": diff})
        return
    out.line(f"{out.counted(streams, 'stream')} {'is' if streams == 1 else 'are'} in {target}")
    if checkout is not None:
        out.line(f"git: {describe_checkout(checkout)}")
        if checkout.uncommitted and not diff:
            out.line("the uncommitted changes stay here; --diff includes them")


def _export_page(session: Session, workspace: Workspace, target: str, task: str | None) -> None:
    from passdown.web.pages.export import export_html

    tasks = [task] if task else [each.task for each in workspace.tasks()]
    title = f"{task or os.path.basename(workspace.root)} · Passdown"
    with out.busy("exporting"):
        text = export_html(workspace, tasks, title)
    with open(target, "x", encoding="utf-8") as file:
        file.write(text)
    said = f"{out.counted(len(tasks), 'task')} {'is' if len(tasks) == 1 else 'are'} in {target}"
    session.show({"file": target, "tasks": len(tasks)}, lambda _: out.line(said))


@command(
    "import",
    "t1.passdown",
    "t1.passdown --fork from-kim",
    "t1.passdown --patch changes.patch",
    "docs/adr --dry-run",
    ".beads/issues.jsonl --from beads --agent kim",
    "memory.jsonl",
    "HANDOFF.md --task T-1",
    flags={"form": "--from"},
    help={
        "source": "FILE: a file or folder: see --from",
        "form": "a bundle of passdown export, ADRs, issues of beads (.beads/issues.jsonl), the "
        "memory file of MCP's memory server, or notes such as HANDOFF.md; default: by its content",
        "dry_run": "say what would be written",
        "task": "where they go; ADRs and memories without one concern all work",
        "fork": "SUFFIX: where histories differ, keep both: the incoming task gets this suffix",
        "patch": "FILE: a new file for a bundle's uncommitted changes",
        "max_unpacked": "BYTES: how many bytes a bundle may unpack to; usually 100 times its own "
        "size, 1 GiB at most",
    },
)
def import_(
    session: Session,
    source: str,
    *,
    form: Literal["auto", "bundle", "adr", "beads", "memory", "notes"] = "auto",
    dry_run: bool = False,
    task: str | None = None,
    fork: str = "",
    patch: str = "",
    max_unpacked: int | None = None,
    agent: Author,
) -> int:
    """Import ADRs, beads, MCP memory, notes or a bundle."""
    if form in ("auto", "bundle") and not dry_run and (form == "bundle" or _is_bundle(source)):
        bundle: dict[str, Any] = {"fork": fork, "patch": patch, "max_unpacked": max_unpacked}
        _import_bundle(session, source, agent=agent, **bundle)
        return 0
    given = {"--fork": fork, "--patch": patch, "--max-unpacked": max_unpacked is not None}
    if option := next((name for name, value in given.items() if value), ""):
        raise UsageError(f"{option} is for bundles, and not for a dry run")
    with session.open() as workspace:
        found = workspace.imports.run(
            source,
            format=form,
            agent=agent,
            task=task or "",
            dry_run=dry_run,
            progress=out.progress_bar("importing"),
        )
    session.show(found, _print_import)
    return 1 if found.total("refused") else 0


def _is_bundle(source: str) -> bool:
    """Whether to read a source as a bundle: it begins like one, or doesn't exist."""
    from passdown.workspace.files import NotRegular, regular_file

    try:
        with regular_file(source) as file:
            return file.read(2) == b"PK"
    except NotRegular:
        return False
    except (OSError, ValueError):
        return True


def _import_bundle(session: Session, source: str, *, patch: str, **options: Any) -> None:
    from passdown.core.codec import encode
    from passdown.workspace.files import irregular_file_problems

    if problems := irregular_file_problems(source):
        raise InvalidInput("nothing was imported", problems)
    with session.open() as workspace, out.busy("importing"):
        found = workspace.maintenance.import_bundle(source, patch=patch, **options)
    if session.as_json:
        out.print_json(encode(found))
        return
    rows = [
        (stream, f"{out.counted(count, 'record')} added") for stream, count in found.added.items()
    ]
    rows += [(stream, f"kept separately as {name}") for stream, name in found.forked.items()]
    rows += [(stream, "was there already") for stream in found.unchanged]
    out.table(("stream", "result"), rows, "the bundle is empty")
    if patch:
        out.line(f"the uncommitted changes are in {patch}; git apply applies them")
    for warning in found.warnings:
        out.labelled("warning", "yellow", warning.line())


def _print_import(found: ImportResult) -> None:
    """The numbers by kind, then what was not taken and why, and what to know of the rest."""
    if found.is_dry_run:
        out.line("dry run: nothing was written")
    rows = [
        (kind, *(numbers[r] for r in _IMPORT_RESULTS)) for kind, numbers in found.counts.items()
    ]
    out.table((found.form, *_IMPORT_RESULTS), rows, "nothing found")
    told = [entry for entry in found.entries if entry.reason]
    for word, style, results in _LABELS:
        entries = [entry for entry in told if entry.result in results]
        for entry in entries[:_MAX_LISTED]:
            out.labelled(word, style, f"{entry.source}: {entry.reason}")
        if len(entries) > _MAX_LISTED:
            out.line(f"and {len(entries) - _MAX_LISTED} more: {word}; --json lists all")
