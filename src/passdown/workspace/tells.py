"""What a workspace tells the next agent: briefs, switches, rules, and an account of all three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.opened import Held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.briefing.brief import Brief
    from passdown.briefing.summary import Freshness
    from passdown.workspace.aliases import CounterLike, Document


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
