"""What is told through a server: briefs, switches, prompts.

Profiles and the repository are those of the machine where an agent works: they are read here and
sent. Where there is no profile here, the server's is taken.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.workspace.reads import NEWEST
from passdown.workspace.remote.asking import Asking, named_counter
from passdown.workspace.remote.connection import part
from passdown.workspace.remote.values import brief_of, computed_of, switched_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.briefing.brief import Brief
    from passdown.briefing.computed import Computed
    from passdown.briefing.rules.brackets import Compaction
    from passdown.briefing.summary import Freshness
    from passdown.recall.profiles import Profile, Profiles
    from passdown.workspace.aliases import CounterLike
    from passdown.workspace.prompting import Prompted
    from passdown.workspace.switching import Switched

Document = dict[str, Any]

_NO_BRIEF = "no brief was made"
_NO_SWITCH = "no switch was made"


class RemoteTells(Asking):
    """The methods that put words together for an agent; see `Workspace` for each."""

    def brief(
        self,
        task: str,
        *,
        agent: str,
        budget: int | None = None,
        counter: CounterLike = None,
        format: str = "markdown",
        tags: Sequence[str] = (),
        record: bool = True,
    ) -> Brief:
        """What `agent` needs to know of a task, within a budget of tokens."""
        _check_brief(agent, budget, format, counter, tags)
        query: Document = {"agent": agent, "budget": budget}
        query["counter"] = named_counter(counter, _NO_BRIEF)
        query |= {"format": format, "tags": tags, "record": record}
        return _told_whose(brief_of(self._get(f"/api/tasks/{part(task)}/brief", **query)))

    def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        from passdown.briefing.summary import Freshness

        return Freshness(**self._check(f"/api/tasks/{part(task)}/brief/check", {"text": text}))

    def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """What was told to whom, newest first."""
        path = "/api/deliveries" if task is None else f"/api/tasks/{part(task)}/deliveries"
        return self._pages(path, limit, None if before == NEWEST else before)

    def why(self, item: str, *, agent: str) -> Document:
        """Whether and when an agent was told an item."""
        return self._get(f"/api/items/{part(item)}/why", agent=agent)

    def switch(
        self,
        task: str,
        *,
        to: str,
        from_agent: str = "",
        budget: int | None = None,
        counter: CounterLike = None,
        profiles: str = "",
        rules: str = "",
        record: bool = True,
    ) -> Switched:
        """The whole context of an agent that takes over a task."""
        body: Document = {"to": to, "from_agent": from_agent or None, "budget": budget}
        body |= {"counter": named_counter(counter, _NO_SWITCH), "rules": rules or None}
        found = _profiles(profiles).get(to)
        kept = {name: value for name, value in body.items() if value is not None}
        kept |= {"record": record}
        if found is not None or profiles:
            kept["profile"] = _sent(found) if found else None
        reply = self._wire.ask("POST", f"/api/tasks/{part(task)}/switch", body=kept)
        return switched_of(reply.document(), os.getcwd())

    def save_artifact(self, task: str, *, to: str, from_agent: str = "") -> Document:
        """Leave a switch artifact for an agent that comes later; its file is the server's."""
        body = {"to": to, "from_agent": from_agent or None}
        return self._post(f"/api/tasks/{part(task)}/switch-artifacts", body)

    def switch_artifacts(self, *, task: str = "", agent: str = "") -> list[Document]:
        """The switch artifacts of a task, newest first, or those that wait for an agent."""
        return self._get("/api/switch-artifacts", task=task, agent=agent)["items"]

    def prompt(
        self,
        text: str,
        *,
        task: str,
        active: str = "",
        budget: int | None = None,
        counter: CounterLike = None,
        record: bool = True,
    ) -> Prompted:
        """A user's prompt, behind the new agent's context where it calls one."""
        from passdown.briefing.switching.triggers import find_switch
        from passdown.workspace.prompting import Prompted

        here = _profiles("")
        called = find_switch(text, here.names(), active)
        profile = here.get(called) if called else None
        body: Document = {"text": text, "active": active or None, "budget": budget}
        body |= {"counter": named_counter(counter, _NO_SWITCH), "record": record}
        body["profile"] = _sent(profile) if profile else None
        found = self._post(f"/api/tasks/{part(task)}/prompt", body)
        switched = found["switched"]
        made = switched_of(switched, os.getcwd()) if switched else None
        return Prompted(found["text"], found["agent"], made)

    def subagent_prompt(self, agent: str, text: str) -> str:
        """An agent's whole profile and a task's whole text, both unchanged."""
        from passdown.briefing.switching.assembly import subagent_prompt

        profile = self.profile(agent)
        if profile is None or not profile.text:
            known = ", ".join(self.agents()) or "none"
            raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
        return subagent_prompt(profile.text, text)

    def profile(self, agent: str) -> Profile | None:
        """An agent's profile here, else where the server is, or None where it has none."""
        from passdown.workspace.sent_profiles import profile_of

        found = _profiles("").get(agent)
        if found is not None:
            return found
        try:
            return profile_of(self._get(f"/api/profiles/{part(agent)}"))
        except NotFound:
            return None

    def agents(self) -> tuple[str, ...]:
        """The agents that have a profile, here or where the server is."""
        return tuple(sorted({*_profiles("").names(), *self._get("/api/profiles")["items"]}))

    def compaction(self, used_tokens: int) -> Compaction:
        """Whether a context of this size is due for compaction, by the server's settings."""
        from passdown.briefing.rules.brackets import Compaction

        found: Document = self._get("/api/compaction", used=used_tokens)
        found["reasons"] = tuple(found["reasons"])
        return Compaction(**found)

    def injection(self, task: str) -> str:
        """What the tasks that a task depends on leave for it, as text for its prompt."""
        return self._get(f"/api/tasks/{part(task)}/injection")["text"]

    def computed_context(self, task: str, complexity: str = "normal") -> Computed:
        """What of earlier work bears on a task, each with its score and why."""
        return computed_of(self._get(f"/api/tasks/{part(task)}/computed", complexity=complexity))

    def compact_context(self, task: str) -> str:
        """A task's phase and last decisions in at most 2,000 characters."""
        return self._get(f"/api/tasks/{part(task)}/compact")["text"]

    def next_steps(self, task: str) -> list[Document]:
        """The open next steps of a task in the order in which they can be done."""
        return self._get(f"/api/tasks/{part(task)}/next-steps")["items"]


