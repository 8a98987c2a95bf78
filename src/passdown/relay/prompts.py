"""Prompts from templates: the system message of a conversation, and the requests in it.

A template is a text with `{{name}}` in it and nothing else that is special. Values are put in once
and as they are: what looks like a placeholder in a value is just text.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.model.compaction import shortened_to
from passdown.model.text import excerpt, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.tokens import Counter
    from passdown.workspace import Workspace

KNOWLEDGE_TOKENS = 1_500
SPEC_TOKENS = 4_000
MAX_TEMPLATE_BYTES = 262_144
MAX_SPEC_BYTES = 1_048_576
REQUESTS = ("plan_review", "code_review", "completion", "question", "budget_review")
_ABOUT = "agent peer profile role rules task title description criteria spec knowledge"
PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    "system": tuple(_ABOUT.split()),
    "leg": tuple("agent agents task phase brief request guidance before".split()),
    **dict.fromkeys(REQUESTS, ("content", "agent", "peer", "task")),
}
"""What each template may contain."""

_NONE = "(none)"
_PLACE = re.compile(r"\{\{([^{}\n]{0,80})\}\}")


class Templates:
    """The templates that ship, each replaced by the file of the same name in a folder of the
    user's, where there is one. Files are read when they are used.
    """

    def __init__(self, folder: str = "") -> None:
        if folder and not os.path.isdir(folder):
            problem = Problem("templates", "not_found", f"{excerpt(folder, 200)!r}", "a folder")
            raise InvalidInput("there are no templates", [problem])
        self.folder = folder

    def file(self, name: str) -> str:
        """The file that a template comes from."""
        own = os.path.join(self.folder, f"{name}.md")
        if self.folder and os.path.lexists(own):
            return own
        return os.path.join(os.path.dirname(__file__), "templates", f"{name}.md")

    def render(self, name: str, values: Mapping[str, str]) -> str:
        """A template with its values; raises InvalidInput that names file and placeholders."""
        text, problems = self._read(name)
        if problems:
            raise InvalidInput("the template has faults", problems, next_step="Mend the file.")
        return _PLACE.sub(lambda found: values[found[1].strip()], text).strip()

    def problems(self) -> list[Problem]:
        """Everything that is wrong with any template."""
        return [problem for name in PLACEHOLDERS for problem in self._read(name)[1]]

    def _read(self, name: str) -> tuple[str, list[Problem]]:
        path = self.file(name)
        try:
            text = _file_text(path, MAX_TEMPLATE_BYTES)
        except (OSError, ValueError) as error:
            shown = excerpt(str(error), 200)
            return "", [Problem(excerpt(path, 200), "unreadable_file", shown, "a text file")]
        return text, _text_problems(text, PLACEHOLDERS[name], excerpt(path, 200))


def _text_problems(text: str, known: tuple[str, ...], path: str) -> list[Problem]:
    """The placeholders of a text that there are no values for, and those that never end."""
    found: list[Problem] = []
    places: list[str] = _PLACE.findall(text)
    for name in dict.fromkeys(place.strip() for place in places):
        if name not in known:
            close = get_close_matches(name, known, 1, 0.6)
            fix = f"did you mean {{{{{close[0]}}}}}?" if close else ""
            message = f"{{{{{excerpt(name)}}}}} is no placeholder of it"
            found.append(Problem(path, "unknown_placeholder", message, " | ".join(known), fix))
    rest = _PLACE.sub("", text)
    for open_at in re.finditer(r"\{\{[^\n]{0,40}", rest):
        message = f"{excerpt(open_at[0])!r} has no end"
        found.append(Problem(path, "unknown_placeholder", message, "{{name}}"))
    return found


def _file_text(path: str, most: int) -> str:
    if not os.path.isfile(path):
        raise ValueError("is no regular file")
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most:,} bytes")
    return data.decode("utf-8-sig")


class About(NamedTuple):
    """Whom a system message is for, and what about. `spec` is a text, or a file, or a folder with
    a file TASK.md for each task.
    """

    agent: str
    peer: str
    task: str
    role: str = ""
    rules: str = ""
    spec: str | os.PathLike[str] = ""
    profile: str = ""


def system_text(
    workspace: Workspace, templates: Templates, about: About, counter: Counter, most: int
) -> str:
    """The system message for an agent that talks with a peer about a task, within `most` tokens.

    Raises whatever keeps it from being made: a faulty template, a task that isn't there.
    """
    profile = workspace.profile(about.profile or about.agent)
    task = workspace.task(about.task) if about.task else {}
    knowledge = ""
    if about.task:
        knowledge = workspace.pack(about.task, budget=KNOWLEDGE_TOKENS, counter=counter).text
    values = {
        "agent": about.agent,
        "peer": about.peer,
        "profile": profile.text.strip() if profile else "",
        "role": about.role,
        "rules": about.rules,
        "task": about.task or "the work as a whole",
        "title": visible(" ".join(str(task.get("title", _NONE)).split())),
        "description": fenced(str(task.get("description") or "")),
        "criteria": fenced("\n".join(f"- {each}" for each in task.get("criteria") or ())),
        "spec": fenced(_spec(about, task, counter)),
        "knowledge": fenced(knowledge),
    }
    text = templates.render("system", values)
    whole = f"passdown state {about.task}" if about.task else templates.file("system")
    return shortened_to(text, most, counter, whole)


def minimal_text(about: About) -> str:
    """The system message where no other can be made."""
    what = f"the task {about.task}" if about.task else "the work as a whole"
    return f"You are {about.agent}. You talk with {about.peer} about {what}."


def fenced(text: str) -> str:
    """A text between rows of backticks that are longer than any in it."""
    if not text.strip():
        return _NONE
    longest = max((len(run) for run in _backticks().findall(text)), default=0)
    row = "`" * max(3, longest + 1)
    return f"{row}\n{text.strip()}\n{row}"


@cache
def _backticks() -> re.Pattern[str]:
    return re.compile("`+")


def _spec(about: About, task: Mapping[str, Any], counter: Counter) -> str:
    """The specification that was given, or what the task itself says it takes and gives."""
    text, whole = "", "the specification that was given"
    if isinstance(about.spec, str):
        text = about.spec
    elif about.task:
        whole = os.fspath(about.spec)
        if os.path.isdir(whole):
            whole = os.path.join(whole, f"{about.task}.md")
        text = _file_text(whole, MAX_SPEC_BYTES) if os.path.exists(whole) else ""
    if not text.strip():
        lists = {name: task.get(name) or () for name in ("inputs", "outputs")}
        text = "\n".join(f"{name}: {', '.join(each)}" for name, each in lists.items() if each)
    return shortened_to(text, SPEC_TOKENS, counter, whole)
