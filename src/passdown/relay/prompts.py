"""Prompt templates, and the system message of an agent that talks with a peer about a task."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.context.pipeline import collapse
from passdown.core.text import excerpt
from passdown.errors import InvalidInput, Problem
from passdown.relay.messages import shortened_to
from passdown.relay.run import KINDS, WORK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.core.tokens import Counter
    from passdown.workspace import Workspace

KNOWLEDGE_TOKENS = 1_500
SPEC_TOKENS = 4_000
MAX_TEMPLATE_BYTES = 262_144
MAX_SPEC_BYTES = 1_048_576
MAX_SHOWN_ID = 24
REQUESTS = tuple(kind for kind in KINDS if kind != WORK)
_ABOUT = "agent peer profile role rules task title description criteria spec knowledge"
PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    "system": tuple(_ABOUT.split()),
    "leg": tuple("agent agents task phase brief request guidance before example".split()),
    **dict.fromkeys(REQUESTS, ("content", "agent", "peer", "task")),
}
"""The placeholders of each template."""

_PLACEHOLDER = re.compile(r"\{\{([^{}\n]{0,80})\}\}")
_BACKTICKS = "`+"


class Templates:
    """The built-in templates, each replaced by the file of the same name in the user's folder, if
    any. Files are read when they are used.

    A template has placeholders such as `{{name}}` and no other syntax. Values are inserted once and
    as they are. A paragraph whose placeholders are all empty is left out, and so is a heading with
    nothing left below it.
    """

    def __init__(self, folder: str = "") -> None:
        if folder and not os.path.isdir(folder):
            problem = Problem("templates", "not_found", f"{excerpt(folder, 200)!r}", "a folder")
            raise InvalidInput("the folder of templates was not found", [problem])
        self.folder = folder

    def file(self, name: str) -> str:
        """The path of a template."""
        own = os.path.join(self.folder, f"{name}.md")
        if self.folder and os.path.lexists(own):
            return own
        return os.path.join(os.path.dirname(__file__), "templates", f"{name}.md")

    def render(self, name: str, values: Mapping[str, str]) -> str:
        """A template with its values; raises InvalidInput with every problem."""
        text, problems = self._read(name)
        if problems:
            raise InvalidInput("the template is invalid", problems, next_step="Fix the file.")

        def value(found: re.Match[str]) -> str:
            return values[found[1].strip()]

        kept = _with_content(text, values)
        return "\n\n".join(_PLACEHOLDER.sub(value, part).rstrip(" ") for part in kept).strip()

    def problems(self) -> list[Problem]:
        """The problems of all templates."""
        return [problem for name in PLACEHOLDERS for problem in self._read(name)[1]]

    def _read(self, name: str) -> tuple[str, list[Problem]]:
        path = self.file(name)
        try:
            text = _file_text(path, MAX_TEMPLATE_BYTES)
        except (OSError, ValueError) as error:
            shown = excerpt(str(error), 200)
            return "", [Problem(excerpt(path, 200), "unreadable_file", shown, "a text file")]
        return text, _text_problems(text, PLACEHOLDERS[name], excerpt(path, 200))


def _with_content(text: str, values: Mapping[str, str]) -> list[str]:
    """The paragraphs of a template that have something to say."""
    kept: list[str] = []
    is_emptied = False
    for part in [*re.split(r"\n[ \t]*\n+", text.strip("\n")), ""]:
        names = _PLACEHOLDER.findall(part)
        if names and not any(values[name.strip()].strip() for name in names):
            is_emptied = True
            continue
        level = _heading_level(part) or (0 if part else 1)
        if is_emptied and kept and level and level <= _heading_level(kept[-1]):
            kept.pop()
        is_emptied = False
        kept.append(part)
    return kept


def _heading_level(part: str) -> int:
    """The level of a heading that is a paragraph of its own; 0 for other text."""
    is_heading = part.startswith("#") and "\n" not in part
    return len(part) - len(part.lstrip("#")) if is_heading else 0


def _text_problems(text: str, known: tuple[str, ...], path: str) -> list[Problem]:
    """Unknown and unclosed placeholders."""
    found: list[Problem] = []
    places: list[str] = _PLACEHOLDER.findall(text)
    for name in dict.fromkeys(place.strip() for place in places):
        if name not in known:
            close = get_close_matches(name, known, 1, 0.6)
            fix = f"did you mean {{{{{close[0]}}}}}?" if close else ""
            message = f"{{{{{excerpt(name)}}}}} is not a placeholder of this template"
            found.append(Problem(path, "unknown_placeholder", message, " | ".join(known), fix))
    for unclosed in re.findall(r"\{\{[^\n]{0,40}", _PLACEHOLDER.sub("", text)):
        message = f"{excerpt(unclosed)!r} is not closed"
        found.append(Problem(path, "unknown_placeholder", message, "{{name}}"))
    return found


def _file_text(path: str, most: int) -> str:
    if not os.path.isfile(path):
        raise ValueError("is not a regular file")
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most:,} bytes")
    return data.decode("utf-8-sig")


class PromptSubject(NamedTuple):
    """The participants and the subject of a system message. `spec` is a text, a file, or a folder
    with a file TASK.md for each task. With `has_brief`, the task is described in the requests.
    """

    agent: str
    peer: str
    task: str
    role: str = ""
    rules: str = ""
    spec: str | os.PathLike[str] = ""
    profile: str = ""
    has_brief: bool = False


def system_text(
    workspace: Workspace, templates: Templates, about: PromptSubject, counter: Counter, most: int
) -> str:
    """The system message for an agent that talks with a peer about a task, within `most` tokens.

    Raises whatever prevents it: an invalid template, an unknown task.
    """
    profile = workspace.context.profile(about.profile or about.agent)
    task = workspace.task(about.task).to_dict() if about.task else {}
    shown = {} if about.has_brief else task
    values = {
        "agent": about.agent,
        "peer": about.peer,
        "profile": profile.text.strip() if profile else "",
        "role": about.role,
        "rules": about.rules,
        "task": _shown_task(about),
        "title": collapse(shown.get("title", "")),
        "description": fenced(str(shown.get("description") or "")),
        "criteria": fenced("\n".join(f"- {each}" for each in shown.get("criteria") or ())),
        "spec": fenced(_spec(about, shown, counter)),
        "knowledge": fenced(_knowledge(workspace, about, counter)) if about.task else "",
    }
    text = templates.render("system", values)
    whole = f"passdown state {about.task}" if about.task else templates.file("system")
    return shortened_to(text, most, counter, whole)


def _shown_task(about: PromptSubject) -> str:
    """What an agent works on; a long id is left to the brief."""
    is_long = about.has_brief and len(about.task) > MAX_SHOWN_ID
    return "this task" if is_long else about.task or "the whole project"


def minimal_text(about: PromptSubject) -> str:
    """The system message if no other can be made."""
    return (
        f"You are {about.agent}. You work with {about.peer} on {_shown_task(about)}. "
        "Record lasting findings with knowledge_add (`passdown knowledge add`)."
    )


def fenced(text: str) -> str:
    """A text in a fence of backticks longer than any in it; "" for an empty one."""
    if not text.strip():
        return ""
    longest = max((len(run) for run in re.findall(_BACKTICKS, text)), default=0)
    row = "`" * max(3, longest + 1)
    return f"{row}\n{text.strip()}\n{row}"


def _knowledge(workspace: Workspace, about: PromptSubject, counter: Counter) -> str:
    """What the knowledge graph has about a task, a line each; with a brief, of other tasks only."""
    pack = workspace.knowledge.pack(about.task, budget=KNOWLEDGE_TOKENS, counter=counter)
    lines = [
        f"- {node.id} ({node.type}): {collapse(node.summary)}"
        for node in pack.graph.nodes
        if node.type not in ("agent", "task", "file", "artifact")
        and not (about.has_brief and node.id.startswith(f"{about.task}#"))
    ]
    return "\n".join(lines)


def _spec(about: PromptSubject, task: Mapping[str, Any], counter: Counter) -> str:
    """The given specification, or else the inputs and outputs of the task."""
    text, whole = "", "the specification that was given"
    if isinstance(about.spec, str):
        text = about.spec
    else:
        whole = os.fspath(about.spec)
        if os.path.isdir(whole):
            whole = os.path.join(whole, f"{about.task}.md")
        text = _file_text(whole, MAX_SPEC_BYTES) if os.path.exists(whole) else ""
    if not text.strip():
        lists = {name: task.get(name) or () for name in ("inputs", "outputs")}
        text = "\n".join(f"{name}: {', '.join(each)}" for name, each in lists.items() if each)
    return shortened_to(text, SPEC_TOKENS, counter, whole)
