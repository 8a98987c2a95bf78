"""Microsoft Agent Framework: what its adapter does beyond the story that every framework plays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agent_framework import Agent, Content, InMemoryCheckpointStorage, Message
from agent_framework_orchestrations import HandoffAgentUserRequest, HandoffBuilder

from passdown.adapters.agent_framework import Handoffs, LedgerHistory, plain_messages
from tests.adapters.frameworks.play_agent_framework import Scripted
from tests.adapters.frameworks.story import DONE, OWN_RESULT, RESULT, Call, Models, look

if TYPE_CHECKING:
    from passdown import Workspace


@pytest.mark.promise("F-27")
def test_a_history_gives_back_every_message_of_a_session(ws: Workspace) -> None:
    """Words, calls and results, in order; of its own session only."""
    call = Content.from_function_call("c1", "look", arguments={"topic": "cookies"})
    messages = [
        Message("user", ["Make the login"]),
        Message("assistant", [call]),
        Message("tool", [Content.from_function_result("c1", result="a page")]),
    ]

    async def story() -> None:
        await LedgerHistory(ws).save_messages("s1", messages[:2])
        await LedgerHistory(ws).save_messages("s1", messages[2:])
        read = await LedgerHistory(ws).get_messages("s1")
        assert [each.to_dict() for each in read] == [each.to_dict() for each in messages]
        assert await LedgerHistory(ws).get_messages("s2") == []

    asyncio.run(story())
    assert [each["role"] for each in plain_messages(messages)] == ["user", "assistant", "tool"]


@pytest.mark.promise("F-21")
def test_what_the_receiver_did_since_the_handoff_stays_after_a_restart(ws: Workspace) -> None:
    """From the framework's checkpoint, in a workflow that knows nothing of the one before."""
    models = Models(
        {
            "planner": [Call("look", {"topic": "cookies"}), Call("transfer_to_coder", DONE)],
            "coder": [Call("look", {"topic": "files"}), "Which file?", "Written."],
        }
    )
    storage = InMemoryCheckpointStorage()

    def workflow() -> Any:
        planner, coder = (
            Agent(Scripted(models, name), **Handoffs(ws, "T-1", name, to=to).options([look]))
            for name, to in (("planner", ["coder"]), ("coder", []))
        )
        builder = HandoffBuilder(participants=[planner, coder], checkpoint_storage=storage)
        return builder.with_start_agent(planner).add_handoff(planner, [coder]).build()

    async def story() -> None:
        made = workflow()
        result = await made.run("Make the login survive a reload")
        [asked] = result.get_request_info_events()
        [*_, last] = await storage.list_checkpoints(workflow_name=made.name)
        answer = HandoffAgentUserRequest.create_response("The second one")
        await workflow().run(responses={asked.request_id: answer}, checkpoint_id=last.checkpoint_id)

    asyncio.run(story())
    first, _, after = ("\n".join(given) for given in models.seen["coder"])
    assert "# T-1 for coder" in first
    assert RESULT not in after
    for part in ("# T-1 for coder", OWN_RESULT, "Which file?", "The second one"):
        assert part in after
