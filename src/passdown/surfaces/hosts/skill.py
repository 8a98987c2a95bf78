"""The skill that teaches an agent when and how to hand off, in the open skill format."""

from __future__ import annotations

SKILL_NAME = "hand-off"
"""Also the name of the folder that it lies in, as the format wants it."""

SKILL = """\
---
name: hand-off
description: >-
  Records where work on a task stands so that the next agent or session goes on without loss. Use
  when a piece of work ends, pauses, fails or is blocked, before a context is compacted or a session
  is closed, when asked to hand off, resume or continue, and when a decision was made that others
  have to know.
license: MIT
compatibility: Needs the command passdown, or the tools of the MCP server passdown.
---

# Hand off

Passdown keeps tasks, decisions and handoffs of a project in an append-only ledger. What is not
recorded there, the next agent does not know.

## At the start

1. `passdown task list` shows the tasks; `passdown brief TASK --agent NAME` what is known of one.
2. Before something is decided or changed that others worked on: `passdown recall "WORDS"`.
3. Without a task for the work: `passdown task new T-7 --title "WHAT HAS TO BE DONE"`.

## While working

- A choice between real alternatives: `passdown decide "WHAT" --why "REASON" --task TASK`.
- Something that bit, and how to avoid it:
  `passdown note gotcha "WHAT" --mitigation "HOW" --task TASK`.
- Not worth recording: what the code, its tests or the version history say already.

## At the end

1. `passdown draft TASK` writes what was seen from outside (files, commands and how they ended, open
   todos) to `.passdown/drafts/TASK.yaml`.
2. Complete it: `outcome`, `summary`, `to_agent`, `suggested_next_steps`; add `blockers` (what is in
   the way) unless the outcome is `completed`.
3. `passdown handoff .passdown/drafts/TASK.yaml --dry-run`, then without `--dry-run`. A refusal
   lists every problem at once and changes nothing.

A good handoff says what is true now, not what was intended:

- `completed` only where the checks were run; commands and exit codes are the evidence.
- `partial`, `failed` or `blocked` otherwise, with what was tried and why it did not work.
- The first next step is one that can be begun without asking anybody.
- Decisions come with their reason and the alternatives that were turned down.

## Where tools are there

The MCP server `passdown` has the same as tools: `tasks`, `brief`, `recall`, `show`, `decide`,
`note`, `task_new`, `handoff`, `gates`. A handoff through the tool needs no file.
"""
