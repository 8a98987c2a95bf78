"""What a host is given, piece by piece: whether it is there, putting it in, taking it out. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.surfaces.hosts import json_edits
from passdown.surfaces.hosts.regions import PAGE, TOML, body_of, drop_region, put_region, region_in
from passdown.surfaces.hosts.table import CURSOR, SERVER, TIMEOUTS_S, Host
from passdown.surfaces.hosts.texts import BLOCK, PLUGIN, PLUGIN_MARK

if TYPE_CHECKING:
    from passdown.surfaces.hosts.drafts import Draft

HOOK, JSON_SERVER, TOML_SERVER, PAGE_BLOCK, PROGRAM = "hook", "server", "toml", "page", "plugin"
_JSON = (HOOK, JSON_SERVER)


class Taken(ValueError):
    """The place is taken by something that isn't ours."""


class Wish(NamedTuple):
    """One piece for one host in one file; `event` is set for hooks."""

    kind: str
    host: Host
    event: str = ""


def is_there(text: str, wish: Wish) -> bool:
    """Whether a text has the piece as it should be; a server of that name counts, whoever's."""
    if wish.kind == HOOK:
        node = json_edits.find(text, _event_path(wish))
        command = wish.host.command(wish.event)
        return any(each == command for _, each in json_edits.commands_in(node))
    if wish.kind == JSON_SERVER:
        return json_edits.find(text, (*wish.host.server_at, SERVER)) is not None
    if wish.kind == PROGRAM:
        if text and not text.startswith(PLUGIN_MARK):
            raise Taken("another plugin has this name")
        return text == PLUGIN
    marks, body = (PAGE, BLOCK) if wish.kind == PAGE_BLOCK else (TOML, _server_table(wish.host))
    region = region_in(text, marks)
    if region is not None:
        return body_of(text, region, marks) == body
    return wish.kind == TOML_SERVER and _has_server(text, wish.host)


def add(draft: Draft, wish: Wish) -> None:
    """Put the piece into a text that hasn't got it."""
    if wish.kind == HOOK:
        json_edits.put_element(draft, _event_path(wish), hook_entry(wish.host, wish.event))
    elif wish.kind == JSON_SERVER:
        json_edits.put_member(draft, wish.host.server_at, SERVER, wish.host.server)
    elif wish.kind == PROGRAM:
        draft.insert(len(draft.text), PLUGIN)
    elif wish.kind == PAGE_BLOCK:
        put_region(draft, PAGE, BLOCK)
    else:
        put_region(draft, TOML, _server_table(wish.host))
        if not _has_server(draft.text, wish.host):
            raise Taken("a table can't be added at the end of this file")


def take(text: str, wish: Wish) -> str:
    """A text without the piece; only what is ours goes, and the rest keeps every byte."""
    if wish.kind == HOOK:
        return _without_hook(text, wish)
    if wish.kind == JSON_SERVER:
        path = (*wish.host.server_at, SERVER)
        node = json_edits.find(text, path)
        is_ours = node is not None and node.value == wish.host.server
        return json_edits.drop(text, path) if is_ours else text
    if wish.kind == PROGRAM:
        return "" if text.startswith(PLUGIN_MARK) else text
    region = region_in(text, PAGE if wish.kind == PAGE_BLOCK else TOML)
    return text if region is None else drop_region(text, region)


def empty_text(wish: Wish) -> str:
    """What a file holds before the first piece is put into it."""
    if wish.kind == HOOK and wish.host is CURSOR:
        return '{\n  "version": 1\n}\n'
    return "{}\n" if wish.kind in _JSON else ""


def says_nothing(text: str, wish: Wish) -> bool:
    """Whether a file holds nothing that anybody would miss."""
    if wish.kind in _JSON:
        return json_edits.root_of(text).value in ({}, {"version": 1})
    return not text.strip("\ufeff \t\r\n")


def check_text(text: str, wish: Wish) -> None:
    """Raise ValueError for a file that its host couldn't read as it is."""
    if wish.kind in _JSON:
        json_edits.root_of(text)
    elif wish.kind == TOML_SERVER:
        _toml(text)


def _event_path(wish: Wish) -> tuple[str, str]:
    return ("hooks", wish.host.events[wish.event])


def hook_entry(host: Host, event: str) -> dict[str, Any]:
    """What a host's file holds at one of our events."""
    handler = {"command": host.command(event), "timeout": TIMEOUTS_S[event] * host.per_second}
    if host.form == "flat":
        return handler
    return {"hooks": [{"type": "command", **handler}]}


def _without_hook(text: str, wish: Wish) -> str:
    command = wish.host.command(wish.event)
    while True:
        path = _event_path(wish)
        found = json_edits.commands_in(json_edits.find(text, path))
        ours = next((way for way, each in found if each == command), None)
        if ours is None:
            return text
        text = json_edits.drop(text, (*path, *_whole_group(text, path, ours)))


def _whole_group(
    text: str, path: tuple[str, str], way: tuple[str | int, ...]
) -> tuple[str | int, ...]:
    """The way to a handler, or to its group where that holds no other handler."""
    node = json_edits.find(text, path)
    group = cast("dict[str, Any]", node.parts[cast("int", way[0])].node.value) if node else {}
    return way[:1] if len(way) > 1 and len(group["hooks"]) == 1 else way


def _server_table(host: Host) -> str:
    command, args = host.server["command"], host.server["args"]
    listed = ", ".join(f'"{each}"' for each in args)
    return f'[{host.server_at[0]}.{SERVER}]\ncommand = "{command}"\nargs = [{listed}]'


def _has_server(text: str, host: Host) -> bool:
    servers = _toml(text).get(host.server_at[0], {})
    return isinstance(servers, dict) and SERVER in servers


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
