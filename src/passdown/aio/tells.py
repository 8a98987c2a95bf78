"""The methods of a workspace that put words together for an agent, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.aio.calling import Calling
from passdown.workspace.tells import NEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.briefing.brief import Brief
    from passdown.briefing.computed import Computed
    from passdown.briefing.rules.brackets import Compaction
    from passdown.briefing.summary import Freshness
    from passdown.recall.profiles import Profile
    from passdown.workspace.aliases import CounterLike, Document
    from passdown.workspace.prompting import Prompted
    from passdown.workspace.ruling import RulesInjected
    from passdown.workspace.switching import Switched


class AsyncTells(Calling):
    """See `workspace.tells` for what each method does."""

    async def brief(
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
        return await self._call(
            self._workspace.brief,
            task,
            agent=agent,
            budget=budget,
            counter=counter,
            format=format,
            tags=tags,
            record=record,
        )

    async def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        return await self._call(self._workspace.check_brief, task, text)

    async def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """What was told to whom, newest first, of one task or of all."""
        return await self._call(self._workspace.briefs, task, limit=limit, before=before)

    async def why(self, item: str, *, agent: str) -> Document:
        """Whether and when an agent was told an item, or what kept it out of its brief."""
        return await self._call(self._workspace.why, item, agent=agent)

    async def switch(
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
        return await self._call(
            self._workspace.switch,
            task,
            to=to,
            from_agent=from_agent,
            budget=budget,
            counter=counter,
            profiles=profiles,
            rules=rules,
            record=record,
        )

    async def save_artifact(self, task: str, *, to: str, from_agent: str = "") -> Document:
        """Leave a switch artifact for an agent that comes later; it waits until it is consumed."""
        return await self._call(self._workspace.save_artifact, task, to=to, from_agent=from_agent)

    async def switch_artifacts(self, *, task: str = "", agent: str = "") -> list[Document]:
        """The switch artifacts of a task, newest first, or those that wait for an agent."""
        return await self._call(self._workspace.switch_artifacts, task=task, agent=agent)

    async def prompt(
        self,
        text: str,
        *,
        task: str,
        active: str = "",
        budget: int | None = None,
        counter: CounterLike = None,
        record: bool = True,
    ) -> Prompted:
        """A user's prompt, behind the new agent's context where it calls one (`@name`, `/name`)."""
        return await self._call(
            self._workspace.prompt,
            text,
            task=task,
            active=active,
            budget=budget,
            counter=counter,
            record=record,
        )

    async def subagent_prompt(self, agent: str, text: str) -> str:
        """An agent's whole profile and a task's whole text, both unchanged."""
        return await self._call(self._workspace.subagent_prompt, agent, text)

    async def profile(self, agent: str) -> Profile | None:
        """An agent's profile, or None where it has none."""
        return await self._call(self._workspace.profile, agent)

    async def agents(self) -> tuple[str, ...]:
        """The agents that have a profile."""
        return await self._call(self._workspace.agents)

    async def rules(
        self,
        prompt: str,
        *,
        session: str,
        agent: str | None = None,
        workflow: str | None = None,
        squad: str | None = None,
        task: str | None = None,
        used_tokens: int | None = None,
        counter: CounterLike = None,
    ) -> RulesInjected:
        """The rules that hold for a prompt, by layer, within what context remains."""
        return await self._call(
            self._workspace.rules,
            prompt,
            session=session,
            agent=agent,
            workflow=workflow,
            squad=squad,
            task=task,
            used_tokens=used_tokens,
            counter=counter,
        )

    async def rule_report(self) -> Document:
        """Every domain of rules with its layer, file and rules, and what is wrong with them."""
        return await self._call(self._workspace.rule_report)

    async def compaction(self, used_tokens: int) -> Compaction:
        """Whether a context of this size is due for compaction, by the window in the settings."""
        return await self._call(self._workspace.compaction, used_tokens)

    async def injection(self, task: str) -> str:
        """What the tasks that a task depends on leave for it, as text for its prompt."""
        return await self._call(self._workspace.injection, task)

    async def computed_context(self, task: str, complexity: str = "normal") -> Computed:
        """What of earlier work bears on a task, each with its score and why; easy, normal or
        complex.
        """
        return await self._call(self._workspace.computed_context, task, complexity)

    async def compact_context(self, task: str) -> str:
        """A task's phase and last decisions in at most 2,000 characters."""
        return await self._call(self._workspace.compact_context, task)

    async def next_steps(self, task: str) -> list[Document]:
        """The open next steps of a task in the order in which they can be done."""
        return await self._call(self._workspace.next_steps, task)
