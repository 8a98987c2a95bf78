"""Switch artifacts: what one agent leaves to the next, within fixed limits for any input.

An artifact is filled in order of importance. What doesn't fit is left out whole and counted under
`omitted`; `full_record` says where all of it is. The YAML is written here so that the same artifact
is always the same text, with invisible characters as escapes.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.context.pipeline import budget_of, collapse, counted
from passdown.core.kinds import MAX_BLOCKERS, MAX_DECISIONS, MAX_FILES
from passdown.core.names import MAX_AGENT
from passdown.core.text import child_path, is_blank, visible
from passdown.core.times import parse_time
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from passdown.core.tokens import CounterLike


Artifact = dict[str, Any]
"""A switch artifact as plain data, in the order of `FIELDS`."""

VERSION = "1.0"

MAX_TOKENS = 500
"""The length of a whole artifact, as YAML text, by whichever counter is in use."""
MAX_RETAINED = 3
"""How many artifacts of earlier agents are shown; older ones stay on disk."""
MAX_SENTENCES = 2
"""The length of the next action."""
MAX_FIELD = 256
"""Characters of a single field, such as the path of a story; a longer one becomes a reference."""

LIMITS = {"decisions": MAX_DECISIONS, "files_modified": MAX_FILES, "blockers": MAX_BLOCKERS}

STORY_FIELDS = ("story_id", "story_path", "story_status", "current_task", "branch")

FIELDS = (
    "version",
    "timestamp",
    "from_agent",
    "to_agent",
    "story_context",
    "decisions",
    "files_modified",
    "blockers",
    "next_action",
    "omitted",
    "full_record",
    "consumed",
)
"""The keep list: an artifact is made of these and of nothing else."""

NEVER_CARRIED = frozenset(
    {
        "activation",
        "activation_instructions",
        "agent_definition",
        "commands",
        "customization",
        "dependencies",
        "greeting",
        "greeting_levels",
        "greetings",
        "instructions",
        "persona",
        "persona_profile",
        "profile",
        "review_settings",
        "review_tool",
        "system_prompt",
        "tool_config",
        "tool_definitions",
        "tool_settings",
        "tools",
    }
)
"""The never-carry list: what belongs to the agent that leaves goes with it."""

REFERENCE = "see full_record"
"""Stands for a value that was too long; `omitted` counts it."""

LEAST = ("from_agent", "to_agent", "full_record")
"""What even the smallest artifact holds."""


def plain_key(key: object) -> str:
    """A key as the never-carry list spells it: `Tool-Settings` is `tool_settings`."""
    return "_".join(str(key).replace("-", " ").replace("_", " ").lower().split())


# A mark with what closes after it and a space; a full-width mark, which needs no space; a new line.
_END = re.compile(r"""[.!?…]+["')\]*_»”’]*(?=\s)|[。！？]+[」』）”’]*|\n""")  # noqa: RUF001
_SHORT_FORM = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|approx|fig)\.$", re.IGNORECASE)
_LONGEST_SHORT_FORM = 10


def sentence_ends(text: str) -> list[int]:
    """The position after each sentence of a text; the last one is where its words end."""
    last = len(text.rstrip())
    ends: list[int] = []
    begin = 0
    for found in _END.finditer(text, 0, last):
        end = found.start() if found.group() == "\n" else found.end()
        if _SHORT_FORM.search(text[max(0, end - _LONGEST_SHORT_FORM) : end]):
            continue
        if text[begin:end].strip():
            ends.append(end)
        begin = found.end()
    if text[begin:last].strip():
        ends.append(last)
    return ends


# Words that other readers of YAML turn into something else than text.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_NONCHARACTERS = re.compile("[\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def artifact_text(artifact: Mapping[str, Any]) -> str:
    """The artifact as YAML: fixed order, block style, one line for each value.

    `read_artifact` gives the same data back. Half of a surrogate pair, which no file can hold, is
    written as the escape that shows it.
    """
    lines: list[str] = []
    for name in _in_order(artifact, FIELDS):
        value = artifact[name]
        if isinstance(value, dict):
            _write_mapping(name, cast("dict[str, Any]", value), lines)
        elif isinstance(value, list | tuple):
            _write_list(name, cast("list[Any]", value), lines)
        else:
            lines.append(f"{_scalar(name)}: {_scalar(value)}")
    return "".join(f"{line}\n" for line in lines)


