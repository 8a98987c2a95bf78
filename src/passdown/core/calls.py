"""What a text tells its reader to call: commands, MCP tools, methods, or a program's functions."""

from __future__ import annotations

NAMES = COMMANDS, TOOLS, METHODS, FUNCTIONS = "commands", "tools", "methods", "functions"

_CALLS = {
    COMMANDS: {
        "state": "passdown state {}",
        "show": "passdown show {}#d1",
        "log": "passdown log {}",
        "context": "passdown context {}",
    },
    TOOLS: {
        "state": "show {}",
        "show": "show {}#d1",
        "log": "show {} with history",
        "context": "show each",
    },
    METHODS: {
        "state": 'ws.state("{}")',
        "show": 'ws.show("{}#d1")',
        "log": 'ws.log("{}")',
        "context": 'ws.context.injection("{}")',
    },
    FUNCTIONS: {
        "state": 'read_history("{}")',
        "show": 'read_history("{}#d1")',
        "log": 'read_history("{}")',
        "context": "read_history of each",
    },
}


def call_text(names: str, what: str, task: str) -> str:
    """How a reader gets a task's `state`, an item (`show`), its `log`, or its `context`."""
    return _CALLS[names][what].format(task)
