"""`init`, `hook` and `plugin`: create a workspace, and serve coding agents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from passdown.cli.main import answer_hook
from passdown.cli.output import counted, line, pairs, verbatim
from passdown.cli.parsing import comma_list, command
from passdown.cli.session import UsageError
from passdown.hosts.definitions import HOSTS
from passdown.hosts.host_entries import PLUGIN_HOSTS, PLUGIN_NAME, plugin_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.cli.session import Session
    from passdown.hosts.setup import FileChange, SetupPlan

AUTO = "auto"


@command(
    "init",
    "",
    "../shop",
    "--store 'postgresql://db.example/work?workspace=shop'",
    "--host claude,codex",
    "--host auto --print",
    "--remove",
    flags={"hosts": "--host", "is_preview": "--print"},
    types={"hosts": comma_list},
    exclusive=("check", "remove"),
    alone={
        "check": ("hosts", "absolute"),
        "remove": ("hosts", "is_preview"),
        "is_preview": ("hosts", "absolute", "remove"),
    },
    has_store=False,
    help={
        "folder": "DIR: default: here",
        "hosts": f"HOST: also set up {', '.join(HOSTS)}, or {AUTO}: those that are found here",
        "check": "compare the hosts' files with what they should be; 1 if one differs",
        "remove": "restore the hosts' files as they were; records stay",
        "is_preview": "show what would change; write nothing",
        "absolute": "with --host: hosts run passdown by its absolute path, whatever their PATH is",
        "store": "URL: a database that keeps the records",
        "repoint": "with --store: leave the records that the folder has in another store there",
    },
)
def init(
    session: Session,
    folder: str = ".",
    *,
    hosts: Sequence[str] = (),
    check: bool = False,
    remove: bool = False,
    is_preview: bool = False,
    absolute: bool = False,
    store: str = "",
    repoint: bool = False,
) -> int:
    """Create a workspace; set coding agents up, and undo it."""
    if repoint and not store:
        raise UsageError("--repoint goes with --store")
    if absolute and not hosts:
        raise UsageError("--absolute is about the hosts that --host names")
    if hosts or check or remove or is_preview:
        made = {"store": store, "repoint": repoint}
        mode = {"check": check, "remove": remove, "is_preview": is_preview}
        return _set_up_hosts(session, folder, hosts, made, **mode, absolute=absolute)
    _make_workspace(session, folder, store, repoint=repoint)
    return 0


def _make_workspace(session: Session, folder: str, store: str, *, repoint: bool) -> None:
    from passdown.workspace import init as make
    from passdown.workspace.location import new_location

    location = new_location(folder)
    names = ("ledger.db", "store")
    was_there = any(os.path.isfile(os.path.join(location.folder, name)) for name in names)
    with make(folder, store, repoint=repoint) as workspace:
        is_moved = was_there and workspace.store_url != location.url
        made = {
            "made": not was_there,
            "root": workspace.root,
            "folder": location.folder,
            "store": workspace.store_label,
            "store_before": location.url_shown if is_moved else "",
            "config": location.config,
        }

    def print_text(made: dict[str, Any]) -> None:
        line("the workspace exists already" if was_there else "created a workspace")
        pairs([(name, made[name]) for name in ("root", "store", "config")], 2)
        if is_moved:
            line(f"the folder points to another store now; before: {made['store_before']}")
        if os.path.dirname(location.folder) != location.root:
            line("all worktrees of this repository share it, so it is kept in the main one")
        line("next: passdown start 'What has to be done'")

    session.show(made, print_text)


def _set_up_hosts(
    session: Session,
    folder: str,
    hosts: Sequence[str],
    made: dict[str, Any],
    *,
    check: bool,
    remove: bool,
    is_preview: bool,
    absolute: bool,
) -> int:
    from passdown.hosts.setup import apply_plan, host_program, plan_setup, read_setup_state

    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        raise UsageError(f"{folder} is not a folder")
    state = read_setup_state(root)
    if absolute:
        state = state._replace(program=host_program(absolute=True))
    named = _chosen_hosts(hosts, root, remove=remove)
    added, dropped = ((), named) if remove else (named, ())
    found = plan_setup(root, state, add_hosts=added, drop=dropped)
    is_written = not (is_preview or check)
    if is_written:
        if not remove:
            from passdown.workspace import init as make

            make(root, **made).close()
        if found.changes or state.hosts != found.hosts or remove:
            apply_plan(root, found, state)
    document = {
        "hosts": list(found.hosts),
        "named": named,
        "written": is_written,
        "same": not found.changes,
        "files": [
            {"path": each.path, "change": _change_kind(each), "diff": diff_of(each)}
            for each in found.changes
        ],
    }

    def print_text(_: object) -> None:
        _print_changes(found, check=check, is_preview=is_preview)
        if not found.changes:
            nothing = "no host setup found; nothing to remove"
            line(nothing if remove else "everything is up to date")
        if is_written and not remove:
            _print_next_steps(named if found.changes else [], state.program)

    session.show(document, print_text)
    return int(check and bool(found.changes))


def _print_next_steps(hosts: Sequence[str], program: str) -> None:
    """Say what is left for the user to do."""
    from passdown.hosts.setup import host_program

    for name in hosts:
        line(f"{HOSTS[name].title} {HOSTS[name].note}")
    if not program and not host_program(absolute=False):
        line("hosts run passdown, which isn't on the PATH that hosts get; install it with pipx or")
        line("uv tool install, or let them run it by its absolute path:")
        line(f"passdown init --host {','.join(hosts) or AUTO} --absolute", 2)


def _chosen_hosts(hosts: Sequence[str], root: str, *, remove: bool) -> list[str]:
    """The hosts that are meant, in the table's order."""
    from passdown.hosts.setup import detected_hosts, installed_hosts

    unknown = [name for name in hosts if name not in HOSTS and name != AUTO]
    if unknown:
        raise UsageError(f"there is no host {unknown[0]!r:.40} ({', '.join(HOSTS)}, {AUTO})")
    if not hosts:
        return list(HOSTS) if remove else installed_hosts(root) or detected_hosts(root)
    names = {*hosts, *(detected_hosts(root) if AUTO in hosts else ())}
    found = [name for name in HOSTS if name in names]
    if not found:
        marks = ", ".join(mark for host in HOSTS.values() for mark in host.marks[:1])
        raise UsageError(
            f"no host was found: neither its program nor its files here ({marks}); "
            f"name one of {', '.join(HOSTS)}"
        )
    return found