def read_artifact(text: str | bytes) -> Artifact:
    """The data of an artifact's text, with counts as numbers and `consumed` as a truth value.

    Raises InvalidInput for text that isn't plain YAML or isn't a mapping. What it says is for
    `artifact_problems` to judge.
    """
    from passdown.core.parsing import load_yaml

    data = load_yaml(text)
    if not isinstance(data, dict):
        kind = type(data).__name__
        problem = Problem("", "wrong_type", f"{kind} given", "an artifact's fields")
        raise InvalidInput("this is no switch artifact", [problem])
    artifact = cast("Artifact", data)
    omitted = artifact.get("omitted")
    if isinstance(omitted, dict):
        counts = cast("dict[str, Any]", omitted)
        artifact["omitted"] = {name: _number(value) for name, value in counts.items()}
    if artifact.get("consumed") in ("true", "false"):
        artifact["consumed"] = artifact["consumed"] == "true"
    return artifact


def without_surrogates(text: str) -> str:
    """`text` with each half of a surrogate pair as the escape that shows it."""
    if text.isascii():
        return text
    return _SURROGATES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def _in_order(mapping: Mapping[str, Any], order: tuple[str, ...]) -> list[str]:
    """The keys that the order names, then any others as they come."""
    return [*(k for k in order if k in mapping), *(k for k in mapping if k not in order)]


def _write_mapping(name: str, mapping: dict[str, Any], lines: list[str]) -> None:
    if not mapping:
        lines.append(f"{_scalar(name)}: {{}}")
        return
    lines.append(f"{_scalar(name)}:")
    inner = _in_order(mapping, STORY_FIELDS)
    lines.extend(f"  {_scalar(key)}: {_scalar(mapping[key])}" for key in inner)


def _write_list(name: str, entries: list[Any], lines: list[str]) -> None:
    if not entries:
        lines.append(f"{_scalar(name)}: []")
        return
    lines.append(f"{_scalar(name)}:")
    lines.extend(f"- {_scalar(entry)}" for entry in entries)


def _scalar(value: object) -> str:
    """One value on one line; a text is unquoted where no reader could misread it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = without_surrogates(str(value))
    return text if _is_bare(text) else _quoted(text)


def _is_bare(text: str) -> bool:
    if not text or not text[0].isalpha() or text[-1] in ": " or text.lower() in _WORDS:
        return False
    if ": " in text or " #" in text or _NONCHARACTERS.search(text):
        return False
    return visible(text) == text and text.isprintable()


def _quoted(text: str) -> str:
    escaped = visible(text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{_NONCHARACTERS.sub(_escape, escaped)}"'


def _number(value: object) -> object:
    text = value if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else value


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def artifact_name(
    from_agent: str, to_agent: str, at: datetime | str, taken: Iterable[str] = ()
) -> str:
    """`handoff-{from}-to-{to}-{timestamp}.yaml`, with microseconds, and never one that is taken.

    Safe on every file system: a character that isn't becomes `_`, and case doesn't tell two names
    apart. Raises InvalidInput for a time without a zone.
    """
    begin = f"handoff-{_safe(from_agent)}-to-{_safe(to_agent)}-{_stamp(at)}"
    known = {name.casefold() for name in taken}
    name = f"{begin}.yaml"
    number = 2
    while name.casefold() in known:
        name = f"{begin}-{number}.yaml"
        number += 1
    return name


def _safe(agent: str) -> str:
    return _UNSAFE.sub("_", agent[:MAX_AGENT]) or "none"


def _stamp(at: datetime | str) -> str:
    try:
        moment = parse_time(at if isinstance(at, str) else at.isoformat())
    except ValueError as error:
        expected = "an ISO 8601 time with a zone"
        problem = Problem("at", "invalid_time", str(error)[:120], expected)
        raise InvalidInput("an artifact's name needs a time", [problem]) from None
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


_TEMPLATE = f"""\
# What one agent leaves to the next: at most {MAX_TOKENS} tokens in all. Never carried: persona,
# instructions, commands, dependencies, tools and their settings, greetings.
version: "{VERSION}"
timestamp: ""  # ISO 8601 with a zone, such as 2026-01-09T10:00:00Z
from_agent: ""
to_agent: ""
story_context:
  story_id: ""
  story_path: ""
  story_status: ""
  current_task: ""
  branch: ""
