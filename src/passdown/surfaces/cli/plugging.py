"""`plugin`: write a host's plugin into a folder, or compare it with what is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.surfaces.cli.printing import counted, line, print_json
from passdown.surfaces.hosts.plugins import PLUGIN_HOSTS, plugin_files
from passdown.surfaces.hosts.table import HOSTS

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser


def plugin(parser: Parser) -> None:
    """The arguments of `plugin`."""
    parser.show(
        "passdown plugin ../passdown-claude --host claude",
        "passdown plugin ../passdown-codex --host codex",
        "passdown plugin ../passdown-claude --host claude --check",
    )
    parser.add_argument("folder", metavar="DIR", help="a folder of its own; made where missing")
    parser.add_argument("--host", choices=PLUGIN_HOSTS, required=True, help="whose plugin")
    parser.add_argument(
        "--check", action="store_true", help="compare; 1 if a file differs or is missing"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_plugin)


def _plugin(args: Namespace) -> int:
    from passdown import __version__

    folder = os.path.abspath(args.folder)
    wanted = plugin_files(HOSTS[args.host], __version__)
    differing = [name for name, text in wanted.items() if _text(folder, name) != text]
    if not args.check and differing:
        _write(folder, {name: wanted[name] for name in differing})
    if args.json:
        written = [] if args.check else differing
        print_json({"host": args.host, "folder": folder, "written": written, "files": list(wanted)})
    else:
        _report(args, folder, differing)
    return int(args.check and bool(differing))


def _report(args: Namespace, folder: str, differing: list[str]) -> None:
    for name in differing:
        line(f"{'differs' if args.check else 'wrote'} {name}", 2)
    if not differing:
        line("everything is as it should be")
    elif not args.check:
        line(f"{counted(len(differing), 'file')} in {folder}; docs/hosts.md says how it is added")


def _text(folder: str, name: str) -> str | None:
    from passdown.workspace.given_files import bytes_at

    data = bytes_at(os.path.join(folder, name), 1_048_576)
    return data.decode(errors="replace") if isinstance(data, bytes) else None


def _write(folder: str, files: dict[str, str]) -> None:
    """Write files of ours; a folder that holds somebody else's plugin is left alone."""
    from passdown.errors import InvalidInput, Problem
    from passdown.surfaces.hosts.plugins import NAME

    taken = [name for name in files if name.endswith("plugin.json") and _is_other(folder, name)]
    if taken:
        problem = Problem(taken[0], "taken", f"is the manifest of a plugin other than {NAME}", "")
        raise InvalidInput("nothing was written", [problem])
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)


def _is_other(folder: str, name: str) -> bool:
    import json

    from passdown.surfaces.hosts.plugins import NAME

    try:
        found = json.loads(_text(folder, name) or "{}")
        return found.get("name", NAME) != NAME
    except (ValueError, AttributeError):
        return True
