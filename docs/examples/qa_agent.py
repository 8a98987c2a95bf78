"""An agent as a program: prompt in, handoff out, nothing imported but the standard library.

It decides from the summary in its prompt, reads the full state only when it goes to work, and
hands on to qa.
"""

import json
import os
import sys
from pathlib import Path

STORE = "def find(key: str) -> str | None:\n    return None\n"
TEST = "from store import find\n\n\ndef test_find() -> None:\n    assert find('a') is None\n"


def facts_in(prompt: str) -> dict[str, str]:
    """The lines of the summary, by their names."""
    return dict(line.split(": ", 1) for line in prompt.splitlines() if ": " in line)


def full_state(facts: dict[str, str]) -> dict:
    """All that is known of the task: the file that the summary names, of the same version."""
    state = json.loads(Path(facts["State file"]).read_text("utf-8"))
    version = int(facts["Version"].split()[0])
    if state["version"] != version:
        raise SystemExit(f"told of version {version}, but the file has {state['version']}")
    return state


def work(state: dict) -> dict:
    """Do what is open, and say what was done."""
    Path("store.py").write_text(STORE, "utf-8")
    Path("test_store.py").write_text(TEST, "utf-8")
    return {
        "to_agent": "qa",
        "outcome": "completed",
        "phase": "testing",
        "expect_version": state["version"],
        "summary": "find() is written and has a test.",
        "files_created": [
            {"path": "store.py", "purpose": "finds values by key"},
            {"path": "test_store.py", "purpose": "tests find()"},
        ],
        "resolves": [s["address"] for s in state["next_steps"] if s["status"] == "open"],
        "suggested_next_steps": [{"step": f"Check: {c}"} for c in state["criteria"]],
    }


def main() -> None:
    facts = facts_in(sys.stdin.read())
    if facts["Blocking"] != "None":
        print("The summary says that the way isn't free; the state was not read.")
        handoff = {
            "to_agent": "qa",
            "outcome": "blocked",
            "blockers": [
                {"blocker": facts["Blocking"], "blocking_tasks": [os.environ["PASSDOWN_TASK"]]}
            ],
        }
    else:
        state = full_state(facts)
        print(f"Read version {state['version']} of {os.environ['PASSDOWN_TASK']}.")
        handoff = work(state)
    block = json.dumps(handoff, indent=2, ensure_ascii=False)
    print(f"\n## Handoff\n\n```json\n{block}\n```")


main()