decisions: []  # newest first, with the reason; at most {MAX_DECISIONS}
files_modified: []  # newest first; at most {MAX_FILES}
blockers: []  # most severe first; at most {MAX_BLOCKERS}
next_action: ""  # at most {MAX_SENTENCES} sentences
# omitted:  # how many of each a limit cut
#   decisions: 2
full_record: ""  # the file or command that reaches all of it
consumed: false
"""


def template_text() -> str:
    """The template as YAML with comments; unfilled, it lacks what an artifact must say."""
    return _TEMPLATE


_Piece = tuple[str, int]

_NO_REASON = "Not stated."
_SEVERITIES = ("blocker", "high", "medium", "low")
_PRIORITIES = ("high", "medium", "low")
_IN_FORCE = ("accepted", "proposed", "")

_ORDER: tuple[_Piece, ...] = (
    ("story_id", 0),
    ("current_task", 0),
    ("next_action", 0),
    ("blockers", 0),
    ("decisions", 0),
    ("story_status", 0),
    ("branch", 0),
    ("story_path", 0),
    ("timestamp", 0),
    ("next_action", 1),
    ("blockers", 1),
    ("decisions", 1),
    *(("files_modified", index) for index in range(3)),
    ("blockers", 2),
    ("decisions", 2),
    *(("files_modified", index) for index in range(3, 6)),
    ("decisions", 3),
    *(("files_modified", index) for index in range(6, LIMITS["files_modified"])),
    ("decisions", 4),
    *(("rationales", index) for index in range(LIMITS["decisions"])),
)
"""Every piece that an artifact can hold, the most important first."""


class _Source(NamedTuple):
    """The facts, ready to be chosen from.

    `texts` holds what each piece adds, as far as there is one that an artifact takes; `fields` are
    those that say anything, and `totals` how much there is of everything that is counted.
    """

    frame: Artifact
    texts: dict[_Piece, str]
    fields: frozenset[str]
    totals: dict[str, int]


def artifact_of(
    facts: Mapping[str, Any], *, counter: CounterLike, max_tokens: int = MAX_TOKENS
) -> Artifact:
    """The artifact of a change of agents, never longer than `max_tokens` as YAML text.

    `facts` holds task, title, phase, status, at, from_agent, to_agent, story, decisions (newest
    first), files (newest first), blockers, next_steps, totals and full_record; whatever else it
    holds is not carried. Raises InvalidInput when not even the two names and the reference fit.
    """
    source = _source_of(facts)
    budget = budget_of(max_tokens, counter)
    pieces = [piece for piece in _ORDER if piece in source.texts]
    chosen = budget.select(
        pieces, lambda some: artifact_text(_built(source, some)), is_ready=_has_its_base
    )
    if chosen is not None:
        return _built(source, chosen)
    least = {name: source.frame[name] for name in LEAST}
    if budget.fits(artifact_text(least)):
        return least
    needed = budget.tokens(artifact_text(least))
    expected = f"at least {needed:,} for the two names and the reference"
    problem = Problem("max_tokens", "too_small", f"{max_tokens:,} tokens given", expected)
    raise InvalidInput("no artifact is that short", [problem])


def _text(value: object) -> str:
    return "" if value is None else without_surrogates(str(value))


def _source_of(facts: Mapping[str, Any]) -> _Source:
    decisions = [d for d in _dicts(facts, "decisions") if _text(d.get("status")) in _IN_FORCE]
    blockers = _dicts(facts, "blockers")
    blockers.sort(key=lambda blocker: _rank(blocker.get("severity"), _SEVERITIES))
    steps = _dicts(facts, "next_steps")
    steps.sort(key=lambda step: _rank(step.get("priority"), _PRIORITIES))
    action = _text(steps[0].get("step")) if steps else ""
    ends = sentence_ends(action)
    fields = _fields(facts)
    lists = {
        "decisions": [_summary(decision) for decision in decisions],
        "files_modified": [_text(path) for path in facts.get("files") or ()],
        "blockers": [_text(blocker.get("blocker")) for blocker in blockers],
        "rationales": [_reason(decision) for decision in decisions],
        "next_action": [action[:end].strip() for end in ends],
    }
    texts = {(name, 0): text for name, text in fields.items() if 0 < len(text) <= MAX_FIELD}
    for name, found in lists.items():
        is_optional = name == "rationales"
        texts |= {(name, i): text for i, text in enumerate(found) if text or not is_optional}
    said = frozenset(name for name, text in fields.items() if text)
    stated = cast("dict[str, Any]", facts.get("totals") or {})
    names = {"decisions": "decisions", "files_modified": "files", "blockers": "blockers"}
    totals = {
        name: max(int(stated.get(given) or 0), len(lists[name])) for name, given in names.items()
    }
    totals |= {"next_action": len(ends), "next_steps": max(0, len(steps) - 1)}
    return _Source(_frame(facts), texts, said | {"next_action"} if ends else said, totals)


def _dicts(facts: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    given: Iterable[object] = facts.get(name) or ()
    return [cast("dict[str, Any]", entry) for entry in given if isinstance(entry, dict)]


def _rank(word: object, order: tuple[str, ...]) -> int:
    """The place of a word in an order; one that isn't in it counts as medium."""
    return order.index(str(word)) if word in order else order.index("medium")


