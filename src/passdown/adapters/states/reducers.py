"""How updates become part of a state: messages and decisions add up, nothing replaces them.

Each reducer takes what is there and what comes, changes neither, and gives the result. They serve
as the annotation of a state's field in LangGraph and do the same without it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, cast

from passdown.adapters.states.plain_values import plain, plain_text
from passdown.errors import InvalidInput, Problem

_REMOVE_ALL = "__remove_all__"

Plain = dict[str, Any]


def message(
    content: object, agent: str, *, role: str = "assistant", id: str = "", **metadata: Any
) -> Plain:
    """A message that bears its agent's name and, where given, more about it under `metadata`.

    It has an id, so that giving it again replaces it instead of repeating it.
    """
    made: Plain = {
        "id": id or uuid.uuid4().hex,
        "role": role,
        "name": agent,
        "content": plain(content, "content"),
    }
    return {**made, "metadata": plain(metadata, "metadata")} if metadata else made


def add_messages(left: Any, right: Any) -> list[Any]:
    """The messages of `left`, then those of `right`; one with a known id takes its place instead.

    Dicts and LangChain's message objects stay what they are. A LangChain `RemoveMessage`, or a dict
    of the type `remove`, removes the message with its id; InvalidInput if there is none.
    """
    merged = _as_list(left)
    removed: set[str] = set()
    places = {key: index for index, each in enumerate(merged) if (key := message_id(each))}
    for each in _as_list(right):
        key = message_id(each)
        if _is_removal(each):
            if key == _REMOVE_ALL:
                removed.update(places)
                merged, places = [], {}
            elif key not in places:
                raise _no_message(key)
            else:
                removed.add(key)
        elif key and key in places:
            removed.discard(key)
            merged[places[key]] = each
        else:
            places.update({key: len(merged)} if key else {})
            merged.append(each)
    return [each for each in merged if message_id(each) not in removed] if removed else merged


def _no_message(key: str) -> InvalidInput:
    problem = Problem("messages", "not_found", f"there is no message {key[:80]!r} to remove")
    return InvalidInput("the messages stay as they are", [problem])


def message_id(each: object) -> str:
    """A message's id; empty where it has none."""
    if isinstance(each, Mapping):
        key = cast("Mapping[str, object]", each).get("id")
    else:
        key = getattr(each, "id", None)
    return key if isinstance(key, str) else ""


def _is_removal(each: object) -> bool:
    if isinstance(each, Mapping):
        return cast("Mapping[str, object]", each).get("type") == "remove"
    return getattr(each, "type", "") == "remove"


def _as_list(value: object) -> list[Any]:
    """The value as a new list; a single entry becomes a list of one, nothing an empty one."""
    if value is None:
        return []
    return [*cast("list[Any]", value)] if isinstance(value, list | tuple) else [value]


def add_decisions(left: Any, right: Any) -> list[Plain]:
    """The decisions of `left`, then the new ones of `right`, each once.

    Equal content is the same decision. So is the same `key` or `address`: the later entry, with
    its newer status, then takes the place of the earlier.
    """
    merged: list[Any] = []
    places: dict[str, list[int]] = {}
    for entry in (*map(_plain_decision, _as_list(left)), *plain(_as_list(right), "decisions")):
        name, is_unique = _decision_name(entry)
        alike = places.setdefault(name, [])
        known = [at for at in alike if is_unique or plain_text(merged[at]) == plain_text(entry)]
        if known:
            merged[known[0]] = entry
        else:
            alike.append(len(merged))
            merged.append(entry)
    return merged


def _plain_decision(entry: Any) -> Any:
    """An entry that is there already: a dict was made plain when it came."""
    return cast("Plain", entry) if isinstance(entry, dict) else plain(entry, "decisions")


def _decision_name(entry: object) -> tuple[str, bool]:
    """What two entries of the same decision share, and whether others can't have it."""
    fields = cast("Plain", entry) if isinstance(entry, dict) else {}
    for field in ("key", "address"):
        if isinstance(fields.get(field), str) and fields[field]:
            return f"{field}:{fields[field]}", True
    return f"summary:{fields.get('summary')}", False


def add_warnings(left: Any, right: Any) -> list[Plain]:
    """The warnings of `left`, then those of `right` that aren't there yet."""
    merged = _as_list(left)
    return merged + [each for each in _as_list(right) if each not in merged]


def latest(_left: Any, right: Any) -> Any:
    """The newer value; unlike a field without a reducer, it may come from two nodes at once."""
    return right


def join_contexts(left: Any, right: Any) -> Any:
    """The newer handoff context, or both in one where two agents handed on at the same time.

    Then sources and decisions of both are in it, and a field is checked by what its one writer
    said; one that both wrote can't be.
    """
    if not left or not right or not _are_siblings(left, right):
        return right
    ours, theirs = left["hop"], right["hop"]
    merged: Plain = {**right, "decisions": add_decisions(left["decisions"], right["decisions"])}
    merged["memory_refs"] = [*dict.fromkeys([*left["memory_refs"], *right["memory_refs"]])]
    others = [*left["metadata"].get("also_from", ()), left["source"]]
    merged["metadata"] = {**right["metadata"], "also_from": others}
    checksums = {
        name: (ours if name in ours["wrote"] else theirs)["checksums"].get(name)
        for name in {*ours["checksums"], *theirs["checksums"]}
        if not (name in ours["wrote"] and name in theirs["wrote"])
    }
    merged["hop"] = {
        **theirs,
        "also": [*ours.get("also", ()), ours["id"]],
        "decided": min(ours["decided"], theirs["decided"]),
        "exact": ours["exact"] and theirs["exact"],
        "checksums": {name: value for name, value in sorted(checksums.items()) if value},
        "wrote": sorted({*ours["wrote"], *theirs["wrote"]}),
        "unchecked": sorted(
            {*ours["unchecked"], *theirs["unchecked"]}
            | {name for name in ours["wrote"] if name in theirs["wrote"]}
        ),
        "targets": [*dict.fromkeys([*ours["targets"], *theirs["targets"]])],
    }
    return merged


def _are_siblings(left: Plain, right: Plain) -> bool:
    """Whether two contexts were made from the same earlier one, neither having seen the other."""
    ours, theirs = left.get("hop"), right.get("hop")
    if not ours or not theirs:
        return False
    same_time = (ours["run"], ours["step"]) == (theirs["run"], theirs["step"])
    return same_time and left["source"] != right["source"]
