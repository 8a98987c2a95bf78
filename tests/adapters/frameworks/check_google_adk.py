"""Google ADK: what its adapter does beyond the story, as plain assertions."""

from __future__ import annotations

import asyncio
import tempfile
from importlib import import_module
from typing import TYPE_CHECKING, Any

import passdown
from passdown.adapters.google_adk import LedgerMemoryService, LedgerSessionService

if TYPE_CHECKING:
    from passdown import Workspace

# By name: ADK isn't installed where types are checked.
AlreadyExistsError: Any = import_module("google.adk.errors.already_exists_error").AlreadyExistsError
Event: Any = import_module("google.adk.events").Event
EventActions: Any = import_module("google.adk.events").EventActions
GetSessionConfig: Any = import_module("google.adk.sessions.base_session_service").GetSessionConfig
types: Any = import_module("google.genai.types")

KIM: Any = {"app_name": "login", "user_id": "kim"}


async def sessions(ws: Workspace) -> None:
    service = LedgerSessionService(ws)
    made = await service.create_session(**KIM, session_id="s/1", state={"a": 1, "user:b": 2})
    assert made.state == {"a": 1, "user:b": 2}, made.state
    try:
        await service.create_session(**KIM, session_id="s/1")
        raise AssertionError("a second session of that name")
    except AlreadyExistsError:
        pass
    for number in range(3):
        delta = {"n": number, "app:c": number, "temp:d": 1}
        content = types.Content(role="user", parts=[types.Part(text=f"words {number}")])
        await service.append_event(
            made,
            Event(
                author="user",
                content=content,
                actions=EventActions(state_delta=delta),
                timestamp=made.last_update_time + 1,
            ),
        )
    again = LedgerSessionService(ws)
    read = await again.get_session(**KIM, session_id="s/1")
    assert read is not None
    assert [event.model_dump() for event in read.events] == [e.model_dump() for e in made.events]
    assert read.state == {"a": 1, "n": 2, "user:b": 2, "app:c": 2}, read.state
    for most, expected in (
        (0, made.events[:0]),
        (1, made.events[-1:]),
        (len(made.events) + 1, made.events),
    ):
        config = GetSessionConfig(num_recent_events=most)
        found = await again.get_session(**KIM, session_id="s/1", config=config)
        assert found is not None
        assert [event.id for event in found.events] == [event.id for event in expected], most
    other = await again.create_session(**KIM)
    assert other.state == {"user:b": 2, "app:c": 2}, other.state
    stranger = await again.create_session(app_name="login", user_id="jo")
    assert stranger.state == {"app:c": 2}, stranger.state
    of_kim = await again.list_sessions(**KIM)
    assert {each.id for each in of_kim.sessions} == {"s/1", other.id}
    assert len((await again.list_sessions(app_name="login")).sessions) == 3
    await again.delete_session(**KIM, session_id="s/1")
    assert await again.get_session(**KIM, session_id="s/1") is None
    assert [each.id for each in (await again.list_sessions(**KIM)).sessions] == [other.id]


async def memory(ws: Workspace) -> None:
    ws.create_task("T-1", title="Login", agent="planner")
    ws.decide(task="T-1", agent="planner", summary="JWT in a cookie", rationale="scripts can't")
    found = await LedgerMemoryService(ws).search_memory(**KIM, query="where is the JWT kept")
    assert [(each.id, each.author) for each in found.memories][:1] == [("T-1#d1", "planner")]
    assert "JWT in a cookie" in found.memories[0].content.parts[0].text


with tempfile.TemporaryDirectory() as folder, passdown.init(folder) as workspace:
    asyncio.run(sessions(workspace))
    asyncio.run(memory(workspace))