def _summary(decision: dict[str, Any]) -> str:
    proposed = " [proposed]" if decision.get("status") == "proposed" else ""
    return f"{_text(decision.get('summary'))}{proposed}"


def _reason(decision: dict[str, Any]) -> str:
    reason = _text(decision.get("rationale"))
    return "" if reason == _NO_REASON else reason


def _frame(facts: Mapping[str, Any]) -> Artifact:
    """The parts that are always there and can't be left out but all together."""
    return {
        "version": VERSION,
        "from_agent": _text(facts.get("from_agent")),
        "to_agent": _text(facts.get("to_agent")),
        "full_record": _text(facts.get("full_record")),
        "consumed": False,
    }


def _fields(facts: Mapping[str, Any]) -> dict[str, str]:
    story = _mapping(facts.get("story"))
    return {
        "timestamp": _text(facts.get("at")),
        "story_id": _text(story.get("id") or facts.get("task")),
        "story_path": _text(story.get("path")),
        "story_status": _text(story.get("status") or facts.get("status") or facts.get("phase")),
        "current_task": _text(story.get("current_task") or facts.get("title")),
        "branch": _text(story.get("branch")),
    }


def _has_its_base(piece: _Piece, chosen: set[_Piece]) -> bool:
    """A reason needs its decision beside it, a second sentence the first one before it."""
    name, index = piece
    if name == "rationales":
        return ("decisions", index) in chosen
    return name != "next_action" or index == 0 or (name, index - 1) in chosen


def _built(source: _Source, chosen: set[_Piece]) -> Artifact:
    texts = source.texts

    def last(name: str) -> str:
        """The longest form that was chosen of a field, or that there is one."""
        found = [texts[piece] for piece in sorted(chosen) if piece[0] == name]
        return found[-1] if found else REFERENCE if name in source.fields else ""

    def listed(name: str) -> list[str]:
        return [_entry(source, piece, chosen) for piece in sorted(chosen) if piece[0] == name]

    omitted = _omitted(source, chosen)
    return {
        "version": source.frame["version"],
        "timestamp": last("timestamp"),
        "from_agent": source.frame["from_agent"],
        "to_agent": source.frame["to_agent"],
        "story_context": {name: last(name) for name in STORY_FIELDS},
        **{name: listed(name) for name in LIMITS},
        "next_action": last("next_action"),
        **({"omitted": omitted} if omitted else {}),
        "full_record": source.frame["full_record"],
        "consumed": source.frame["consumed"],
    }


def _entry(source: _Source, piece: _Piece, chosen: set[_Piece]) -> str:
    name, index = piece
    text, reason = source.texts[piece], ("rationales", index)
    has_reason = name == "decisions" and reason in chosen
    return f"{text} ({source.texts[reason]})" if has_reason else text


def _omitted(source: _Source, chosen: set[_Piece]) -> dict[str, int]:
    """How much of everything isn't there, by name."""
    shown = Counter(name for name, _ in chosen)
    counts = {name: total - shown[name] for name, total in source.totals.items()}
    counts["rationales"] = sum(
        ("decisions", index) in chosen and (name, index) not in chosen
        for name, index in source.texts
        if name == "rationales"
    )
    fields = source.fields - {"next_action"}
    counts |= {
        name: 1 for name in (*STORY_FIELDS, "timestamp") if name in fields and not shown[name]
    }
    order = (*LIMITS, "rationales", "next_action", "next_steps", "timestamp", *STORY_FIELDS)
    return {name: counts[name] for name in order if counts.get(name, 0) > 0}


