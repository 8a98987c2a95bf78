"""Which hosts are meant, and which of their files get what."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from passdown.surfaces.hosts.table import BLOCK_FILE, GEMINI, HOSTS, Host
from passdown.surfaces.hosts.texts import PLUGIN_MARK
from passdown.surfaces.hosts.wishes import (
    HOOK,
    JSON_SERVER,
    PAGE_BLOCK,
    PROGRAM,
    TOML_SERVER,
    Wish,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_IMPORT = re.compile(r"^@(?:\./)?AGENTS\.md\s*$", re.MULTILINE)


def detected(root: str) -> list[str]:
    """The hosts that a project has files of, or whose program this machine has."""
    import shutil

    return [
        name
        for name, host in HOSTS.items()
        if any(os.path.lexists(os.path.join(root, mark)) for mark in host.marks)
        or any(shutil.which(program) for program in host.programs)
    ]


def installed(root: str) -> list[str]:
    """The hosts whose files call us already."""
    found: list[str] = []
    for name, host in HOSTS.items():
        text = _text(root, host.hooks_file)
        sign = PLUGIN_MARK if host.form == "plugin" else f"passdown hook {name} "
        if sign in text:
            found.append(name)
    return found


def wishes_of(root: str, host: Host) -> list[tuple[str, Wish]]:
    """What a host gets, each piece with the file that it belongs into."""
    found = [(host.hooks_file, Wish(PROGRAM, host))]
    if host.form != "plugin":
        found = [(host.hooks_file, Wish(HOOK, host, event)) for event in host.events]
    server_file = _first_there(root, host.server_files) or host.server_files[0]
    found.append((server_file, Wish(_server_kind(server_file), host)))
    found.append((_instructions(root, host), Wish(PAGE_BLOCK, host)))
    return found


def places_of(host: Host) -> list[tuple[str, Wish]]:
    """Every place where pieces of a host may stand, whatever chose it."""
    found = [(host.hooks_file, Wish(PROGRAM, host))]
    if host.form != "plugin":
        found = [(host.hooks_file, Wish(HOOK, host, event)) for event in host.events]
    found += [(name, Wish(_server_kind(name), host)) for name in host.server_files]
    return found + [
        (name, Wish(PAGE_BLOCK, host)) for name in dict.fromkeys((*host.instructions, BLOCK_FILE))
    ]


def _server_kind(name: str) -> str:
    return TOML_SERVER if name.endswith(".toml") else JSON_SERVER


def _first_there(root: str, names: Iterable[str]) -> str:
    return next((name for name in names if os.path.lexists(os.path.join(root, name))), "")


def _instructions(root: str, host: Host) -> str:
    """The file that the host reads at the start of a session.

    Claude Code reads AGENTS.md only where there is no CLAUDE.md: none is made for the block alone.
    """
    if host is GEMINI:
        told = re.search(r'"fileName"\s*:\s*(\[[^\]]*\]|"[^"]*")', _text(root, host.hooks_file))
        return BLOCK_FILE if told and BLOCK_FILE in told[1] else host.instructions[0]
    own = _first_there(root, host.instructions)
    return BLOCK_FILE if not own or _IMPORT.search(_text(root, own)) else own


def _text(root: str, name: str) -> str:
    from passdown.workspace.given_files import bytes_at

    data = bytes_at(os.path.join(root, name), 1_048_576)
    return data.decode(errors="replace") if isinstance(data, bytes) else ""
