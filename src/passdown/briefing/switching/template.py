"""The empty switch artifact, for those who fill one in by hand."""

from __future__ import annotations

from passdown.briefing.switching.fields import (
    MAX_BLOCKERS,
    MAX_DECISIONS,
    MAX_FILES,
    MAX_SENTENCES,
    MAX_TOKENS,
    VERSION,
)

_TEMPLATE = f"""\
# What one agent leaves to the next: at most {MAX_TOKENS} tokens in all. Never carried: persona,
# instructions, commands, dependencies, tools and their settings, greetings.
version: "{VERSION}"
timestamp: ""  # ISO 8601 with a zone, such as 2026-01-09T10:00:00Z
from_agent: ""
to_agent: ""
story_context:
  story_id: ""
  story_path: ""
  story_status: ""
  current_task: ""
  branch: ""
decisions: []  # newest first, with the reason; at most {MAX_DECISIONS}
files_modified: []  # newest first; at most {MAX_FILES}
blockers: []  # most severe first; at most {MAX_BLOCKERS}
next_action: ""  # at most {MAX_SENTENCES} sentences
# omitted:  # how many of each a limit cut
#   decisions: 2
full_record: ""  # the file or command that reaches all of it
consumed: false
"""


def template_text() -> str:
    """The template as YAML with comments; unfilled, it lacks what an artifact must say."""
    return _TEMPLATE
