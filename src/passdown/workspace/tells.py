"""What a workspace tells the next agent: briefs, switches, rules, and an account of all three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.opened import Held

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


NEWEST = 2**62


class Tells(Held):
    """The methods that put words together for an agent."""

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
        """What `agent` needs to know of a task, within a budget of tokens.

        `format`: markdown, plain, yaml, json, summary or injection. `tags` add to what the brief
        looks for. That it was delivered is recorded, unless `record` is False.
        """
        from passdown.workspace.briefings import brief_for

        return brief_for(
            self._opened,
            task,
            agent,
            budget,
            counter=counter,
            format=format,
            tags=tags,
            record=record,
        )

    def check_brief(self, task: str, text: str) -> Freshness:
        """Whether a brief was made from the version that is stored now."""
        from passdown.workspace.briefings import check_brief

        return check_brief(self._opened, task, text)

    def briefs(
        self, task: str | None = None, *, limit: int = 50, before: int = NEWEST
    ) -> list[Document]:
        """What was told to whom, newest first, of one task or of all."""
        from passdown.recall.deliveries import delivered

        with self._opened.store.reading() as reader:
            return delivered(reader, task, before=before, limit=limit)

    def why(self, item: str, *, agent: str) -> Document:
        """Whether and when an agent was told an item, or what kept it out of its brief."""
        from passdown.recall.deliveries import why

        with self._opened.store.reading() as reader:
            return why(reader, item, agent)

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
        """The whole context of an agent that takes over a task.

        It holds the agent's own profile, unchanged, at most three short summaries of earlier
        agents, and the brief. `budget` is what may come on top of the profile; `profiles` names a
        folder of NAME.md files; `rules` is text that stands between profile and summaries.
        """
        from passdown.workspace.switching import Ask, switch

        ask = Ask(task, to, from_agent, budget, counter, profiles, rules, record)
        return switch(self._opened, ask)

    def save_artifact(self, task: str, *, to: str, from_agent: str = "") -> Document:
        """Leave a switch artifact for an agent that comes later; it waits until it is consumed."""
        from passdown.workspace.switching import save_artifact

        return save_artifact(self._opened, task, to, from_agent)

    def switch_artifacts(self, *, task: str = "", agent: str = "") -> list[Document]:
        """The switch artifacts of a task, newest first, or those that wait for an agent."""
        from passdown.workspace.prompting import switch_artifacts

        return switch_artifacts(self._opened, task, agent)

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
        """A user's prompt, behind the new agent's context where it calls one (`@name`, `/name`).

        Without such a call, or with switches turned off, the text is what was given.
        """
        from passdown.workspace.prompting import prompt

        return prompt(
            self._opened, text, task, active, budget=budget, counter=counter, record=record
        )

    def subagent_prompt(self, agent: str, text: str) -> str:
        """An agent's whole profile and a task's whole text, both unchanged."""
        from passdown.workspace.prompting import subagent_prompt

        return subagent_prompt(self._opened, agent, text)

    def profile(self, agent: str) -> Profile | None:
        """An agent's profile, or None where it has none."""
        return self._opened.profiles().get(agent)

    def agents(self) -> tuple[str, ...]:
        """The agents that have a profile."""
        return self._opened.profiles().names()

    def rules(
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
        """The rules that hold for a prompt, by layer, within the bracket of what context remains.

        None keeps what the session has active; an empty text means none.
        """
        from passdown.workspace.ruling import rules_for

        return rules_for(
            self._opened,
            prompt,
            session=session,
            agent=agent,
            workflow=workflow,
            squad=squad,
            task=task,
            used_tokens=used_tokens,
            counter=counter,
        )

    def rule_report(self) -> Document:
        """Every domain of rules with its layer, file and rules, and what is wrong with them."""
        from passdown.workspace.ruling import rule_report

        return rule_report(self._opened)

    def compaction(self, used_tokens: int) -> Compaction:
        """Whether a context of this size is due for compaction, by the window in the settings."""
        from passdown.workspace.ruling import compaction

        return compaction(self._opened, used_tokens)

    def injection(self, task: str) -> str:
        """What the tasks that a task depends on leave for it, as text for its prompt."""
        from passdown.workspace.gathering import injection

        return injection(self._opened, task)

    def computed_context(self, task: str, complexity: str = "normal") -> Computed:
        """What of earlier work bears on a task, each with its score and why; easy, normal or
        complex.
        """
        from passdown.workspace.gathering import computed

        return computed(self._opened, task, complexity)

    def compact_context(self, task: str) -> str:
        """A task's phase and last decisions in at most 2,000 characters."""
        from passdown.workspace.gathering import compacted

        return compacted(self._opened, task)

    def next_steps(self, task: str) -> list[Document]:
        """The open next steps of a task in the order in which they can be done."""
        from passdown.workspace.gathering import breakdown

        return breakdown(self._opened, task)
