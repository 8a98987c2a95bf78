"""Task files: the template, and the task and handoff that a text contains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from passdown.core.kinds import PHASES
from passdown.core.names import id_problems
from passdown.core.parsing import decoded, load_json, load_yaml
from passdown.core.text import excerpt, visible
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem, raise_problems

_TEMPLATE = """\
# Task @task@: @title@

<!-- Fill in the places in [brackets]; those left as they are don't count, nor do comments.
     When the file is ingested and the task doesn't exist yet, it is created from the file: from the
     title above, Phase, Time limit, Depends on, the Objective, and the list items of Acceptance
     Criteria and Context Provided. An existing task stays as it is. -->

## Metadata
<!-- Agent hands off to Next agent; that counts each time. -->
- **Agent:** [who works on this, such as coder]
- **Next agent:** [who takes over, such as tester]
- **Phase:** @phases@
- **Time limit:** [minutes]
- **Depends on:** [task ids]

## Objective
[What has to be done, in one or two sentences.]

## Acceptance Criteria
- [ ] [Something that can be tested.]

## Context Provided
- [Files, decisions and earlier handoffs to begin from.]

---

## Execution Log
<!-- For people: it isn't recorded. What the next agent needs belongs in the handoff. -->
- [Time: what was done, tried or found.]

---

## Handoff

<!-- This part is recorded, once, when it names an outcome. -->

```yaml
# Fill in what applies; remove the # in front. Only the outcome is required.
@handoff@```

---

*Task completed: [time, such as 2026-01-09T10:00:00Z]*
"""

PLACEHOLDERS = frozenset(re.findall(r"\[[^\[\]]{3,}\]", _TEMPLATE.partition("## Handoff")[0]))
"""The places of the template that wait to be filled in, such as `[minutes]`."""


def _phase_place(phases: Sequence[str]) -> str:
    """The place of the template that the phase goes in: it lists the choices."""
    return f"[{' | '.join(phases)}]"


def task_template(
    task: str = "TASK-ID", title: str = "Name", phases: Sequence[str] = PHASES
) -> str:
    """A task file to fill in; `passdown ingest` takes it once its handoff says how the work ended.

    Raises InvalidInput for an id that no task can have.
    """
    problems = id_problems(task, "task")
    raise_problems("no template for such an id", problems)
    from passdown.core.handoff_templates import yaml_template

    # The title is one line of a heading, whatever was given; the id can hold no mark.
    shown = visible(" ".join(title.split())) or "Name"
    filled = _TEMPLATE.replace("@handoff@", yaml_template(), 1)
    filled = filled.replace("@phases@", _phase_place(phases), 1)
    return filled.replace("@task@", task, 1).replace("@title@", shown, 1)


_HEADING = re.compile(r"^(#{1,6})[ \t](.*)$")
# No two neighbours of a pattern take the same characters: a line is read once, whatever it holds.
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[ \t]*+([A-Za-z0-9_+-]*+)[^`]*$")
_TASK_TITLE = re.compile(r"^#[ \t]++Task[ \t]++([^\s:]++):[ \t]*+(\S(?:.*\S)?)", re.MULTILINE)
_METADATA = re.compile(
    r"^[-*][ \t]*+\*{0,2}([A-Za-z_ ]+?)\*{0,2}:\*{0,2}[ \t]*+(\S(?:.*\S)?)[ \t]*$"
)
_ITEM = re.compile(r"^[ \t]*+(?:[-*+]|\d{1,9}[.)])[ \t]++(?:\[[ xX]\][ \t]++)?((?:.*\S)?)[ \t]*$")
_MINUTES = re.compile(r"(\d{1,6})[ \t]*(m|min|mins|minutes?|h|hours?)?\.?", re.IGNORECASE)
_AGENTS = {
    "from": "from_agent",
    "agent": "from_agent",
    "to": "to_agent",
    "next agent": "to_agent",
}
_AROUND_SECTION = ("yaml", "yml", "markdown", "md", "")
"""The languages of a fence that may hold a whole section, its heading included."""
_LISTS = {"acceptance criteria": "criteria", "context provided": "inputs"}

# Headings, fences and metadata are short; longer lines are text, whatever they begin with.
MAX_MARKUP_LINE = 400


def read_handoff_text(text: str | bytes) -> tuple[dict[str, Any], bool]:
    """The handoff that a text holds, as plain data, and whether the text is a task file: a document
    with a `## Handoff` section. What kind of text it is shows by itself.
    """
    source = text if isinstance(text, str) else decoded(text)
    section = handoff_section(source)
    is_task_file = section is not None
    if source.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return _object(load_json(source)), is_task_file
    if section is not None:
        return _from_section(source, section), is_task_file
    fenced = _fenced(source)
    return _object(_loaded(source if fenced is None else fenced)), is_task_file


def _loaded(text: str) -> object:
    """JSON where it looks like it, which YAML doesn't read as JSON does; else YAML."""
    return load_json(text) if text.lstrip().startswith("{") else load_yaml(text)


