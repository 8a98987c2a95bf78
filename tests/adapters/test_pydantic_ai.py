"""Pydantic AI: what its adapter does beyond the story that every framework plays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from passdown.adapters.pydantic_ai import MAX_REPAIRS, HandedOff, Handoffs, LedgerConversations
from passdown.errors import InvalidInput
from tests.adapters.frameworks.story import DONE, look

if TYPE_CHECKING:
    from passdown import Workspace


class Scripted(FunctionModel):
    """A model that takes these turns, and keeps the parts that it was given."""

    def __init__(self, *turns: list[Any]) -> None:
        self.seen: list[list[Any]] = []
        waiting = iter(turns)

        def answer(messages: Any, _: Any) -> ModelResponse:
            self.seen.append([part for each in messages for part in each.parts])
            return ModelResponse(parts=next(waiting))

        super().__init__(answer)


def transfer(call: str = "t1", **arguments: Any) -> ToolCallPart:
    return ToolCallPart("transfer_to_coder", arguments or DONE, call)


def agent(ws: Workspace, name: str, *turns: list[Any], **options: Any) -> Agent[Any, Any]:
    to = "coder" if name == "planner" else "planner"
    handoffs = Handoffs(ws, "T-1", to=[to])
    return Agent(Scripted(*turns), name=name, tools=[look], capabilities=[handoffs], **options)


def seen(agent: Agent[Any, Any]) -> list[list[Any]]:
    assert isinstance(agent.model, Scripted)
    return agent.model.seen


@pytest.mark.promise("F-21")
def test_results_that_no_model_has_read_go_along_with_the_brief(ws: Workspace) -> None:
    """Calls of the very turn of the handoff stay with their results."""
    turn = [ToolCallPart("look", {"topic": "cookies"}, "l1"), transfer()]
    handed = asyncio.run(agent(ws, "planner", turn).run("Make the login"))
    assert handed.output == HandedOff("T-1", "coder", 2)
    coder = agent(ws, "coder", [TextPart("Written.")], system_prompt="You code.")
    result = asyncio.run(coder.run("Now test it", message_history=handed.all_messages()))
    given = seen(coder)[0]
    kinds = [part.part_kind for part in given]
    assert kinds == ["system-prompt", "user-prompt", "tool-call", "tool-return", "user-prompt"]
    assert (given[0].content, given[-1].content) == ("You code.", "Now test it")
    assert len(result.all_messages()) == len(handed.all_messages()) + 2


def test_a_model_that_never_gets_it_right_ends_its_run(ws: Workspace) -> None:
    turns = [[transfer(f"t{n}", outcome="done")] for n in range(MAX_REPAIRS + 1)]
    with pytest.raises(UnexpectedModelBehavior):
        asyncio.run(agent(ws, "planner", *turns).run("Make the login"))
    assert ws.task("T-1").holder == "planner"


def test_an_agent_without_a_name_is_refused_when_it_is_made(ws: Workspace) -> None:
    with pytest.raises(InvalidInput, match=r"name='coder'"):
        Agent(Scripted(), capabilities=[Handoffs(ws, "T-1", to=["coder"])])


def test_receivers_whose_tools_would_have_one_name_are_refused(ws: Workspace) -> None:
    with pytest.raises(InvalidInput, match="one tool"):
        Handoffs(ws, "T-1", to=["data-team", "data_team"])


@pytest.mark.promise("F-24")
def test_a_conversation_is_stored_once_and_a_stale_writer_is_told(ws: Workspace) -> None:
    """As Pydantic AI's own store does it: load, save, branch, fork, list, delete."""

    async def story() -> None:
        store: ConversationStore = LedgerConversations(ws)
        writer = Agent(Scripted([TextPart("One")], [TextPart("Two")], [TextPart("Other")]))
        result = await writer.run("Begin", conversation=Conversation(conversation_id="c 1"))
        assert len(await store.save(result, scope="kim")) == 2
        first, second = await store.load("c 1"), await store.load("c 1")
        assert first is not None
        assert first.messages == result.all_messages()
        result = await writer.run("Go on", conversation=first)
        assert len(await store.save(result)) == 2
        late = await writer.run("Go on otherwise", conversation=second)
        with pytest.raises(ConversationConflict):
            await store.save(late)
        fork = await store.fork("c 1", at=2)
        again = await LedgerConversations(ws).load(fork.conversation_id)
        assert again is not None
        assert len(again.messages) == 2
        assert {each.conversation_id for each in await store.list_conversations(scope="kim")} >= {
            "c 1"
        }
        await store.delete("c 1")
        assert await store.load("c 1") is None
        assert await store.load(fork.conversation_id) is not None

    asyncio.run(story())
