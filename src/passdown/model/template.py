"""The template of a task file: what a task is, how the work went, and the handoff at its end."""

from __future__ import annotations

import re

from passdown.errors import InvalidInput
from passdown.model.names import id_problems
from passdown.model.text import visible

_TEMPLATE = """\
# Task @task@: @title@

<!-- Fill in the places in [brackets]; those left as they are don't count, nor do comments.
     When the file is ingested and the task isn't there yet, the task is made from it: from the
     title above, Phase, Time limit, Depends on, the Objective, and the list items of Acceptance
     Criteria and Context Provided. A task that is there stays as it is. -->

## Metadata
<!-- Agent hands off to Next agent; that counts each time. -->
- **Agent:** [who works on this, such as coder]
- **Next agent:** [who takes over, such as tester]
- **Phase:** [planning | implementing | testing | reviewing | completed]
- **Time limit:** [minutes]
- **Depends on:** [task ids]

## Objective
[What has to be done, in one or two sentences.]

## Acceptance Criteria
- [ ] [Something that can be tested.]

## Context Provided
- [Files, decisions and earlier handoffs to begin from.]

---

## Execution Log
<!-- For people: it isn't recorded. What the next agent needs belongs in the handoff. -->
- [Time: what was done, tried or found.]

---

## Handoff

<!-- This part is recorded, once, when it names an outcome. -->

```yaml
# Fill in what applies; remove the # in front. Only the outcome is required.
outcome:  # completed | partial | failed | blocked
# summary: The state of the work in a few sentences.

# files_created:
#   - path: src/login.py
#     purpose: What the file is for.
#     lines: all

# files_modified:
#   - path: src/app.py
#     lines: 10-42
#     change_type: modify  # add | modify | delete | refactor
#     description: What changed and why.

# decisions:
#   - summary: What was decided.
#     rationale: Why.
#     alternatives: [what else was considered]

# patterns_discovered:
#   - pattern: A way of doing things to keep to.
#     location: Where it is used.
#     applies_to: [lowercase-tags]

# gotchas:
#   - issue: Something to watch out for.
#     discovered_in: Where it was found.
#     mitigation: How to avoid it.
#     severity: medium  # high | medium | low

# dependencies_for_next:
#   - file: src/login.py
#     reason: Why the next agent should read it.

# open_questions:
#   - question: Something unresolved.
#     context: Why it matters.
#     recommendation: The suggested answer.
#     blocking: false

# suggested_next_steps:
#   - step: What should happen next.
#     priority: high  # high | medium | low
#     depends_on: [src/login.py]

# Needed when the outcome is partial, failed or blocked:
# blockers:
#   - blocker: What is in the way.
#     impact: What can't be done.
#     suggested_resolution: What would help.
#     blocking_tasks: [T-2]
```

---

*Task completed: [time, such as 2026-01-09T10:00:00Z]*
"""


PLACES = frozenset(re.findall(r"\[[^\[\]]{3,}\]", _TEMPLATE.partition("## Handoff")[0]))
"""The places of the template that wait to be filled in, such as `[minutes]`."""


def task_template(task: str = "TASK-ID", title: str = "Name") -> str:
    """A task file to fill in; `passdown ingest` takes it once its handoff says how the work ended.

    Raises InvalidInput for an id that no task can have.
    """
    problems = id_problems(task, "task")
    if problems:
        raise InvalidInput("no template for such an id", problems)
    # The title is one line of a heading, whatever was given; the id can hold no mark.
    shown = visible(" ".join(title.split())) or "Name"
    return _TEMPLATE.replace("@task@", task, 1).replace("@title@", shown, 1)