def _print_changes(found: SetupPlan, *, check: bool, is_preview: bool) -> None:
    words = {
        "make": ("missing", "created"),
        "edit": ("differs", "edited"),
        "remove": ("to remove", "removed"),
    }
    for change in found.changes:
        if is_preview:
            verbatim(diff_of(change).rstrip("\n"))
        else:
            line(f"{words[_change_kind(change)][0 if check else 1]} {change.path}", 2)
    if check and found.changes:
        line(f"{counted(len(found.changes), 'file')} to update: passdown init --host ...")


def _change_kind(change: FileChange) -> str:
    if change.before is None:
        return "make"
    return "remove" if change.after is None else "edit"


def diff_of(change: FileChange) -> str:
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


@command(
    "hook",
    "claude session-start < call.json",
    "codex stop < call.json",
    has_json=False,
    help={"host": "HOST: as init --host writes it", "event": "EVENT: session-start, stop..."},
)
def hook(session: Session, host: str, event: str) -> int:
    """Answer a coding agent's host at one of its events."""
    return answer_hook([host, event], session.named_store)


@command(
    "plugin",
    "../passdown-claude --host claude",
    "../passdown-codex --host codex",
    "../passdown-claude --host claude --check",
    choices={"host": PLUGIN_HOSTS},
    has_store=False,
    help={
        "folder": "DIR: a folder of its own; created if missing",
        "host": "the host that the plugin is for",
        "check": "compare; 1 if a file differs or is missing",
    },
)
def plugin(session: Session, folder: str, *, host: str, check: bool = False) -> int:
    """Write a plugin for Claude Code or Codex, with a skill."""
    from passdown import __version__

    folder = os.path.abspath(folder)
    wanted = plugin_files(HOSTS[host], __version__)
    differing = [name for name, text in wanted.items() if _file_text(folder, name) != text]
    if not check and differing:
        _write_plugin(folder, {name: wanted[name] for name in differing})
    written = [] if check else differing
    document = {"host": host, "folder": folder, "written": written, "files": list(wanted)}

    def print_text(_: object) -> None:
        for name in differing:
            line(f"{'differs' if check else 'wrote'} {name}", 2)
        if not differing:
            line("everything is up to date")
        elif not check:
            line(f"{counted(len(differing), 'file')} in {folder}; docs/hosts.md says how to add it")

    session.show(document, print_text)
    return int(check and bool(differing))


def _file_text(folder: str, name: str) -> str | None:
    from passdown.workspace.files import bytes_at

    data = bytes_at(os.path.join(folder, name), 1_048_576)
    return data.decode(errors="replace") if isinstance(data, bytes) else None


def _write_plugin(folder: str, files: dict[str, str]) -> None:
    """Write files of ours; a folder that holds somebody else's plugin is left alone."""
    import json

    from passdown.errors import InvalidInput, Problem

    for name in (each for each in files if each.endswith("plugin.json")):
        try:
            found = json.loads(_file_text(folder, name) or "{}").get("name", PLUGIN_NAME)
        except (ValueError, AttributeError):
            found = ""
        if found != PLUGIN_NAME:
            message = f"is the manifest of a plugin other than {PLUGIN_NAME}"
            raise InvalidInput("nothing was written", [Problem(name, "taken", message, "")])
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
