"""What a switch artifact holds, how much of it, and what it never carries."""

from __future__ import annotations

from typing import Any

from passdown.model.kinds import MAX_BLOCKERS, MAX_DECISIONS, MAX_FILES

Artifact = dict[str, Any]
"""A switch artifact as plain data, in the order of `FIELDS`."""

VERSION = "1.0"

MAX_TOKENS = 500
"""The length of a whole artifact, as YAML text, by whichever counter is in use."""
MAX_RETAINED = 3
"""How many artifacts of earlier agents are shown; older ones stay on disk."""
MAX_SENTENCES = 2
"""The length of the next action."""
MAX_FIELD = 256
"""Characters of a single field, such as the path of a story; a longer one becomes a reference."""

LIMITS = {"decisions": MAX_DECISIONS, "files_modified": MAX_FILES, "blockers": MAX_BLOCKERS}

STORY_FIELDS = ("story_id", "story_path", "story_status", "current_task", "branch")

FIELDS = (
    "version",
    "timestamp",
    "from_agent",
    "to_agent",
    "story_context",
    "decisions",
    "files_modified",
    "blockers",
    "next_action",
    "omitted",
    "full_record",
    "consumed",
)
"""The keep list: an artifact is made of these and of nothing else."""

NEVER_CARRIED = frozenset(
    {
        "activation",
        "activation_instructions",
        "agent_definition",
        "commands",
        "customization",
        "dependencies",
        "greeting",
        "greeting_levels",
        "greetings",
        "instructions",
        "persona",
        "persona_profile",
        "profile",
        "review_settings",
        "review_tool",
        "system_prompt",
        "tool_config",
        "tool_definitions",
        "tool_settings",
        "tools",
    }
)
"""The never-carry list: what belongs to the agent that leaves goes with it."""

REFERENCE = "see full_record"
"""Stands for a value that was too long; `omitted` counts it."""

LEAST = ("from_agent", "to_agent", "full_record")
"""What even the smallest artifact holds."""


def plain_key(key: object) -> str:
    """A key as the never-carry list spells it: `Tool-Settings` is `tool_settings`."""
    return "_".join(str(key).replace("-", " ").replace("_", " ").lower().split())
