"""The table of operations: everything that a workspace offers, declared once.

An operation is a plain function whose first parameter is the `Context` of the open workspace, or a
reader of its store. A row gives it a name and says how it is reached. `Workspace`, the async API,
the remote client, the HTTP routes and the command line are derived from the rows and the functions'
signatures. Rows hold strings, so reading the table imports nothing.

Conventions, so that few rows need a function of their own:

- `GROUP.NAME` is the method NAME of the group GROUP: `knowledge.add` is `ws.knowledge.add`.
- `{name}` in a route is an argument; a part in brackets is left out when its argument is None.
- Other arguments go into the query of a GET and into the JSON body of anything else, values as
  `core.codec` encodes them. None that isn't the default is null there, and empty in a query.
- `key` is sent as Idempotency-Key, `expect_version` as If-Match; a function or a progress callback
  is never sent. With `**fields`, the body may hold any further field.
- Lists come as `{"items": [...]}`, texts as `{"text": ...}`, other plain values as
  `{"value": ...}`; None is 404. What is written to `target` is the body of the response.
- A warning that a result has no place for comes in the header Passdown-Warning, URL-encoded.
- Two operations may share a route if their results are the same JSON: the first one answers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from passdown.core.values import NamedTuple


class Operation(NamedTuple):
    """One row.

    Attributes:
        name: The method, or `GROUP.METHOD`.
        function: `MODULE:FUNCTION`.
        http: `METHOD /path`; empty for what a server doesn't offer.
        right: What a token has to allow: read, write, approve or admin.
        cli: The verb, or empty.
        author: The parameter that names the writer, or `PARAMETER.FIELD`; over HTTP it is the
            token's name. One that only reads may name anybody, unless it may be left out.
        paged: The parameter that a page's cursor goes into.
        is_heavy: Reads much of the store; few run at once, and clients wait longer.
        takes_files: The client sends hashes of the files that the arguments name.
        takes_profile: The client may send its own profile of the agent that takes over.
        media: What is answered instead of JSON; of several, the argument `format` names one.
        status: The HTTP status of success.
        on_workspace: The function's first parameter is the workspace, here or behind a server;
            without a route it is made of other operations.
        on_reader: The function's first parameter is a reader of the store.
        has_own_limits: The function checks how large its numbers are, with its other problems.
        has_handler: A function of `passdown.web.handlers` answers instead of the conventions.
        has_client: A function of `passdown.remote.methods` calls instead of the conventions.
        instead: For what a server doesn't offer: what that is, and what to do instead.
    """

    name: str
    function: str
    http: str = ""
    status: int = 200
    right: str = "read"
    cli: str = ""
    is_heavy: bool = False
    author: str = ""
    paged: str = ""
    takes_files: bool = False
    takes_profile: bool = False
    media: tuple[tuple[str, str], ...] = ()
    on_workspace: bool = False
    on_reader: bool = False
    has_own_limits: bool = False
    has_handler: bool = False
    has_client: bool = False
    instead: tuple[str, str] = ("", "")

    @property
    def group(self) -> str:
        """The group of the operation; empty for a method of the workspace itself."""
        return self.name.rpartition(".")[0]

    @property
    def method(self) -> str:
        """The name of the operation within its group."""
        return self.name.rpartition(".")[2]

    @property
    def repeats(self) -> bool:
        """Whether a request may be sent again without a key: then nothing is written twice."""
        return self.right in ("read", "admin") or self.name in _REPEATABLE

    def own(self, module: str) -> Any:
        """The function of a module that stands in for the conventions."""
        return load(f"{module}:{self.name.replace('.', '_')}")


_REPEATABLE = ("decisions.store", "knowledge.relate", "relay.send_express")
"""Writes that are the same when they are repeated."""


WARNING_HEADER = "passdown-warning"


def load(reference: str) -> Any:
    """The object that `MODULE:NAME` names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def argument_texts(function: Any) -> dict[str, str]:
    """What the section `Args:` of a function's docstring says of each parameter."""
    section = (function.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    name = ""
    indent = len(section) - len(section.lstrip())
    for line in section.splitlines():
        given, mark, text = line.strip().lstrip("*").partition(": ")
        if mark and given.isidentifier() and len(line) - len(line.lstrip()) == indent:
            name, found[given] = given, text
        elif name:
            found[name] += f" {line.strip()}"
    return {name: text.strip() for name, text in found.items()}


_PROJECT_RULES = (
    "rules",
    "They are files of a project: open its folder, for which passdown.open('.') is enough.",
)


_GRAPH_MEDIA = (
    ("json", "application/json"),
    ("dot", "text/vnd.graphviz"),
    ("mermaid", "text/plain"),
    # A picture may hold words of anybody: as plain text no browser takes it for a page.
    ("svg", "text/plain"),
)


def _row(name: str, where: str, http: str = "", **rest: Any) -> Operation:
    """A row; `where` is a module of the workspace, or below `passdown`, and the function's name if
    that isn't the operation's.
    """
    module, _, function = where.partition(":")
    package = "passdown" if "." in module else "passdown.workspace"
    function = function or name.rpartition(".")[2]
    return Operation(name, f"{package}.{module}:{function}", http, **rest)


def _reading(name: str, where: str, http: str, **rest: Any) -> Operation:
    """A row that only reads the store."""
    return _row(name, where, http, on_reader=True, **rest)


def _writing(name: str, where: str, http: str, **rest: Any) -> Operation:
    """A row that records something, in the name of `agent` unless it says otherwise."""
    given: dict[str, Any] = {"right": "write", "author": "agent", "status": 201, **rest}
    return _row(name, where, http, **given)


def _relay(name: str, function: str, http: str, **rest: Any) -> Operation:
    """A row of a relay; its verbs of the command line print more than an operation gives."""
    return _row(f"relay.{name}", f"relay.operations:{function}", http, on_workspace=True, **rest)


def _admin(name: str, http: str, where: str = "maintenance", **rest: Any) -> Operation:
    """A row that works on the whole store, for its administrators."""
    return _row(name, where, http, right="admin", is_heavy=True, **rest)


def _graph(name: str, http: str, where: str = "knowledge.graph", **rest: Any) -> Operation:
    """A row that reads the knowledge graph as a whole."""
    return _row(f"knowledge.{name}", where, http, is_heavy=True, **rest)


OPERATIONS: tuple[Operation, ...] = (
    _writing("create_task", "entries", "POST /api/tasks", cli="task new"),
    _writing("update_task", "entries", "PATCH /api/tasks/{task}", cli="task set", status=200),
    _reading("task", "queries", "GET /api/tasks/{task}", cli="task show"),
    _reading("tasks", "queries", "GET /api/tasks", cli="task list", paged="after"),
    _writing(
        "hand_off",
        "handoff",
        "POST /api/handoffs",
        cli="handoff",
        author="from_agent",
        takes_files=True,
    ),
    _row(
        "check_handoff",
        "handoff",
        "POST /api/handoffs/check",
        author="from_agent",
        takes_files=True,
    ),
    _row("prepare_handoff", "handoff", right="write", on_workspace=True),
    _row("receive_handoff", "states", "POST /api/handoffs/receive"),
    _writing("decide", "entries", "POST /api/decisions", cli="decide", takes_files=True),
    _writing("note", "entries", "POST /api/notes", cli="note", takes_files=True),
    _writing("warn", "entries", "POST /api/warnings", cli="warn"),
    _writing("set_status", "entries", "POST /api/items/{item}/marks", cli="mark"),
    _reading("gates", "queries", "GET /api/gates", cli="gate list"),
    _writing("record_gate", "entries", "POST /api/gates", cli="gate record"),
    _writing(
        "approve",
        "entries",
        "POST /api/gates/{gate}/approve",
        cli="gate approve",
        right="approve",
        author="by",
    ),
    _writing(
        "reject",
        "entries",
        "POST /api/gates/{gate}/reject",
        cli="gate reject",
        right="approve",
        author="by",
    ),
    _reading("state", "states", "GET /api/tasks/{task}/state"),
    _reading("log", "history.state", "GET /api[/tasks/{task}]/log", cli="log", paged="before"),
    _reading("changes", "history.state", "GET /api/changes"),
    _reading("show", "history.state", "GET /api/items/{item}", cli="show"),
    _reading("diff", "history.state", "GET /api/tasks/{task}/diff", cli="diff"),
    _reading("inbox", "queries", "GET /api/inbox", cli="inbox", author="agent"),
    _row("artifacts", "queries", "GET /api/tasks/{task}/artifacts", has_client=True),
    _row("brief", "briefs", "GET /api/tasks/{task}/brief", cli="brief", author="agent"),
    _row(
        "switch",
        "switches",
        "POST /api/tasks/{task}/switch",
        cli="switch",
        takes_profile=True,
        has_client=True,
    ),
    _row(
        "recall",
        "search",
        "POST /api/recall",
        cli="recall",
        author="told_to",
        has_own_limits=True,
    ),
    _row("verify", "maintenance:verify_workspace", "POST /api/verify", cli="verify", is_heavy=True),
    _row(
        "context.check_preconditions",
        "relay.checks",
        right="write",
        on_workspace=True,
        cli="check",
    ),
    _reading(
        "context.deliveries",
        "history.deliveries",
        "GET /api[/tasks/{task}]/deliveries",
        paged="before",
    ),
    _reading(
        "context.why", "history.deliveries", "GET /api/items/{item}/why", cli="why", author="agent"
    ),
    _row(
        "context.prompt",
        "prompts",
        "POST /api/tasks/{task}/prompt",
        takes_profile=True,
        has_client=True,
    ),
    _row("context.summary", "queries", "GET /api/tasks/{task}/summary", cli="summary"),
    _row("context.check", "briefs:check_text", "POST /api/tasks/{task}/check"),
    _row("context.left_out", "briefs", "GET /api/tasks/{task}/left-out", author="agent"),
    _row("context.injection", "task_context", "GET /api/tasks/{task}/injection"),
    _row("context.computed", "task_context:computed_context", "GET /api/tasks/{task}/computed"),
    _row("context.compact", "task_context:compact_context", "GET /api/tasks/{task}/compact"),
    _row("context.next_steps", "task_context", "GET /api/tasks/{task}/next-steps"),
    _row("context.handoff_context", "entries", "GET /api/tasks/{task}/context"),
    _row("context.subagent_prompt", "prompts", on_workspace=True),
    _writing(
        "context.save_switch",
        "switches",
        "POST /api/tasks/{task}/switch-artifacts",
        author="from_agent",
    ),
    _row("context.saved_switches", "prompts", "GET /api/switch-artifacts"),
    _row("context.compaction", "rules", "GET /api/compaction"),
    _row("context.profile", "prompts", "GET /api/profiles/{agent}", has_client=True),
    _row("context.executor", "prompts", "GET /api/executors/{kind}"),
    _row("context.agents", "prompts", "GET /api/profiles", has_client=True),
    _row("rules.inject", "rules:inject_rules", cli="rules inject", instead=_PROJECT_RULES),
    _row("rules.report", "rules:rule_report", cli="rules list", instead=_PROJECT_RULES),
    _writing(
        "decisions.store",
        "entries:store_decision",
        "POST /api/stored-decisions",
        author="decision.agent",
        takes_files=True,
    ),
    _row("decisions.get", "entries:get_decision", "GET /api/stored-decisions"),
    _row("decisions.address", "entries:decision_address", "GET /api/stored-decisions/address"),
    _reading("files.load", "states", "GET /api/tasks/{task}/state"),
    _reading(
        "files.state_document", "history.state:state", "GET /api/tasks/{task}/state", cli="state"
    ),
    _row(
        "files.state_file",
        "queries",
        instead=("its state files", "files.state_document (passdown state) gives what one holds."),
    ),
    _reading(
        "files.history", "history.state:path_history", "GET /api/tasks/{task}/paths", cli="history"
    ),
    _reading("files.inline_plan", "history.state", "GET /api/tasks/{task}/inline"),
    _row("files.checkout", "maintenance", on_workspace=True),
    _writing(
        "knowledge.add", "knowledge.graph:add_knowledge", "POST /api/knowledge", cli="knowledge add"
    ),
    _writing("knowledge.relate", "entries", "POST /api/relations", status=200),
    _graph("written", "GET /api/knowledge", "knowledge.sync:written_since"),
    _graph("graph", "GET /api/graph", cli="graph"),
    _graph("render", "GET /api/graph.{format}", "knowledge.graph:render_graph", media=_GRAPH_MEDIA),
    _graph("edges", "GET /api/graph/edges"),
    _graph("neighbours", "GET /api/graph/neighbours", has_handler=True),
    _row("knowledge.tagged", "knowledge.graph", "GET /api/graph/tagged"),
    _row("knowledge.tasks_about", "knowledge.graph", "GET /api/graph/about"),
    _graph("pack", "GET /api/tasks/{task}/pack", "knowledge.packs", cli="knowledge pack"),
    _row("knowledge.sync", "knowledge.sync:sync_knowledge", cli="knowledge sync", has_client=True),
    _graph("journal", "GET /api/journal", "knowledge.journal", cli="journal"),
    _graph("audit", "GET /api/audit", "knowledge.audit", cli="audit"),
    _row(
        "imports.run",
        "imports.importer:import_from",
        cli="import",
        instead=(
            "imports from other tools",
            "Import it where the store is, or into a workspace here whose bundle you import.",
        ),
    ),
    _row(
        "imports.migrate",
        "imports.note_migration",
        cli="migrate",
        instead=(
            "the migration of notes",
            "Migrate it where the store is, or in a workspace here whose bundle you import.",
        ),
    ),
    _admin("embeddings.update", "POST /api/embedding", "search:embed_all", cli="embed"),
    _row(
        "embeddings.use",
        "search:use_embedder",
        instead=(
            "a program's own embedder",
            "Set it where the server is; embeddings.update() computes there.",
        ),
    ),
    _row("embeddings.status", "search:embedding_status", "GET /api/embedding"),
    _row("maintenance.heads", "maintenance", "GET /api/heads", cli="heads export", is_heavy=True),
    _admin(
        "maintenance.backup",
        "GET /api/backup",
        cli="backup",
        media=(("", "application/vnd.sqlite3"),),
        has_client=True,
    ),
    _row(
        "maintenance.export",
        "maintenance",
        "GET /api/bundle",
        cli="export",
        is_heavy=True,
        media=(("", "application/zip"),),
        has_client=True,
    ),
    _admin(
        "maintenance.import_bundle",
        "POST /api/bundle",
        author="agent",
        has_handler=True,
        has_client=True,
    ),
    _admin("maintenance.reindex", "POST /api/reindex", cli="reindex"),
    _row(
        "maintenance.recover",
        "maintenance",
        "POST /api/recover",
        cli="recover",
        right="admin",
        author="by",
    ),
    _admin("maintenance.doctor", "GET /api/doctor", cli="doctor"),
    _relay("runs", "list_runs", "GET /api/runs", is_heavy=True),
    _relay("run", "get_run", "GET /api/runs/{run}"),
    _relay("answer", "answer_run", "POST /api/runs/{run}/answer", right="approve", author="by"),
    _relay("stop", "stop_run", "POST /api/runs/{run}/stop", right="approve", author="by"),
    _relay(
        "ask", "ask_agent", "POST /api/runs/{run}/ask", right="write", author="by", is_heavy=True
    ),
    _relay("agents", "agent_statuses", "GET /api/agents"),
    _relay("conversations", "conversations", "GET /api/tasks/{task}/conversations/{agent}"),
    _relay("express_items", "list_express", "GET /api/express", is_heavy=True),
    _relay("express_item", "get_express", "GET /api/express/{item}"),
    _relay(
        "send_express",
        "send_express",
        "POST /api/express",
        right="write",
        author="item.by",
        status=201,
    ),
)

OPERATION = {operation.name: operation for operation in OPERATIONS}
"""The rows by name."""
