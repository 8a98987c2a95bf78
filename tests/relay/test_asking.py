"""What an agent asks in the middle of its turn is in its own conversation too."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from passdown.errors import InvalidInput
from tests.relay.staging import completes, reply
from tests.relay.test_pairs import SCRIPT, opened, ran

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.relay.runners import AgentRequest

SAYS = "print('CHANGES USE-A-COOKIE')"
ARCHITECT = {"runner": {"command": [sys.executable, "-c", SAYS]}}
BARE = "## Handoff\n```yaml\noutcome: completed\nsummary: Done.\n```\n"


@pytest.mark.promise("S4-15")
@pytest.mark.parametrize("first", [[], [{"leg": "start", "agent": "lead"}]], ids=["pair", "other"])
def test_an_agent_sees_what_it_asked_and_was_told(tmp_path: Path, first: list[Any]) -> None:
    """When it is asked again in the same turn, and in its next turn: whoever led to the turn."""
    asked: list[AgentRequest] = []
    refused: list[str] = []
    with opened(tmp_path) as ws:

        def coder(request: AgentRequest) -> str:
            asked.append(request)
            if len(asked) > 1:
                return reply()
            given = {"run": request.run, "by": "coder"}
            ws.relay.ask(to_agent="architect", text="WHERE-TO-KEEP-IT?", **given)
            found = ws.relay.ask(to_agent="architect", text="THE-PLAN", kind="plan", **given)
            refused.append(found.verdict)
            try:
                ws.relay.ask(to_agent="coder", text="Am I right?", **given)
            except InvalidInput as error:
                refused.append(error.problems[0].line())
            return BARE

        review = {"leg": "review", "agent": "architect", "kind": "code_review"}
        back = {"when": {"verdict": "changes"}, "go": "code", "at_most": 1, "otherwise": "end"}
        legs = [*first, {"leg": "code", "agent": "coder"}, {**review, "then": [back]}]
        agents = {"coder": SCRIPT, "architect": ARCHITECT, "lead": SCRIPT}
        runners: dict[str, Any] = {"coder": coder, "lead": completes}
        relay = {"relay": "asking", "agents": agents, "legs": legs}
        assert ran(ws, relay, runners=runners).status == "completed"
    _, again, second = (request.prompt for request in asked)
    for prompt in (again, second):
        assert prompt.count("I asked architect: WHERE-TO-KEEP-IT?") == 1
        assert prompt.count("I asked architect: THE-PLAN") == 1
        assert prompt.count("architect answered: CHANGES USE-A-COOKIE") == 2
    assert refused[0] == "changes"
    assert "'coder' can't ask itself; expected architect | lead" in refused[1]
