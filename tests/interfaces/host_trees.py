"""Project folders as hosts' users have them: what is in one, and odd ones made from a seed."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

from passdown.hosts.definitions import HOSTS
from passdown.hosts.setup import apply_plan, plan_setup, read_setup_state

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

ALL = tuple(HOSTS)

_JSON_FILES = (
    ".claude/settings.json",
    ".mcp.json",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    "opencode.json",
    "opencode.jsonc",
)
_PAGES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md")
_TABLES = (
    "",
    "# nothing yet",
    'model = "o3" # the good one\n\n[mcp_servers.other]\ncommand = "x"\nargs = []\n',
    '[hooks]\n\n[mcp_servers]\n\n[mcp_servers."a.b"]\nurl = "http://localhost"',
    'text = """\n[mcp_servers.fake]\n"""\n\n\n',
)


def tree(root: Path) -> dict[str, tuple[str, bytes | str]]:
    """Everything below a folder but our own: folders, files with bytes, links with targets."""
    found: dict[str, tuple[str, bytes | str]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.partition(os.sep)[0] in (".passdown", ".git"):
            continue
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        else:
            found[name] = ("folder", "") if path.is_dir() else ("file", path.read_bytes())
    return found


def install(root: Path, hosts: Collection[str] = ALL) -> int:
    """Set hosts up; gives the number of files that this changed."""
    memory = read_setup_state(str(root))
    found = plan_setup(str(root), memory, add_hosts=hosts, drop=())
    apply_plan(str(root), found, memory)
    return len(found.changes)


def remove(root: Path, hosts: Collection[str] = ALL) -> None:
    memory = read_setup_state(str(root))
    apply_plan(str(root), plan_setup(str(root), memory, add_hosts=(), drop=hosts), memory)


def odd_project(root: Path, seed: int) -> None:
    """A project whose hosts' files are there or not, and written in every way."""
    dice = random.Random(seed)
    for name in _JSON_FILES:
        if dice.random() < 0.7:
            _write(root / name, odd_json(dice, _settings(dice, name)))
    for name in _PAGES:
        if dice.random() < 0.5:
            _write(root / name, _odd_page(dice))
    if dice.random() < 0.7:
        _write(root / ".codex/config.toml", _dressed(dice, dice.choice(_TABLES)))
    if dice.random() < 0.3:
        (root / ".opencode").mkdir(exist_ok=True)
    if dice.random() < 0.3 and not (root / "CLAUDE.md").exists():
        _write(root / "AGENTS.md", _odd_page(dice))
        (root / "CLAUDE.md").symlink_to("AGENTS.md")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _settings(dice: random.Random, name: str) -> dict[str, Any]:
    other = {"hooks": [{"type": "command", "command": "echo passdown hook"}], "matcher": "*"}
    flat = {"command": "./audit.sh"}
    event = dice.choice(["SessionStart", "Stop", "sessionStart", "Other"])
    found: dict[str, Any] = {}
    if "hooks" in name or dice.random() < 0.5:
        lists: tuple[list[Any], ...] = ([], [other], [other, other], [flat])
        choices: tuple[dict[str, Any], ...] = ({}, {event: dice.choice(lists)})
        found["hooks"] = dice.choice(choices)
    if dice.random() < 0.5:
        server = dice.choice(({}, {"other": {"command": "ümlaut", "env": {"A": "\u2028"}}}))
        found[dice.choice(("mcpServers", "mcp"))] = server
    if dice.random() < 0.5:
        found["permissions"] = {"allow": ["Bash(ls:*)"], "n": 1.50, "deep": [[], {}, [1, [2]]]}
    keys = list(found)
    dice.shuffle(keys)
    return {key: found[key] for key in keys}


def odd_json(dice: random.Random, value: object) -> bytes:
    """A value as JSON in one of many styles, with comments and trailing commas in some."""
    indent = dice.choice((None, None, 2, 4, "\t", 1))
    text = json.dumps(value, indent=indent, ensure_ascii=dice.random() < 0.5)
    if value == {}:
        text = dice.choice(
            ("{}", "{ }", "{\n}", "{\n\n  \n}", "", "\n", "{ /* empty */ }", "{ // e\n}")
        )
    elif dice.random() < 0.4 and "\n" in text:
        lines = [
            f"{line} // {dice.choice(('why', 'note, [x', '}'))}" if dice.random() < 0.3 else line
            for line in text.split("\n")
        ]
        text = "/* head\n */ " + "\n".join(lines) + "\n// tail"
    if dice.random() < 0.3:
        text = text.replace("\n}", ",\n}") if text.endswith("]\n}") else text
    return _dressed(dice, text)


def _dressed(dice: random.Random, text: str) -> bytes:
    text += dice.choice(("", "\n", "\n\n", "  \n"))
    if dice.random() < 0.3:
        text = text.replace("\n", "\r\n")
    return (b"\xef\xbb\xbf" if dice.random() < 0.2 else b"") + text.encode("utf-8", "surrogatepass")


def _odd_page(dice: random.Random) -> bytes:
    parts = [
        "# Rules",
        "Use tabs.",
        "<!-- other:begin -->\nkeep me\n<!-- other:end -->",
        "```\n<!-- passdown -->\n```",
        "",
        "naïve",
    ]
    dice.shuffle(parts)
    text = "\n".join(parts[: dice.randrange(len(parts) + 1)])
    data = _dressed(dice, text)
    return data + b"\xff\xfe\n" if dice.random() < 0.1 else data