_SECTIONS = {
    "decisions": "Decisions",
    "files_modified": "Files modified",
    "blockers": "Blockers",
}
# At the beginning of an item these would start a block of their own.
_BLOCK_MARKS = "#>-+*`~=|_<"


def artifact_markdown(artifact: Mapping[str, Any]) -> str:
    """The artifact as markdown; no text in it can open a section or swallow one."""
    story = _mapping(artifact.get("story_context"))
    omitted = _mapping(artifact.get("omitted"))
    known = [f"{name}: {collapse(story[name])}" for name in STORY_FIELDS if story.get(name)]
    names = [collapse(artifact.get(name) or "none") for name in ("from_agent", "to_agent")]
    consumed = "consumed" if artifact.get("consumed") else "not consumed"
    at = _item(artifact.get("timestamp") or "no time")
    lines = [f"# Handoff from {names[0]} to {names[1]}", "", f"{at}, {consumed}"]
    lines += _section("Story", known)
    for name, title in _SECTIONS.items():
        given: object = artifact.get(name)
        listed = cast("list[object]", given) if isinstance(given, list) else _one(given)
        lines += _section(title, listed)
    lines += _section("Next action", _one(artifact.get("next_action")))
    lines += _section("Omitted", [f"{name}: {omitted[name]}" for name in omitted])
    lines += _section("Full record", _one(artifact.get("full_record")))
    return "".join(f"{line}\n" for line in lines)


def _mapping(given: object) -> dict[str, Any]:
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def _one(value: object) -> list[object]:
    return [value] if value else []


def _section(title: str, entries: list[Any]) -> list[str]:
    items = [f"- {_item(entry)}" for entry in entries] or ["None."]
    return ["", f"## {title}", "", *items]


def _item(entry: object) -> str:
    line = collapse(entry)
    return f"\\{line}" if line[:1] and line[0] in _BLOCK_MARKS else line


_SECONDS = re.compile(r"(T\d\d:\d\d):\d\d(?:\.\d+)?")
_NOUNS = {"decisions": "decision", "files_modified": "file", "blockers": "blocker"}


class _Parts(NamedTuple):
    """An artifact's parts as single lines; the lists with their most important entry first."""

    head: str
    action: str
    lists: dict[str, list[str]]
    omitted: dict[str, int]
    full_record: str


def short_summary(artifact: Mapping[str, Any], *, counter: CounterLike, max_tokens: int) -> str:
    """The artifact as a few lines of at most `max_tokens`, in whole entries.

    The first line says from whom to whom and when; the last says how much more there is and
    where. Where both are too long together, what fits of them is given, in the end nothing.
    """
    parts = _parts_of(artifact)
    budget = budget_of(max_tokens, counter)
    shown = budget.select(_pieces(parts), lambda some: _summary_text(parts, some))
    if shown is None:
        return budget.first((f"{parts.head}\nMore: {parts.full_record}", parts.head))
    return _summary_text(parts, shown)


def _parts_of(artifact: Mapping[str, Any]) -> _Parts:
    names = [collapse(artifact.get(name) or "none") for name in ("from_agent", "to_agent")]
    at = _SECONDS.sub(r"\1", collapse(artifact.get("timestamp") or "no time"))
    action = collapse(artifact.get("next_action") or "")
    return _Parts(
        head=f"From {names[0]} to {names[1]}, {at}",
        action="" if action == REFERENCE else action,
        lists={name: _entries(artifact.get(name)) for name in LIMITS},
        omitted={
            name: count
            for name, count in _mapping(artifact.get("omitted")).items()
            if isinstance(count, int)
        },
        full_record=collapse(artifact.get("full_record") or ""),
    )


def _entries(given: object) -> list[str]:
    """A list's entries; a file that someone wrote by hand may hold anything in its place."""
    listed = cast("list[object]", given) if isinstance(given, list) else []
    return [collapse(entry) for entry in listed]