def _told_whose(brief: Brief) -> Brief:
    """A brief that says, where it calls something stale, whose files it went by."""
    if not any(item.stale for item in brief.shown):
        return brief
    message = "what is marked as changed has changed in the server's checkout since"
    fix = "artifacts(task) of a workspace in Python compares with the files here"
    whose = Problem("files", "files_of_server", message, "", fix, "warning")
    return brief._replace(warnings=(*brief.warnings, whose))


def _profiles(folder: str) -> Profiles:
    """The profiles of the project that this program works in."""
    from passdown.recall.profiles import Profiles

    return Profiles(os.getcwd(), os.path.abspath(folder) if folder else "")


def _sent(profile: Profile) -> Document:
    problems = [problem.as_document() for problem in profile.problems]
    sent: Document = {"name": profile.name, "text": profile.text, "problems": problems}
    return {**sent, "path": profile.path[:1_024]}


def _check_brief(
    agent: object, budget: object, format: object, counter: CounterLike, tags: object
) -> None:
    """What is wrong with a question before it is sent; the server asks the same."""
    from passdown.briefing.brief import ask_problems
    from passdown.model.names import agent_problems
    from passdown.model.tokens import counter_of

    if isinstance(tags, str):
        wrong = Problem("tags", "wrong_type", "a text given", "a list of tags")
        raise InvalidInput(_NO_BRIEF, [wrong])
    asked = 1 if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *ask_problems(asked, format)]
    try:
        if counter is not None:
            counter_of(counter, "chars4")
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput(_NO_BRIEF, problems)
