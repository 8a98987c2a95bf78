"""Sources as people have them, a little messy: ADRs of three kinds, issues of beads, a memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.workspace import open as open_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.imports.importer import ImportResult
    from passdown.workspace.context import Context

NYGARD_OLD = """# 1. Keep sessions in the database

Date: 2021-03-04

## Status

Superceded by [3. Keep sessions in Redis](0003-keep-sessions-in-redis.md)

## Context

Users stay logged in for a week.

## Decision

Sessions are rows of a table.

## Consequences

Logging out is one statement.
"""

NYGARD_NEW = """# 3. Keep sessions in Redis

Date: 2022-01-31

## Status

Accepted

Supercedes [1. Keep sessions in the database](0001-keep-sessions-in-the-database.md)

## Context

The table grew to 80 million rows.

## Decision

Sessions live in Redis, with a time to live.

## Consequences

- Redis has to be backed up.
"""

MADR_FRONT = """---
status: "accepted"
date: 2024-05-06
decision-makers: [Kim, Ada Nwosu]
consulted:
tags: [Web API, auth]
---
# Use signed cookies

## Context and Problem Statement

How do browsers say who they are?

<!-- This is an optional element. -->
## Decision Drivers

* no scripts may read it

## Considered Options

* Signed cookies
* Tokens in local storage
  which scripts can read
* Mutual TLS

## Decision Outcome

Chosen option: "Signed cookies", because scripts can't read them.

### Consequences

* Good, because it is simple

## Pros and Cons of the Options

### Mutual TLS

* Bad, because phones
"""

MADR_BULLETS = """# ADR-0007: Log as JSON lines

* Status: **Deprecated**
* Deciders: the platform team
* Date: some day in spring

```markdown
## Status
Accepted
```

## Decision Outcome

One object a line.
"""

README = "# About these records\n\nNumbers never change.\n"


def write_adrs(folder: Path) -> Path:
    """A folder of ADRs: two of Nygard's form, two MADRs, a page about them and a template."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "0001-keep-sessions-in-the-database.md": NYGARD_OLD,
        "0003-keep-sessions-in-redis.md": NYGARD_NEW,
        "0005-use-signed-cookies.md": MADR_FRONT,
        "0007-log-as-json-lines.md": MADR_BULLETS,
        "README.md": README,
        "adr-template.md": "# {short title}\n\n## Decision Outcome\n\n{why}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def issue(id: str, **fields: Any) -> dict[str, Any]:
    """An issue of beads with what each has."""
    return {
        "id": id,
        "title": f"Issue {id}",
        "status": "open",
        "priority": 2,
        "issue_type": "task",
        "created_at": "2025-11-05T11:23:05.998981-08:00",
        "updated_at": "2025-11-06T11:23:05.998981-08:00",
        **fields,
    }


def link(id: str, other: str, kind: str) -> dict[str, Any]:
    """A dependency between two issues."""
    return {"issue_id": id, "depends_on_id": other, "type": kind}


def issues() -> list[dict[str, Any]]:
    """Six issues: an epic, one closed, one in progress, one blocked, one deleted, one plain."""
    return [
        issue("bd-1", issue_type="epic", labels=["web"], description="All of the login."),
        issue(
            "bd-1.1",
            status="closed",
            closed_at="2025-11-07T00:00:00Z",
            close_reason="Done in 3 commits",
            notes="The clock is UTC.",
            acceptance_criteria="- [ ] logs in\n- [x] logs out",
            dependencies=[link("bd-1.1", "bd-1", "parent-child")],
        ),
        issue(
            "bd-a3f8",
            status="in_progress",
            assignee="kim",
            design="One table.",
            notes="Half of it stands.",
            dependencies=[
                link("bd-a3f8", "bd-1.1", "blocks"),
                link("bd-a3f8", "bd-1.1", "discovered-from"),
            ],
            comments=[{"id": 1, "author": "ada", "text": "Mind the index."}],
        ),
        issue("bd-b", status="blocked", assignee="Ada N <a@example.org>"),
        issue("bd-gone", status="tombstone", deleted_at="2025-11-07T00:00:00Z"),
        issue("bd-z"),
    ]


def entities() -> list[dict[str, Any]]:
    """A memory of MCP: three entities and relations between them, two with the same ends."""
    return [
        {
            "type": "entity",
            "name": "Login service",
            "entityType": "Service",
            "observations": ["Runs on port 8080", "Owned by Kim"],
        },
        {"type": "entity", "name": "Kim", "entityType": "person", "observations": []},
        {"type": "entity", "name": "task:T-1", "entityType": "ticket", "observations": ["odd"]},
        {"type": "relation", "from": "Kim", "to": "Login service", "relationType": "owns"},
        {"type": "relation", "from": "Kim", "to": "Login service", "relationType": "wrote"},
        {"type": "relation", "from": "task:T-1", "to": "Kim", "relationType": "is for"},
    ]


def write_lines(path: Path, entries: list[Any]) -> Path:
    """A file with one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return path


class Imports:
    """A project with a workspace, and the import into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = open_workspace(str(root))

    @property
    def opened(self) -> Context:
        return self.workspace._context  # pyright: ignore[reportPrivateUsage]

    def bring(self, source: Path, **how: Any) -> ImportResult:
        """Import a source."""
        return self.workspace.imports.run(str(source), **how)

    def heads(self) -> Any:
        """The heads of every stream: equal only if nothing was written."""
        return self.workspace.maintenance.heads().heads

    def decisions(self, task: str) -> dict[str, Any]:
        """The decisions of a task by address, replaced ones too."""
        document = self.workspace.files.state_document(task)
        return {decision["address"]: decision for decision in document["decisions"]}


def numbers(found: ImportResult, kind: str) -> dict[str, int]:
    """The counts of a kind that aren't zero."""
    return {result: count for result, count in found.counts[kind].items() if count}
