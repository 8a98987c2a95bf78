"""Programs for the tests of relays with several coders: an architect that decides once for each
coder, and coders that ask it.

An architect without its own earlier words in the prompt would say the opposite each time, so a
contradiction shows. Everybody writes what it read into a log, beside the workspace.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

LISTS: dict[str, list[str]] = {
    name: []
    for name in (
        "patterns_discovered",
        "gotchas",
        "dependencies_for_next",
        "suggested_next_steps",
    )
}


def conversation(prompt: str) -> list[tuple[str, str]]:
    """The messages of a prompt, with their roles."""
    marker = re.findall(r"\[([0-9]+) ROLE\]", prompt)[0]
    parts = re.split(rf"(?m)^\[{marker} ([a-z]+)\]\n", prompt)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def architect(messages: list[tuple[str, str]], log: Path) -> str:
    """Begins with a verdict; keeps to the style that it told this coder, if it can see it.

    It replies as reviewers do, without a handoff.
    """
    said = "\n".join(text for role, text in messages if role == "assistant")
    told = re.findall(r"STYLE-(TABS|SPACES)-FOR-(\w+)", said)
    peer = "".join(re.findall(r"You work with coder-(\w)", messages[0][1]))
    calls = log.read_text("utf-8").count('"architect"') if log.exists() else 0
    style = told[0][0] if told else ("TABS", "SPACES")[calls % 2]
    verdict = "APPROVED" if len(told) >= 2 else "CHANGES"
    if "budget is used up" in messages[-1][1]:
        verdict = "CONTINUE"
    return f"{verdict} STYLE-{style}-FOR-{peer} (review {len(told) + 1})"


def coder(name: str) -> str:
    return f"WORDS-OF-{name}\n{handoff('Worked.')}"


def handoff(summary: str) -> str:
    fields = {"outcome": "completed", "summary": summary, **LISTS}
    return f"## Handoff\n```yaml\n{json.dumps(fields)}\n```"


def main() -> None:
    prompt = sys.stdin.read()
    agent, run = os.environ["PASSDOWN_AGENT"], os.environ["PASSDOWN_RUN"]
    log = Path("seen.jsonl")
    messages = conversation(prompt)
    reply = architect(messages, log) if agent == "architect" else coder(agent)
    with log.open("a", encoding="utf-8") as file:
        entry = {"agent": agent, "run": run, "messages": messages, "reply": reply}
        file.write(json.dumps(entry) + "\n")
    sys.stdout.write(reply)


if __name__ == "__main__":
    main()