def read_task_file(text: str) -> dict[str, Any]:
    """The YAML of a task file's `## Handoff` section, with the task's id where the title names
    it.
    """
    section = handoff_section(text)
    if section is None:
        raise no_handoff()
    return _from_section(text, section)


def _from_section(text: str, section: str) -> dict[str, Any]:
    fenced = _fenced(section)
    data = _object(_loaded(_before_rule(section) if fenced is None else fenced))
    if data.get("outcome", "") is None:
        # As the template leaves it: nobody has said yet how the work ended.
        del data["outcome"]
    for name, value in _task_metadata(text).items():
        data.setdefault(name, value)
    return data


def no_handoff() -> InvalidInput:
    """The error for a file without a handoff section."""
    message = "the file has no '## Handoff' heading"
    problem = Problem("", "no_handoff", message, "such a heading with YAML below it")
    return InvalidInput("no handoff found", [problem])


def handoff_section(text: str) -> str | None:
    """The text below the last heading named Handoff, up to the next heading of its level.

    Where there is none, a fenced block that begins with that heading is the section.
    """
    span = handoff_span(text)
    if span:
        return "\n".join(text[span[1] : span[2]].splitlines()) + "\n"
    for language, content in reversed(_fences(text)):
        first = next((line for line in content if line.strip()), "")
        heading = _HEADING.match(first) if len(first) <= MAX_MARKUP_LINE else None
        if language in _AROUND_SECTION and heading and _is_handoff(heading):
            return "\n".join(content[content.index(first) + 1 :]) + "\n"
    return None


def _is_handoff(heading: re.Match[str]) -> bool:
    return heading[2].strip().rstrip("#").rstrip().lower() == "handoff"


def handoff_span(text: str) -> tuple[int, int, int] | None:
    """Where the last section named Handoff begins, where its text does, and where it ends."""
    found: tuple[int, int, int] | None = None
    level = 0
    for at, line, heading in _headings(text):
        if heading and _is_handoff(heading):
            found, level = (at, at + len(line), len(text)), len(heading[1])
        elif found and heading and level and len(heading[1]) <= level:
            found, level = (found[0], found[1], at), 0
    return found


def _headings(text: str) -> Iterator[tuple[int, str, re.Match[str] | None]]:
    """Each line with its position, and its match if it is a heading."""
    at = len(text) - len(text.removeprefix("\ufeff"))
    fence = ""
    for line in text[at:].splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        fence = fence_after(fence, bare)
        is_markup = not fence and len(bare) <= MAX_MARKUP_LINE
        yield at, line, _HEADING.match(bare) if is_markup else None
        at += len(line)


def fence_line(line: str) -> re.Match[str] | None:
    """A line that opens or closes a code fence: its marks, and the name of the language."""
    return _FENCE.match(line) if len(line) <= MAX_MARKUP_LINE else None


def fence_after(fence: str, line: str) -> str:
    """The fence that is open after a line, so that a heading inside one isn't taken for one."""
    match = fence_line(line)
    if match is None:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2]
    return "" if closes else fence


def _fenced(section: str) -> str | None:
    """The content of the first fence for yaml, or else json, or else of a bare one; or None."""
    for wanted in ("yaml", "yml", "json", ""):
        for language, content in _fences(section):
            if language == wanted:
                return "\n".join(content) + "\n"
    return None


def _fences(section: str) -> list[tuple[str, list[str]]]:
    """Every fenced block: the name of its language, and its lines."""
    blocks: list[tuple[str, list[str]]] = []
    fence = ""
    for line in section.splitlines():
        after = fence_after(fence, line)
        match = fence_line(line)
        if not fence and after and match:
            blocks.append((match[2].lower(), []))
        elif fence and after:
            blocks[-1][1].append(line)
        fence = after
    return blocks


def _before_rule(section: str) -> str:
    """The lines up to a `---` that ends a section (a closing line of a task file follows it)."""
    kept: list[str] = []
    for line in section.splitlines():
        if line.rstrip() == "---" and any(part.strip() for part in kept):
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def _task_metadata(text: str) -> dict[str, str]:
    """What the head of a task file says: the id in its title, and agents named in its metadata."""
    found: dict[str, str] = {}
    title = _TASK_TITLE.search(text)
    if title:
        found["task"] = title[1]
    for line in text.splitlines():
        match = _METADATA.match(line) if len(line) <= MAX_MARKUP_LINE else None
        name = _AGENTS.get(match[1].strip().lower()) if match else None
        if match and name and not match[2].startswith("["):
            found.setdefault(name, match[2])
        if line.strip().lower().startswith("## handoff"):
            break
    return found


def task_file_title(text: str) -> str:
    """The title that a task file gives its task, or nothing."""
    match = _TASK_TITLE.search(text)
    return match[2] if match else ""