def _pieces(parts: _Parts) -> list[tuple[str, int]]:
    """The first of each kind, then the second of each, with the next action after the first."""
    longest = max(len(entries) for entries in parts.lists.values())
    rounds = [
        (name, index)
        for index in range(longest)
        for name in ("blockers", "decisions", "files_modified")
        if index < len(parts.lists[name])
    ]
    first = [piece for piece in rounds if piece[1] == 0]
    action = [("next_action", 0)] if parts.action else []
    return [*first, *action, *rounds[len(first) :]]


def _summary_text(parts: _Parts, shown: set[tuple[str, int]]) -> str:
    chosen = {
        name: [entry for i, entry in enumerate(entries) if (name, i) in shown]
        for name, entries in parts.lists.items()
    }
    lines = [
        parts.head,
        _labelled("Decided", "; ".join(chosen["decisions"])),
        _labelled("Files", _grouped(chosen["files_modified"])),
        _labelled("Blocked", "; ".join(chosen["blockers"])),
        _labelled("Next", parts.action if ("next_action", 0) in shown else ""),
        _rest(parts, chosen, ("next_action", 0) in shown),
    ]
    return "\n".join(line for line in lines if line)


def _labelled(label: str, text: str) -> str:
    return f"{label}: {text}" if text else ""


def _grouped(paths: list[str]) -> str:
    """Paths with a folder's name once: `src/{a.py, b.py}, docs/c.md`."""
    folders: dict[tuple[str, str], list[str]] = {}
    for path in dict.fromkeys(paths):
        # Braces and commas in a path would read as part of the notation.
        if path.endswith("/") or re.search("[{},]", path):
            folders[(path, "")] = [path]
        else:
            cut = path.rfind("/") + 1
            folders.setdefault(("", path[:cut]), []).append(path[cut:])
    return ", ".join(_folder(folder, names) for (_, folder), names in folders.items())


def _folder(folder: str, names: list[str]) -> str:
    if len(names) == 1 or not folder:
        return ", ".join(f"{folder}{name}" for name in names)
    return f"{folder}{{{', '.join(names)}}}"


def _rest(parts: _Parts, chosen: dict[str, list[str]], has_action: bool) -> str:
    missing: list[str] = []
    for name, noun in _NOUNS.items():
        count = parts.omitted.get(name, 0) + len(parts.lists[name]) - len(chosen[name])
        if count:
            missing.append(counted(count, noun))
    if parts.action and not has_action:
        missing.append("the next action")
    where = parts.full_record
    left = ", ".join(missing)
    return _labelled("More", f"{left} in {where}" if left and where else left or where)


_TEXTS = ("version", "timestamp", "from_agent", "to_agent", "next_action", "full_record")
_MAX_DEPTH = 32


def artifact_problems(
    data: object,
    *,
    counter: CounterLike = None,
    max_tokens: int = MAX_TOKENS,
) -> list[Problem]:
    """What is wrong with an artifact's data; an empty list when nothing is.

    Errors: empty (no agents, no story context, no next action), wrong_type, too_many, too_long,
    invalid_time, never_carried. A field that is merely unknown is a warning.
    """
    if not isinstance(data, dict):
        return [Problem("", "wrong_type", f"{type(data).__name__} given", "an artifact's fields")]
    artifact = cast("dict[str, Any]", data)
    found = [
        *_type_problems(artifact),
        *_missing(artifact),
        *_carried(artifact, "", 0),
        *_unknown(artifact),
        *_over_limits(artifact),
    ]
    if not any(problem.code == "wrong_type" for problem in found):
        tokens = counter_of(counter).tokens(artifact_text(artifact))
        if tokens > max_tokens:
            expected = f"at most {max_tokens:,}"
            found.append(Problem("", "too_long", f"{tokens:,} tokens", expected))
    return found


def _wrong(path: str, value: object, expected: str) -> Problem:
    return Problem(path, "wrong_type", f"{type(value).__name__} given", expected)


