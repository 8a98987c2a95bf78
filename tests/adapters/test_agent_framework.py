"""Microsoft Agent Framework: what its adapter does beyond the story that every framework plays."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from agent_framework import Content, Message

from passdown.adapters.agent_framework import LedgerHistory, plain_messages

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


def test_without_the_framework_the_extra_is_named() -> None:
    module = "agent_framework"
    code = (
        f"import sys; sys.modules['{module}'] = None\n"
        "import passdown\n"
        f"try:\n    import passdown.adapters.{module}\n"
        "except passdown.errors.MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install 'passdown[{module.replace('_', '-')}]'" in done.stdout