class TaskFileFields(NamedTuple):
    """What a task file says of its task: `fields` to make it with, and what is `left_out`, why."""

    fields: dict[str, Any]
    left_out: list[str]


def task_file_fields(text: str, phases: Sequence[str] = PHASES) -> TaskFileFields:
    """The fields that a task file gives its task; placeholders don't count.

    Taken are Phase, Time limit and Depends on (lines of the metadata), the Objective, and the list
    items of Acceptance Criteria and Context Provided.
    """
    found = TaskFileFields({}, [])
    unused: list[str] = []
    for name, lines in _sections(without_comments(text)).items():
        key = name.lower()
        if key in ("", "metadata"):
            _take_metadata(lines, found, phases)
        elif key == "objective":
            objective = "\n".join(_filled(lines)).strip()
            if objective:
                found.fields["description"] = objective
        elif key in _LISTS:
            _take_items(name, lines, found)
        elif key != "handoff" and _filled(lines):
            unused.append(name)
    if unused:
        found.left_out.append(f"sections that a task has no place for: {', '.join(unused)}")
    return found


def without_comments(text: str, gap: str = "") -> str:
    """The text with `<!-- ... -->` replaced by `gap`; a comment that never ends is kept."""
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + len("-->")
    return gap.join([*kept, text[at:]])


def _sections(text: str) -> dict[str, list[str]]:
    """The lines below each heading of the second level; those above the first have no name."""
    found: dict[str, list[str]] = {"": []}
    name = ""
    for _, line, heading in _headings(text):
        if heading and len(heading[1]) == 2:
            name = heading[2].strip()
        elif not (heading and len(heading[1]) == 1):
            found.setdefault(name, []).append(line.rstrip("\r\n"))
    return found


def _filled(lines: list[str]) -> list[str]:
    """The lines of a section without rules and unfilled places; nothing if it is blank."""
    kept = [line for line in lines if line.strip() != "---" and not _is_place(line)]
    return kept if any(line.strip() for line in kept) else []


def _is_place(text: str) -> bool:
    """Whether a text, or the list item that it is, is one of the template's places."""
    item = _ITEM.match(text)
    return (item[1] if item else text).strip() in PLACEHOLDERS


def _take_metadata(lines: list[str], found: TaskFileFields, phases: Sequence[str]) -> None:
    places = (_phase_place(phases), _phase_place(PHASES))
    for line in _filled(lines):
        match = _METADATA.match(line) if len(line) <= MAX_MARKUP_LINE else None
        if match is None or _is_place(match[2]) or match[2] in places:
            continue
        name, value = match[1].strip(), match[2]
        key = name.lower()
        if value.startswith("["):
            found.left_out.append(f"{name}: {excerpt(value)} (in brackets, as if not filled in)")
        elif key == "phase" and value.lower() in phases:
            found.fields["phase"] = value.lower()
        elif key == "time limit" and (minutes := _minutes(value)):
            found.fields["time_limit_minutes"] = minutes
        elif key == "depends on":
            _take_needs(value, found)
        elif key not in _AGENTS:
            expected = {"phase": " | ".join(phases), "time limit": "a number of minutes"}.get(key)
            why = f"expected {expected}" if expected else "a task has no place for it"
            found.left_out.append(f"{name}: {excerpt(value)} ({why})")


def _minutes(text: str) -> int:
    match = _MINUTES.fullmatch(text)
    if match is None:
        return 0
    is_hours = (match[2] or "").lower().startswith("h")
    return int(match[1]) * (60 if is_hours else 1)


def _take_needs(text: str, found: TaskFileFields) -> None:
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    if text.strip(" .").lower() in ("none", "nothing", "-", "n/a"):
        return
    for word in words:
        if id_problems(word, "depends_on"):
            found.left_out.append(f"Depends on: {excerpt(word)} (expected task ids)")
        else:
            found.fields.setdefault("depends_on", []).append(word)


def _take_items(name: str, lines: list[str], found: TaskFileFields) -> None:
    """The list items of a section; lines that go on with an item belong to it."""
    items: list[str] = []
    fence = ""
    is_other = False
    for line in _filled(lines):
        was, fence = fence, fence_after(fence, line)
        item = None if was or fence else _ITEM.match(line)
        if item and item[1]:
            items.append(item[1])
        elif items and not was and not fence and line[:1] in (" ", "\t") and line.strip():
            items[-1] += f" {line.strip()}"
        else:
            is_other = is_other or bool(line.strip())
    if items:
        found.fields[_LISTS[name.lower()]] = items
    if is_other:
        found.left_out.append(f"{name}: what isn't a list item")


def _object(data: object) -> dict[str, Any]:
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)
    given = "nothing" if data is None else type(data).__name__
    problem = Problem("", "wrong_type", f"{given} given", "an object with the schema's fields")
    raise InvalidInput("the handoff is not an object", [problem])