def _type_problems(artifact: dict[str, Any]) -> list[Problem]:
    found = [
        _wrong(name, artifact[name], "text")
        for name in _TEXTS
        if name in artifact and not isinstance(artifact[name], str)
    ]
    if "consumed" in artifact and not isinstance(artifact["consumed"], bool):
        found.append(_wrong("consumed", artifact["consumed"], "true or false"))
    for name in LIMITS:
        found += _list_problems(artifact.get(name, []), name)
    story: object = artifact.get("story_context", {})
    if isinstance(story, dict):
        found += [
            _wrong(child_path("story_context", key), value, "text")
            for key, value in cast("dict[str, object]", story).items()
            if not isinstance(value, str)
        ]
    else:
        found.append(_wrong("story_context", story, "a story's fields"))
    return [*found, *_count_problems(artifact.get("omitted", {})), *_time_problems(artifact)]


def _list_problems(value: object, name: str) -> list[Problem]:
    if not isinstance(value, list):
        return [_wrong(name, value, "a list of texts")]
    entries = enumerate(cast("list[object]", value))
    return [
        _wrong(f"{name}[{i}]", each, "text") for i, each in entries if not isinstance(each, str)
    ]


def _count_problems(omitted: object) -> list[Problem]:
    if not isinstance(omitted, dict):
        return [_wrong("omitted", omitted, "counts by name")]
    return [
        _wrong(child_path("omitted", name), count, "a whole number from 0")
        for name, count in cast("dict[str, object]", omitted).items()
        if not isinstance(count, int) or isinstance(count, bool) or count < 0
    ]


def _time_problems(artifact: dict[str, Any]) -> list[Problem]:
    at = artifact.get("timestamp")
    if not isinstance(at, str) or not at:
        return []
    try:
        parse_time(at)
    except ValueError:
        expected = "ISO 8601 with a zone, such as 2026-01-09T10:00:00Z"
        return [Problem("timestamp", "invalid_time", "is no such time", expected)]
    return []


def _missing(artifact: dict[str, Any]) -> list[Problem]:
    found = [
        Problem(name, "empty", "names no agent", "an agent's name")
        for name in ("from_agent", "to_agent")
        if _says_nothing(artifact.get(name))
    ]
    story: object = artifact.get("story_context")
    values = cast("dict[str, object]", story) if isinstance(story, dict) else {}
    if all(_says_nothing(values.get(name)) for name in ("story_id", "current_task")):
        expected = "a story_id or a current_task"
        found.append(Problem("story_context", "empty", "says nothing of the work", expected))
    if _says_nothing(artifact.get("next_action")):
        expected = f"what to do next, in at most {MAX_SENTENCES} sentences"
        found.append(Problem("next_action", "empty", "is missing", expected))
    return found


def _says_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and is_blank(value))


def _carried(value: object, path: str, depth: int) -> list[Problem]:
    """Fields of the agent that leaves, at any depth."""
    if depth > _MAX_DEPTH:
        return [Problem(path, "too_deep", "is nested too deeply", "an artifact's fields")]
    found: list[Problem] = []
    if isinstance(value, dict):
        for key, inner in cast("dict[object, object]", value).items():
            where = child_path(path, key)
            if plain_key(key) in NEVER_CARRIED:
                message = "belongs to the agent that leaves"
                found.append(Problem(where, "never_carried", message, fix="leave it out"))
            found += _carried(inner, where, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            found += _carried(inner, f"{path}[{index}]", depth + 1)
    return found


def _unknown(artifact: dict[str, Any]) -> list[Problem]:
    given: object = artifact.get("story_context")
    story = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    known = {"": FIELDS, "story_context": STORY_FIELDS}
    parts = {"": artifact, "story_context": story}
    return [
        Problem(
            child_path(path, key),
            "unknown_field",
            "is no field of an artifact",
            " | ".join(known[path]),
            level="warning",
        )
        for path, part in parts.items()
        for key in part
        if key not in known[path] and plain_key(key) not in NEVER_CARRIED
    ]


def _over_limits(artifact: dict[str, Any]) -> list[Problem]:
    found: list[Problem] = []
    for name, limit in LIMITS.items():
        entries: object = artifact.get(name)
        if isinstance(entries, list) and (size := len(cast("list[object]", entries))) > limit:
            found.append(Problem(name, "too_many", f"{size:,} entries", f"at most {limit}"))
    action: object = artifact.get("next_action")
    sentences = len(sentence_ends(action)) if isinstance(action, str) else 0
    if sentences > MAX_SENTENCES:
        expected = f"at most {MAX_SENTENCES}"
        found.append(Problem("next_action", "too_many", f"{sentences:,} sentences", expected))
    return found
